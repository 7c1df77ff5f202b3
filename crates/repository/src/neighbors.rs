//! Finding what lies together. Ids are random, so in the index neighbors of a tree are far apart: a batch of a few
//! thousand reads most pages of an index of any size. In the containers neighbors are neighbors, and a record names its
//! objects in the clear. So what the index says of one object leads to most of the others.

use crate::index::Index;
use crate::{Repository, Result};
use format::container::Row;
use format::record::{RecordKind, chunk_ids, head_only};
use ids::{ObjectId, RecordLocation};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// Ids in the lists that are kept: about 3 MB. Lists of the records that several threads filled at the same time have
/// room, even if chunks are as small as they can be.
const LISTED_IDS_MAX: usize = 1 << 17;
/// Below this number of ids, nothing is gained.
const BATCH_IDS_MIN: usize = 256;
/// An index of so few rows is read faster than lists: 256 KiB.
const INDEX_ROWS_MIN: u64 = 1 << 13;
/// A list that leads to fewer of the wanted objects was not worth its two reads.
const GAIN_MIN: usize = 4;
/// After lists that were not worth it, at most so many objects are left to the index before the next list is tried.
const PAUSE_MAX: usize = 1 << 8;

/// The ids of the records that were looked at last; a part of the index that knows them.
#[derive(Default)]
pub(crate) struct RecentLists(Mutex<VecDeque<(RecordLocation, Arc<[ObjectId]>)>>);

impl RecentLists {
    fn all(&self) -> Vec<(RecordLocation, Arc<[ObjectId]>)> {
        self.0.lock().iter().cloned().collect()
    }

    /// Adds the list of the record at `location`; the oldest make room.
    fn add(&self, location: RecordLocation, ids: &Arc<[ObjectId]>) {
        let mut lists = self.0.lock();
        lists.push_front((location, ids.clone()));
        while lists.iter().map(|(_, ids)| ids.len()).sum::<usize>() > LISTED_IDS_MAX
            && lists.pop_back().is_some()
        {}
    }
}

impl Repository {
    /// The locations of the records that hold `ids`, for a reader who finds out whether they are right; `None` for an
    /// unknown id. Fast if `ids` come in the order of a tree.
    pub fn locate_neighbors(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        let index = self.index();
        if ids.len() < BATCH_IDS_MIN || index.entries() < INDEX_ROWS_MIN {
            return index.find_many(ids);
        }
        Search::new(self, &index, ids).run(ids)
    }

    /// The ids of the chunks in the record at `location`. Nothing when it cannot be read: whoever reads the record
    /// itself will say why.
    fn listed_ids(&self, location: RecordLocation) -> Option<Arc<[ObjectId]>> {
        let (kind, offset, length) = (RecordKind::Data as u8, location.offset, location.length);
        let container = self.container(location.container).ok()?;
        let associated = container.associated(&Row { kind, offset, length }).ok()?;
        let record = head_only(&associated).ok()?;
        let is_data = record.header.kind == RecordKind::Data;
        if is_data { Some(chunk_ids(&record).ok()?.collect()) } else { None }
    }
}

/// A search for many objects.
struct Search<'a> {
    repository: &'a Repository,
    index: &'a Index,
    wanted: FxHashSet<ObjectId>,
    found: FxHashMap<ObjectId, RecordLocation>,
    /// Objects that are left to the index before the next list is tried, and how many it was the last time.
    pause: usize,
    last_pause: usize,
}

impl<'a> Search<'a> {
    fn new(repository: &'a Repository, index: &'a Index, ids: &[ObjectId]) -> Self {
        let (wanted, found) = (ids.iter().copied().collect(), FxHashMap::default());
        Self { repository, index, wanted, found, pause: 0, last_pause: 0 }
    }

    fn run(mut self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        for (location, listed) in self.index.recent_lists().all() {
            self.take(location, &listed);
        }
        for id in ids {
            self.follow(id)?;
        }
        let rest: Vec<_> = self.wanted.iter().copied().collect();
        let located = self.index.find_many(&rest)?;
        let known = rest.into_iter().zip(located);
        self.found.extend(known.filter_map(|(id, location)| Some((id, location?))));
        Ok(ids.iter().map(|id| self.found.get(id).copied()).collect())
    }

    /// Looks up `id`, and what lies with it.
    fn follow(&mut self, id: &ObjectId) -> Result<()> {
        if !self.wanted.contains(id) {
            return Ok(());
        }
        if self.pause > 0 {
            self.pause -= 1;
            return Ok(());
        }
        let Some(location) = self.index.find_many(&[*id])?[0] else { return Ok(()) };
        self.wanted.remove(id);
        self.found.insert(*id, location);
        let listed = self.repository.listed_ids(location);
        let gain = listed.map_or(0, |listed| {
            self.index.recent_lists().add(location, &listed);
            self.take(location, &listed)
        });
        self.last_pause =
            if gain < GAIN_MIN { (self.last_pause * 2).clamp(1, PAUSE_MAX) } else { 0 };
        self.pause = self.last_pause;
        Ok(())
    }

    /// Notes the location of those of `listed` that are wanted; returns how many these are.
    fn take(&mut self, location: RecordLocation, listed: &[ObjectId]) -> usize {
        let before = self.wanted.len();
        for id in listed {
            if self.wanted.remove(id) {
                self.found.insert(*id, location);
            }
        }
        before - self.wanted.len()
    }
}
