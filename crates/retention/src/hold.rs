//! Holds: nothing that a hold selects goes until it is released.

use crate::facts::Facts;
use crate::reason::{Reason, Until, Why};
use ids::SnapshotId;

/// A hold. It selects the snapshots that fit everything that is set; all, if nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub name: String,
    /// Snapshots of this node.
    pub node: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Of this policy.
    pub policy: Option<String>,
    /// Of this class.
    pub class: Option<String>,
    /// This one.
    pub snapshot: Option<SnapshotId>,
    /// When it ends; without it, when somebody releases it.
    pub until_secs: Option<i64>,
}

impl Hold {
    /// The reason to keep a snapshot, if the hold selects it and has not ended.
    pub(crate) fn reason(&self, facts: &Facts, now: i64) -> Option<Reason> {
        let fits =
            |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|it| it == has);
        let is_selected = fits(&self.node, &facts.node)
            && fits(&self.source, &facts.source)
            && fits(&self.policy, &facts.policy)
            && fits(&self.class, &facts.class)
            && self.snapshot.is_none_or(|id| id == facts.id);
        let has_ended = self.until_secs.is_some_and(|until| until <= now);
        let until = self.until_secs.map_or(Until::Released, Until::At);
        (is_selected && !has_ended).then(|| Reason::new(Why::Hold(self.name.clone()), until))
    }
}
