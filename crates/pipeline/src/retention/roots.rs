//! Retention that relies only on what can be read: a policy that keeps one snapshot must not keep the one that is lost.

use super::{Calendar, Group, GroupBy, RetentionPolicy, apply_grouped};
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::{Result, UnlockedRepository};
use ids::SnapshotId;
use std::collections::BTreeSet;
use tree::PageSource;

/// Looks at the roots of trees; at each once.
#[derive(Default)]
pub struct Roots {
    readable: BTreeSet<SnapshotId>,
    unreadable: BTreeSet<SnapshotId>,
}

impl Roots {
    /// Reads the roots of those of `snapshots` that were not read yet; whether one of them cannot be read.
    ///
    /// # Errors
    /// When the storage cannot be used, which says nothing about the snapshots.
    pub fn read<'s>(
        &mut self,
        repository: &UnlockedRepository,
        snapshots: impl Iterator<Item = &'s Snapshot>,
    ) -> Result<bool> {
        let pages = PageReader::new(repository)?;
        let before = self.unreadable.len();
        for snapshot in snapshots {
            let id = snapshot.id();
            if self.readable.contains(&id) || self.unreadable.contains(&id) {
                continue;
            }
            match pages.get(&snapshot.head.root) {
                Ok(_) => self.readable.insert(id),
                Err(error) if error.is_damage() => self.unreadable.insert(id),
                Err(error) => return Err(error),
            };
        }
        Ok(self.unreadable.len() > before)
    }

    /// Snapshots whose root cannot be read.
    pub fn unreadable(&self) -> &BTreeSet<SnapshotId> {
        &self.unreadable
    }
}

impl UnlockedRepository {
    /// Decides as [`apply_grouped`] does. Before anything goes, the root of each tree that a rule keeps is read: one that
    /// cannot be read is kept and pushes no other out. What lies below the root is for a check to find.
    ///
    /// # Errors
    /// When the storage cannot be used.
    pub fn decide<'a>(
        &self,
        by: GroupBy,
        policy: &RetentionPolicy,
        snapshots: &'a [Snapshot],
        takes: &dyn Fn(&Snapshot) -> bool,
        calendar: Calendar<'_>,
    ) -> Result<Vec<Group<'a>>> {
        let mut roots = Roots::default();
        loop {
            let (now_secs, lost) = (self.now_secs(), roots.unreadable());
            let groups = apply_grouped(by, policy, snapshots, takes, lost, calendar, now_secs);
            let loses =
                |group: &&Group<'_>| group.decisions.iter().any(|one| one.reasons.is_empty());
            let kept = groups.iter().filter(loses).flat_map(|group| &group.decisions);
            let kept = kept.filter(|one| !one.reasons.is_empty()).map(|one| one.snapshot);
            if !roots.read(self, kept)? {
                return Ok(groups);
            }
        }
    }
}
