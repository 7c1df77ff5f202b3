//! Which files locked snapshots need, and until when: for whoever keeps them from the writer itself
//! (`docs/adr/0045-locks-on-the-disk.md`).
//!
//! The snapshots are walked in the order in which their locks end, the last one first, so that each page is visited
//! once and belongs to the longest lock that needs it.

use super::mark::HeadReader;
use super::scan::is_of_data;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::snapshots::SnapshotRef;
use crate::watch::Watch;
use crate::{Error, Repository, Result, config, container, keys, receipts};
use ids::{ContainerNo, ObjectId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Times that are told apart. With more locks than that, some files count as needed until the next later time.
const TIMES_MAX: usize = 64;
/// Chunks that come before they are put to the others, unless there are even more of those.
const RECENT_MAX: usize = 1 << 20;

/// What locked snapshots need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedFiles {
    /// Names of files of the repository, and until when each is needed, in seconds since 1970.
    pub files: Vec<(String, i64)>,
    /// Pages that cannot be read: what lies below them is not among the files.
    pub lost_pages: u64,
}

impl Repository {
    /// What the snapshots need whose locks have not ended: their own files and the containers of their objects, and
    /// what opens them. Nothing when there are none.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn locked_files(&self, watch: &dyn Watch) -> Result<LockedFiles> {
        self.files_needed(self.locked(&self.current_snapshots()?)?, watch)
    }

    /// What these snapshots need, each until the time with it. Nothing when there are none.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn files_needed(
        &self,
        mut locked: Vec<(SnapshotRef, i64)>,
        watch: &dyn Watch,
    ) -> Result<LockedFiles> {
        let Some(last_secs) = locked.iter().map(|(_, until_secs)| *until_secs).max() else {
            return Ok(LockedFiles::default());
        };
        locked.sort_unstable_by_key(|(name, until_secs)| (std::cmp::Reverse(*until_secs), *name));
        let mut files: Vec<_> = self.opening()?.into_iter().map(|name| (name, last_secs)).collect();
        files.extend(locked.iter().map(|(name, until_secs)| (name.path(), *until_secs)));
        let (reached, lost_pages) = self.reached(&locked, watch)?;
        files.extend(self.containers_of(reached)?);
        Ok(LockedFiles { files, lost_pages })
    }

    /// The files without which nobody opens anything.
    fn opening(&self) -> Result<Vec<String>> {
        let storage = &*self.storage;
        let single = config::NAMES.into_iter().chain([receipts::NAME]);
        let mut names: Vec<_> = single.map(str::to_owned).collect();
        let keys = storage.list(keys::DIRECTORY)?;
        names.extend(keys.into_iter().map(|key| format!("{}/{key}", keys::DIRECTORY)));
        names.retain(|name| storage.open(name).is_ok());
        Ok(names)
    }

    fn reached(&self, locked: &[(SnapshotRef, i64)], watch: &dyn Watch) -> Result<(Reached, u64)> {
        let mut reached = Reached::default();
        let mut reader = HeadReader::new(self, watch);
        let mut lost_pages = 0;
        for same in locked.chunks(locked.len().div_ceil(TIMES_MAX).max(1)) {
            // The first of them has the latest end.
            let Some((_, until_secs)) = same.first() else { continue };
            let time = reached.begin(*until_secs);
            let names: Vec<_> = same.iter().map(|(name, _)| *name).collect();
            for (_, read) in self.each_snapshot(&names) {
                match read {
                    Ok(stored) => reached.pending.push(stored.head.root),
                    Err(Error::SnapshotMissing(_)) => {}
                    Err(Error::Damaged { .. }) => lost_pages += 1,
                    Err(error) => return Err(error),
                }
            }
            while let Some(page) = reached.next_page(time) {
                match reader.refs(&page) {
                    Ok(refs) => reached.add(&refs, time),
                    Err(error) if is_of_data(&error) => lost_pages += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((reached, lost_pages))
    }

    /// One pass over the index, which is sorted as what was reached is.
    fn containers_of(&self, reached: Reached) -> Result<Vec<(String, i64)>> {
        let (sorted, times) = reached.sorted();
        let mut sorted = sorted.iter().peekable();
        let mut first: FxHashMap<ContainerNo, u8> = FxHashMap::default();
        self.index().visit(|row| {
            while sorted.next_if(|(prefix, _)| *prefix < row.prefix).is_some() {}
            if let Some((_, time)) = sorted.peek().filter(|(prefix, _)| *prefix == row.prefix) {
                let at = first.entry(row.location.container).or_insert(*time);
                *at = (*at).min(*time);
            }
            Ok(())
        })?;
        let mut numbers: Vec<_> = first.into_iter().collect();
        numbers.sort_unstable();
        let until = |time: u8| times.get(usize::from(time)).copied();
        let named = numbers
            .into_iter()
            .filter_map(|(number, time)| Some((container::name(number), until(time)?)));
        Ok(named.collect())
    }
}

/// Objects with the first of the times, of which each is earlier than the one before, that needs them.
#[derive(Default)]
struct Reached {
    times: Vec<i64>,
    visited: FxHashSet<Prefix>,
    pending: Vec<ObjectId>,
    sorted: Vec<(Prefix, u8)>,
    recent: Vec<(Prefix, u8)>,
}

impl Reached {
    fn begin(&mut self, until_secs: i64) -> u8 {
        self.times.push(until_secs);
        (self.times.len() - 1) as u8
    }

    fn next_page(&mut self, time: u8) -> Option<ObjectId> {
        loop {
            let page = self.pending.pop()?;
            if self.visited.insert(prefix_of(&page)) {
                self.note(&page, time);
                return Some(page);
            }
        }
    }

    fn add(&mut self, refs: &[ObjectId], time: u8) {
        for id in refs {
            if id.is_page() {
                self.pending.push(*id);
            } else {
                self.note(id, time);
            }
        }
    }

    fn note(&mut self, id: &ObjectId, time: u8) {
        self.recent.push((prefix_of(id), time));
        if self.recent.len() >= RECENT_MAX.max(self.sorted.len()) {
            self.compact();
        }
    }

    /// Sorted, each once, with its first time.
    fn compact(&mut self) {
        self.sorted.append(&mut self.recent);
        self.sorted.sort_unstable();
        self.sorted.dedup_by_key(|(prefix, _)| *prefix);
    }

    fn sorted(mut self) -> (Vec<(Prefix, u8)>, Vec<i64>) {
        self.compact();
        (self.sorted, self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_belongs_to_the_longest_lock_that_needs_it() {
        let id = |number: u8, is_page| ObjectId([number; ObjectId::LEN]).with_type(is_page);
        let mut reached = Reached::default();
        let late = reached.begin(200);
        reached.add(&[id(1, false), id(2, true)], late);
        assert_eq!(reached.next_page(late), Some(id(2, true)));
        let early = reached.begin(100);
        reached.add(&[id(3, false), id(1, false), id(2, true)], early);
        assert_eq!(reached.next_page(early), None, "it was visited");
        let (sorted, times) = reached.sorted();
        let found: Vec<_> = sorted.iter().map(|(_, time)| times[usize::from(*time)]).collect();
        assert_eq!(sorted.len(), 3);
        assert_eq!(found.iter().filter(|until| **until == 100).count(), 1, "{found:?}");
    }
}
