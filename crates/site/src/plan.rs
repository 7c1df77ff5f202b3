//! What a change of a site does to its objects.

use crate::{Kind, Site};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The differences between two sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// What is created and changed, in the order of [`Kind::ALL`] and then by name, so that each object
    /// comes after those that it refers to; then what is removed, in the reverse order.
    pub changes: Vec<Change>,
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub what: What,
}

/// What happens to an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It is new; its body.
    Created(Value),
    /// Some of its keys change, sorted by name.
    Changed(Vec<KeyChange>),
    /// It goes.
    Removed,
}

/// A key that changes. Keys in tables are joined by dots; a list changes as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyChange {
    /// The key.
    pub key: String,
    /// Its value before, if it had one.
    pub old: Option<Value>,
    /// Its value afterwards, if it has one.
    pub new: Option<Value>,
}

impl Plan {
    /// What leads from one site to another.
    pub fn between(old: &Site, new: &Site) -> Self {
        let changed = new.objects().filter_map(|(kind, name)| change(old, new, kind, name));
        let mut removed: Vec<_> =
            old.objects().filter(|(kind, name)| !new.contains(*kind, name)).collect();
        removed.reverse();
        let gone = |(kind, name): (Kind, &str)| Change {
            kind,
            name: name.to_owned(),
            what: What::Removed,
        };
        Self { changes: changed.chain(removed.into_iter().map(gone)).collect() }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

fn change(old: &Site, new: &Site, kind: Kind, name: &str) -> Option<Change> {
    let body = new.body(kind, name)?;
    let what = match old.body(kind, name) {
        None => What::Created(body),
        Some(before) if before == body => return None,
        Some(before) => What::Changed(keys(&before, &body)),
    };
    Some(Change { kind, name: name.to_owned(), what })
}

fn keys(old: &Value, new: &Value) -> Vec<KeyChange> {
    let (old, new) = (flat(old), flat(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = |name: &&String| old.get(*name) != new.get(*name);
    let value =
        |map: &BTreeMap<String, &Value>, name: &String| map.get(name).map(|it| (*it).clone());
    let change = |name: &String| KeyChange {
        key: name.clone(),
        old: value(&old, name),
        new: value(&new, name),
    };
    names.into_iter().filter(differs).map(change).collect()
}

/// All values that are no tables, by their keys.
fn flat(body: &Value) -> BTreeMap<String, &Value> {
    let mut all = BTreeMap::new();
    let mut next = vec![(String::new(), body)];
    while let Some((path, value)) = next.pop() {
        match value {
            Value::Object(table) if path.is_empty() || !table.is_empty() => {
                let dot = if path.is_empty() { "" } else { "." };
                next.extend(table.iter().map(|(key, value)| (format!("{path}{dot}{key}"), value)));
            }
            _ => {
                all.insert(path, value);
            }
        }
    }
    all
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, what } = self;
        match what {
            What::Created(_) => write!(formatter, "create {kind} {name}"),
            What::Removed => write!(formatter, "remove {kind} {name}"),
            What::Changed(keys) => {
                write!(formatter, "change {kind} {name}")?;
                keys.iter().try_for_each(|key| write!(formatter, "\n  {key}"))
            }
        }
    }
}

impl fmt::Display for KeyChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "not set".to_owned(), ToString::to_string)
        };
        write!(formatter, "{}: {} -> {}", self.key, shown(&self.old), shown(&self.new))
    }
}
