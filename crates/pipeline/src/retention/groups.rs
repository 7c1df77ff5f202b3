//! Groups of snapshots that a retention policy is applied to.

use super::RetentionDecision;
use crate::manifest::Snapshot;
use serde::Serialize;

/// What the snapshots of a group have in common; if nothing is set, all are one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// The node.
    pub node: bool,
    /// The paths that were backed up.
    pub paths: bool,
    /// The tags, in any order.
    pub tags: bool,
}

impl GroupBy {
    /// One group for each source.
    pub const SOURCE: Self = Self { node: true, paths: true, tags: false };

    /// The group of `snapshot`.
    pub fn key(self, snapshot: &Snapshot) -> GroupKey<'_> {
        let body = &snapshot.body;
        let tags = || {
            let mut tags: Vec<_> = body.tags.iter().map(String::as_str).collect();
            tags.sort_unstable();
            tags.dedup();
            tags
        };
        GroupKey {
            node: self.node.then_some(body.node.as_str()),
            paths: self.paths.then_some(body.paths.as_slice()),
            tags: self.tags.then(tags),
        }
    }
}

/// What the snapshots of a group have in common; `None` for what may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey<'a> {
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<&'a str>,
    /// The paths that were backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<&'a [String]>,
    /// The tags, sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<&'a str>>,
}

/// The snapshots of one group, newest first.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What they have in common.
    pub key: GroupKey<'a>,
    /// The decision on each.
    pub decisions: Vec<RetentionDecision<'a>>,
}
