//! Snapshots that every list has to have, because the server itself has named them: one that gives two answers is
//! noticed.

use ids::SnapshotId;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::sync::OnceLock;
use store::SnapshotRef;

/// Called for each snapshot that a list lacks.
type Tell = Box<dyn Fn(SnapshotId) + Send + Sync>;

/// The snapshots that lists have to have.
#[derive(Default)]
pub(crate) struct Expected {
    ids: Mutex<Vec<SnapshotId>>,
    tell: OnceLock<Tell>,
}

impl Expected {
    pub(crate) fn set(&self, ids: Vec<SnapshotId>, tell: Tell) {
        *self.ids.lock() = ids;
        let _ = self.tell.set(tell); // one command says it once
    }

    /// Who forgets one expects none of them any more.
    pub(crate) fn clear(&self) {
        self.ids.lock().clear();
    }

    /// Whether `listed` lacks one.
    pub(crate) fn lacks(&self, listed: &[SnapshotRef]) -> bool {
        !self.missing_in(listed).is_empty()
    }

    /// Tells what `listed` lacks; each is told once.
    pub(crate) fn tell_missing(&self, listed: &[SnapshotRef]) {
        let missing = self.missing_in(listed);
        self.ids.lock().retain(|id| !missing.contains(id));
        if let Some(tell) = self.tell.get() {
            missing.into_iter().for_each(tell);
        }
    }

    fn missing_in(&self, listed: &[SnapshotRef]) -> Vec<SnapshotId> {
        let ids = self.ids.lock();
        if ids.is_empty() {
            return Vec::new();
        }
        let listed: FxHashSet<_> = listed.iter().map(|name| name.id).collect();
        ids.iter().filter(|id| !listed.contains(id)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_a_list_lacks_is_told_once() {
        let id = |byte| SnapshotId([byte; 16]);
        let listed = |bytes: &[u8]| -> Vec<_> {
            bytes.iter().map(|byte| SnapshotRef { sequence: 1, id: id(*byte) }).collect()
        };
        let (expected, told) = (Expected::default(), Arc::new(Mutex::new(Vec::new())));
        let tells = told.clone();
        expected.set(vec![id(1), id(2)], Box::new(move |id| tells.lock().push(id)));
        assert!(!expected.lacks(&listed(&[3, 2, 1])) && expected.lacks(&listed(&[3, 2])));
        for list in [&[1, 2][..], &[2, 3], &[2], &[2, 1]] {
            expected.tell_missing(&listed(list));
        }
        assert_eq!(*told.lock(), [id(1)]);
        expected.clear();
        assert!(!expected.lacks(&[]));
    }
}
