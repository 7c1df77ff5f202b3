//! The contract of all storages.

use crate::faulty::{Faulty, Plan};
use object_storage::{
    Access, Client, Credentials, Location, ObjectStorage, connect, connect_through,
};
use object_store::memory::InMemory;
use simulation::contract::CLAUSES;
use std::sync::Arc;
use testkit::s3::{Gateway, KEYS};

/// A bucket in memory, as one process sees it.
pub(crate) fn in_memory(store: &Arc<InMemory>) -> ObjectStorage {
    let client =
        Client::new(store.clone(), store.clone(), "some/prefix", "s3://memory/some/prefix");
    ObjectStorage::open(client.unwrap()).unwrap()
}

/// How a real storage is reached.
pub(crate) fn access(gateway: &Gateway) -> Access {
    let [access_key, secret_key] = KEYS.map(str::to_owned);
    let (session_token, region, endpoint) = (None, "us-east-1".into(), Some(gateway.endpoint()));
    let process = None;
    Access::new(Credentials { access_key, secret_key, session_token, region, endpoint, process })
}

/// A repository of its own on a real storage.
pub(crate) fn location(gateway: &Gateway, prefix: &str) -> Location {
    Location { bucket: gateway.bucket(), prefix: prefix.into() }
}

#[test]
fn a_bucket_in_memory_keeps_the_contract() {
    for (what, clause) in CLAUSES {
        println!("{what}");
        clause(&in_memory(&Arc::default()));
    }
}

#[test]
fn a_bucket_of_a_real_storage_keeps_the_contract() {
    let gateway = Gateway::shared();
    for (what, clause) in CLAUSES {
        println!("{what}");
        let client = connect(&location(gateway, ""), &access(gateway)).unwrap();
        clause(&ObjectStorage::open(client).unwrap());
    }
}

/// Requests that are done and answered with 503, conflicts that end, connections that are reset, bodies that are short.
#[test]
fn a_bucket_keeps_the_contract_while_answers_get_lost() {
    let gateway = Gateway::shared();
    for seed in 0..6 {
        for (what, clause) in CLAUSES {
            println!("{what}, seed {seed}");
            let plan = Plan::random(seed);
            let connector = || Faulty::new(&plan);
            let location = location(gateway, "some/prefix");
            let client = connect_through(&location, &access(gateway), &connector).unwrap();
            clause(&ObjectStorage::open(client).unwrap());
        }
    }
}
