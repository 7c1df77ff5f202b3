//! Which snapshots a policy looks at together.

use super::RetentionDecision;
use crate::manifest::Snapshot;
use serde::Serialize;

/// What snapshots of a group have in common; without anything all are one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// The machine.
    pub node: bool,
    /// What was backed up.
    pub paths: bool,
    /// The tags, in any order.
    pub tags: bool,
}

impl GroupBy {
    /// Each source by itself: what one backup command covers on a node.
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

/// What the snapshots of a group have in common; `None` where they may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey<'a> {
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<&'a str>,
    /// What was backed up.
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
    /// What becomes of each.
    pub decisions: Vec<RetentionDecision<'a>>,
}
