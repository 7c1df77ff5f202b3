//! What an administrator declares of a node. That it exists at all, enrollment says.

use crate::moment::Moment;
use crate::option::ClientOption;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels and settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Words by which groups and policies choose it: `role = "db"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Set while no backups are expected of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Client options for this node, in place of those of its policies.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, ClientOption>,
}

/// Why and how long no backups are expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// When it ends by itself; without it, when somebody ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// The reason, for people.
    pub reason: String,
}

impl Node {
    /// The pause, if it has not ended.
    pub fn paused_at(&self, now_secs: i64) -> Option<&Paused> {
        let is_on = |paused: &&Paused| paused.until.is_none_or(|until| until.secs() > now_secs);
        self.paused.as_ref().filter(is_on)
    }
}
