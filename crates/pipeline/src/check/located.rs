//! Where a remote repository has the chunks that snapshots need.
//!
//! Many pages name the same chunks: each snapshot has pages of its own wherever something changed. So what was asked is
//! remembered, as far as there is memory for it, and asked again if it comes later.

use crate::Result;
use ids::{ObjectId, RecordLocation};
use repository::check::IdPrefix;
use repository::sorted_ids::SortedIds;
use rustc_hash::FxHashSet;
use store::Store;

/// Ids in one query to a remote repository.
const AT_ONCE: usize = 16 << 10;
/// Ids that are remembered, of some 16 bytes each: more than in 2 TiB of usual files.
const SEEN_MAX: usize = 4 << 20;

/// Locates chunks in a remote repository.
pub(super) struct ChunkLocator<'a> {
    store: &'a dyn Store,
    batch: Vec<ObjectId>,
    seen: FxHashSet<IdPrefix>,
    seen_max: usize,
    /// All that were asked, to count them.
    asked: SortedIds,
    /// Chunks that it does not have.
    pub(super) missing: FxHashSet<IdPrefix>,
    /// The locations of the others, if they are to be read; some several times.
    pub(super) locations: Vec<(RecordLocation, ObjectId)>,
    is_kept: bool,
}

impl<'a> ChunkLocator<'a> {
    /// Keeps the locations if `is_kept`.
    pub(super) fn new(store: &'a dyn Store, is_kept: bool) -> Self {
        let (batch, seen, asked, missing, locations) = Default::default();
        Self { store, batch, seen, seen_max: SEEN_MAX, asked, missing, locations, is_kept }
    }

    pub(super) fn add(&mut self, id: &ObjectId) -> Result<()> {
        let prefix = IdPrefix::new(id);
        if self.seen.insert(prefix) {
            self.batch.push(*id);
            self.asked.insert(prefix).map_err(store::Error::from)?;
        }
        if self.seen.len() >= self.seen_max {
            self.seen.clear();
        }
        if self.batch.len() >= AT_ONCE { self.ask() } else { Ok(()) }
    }

    /// Asks what is left; the number of all chunks.
    pub(super) fn end(&mut self) -> Result<u64> {
        self.ask()?;
        self.asked.sort();
        let mut count = 0;
        for id in self.asked.in_order() {
            id.map_err(store::Error::from)?;
            count += 1;
        }
        Ok(count)
    }

    fn ask(&mut self) -> Result<()> {
        let locations = self.store.locate(&self.batch)?;
        for (id, location) in self.batch.drain(..).zip(locations) {
            match location {
                Some(location) if self.is_kept => self.locations.push((location, id)),
                Some(_) => {}
                None => drop(self.missing.insert(IdPrefix::new(&id))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unlocked::{InitOptions, UnlockedRepository};
    use crypto::{KdfParams, SlotSecret};
    use repository::local::LocalStorage;
    use std::sync::Arc;

    #[test]
    fn more_ids_than_are_remembered_are_asked_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Arc::new(LocalStorage::open(folder.path()).unwrap());
        let kdf = KdfParams { memory_kib: 64, passes: 1, lanes: 1 };
        let options = InitOptions { kdf, ..InitOptions::default() };
        let repository =
            UnlockedRepository::init(storage, SlotSecret::Password(b"password"), options).unwrap();
        for seen_max in [1, 7, 100, 1000] {
            let mut located = ChunkLocator::new(&*repository.store, true);
            located.seen_max = seen_max;
            for _ in 0..3 {
                (0..100).for_each(|number| located.add(&ObjectId([number; 24])).unwrap());
            }
            assert!(located.seen.len() <= seen_max && located.batch.len() <= 300);
            assert_eq!((located.end().unwrap(), located.missing.len()), (100, 100));
        }
    }
}
