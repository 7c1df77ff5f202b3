//! A plan, as the catalog stores it and as the API shows it.

use api::sites::{KeyChange, ObjectAction, ObjectChange};
use catalog::objects::ObjectChange as Change;
use serde_json::Value;
use site::{Kind, Plan, Site, What};

/// Bytes of an entry in the audit log that say what differs.
const DETAIL_BYTES_MAX: usize = 1 << 10;

/// What the catalog is to do, so that the site becomes `new`.
pub(super) fn to_store(plan: &Plan, new: &Site) -> Vec<Change> {
    let change = |change: &site::Change| {
        let (kind, name) = (change.kind.name(), change.name.as_str());
        match new.body(change.kind, name) {
            Some(body) => Change::put(kind, name, body).with_detail(detail(change)),
            None => Change::remove(kind, name),
        }
    };
    plan.changes.iter().map(change).collect()
}

/// Which keys change, for the audit log.
fn detail(change: &site::Change) -> String {
    let What::Changed(keys) = &change.what else { return String::new() };
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    let mut text = keys.join(", ");
    text.truncate(text.floor_char_boundary(DETAIL_BYTES_MAX));
    text
}

/// What changes, for people and programs.
pub(super) fn shown(plan: Plan) -> Vec<ObjectChange> {
    plan.changes.into_iter().map(|change| object(change.kind, change.name, change.what)).collect()
}

fn object(kind: Kind, name: String, what: What) -> ObjectChange {
    let (action, keys) = match what {
        What::Created(body) => (ObjectAction::Created, of_new(body)),
        What::Changed(keys) => (ObjectAction::Changed, keys.into_iter().map(key).collect()),
        What::Removed => (ObjectAction::Removed, Vec::new()),
    };
    ObjectChange { kind: kind.to_string(), name, action, keys }
}

fn key(change: site::KeyChange) -> KeyChange {
    KeyChange { key: change.key, old: change.old, new: change.new }
}

fn of_new(body: Value) -> Vec<KeyChange> {
    let Value::Object(keys) = body else { return Vec::new() };
    keys.into_iter().map(|(key, value)| KeyChange { key, old: None, new: Some(value) }).collect()
}
