//! The source of each snapshot, read once: with many sources in one repository, every new source would otherwise read
//! all snapshot files to find that it has none.

use crate::snapshots::{SnapshotRef, StoredSnapshot};
use crate::{Error, Repository, Result};
use ids::ObjectId;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

/// Sources of snapshots, by the snapshots' names: what has a name never changes.
#[derive(Default)]
pub(crate) struct Sources(Mutex<FxHashMap<SnapshotRef, ObjectId>>);

impl Sources {
    fn of(&self, name: &SnapshotRef) -> Option<ObjectId> {
        self.0.lock().get(name).copied()
    }

    fn note(&self, name: SnapshotRef, source: ObjectId) {
        self.0.lock().insert(name, source);
    }

    /// Names of snapshots that are gone go, once there are as many of them as of others.
    fn keep(&self, names: &[SnapshotRef]) {
        let mut known = self.0.lock();
        if known.len() > 2 * names.len() {
            let names: FxHashSet<_> = names.iter().collect();
            known.retain(|name, _| names.contains(name));
        }
    }
}

impl Repository {
    /// The latest snapshot of `source`, by the unverified heads; damaged ones are passed over.
    pub fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>> {
        let names = self.snapshots_lately()?;
        self.sources.keep(&names);
        for name in names.into_iter().rev() {
            if self.sources.of(&name).is_some_and(|other| other != *source) {
                continue;
            }
            match self.snapshot(name) {
                Ok(stored) if stored.head.source == *source => return Ok(Some(stored)),
                Ok(stored) => self.sources.note(name, stored.head.source),
                Err(Error::SnapshotMissing(_) | Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
