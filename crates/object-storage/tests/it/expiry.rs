//! A session with the storage that ends while somebody reads.

use crate::contract::{access, location};
use crate::engine::{back_up, opened};
use crate::faulty::{Fault, Faulty, Plan};
use ids::{ContainerNo, RepositoryId};
use object_storage::{Access, Location, ObjectStorage, connect_through};
use repository::check::open_container;
use repository::config::Config;
use repository::lease::Lease;
use repository::storage::Storage;
use repository::{Error, Repository};
use std::io::ErrorKind;
use std::sync::Arc;
use testkit::s3::Gateway;

fn bucket(plan: &Arc<Plan>) -> Arc<dyn Storage> {
    let gateway = Gateway::shared();
    in_bucket(plan, &location(gateway, "x"), &access(gateway))
}

fn in_bucket(plan: &Arc<Plan>, location: &Location, access: &Access) -> Arc<dyn Storage> {
    let connector = || Faulty::new(plan);
    let client = connect_through(location, access, &connector).unwrap();
    Arc::new(ObjectStorage::open(client).unwrap())
}

/// The first request may be done late: it is not known to have failed because the second one was refused.
#[test]
fn a_refusal_after_a_lost_request_leaves_the_lease_to_its_end() {
    let gateway = Gateway::shared();
    let place = location(gateway, "x");
    let access = Access { retries: 0, ..access(gateway) };
    let ended = |faults: &[Fault]| {
        let plan = Plan::quiet();
        let storage = in_bucket(&plan, &place, &access);
        let lease = Lease::acquire(&storage, "a writer").unwrap();
        plan.fail_creates(faults.iter().copied());
        storage.put("index/state", b"state").unwrap_err();
        drop(lease);
        let number = storage.list("lease").unwrap();
        number.last().unwrap().ends_with(".end")
    };
    assert!(ended(&[Fault::Forbidden]), "nothing can be under way");
    assert!(!ended(&[Fault::Unavailable, Fault::Forbidden]), "the first one can");
    assert!(!ended(&[Fault::Conflict, Fault::Forbidden]), "another of ours may be under way");
}

/// Credentials of a session last some hours, and a check of a large repository longer.
#[test]
fn a_session_that_ends_is_no_damage() {
    let plan = Plan::quiet();
    let storage = bucket(&plan);
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    Repository::init(storage.clone(), config, &repository::keys::Keys::default()).unwrap();
    let repository = opened(storage);
    let lease = repository.lease("a writer").unwrap();
    back_up(&repository, &lease, &[1, 2, 3]).unwrap();
    drop(lease);
    plan.expire();
    let mut damages = Vec::new();
    let error = open_container(&repository, ContainerNo(1), &mut damages).err().unwrap();
    assert!(
        matches!(&error, Error::Storage(error) if error.source.kind() == ErrorKind::PermissionDenied),
        "{error}"
    );
    assert!(error.is_unreachable() && damages.is_empty(), "{error} {damages:?}");
    assert!(error.to_string().contains("ExpiredToken"), "{error}");
}
