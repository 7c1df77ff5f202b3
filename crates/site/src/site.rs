//! All objects of a site.

use crate::body::BodyError;
use crate::name::check_name;
use crate::{Group, Hold, Kind, Node, Policy, Quota, Retention, Schedule, Unit, Upkeep};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More objects than this are a mistake.
pub const OBJECTS_MAX: usize = 10_000;

/// Everything that is declared, by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// Storage units.
    #[serde(rename = "unit", skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Retentions.
    #[serde(rename = "retention", skip_serializing_if = "BTreeMap::is_empty")]
    pub retentions: BTreeMap<String, Retention>,
    /// Schedules.
    #[serde(rename = "schedule", skip_serializing_if = "BTreeMap::is_empty")]
    pub schedules: BTreeMap<String, Schedule>,
    /// Settings of nodes.
    #[serde(rename = "node", skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Node>,
    /// Groups of nodes.
    #[serde(rename = "group", skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
    /// Policies.
    #[serde(rename = "policy", skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, Policy>,
    /// Holds.
    #[serde(rename = "hold", skip_serializing_if = "BTreeMap::is_empty")]
    pub holds: BTreeMap<String, Hold>,
    /// Work on domains.
    #[serde(rename = "upkeep", skip_serializing_if = "BTreeMap::is_empty")]
    pub upkeeps: BTreeMap<String, Upkeep>,
    /// How much is stored.
    #[serde(rename = "quota", skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<String, Quota>,
}

/// The map of a kind, whatever its type: `map!(&site, kind, |map| …)`, or with `&mut`.
macro_rules! map {
    (@ $kind:expr, $map:ident, $body:expr, $($reference:tt)+) => {
        match $kind {
            Kind::Unit => { let $map = $($reference)+.units; $body }
            Kind::Retention => { let $map = $($reference)+.retentions; $body }
            Kind::Schedule => { let $map = $($reference)+.schedules; $body }
            Kind::Node => { let $map = $($reference)+.nodes; $body }
            Kind::Group => { let $map = $($reference)+.groups; $body }
            Kind::Policy => { let $map = $($reference)+.policies; $body }
            Kind::Hold => { let $map = $($reference)+.holds; $body }
            Kind::Upkeep => { let $map = $($reference)+.upkeeps; $body }
            Kind::Quota => { let $map = $($reference)+.quotas; $body }
        }
    };
    (&mut $site:ident, $kind:expr, |$map:ident| $body:expr) => {
        map!(@ $kind, $map, $body, &mut $site)
    };
    (&$site:ident, $kind:expr, |$map:ident| $body:expr) => {
        map!(@ $kind, $map, $body, &$site)
    };
}

impl Site {
    /// Adds an object, or replaces the one of this name. What it refers to is not looked at:
    /// [`Site::check`] does that.
    ///
    /// # Errors
    /// [`BodyError`], if the name or the body cannot be meant so.
    pub fn set(
        &mut self,
        kind: Kind,
        name: &str,
        body: &serde_json::Value,
    ) -> Result<(), BodyError> {
        check_name(name)?;
        if !self.contains(kind, name) && self.len() >= OBJECTS_MAX {
            return Err(BodyError::TooMany);
        }
        map!(&mut self, kind, |map| put(map, kind, name, body))
    }

    /// The body of an object.
    pub fn body(&self, kind: Kind, name: &str) -> Option<serde_json::Value> {
        // Types of this crate always are JSON: their keys are texts.
        map!(&self, kind, |map| map.get(name).and_then(|it| serde_json::to_value(it).ok()))
    }

    /// Removes an object; whether it was there.
    pub fn remove(&mut self, kind: Kind, name: &str) -> bool {
        map!(&mut self, kind, |map| map.remove(name).is_some())
    }

    /// Whether there is such an object.
    pub fn contains(&self, kind: Kind, name: &str) -> bool {
        map!(&self, kind, |map| map.contains_key(name))
    }

    /// The names of all objects of a kind, sorted.
    pub fn names(&self, kind: Kind) -> Vec<&str> {
        map!(&self, kind, |map| map.keys().map(String::as_str).collect())
    }

    /// All objects: in the order of [`Kind::ALL`], then by name.
    pub fn objects(&self) -> impl Iterator<Item = (Kind, &str)> {
        let of = |kind| self.names(kind).into_iter().map(move |name| (kind, name));
        Kind::ALL.into_iter().flat_map(of)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        Kind::ALL.into_iter().map(|kind| map!(&self, kind, |map| map.len())).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The unit where a policy's backups go.
    pub fn unit_of(&self, policy: &Policy) -> Unit {
        self.units.get(policy.unit()).cloned().unwrap_or_default()
    }
}

fn put<T: DeserializeOwned>(
    map: &mut BTreeMap<String, T>,
    kind: Kind,
    name: &str,
    body: &serde_json::Value,
) -> Result<(), BodyError> {
    let object = T::deserialize(body).map_err(|error| BodyError::Body {
        kind,
        name: name.to_owned(),
        reason: error.to_string(),
    })?;
    map.insert(name.to_owned(), object);
    Ok(())
}
