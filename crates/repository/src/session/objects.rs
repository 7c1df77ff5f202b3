//! The objects of a session, as far as the index does not know them.

use crate::guard::{Guard, guarded};
use crate::index::prefix_of;
use crate::index::run::{Prefix, Row};
use crate::syncer::Synced;
use ids::{ObjectId, RecordLocation};
use rustc_hash::{FxHashMap, FxHashSet};

/// The objects of a session.
#[derive(Default)]
pub(super) struct SessionObjects {
    /// Claimed by a caller and not appended yet.
    claimed: FxHashSet<Prefix>,
    /// Appended, and not in a checkpoint yet.
    placed: FxHashMap<Prefix, RecordLocation>,
    /// Of what was appended, what the index is to have here, wherever it has it.
    replaced: FxHashSet<Prefix>,
    /// What was claimed although the index has it: where it is could not be relied on then.
    distrusted: FxHashSet<Prefix>,
}

impl SessionObjects {
    /// Whether `id` was appended since the last checkpoint.
    pub(super) fn has_placed(&self, id: &ObjectId) -> bool {
        self.placed.contains_key(&prefix_of(id))
    }

    /// Whether `id` was claimed, or appended since the last checkpoint.
    pub(super) fn has(&self, id: &ObjectId) -> bool {
        self.is_claimed(id) || self.has_placed(id)
    }

    /// Whether `id` was claimed and not appended.
    pub(super) fn is_claimed(&self, id: &ObjectId) -> bool {
        self.claimed.contains(&prefix_of(id))
    }

    /// Notes that `id` was claimed.
    pub(super) fn claim(&mut self, id: &ObjectId) {
        self.claimed.insert(prefix_of(id));
    }

    /// Notes that `id` is claimed although the index has it.
    pub(super) fn distrust(&mut self, id: &ObjectId) {
        self.distrusted.insert(prefix_of(id));
    }

    /// Nobody will append `id`.
    pub(super) fn unclaim(&mut self, id: &ObjectId) {
        self.claimed.remove(&prefix_of(id));
    }

    /// Number of objects that were claimed and not appended.
    pub(super) fn claimed(&self) -> usize {
        self.claimed.len()
    }

    /// Notes that `ids` were appended at `location`.
    pub(super) fn place(&mut self, ids: &[ObjectId], location: RecordLocation) {
        for prefix in ids.iter().map(prefix_of) {
            self.claimed.remove(&prefix);
            self.placed.insert(prefix, location);
        }
    }

    /// Notes that `ids`, which are appended now, are damaged where the index has them.
    pub(super) fn replace(&mut self, ids: &[ObjectId]) {
        self.replaced.extend(ids.iter().map(prefix_of));
    }

    /// Those of `rows` that do not take the place of what the index has: what was new when it was claimed, and the
    /// others.
    pub(super) fn not_replacing(&self, rows: &[Row]) -> (Vec<Prefix>, Vec<Prefix>) {
        let prefixes = rows.iter().map(|row| row.prefix);
        let prefixes = prefixes.filter(|prefix| !self.replaced.contains(prefix));
        prefixes.partition(|prefix| !self.distrusted.contains(prefix))
    }

    /// Number of objects of which no checkpoint knows.
    pub(super) fn placed(&self) -> usize {
        self.placed.len()
    }

    /// The rows of those that are durable. They stay here until the index has them: whoever asks for one in between
    /// must not be told that it is new.
    pub(super) fn durable(&mut self, synced: &Synced) -> Vec<Row> {
        let row = |(prefix, location): (&Prefix, &RecordLocation)| {
            Some(Row { prefix: *prefix, location: synced.durable(*location)? })
        };
        let rows: Vec<_> = self.placed.iter().filter_map(row).collect();
        if !guarded(Guard::PublishedCheckpoint) {
            self.forget(&rows);
        }
        rows
    }

    /// Forgets what is in `rows`: the index has it.
    pub(super) fn forget(&mut self, rows: &[Row]) {
        for row in rows {
            self.placed.remove(&row.prefix);
            self.replaced.remove(&row.prefix);
            self.distrusted.remove(&row.prefix);
        }
    }
}
