//! Keys that are removed while others are made.

use crate::Control;
use crate::enroll::tests::{FROM, control, new_token, request};
use crate::repositories::{self, Direct};
use api::Name;
use api::domains::Grant;
use api::enroll::NewKey;
use ids::KeyId;
use parking_lot::Mutex;
use repository::config::Config;
use repository::keys::Keys;
use server_contract::Repositories;
use server_contract::access_control::{AccessControl, Node, Peer};
use std::path::Path;
use std::sync::Arc;

/// Removes slots, and then something else happens, once.
struct Meanwhile(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Repositories for Meanwhile {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> repository::Result<()> {
        Direct.init(folder, config, keys)
    }

    fn put_key_list(&self, folder: &Path, list: &[u8]) -> repository::Result<()> {
        Direct.put_key_list(folder, list)
    }

    fn put_key_slot(&self, folder: &Path, id: KeyId, slot: &[u8]) -> repository::Result<()> {
        Direct.put_key_slot(folder, id, slot)
    }

    fn remove_key_slot(&self, folder: &Path, id: KeyId) -> repository::Result<()> {
        Direct.remove_key_slot(folder, id)?;
        let happens = self.0.lock().take();
        happens.into_iter().for_each(|it| it());
        Ok(())
    }
}

fn enrolled(control: &Control, name: &str) -> Node {
    let made = control.make_token("admin", &new_token(name)).unwrap();
    let told = control.enroll(FROM, &request(&made.token)).unwrap();
    let certificate = pki::client::certificate_of(&told.certificate).unwrap().to_vec();
    control.admit(&Peer { certificate, address: FROM }).unwrap()
}

/// The node `reader` may read the domain, and gets a key for that.
fn grant(control: &Control, reader: &Node, domain: &Name) -> String {
    let (node, until) = ("reader".parse().unwrap(), None);
    control.grants.grant("admin", &Grant { node, domain: domain.clone(), until }).unwrap();
    let new = NewKey { domain: domain.clone(), slot_secret: "08".repeat(32) };
    control.grants.make_key(reader, &new).unwrap().key
}

fn has_slot(control: &Control, domain: &Name, key: &str) -> bool {
    let slots = repositories::key_slots(&control.folder.domain(None, domain)).unwrap();
    slots.iter().any(|(id, _)| id.to_string() == key)
}

#[test]
fn a_grant_that_comes_back_while_keys_of_another_domain_are_removed_keeps_its_key() {
    let (_folder, control) = control();
    let (reader, _) = (enrolled(&control, "reader"), ["a", "b"].map(|it| enrolled(&control, it)));
    let [first, second]: [Name; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let keys = [&first, &second].map(|domain| grant(&control, &reader, domain));
    for domain in [&first, &second] {
        control
            .catalog
            .remove_grant(crate::by("admin"), &"reader".parse().unwrap(), domain)
            .unwrap();
    }
    let (again, back) = (Arc::downgrade(&control), second.clone());
    let happens = move || drop(grant(&again.upgrade().unwrap(), &reader, &back));
    control.set_repositories(Arc::new(Meanwhile(Mutex::new(Some(Box::new(happens))))));
    control.housekeeping();
    assert!(!has_slot(&control, &first, &keys[0]), "nobody granted that again");
    assert!(has_slot(&control, &second, &keys[1]));
    let kept = control.catalog.granted_keys(&"reader".parse().unwrap(), &second).unwrap();
    assert_eq!(kept.len(), 1);
}
