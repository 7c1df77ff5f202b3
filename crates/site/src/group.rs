//! Groups of nodes.

use crate::option::is_false;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Some nodes: the union of everything that is set here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// All nodes that are enrolled.
    #[serde(skip_serializing_if = "is_false")]
    pub all: bool,
    /// Nodes by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Nodes that have all these labels; none if it is empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The nodes of other groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}
