//! A set of ids that may be larger than memory. What comes is gathered and sorted; when there is much of it, it becomes
//! a run in a temporary file without a name. Marking and checks need all ids in order, and look some of them up.
//!
//! Memory: 12 bytes for each id that is not in a run, of which there are at most [`RECENT_MAX`], and 20 for each
//! [`run::PAGE_IDS`] of the others. Disk: 12 bytes an id, twice that while runs are merged. Where there is no room for that, ids stay in memory: a
//! reclaim has to work on a full disk.

mod beside;
mod merge;
mod run;

use crate::check::IdPrefix;
use crate::index::run::Prefix;
use crate::{Error, Result};
pub(crate) use beside::Beside;
use merge::Merged;
use run::{Run, RunWriter};
use std::path::PathBuf;

/// Ids in memory before they become a run: 24 MiB.
const RECENT_MAX: usize = 2 << 20;
/// So many runs of like size become one.
const LIKE_MAX: usize = 16;

/// The set.
pub struct SortedIds {
    /// In no run yet, in any order, some of them several times.
    recent: Vec<Prefix>,
    is_sorted: bool,
    /// In files; the largest first.
    runs: Vec<Run>,
    recent_max: usize,
    /// Where temporary files go.
    folder: PathBuf,
}

impl Default for SortedIds {
    fn default() -> Self {
        Self::new(RECENT_MAX, run::folder())
    }
}

impl SortedIds {
    /// An empty set that keeps so many ids in memory, and others in `folder`.
    fn new(recent_max: usize, folder: PathBuf) -> Self {
        Self { recent: Vec::new(), is_sorted: true, runs: Vec::new(), recent_max, folder }
    }

    /// Adds `id`.
    ///
    /// # Errors
    /// When a temporary file cannot be read.
    pub fn insert(&mut self, id: IdPrefix) -> Result<()> {
        self.recent.push(id.0);
        self.is_sorted = false;
        if self.recent.len() < self.recent_max {
            return Ok(());
        }
        self.sort();
        // What came several times leaves room for more.
        if self.recent.len() <= self.recent_max / 2 {
            return Ok(());
        }
        if is_written(self.write_run())? {
            return self.merge_like();
        }
        self.recent_max = self.recent_max.saturating_mul(2);
        Ok(())
    }

    /// Makes what was added known to [`Self::contains`] and [`Self::in_order`].
    pub fn sort(&mut self) {
        if !self.is_sorted {
            self.recent.sort_unstable();
            self.recent.dedup();
            self.is_sorted = true;
        }
    }

    /// Makes one run of all runs: [`Self::contains`] reads one page then.
    ///
    /// # Errors
    /// When a temporary file cannot be read.
    pub fn merge(&mut self) -> Result<()> {
        if self.runs.len() > 1 { is_written(self.merge_from(0)).map(drop) } else { Ok(()) }
    }

    /// Whether `id` was added before the last [`Self::sort`].
    ///
    /// # Errors
    /// When a temporary file cannot be read.
    pub fn contains(&self, id: IdPrefix) -> Result<bool> {
        debug_assert!(self.is_sorted, "sort first");
        if self.recent.binary_search(&id.0).is_ok() {
            return Ok(true);
        }
        for run in &self.runs {
            if run.contains(&id.0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All ids that were added before the last [`Self::sort`], sorted, each once.
    pub fn in_order(&self) -> impl Iterator<Item = Result<IdPrefix>> + '_ {
        self.in_order_with(&[])
    }

    /// Those of `some` and of this set, sorted, each once. `some` is in order.
    pub(crate) fn in_order_with<'a>(
        &'a self,
        some: &'a [Prefix],
    ) -> impl Iterator<Item = Result<IdPrefix>> + 'a {
        debug_assert!(self.is_sorted && some.is_sorted(), "sort first");
        Merged::new(&self.recent, &self.runs).and(some).map(|next| next.map(IdPrefix))
    }

    fn write_run(&mut self) -> Result<()> {
        let mut writer = RunWriter::new(0, &self.folder)?;
        self.recent.iter().try_for_each(|id| writer.push(id))?;
        self.runs.push(writer.finish()?);
        self.recent.clear();
        Ok(())
    }

    fn merge_like(&mut self) -> Result<()> {
        let level = |runs: &[Run], at: usize| runs[at].level;
        while let Some(from) = self.runs.len().checked_sub(LIKE_MAX)
            && level(&self.runs, from) == level(&self.runs, self.runs.len() - 1)
            && is_written(self.merge_from(from))?
        {}
        Ok(())
    }

    /// Makes one run of those from the one at `from` on.
    fn merge_from(&mut self, from: usize) -> Result<()> {
        let mut writer = RunWriter::new(self.runs[from].level + 1, &self.folder)?;
        Merged::new(&[], &self.runs[from..]).try_for_each(|id| writer.push(&id?))?;
        let merged = writer.finish()?;
        self.runs.truncate(from);
        self.runs.push(merged);
        Ok(())
    }
}

/// Whether a run was written; without it all is as before.
fn is_written(result: Result<()>) -> Result<bool> {
    match result {
        Err(Error::Temporary { operation: "create" | "write", .. }) => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> IdPrefix {
        let mut prefix = [0; 12];
        prefix[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        IdPrefix(prefix)
    }

    fn set(memory: usize, numbers: impl Iterator<Item = u64>) -> SortedIds {
        let mut set = SortedIds::new(memory, run::folder());
        numbers.for_each(|number| set.insert(id(number)).unwrap());
        set.sort();
        set
    }

    fn assert_holds(set: &SortedIds, count: u64) {
        let mut expected: Vec<_> = (0..count).map(id).collect();
        expected.sort_unstable();
        let found: Vec<_> = set.in_order().map(Result::unwrap).collect();
        assert_eq!(found.len(), expected.len());
        assert!(found == expected);
        (0..count).step_by(7).for_each(|number| assert!(set.contains(id(number)).unwrap()));
        (count..2 * count)
            .step_by(7)
            .for_each(|number| assert!(!set.contains(id(number)).unwrap()));
    }

    #[test]
    fn what_does_not_fit_into_memory_comes_back_in_order_and_once() {
        // Runs of one page and of several, of one level and of two.
        for (memory, count) in [(100, 70), (100, 100), (100, 101), (100, 5_000), (3_000, 100_000)] {
            let mut set = set(memory, (0..count).chain(0..count / 3));
            assert_eq!(set.runs.is_empty(), count == 70, "{count}");
            assert_holds(&set, count);
            set.merge().unwrap();
            assert!(set.runs.len() <= 1);
            assert_holds(&set, count);
        }
    }

    #[test]
    fn what_comes_again_and_again_needs_no_file() {
        let set = set(100, (0..40).cycle().take(10_000));
        assert!(set.runs.is_empty());
        assert_holds(&set, 40);
    }

    /// Else a live chunk would be deleted.
    #[test]
    fn a_disk_that_gives_back_something_else_is_an_error() {
        use std::os::unix::fs::FileExt;
        let set = set(1_000, 0..1_000);
        let at = 12 * 700 + 3;
        let mut byte = [0];
        set.runs[0].file.read_exact_at(&mut byte, at).unwrap();
        set.runs[0].file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let found: Vec<_> = (0..1_000).map(|number| set.contains(id(number))).collect();
        let failed = found.iter().filter(|found| found.is_err()).count();
        let missed = found.iter().filter(|found| matches!(found, Ok(false))).count();
        assert_eq!((failed, missed), (256, 0));
        let error = set.in_order().find_map(Result::err).unwrap();
        assert!(error.to_string().contains("does not hold what was written"), "{error}");
    }

    #[test]
    fn without_room_for_temporary_files_all_stays_in_memory() {
        let mut set = set(100, 0..500);
        assert_eq!(set.runs.len(), 5);
        set.folder = "/nonexistent".into();
        (500..5_000).for_each(|number| set.insert(id(number)).unwrap());
        set.sort();
        set.merge().unwrap();
        assert_eq!(set.runs.len(), 5);
        assert_holds(&set, 5_000);
    }

    #[test]
    fn runs_stay_few() {
        let set = set(10, 0..10_000);
        assert!(set.runs.len() < 2 * LIKE_MAX + 8, "{}", set.runs.len());
        assert!(set.runs.is_sorted_by_key(|run| std::cmp::Reverse(run.level)));
    }

    #[test]
    fn others_are_put_in_between() {
        let set = set(10, 0..100);
        let mut more: Vec<_> = (50..130).map(|number| id(number).0).collect();
        more.sort_unstable();
        let both: Vec<_> = set.in_order_with(&more).map(Result::unwrap).collect();
        assert!(both.len() == 130 && both.is_sorted());
    }
}
