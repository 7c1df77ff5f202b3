//! How the index changes: under the commit lock a small state file is replaced. The runs that it names are durable
//! before, and merged beside it, so that no commit waits for work that grows with the index.

use crate::guard::{Guard, guarded};
use crate::index::run::RunReader;
use crate::index::state::State;
use crate::index::{Index, Rules, merge_runs, run_name};
use crate::lease::Lease;
use crate::pins::Covered;
use crate::{Repository, Result};
use ids::ContainerNo;
use parking_lot::MutexGuard;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A run that is to take the place of others, of which no state knows yet.
pub(crate) struct MergedRun<'a> {
    repository: &'a Repository,
    /// Nobody else replaces the runs that went into it.
    _merging: Option<MutexGuard<'a, ()>>,
    /// The index that was merged, from run number `first` in its order on.
    index: Arc<Index>,
    first: usize,
    /// Nothing was left to write.
    run: Option<u64>,
}

impl Repository {
    /// A number for a run. None is given twice: a commit that failed in its last step may have left a state that names
    /// its run.
    pub(crate) fn allocate_run(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// The state of now, with the numbers that were given until now. It is to know what `covered` says. The commit lock
    /// is held.
    pub(crate) fn next_state(&self, covered: Covered<'_>) -> State {
        let mut state = self.index().state.clone();
        // Under the lock of the pins no container number is given.
        let pins = self.pins.lock();
        let allocated = self.next_container.load(Ordering::Relaxed);
        let unindexed = pins.first_unindexed(covered).map(|number| number.0);
        state.next_container = unindexed.unwrap_or(allocated).min(allocated);
        state.next_snapshot = self.next_snapshot.load(Ordering::Relaxed);
        state.pending = self.pending.lock().clone();
        state
    }

    /// Durably replaces the state of the index and uses it from now on. The commit lock is held, and the runs are
    /// durable. The lease is looked at last: opening new runs takes a while.
    pub(crate) fn publish_index(&self, lease: &Lease, mut state: State) -> Result<()> {
        state.next_run = self.next_run.load(Ordering::Relaxed);
        let index = self.index().followed_by(&*self.storage, state)?;
        lease.verify()?;
        index.state.write(&*self.storage)?;
        *self.index.write() = Arc::new(index);
        Ok(())
    }

    /// Merges the newest runs of the index as far as they are of like size, unless somebody is merging.
    pub(crate) fn compact_index(&self, lease: &Lease) -> Result<()> {
        let merging = self.merging.try_lock();
        if merging.is_none() && guarded(Guard::SingleMerge) {
            return Ok(());
        }
        let index = self.index();
        let first = index.first_to_merge();
        if index.runs().len() - first < 2 {
            return Ok(());
        }
        self.merge(merging, index, first, &[], FxHashSet::default())?
            .publish(lease, Covered::Nothing)
    }

    /// Merges all runs of the index and `more`, which are newer, without what leads to `condemned`. Waits for whoever
    /// merges.
    pub(crate) fn merge_index(
        &self,
        more: &[Arc<RunReader>],
        condemned: FxHashSet<ContainerNo>,
    ) -> Result<MergedRun<'_>> {
        let merging = self.merging.lock();
        self.merge(Some(merging), self.index(), 0, more, condemned)
    }

    fn merge<'a>(
        &'a self,
        merging: Option<MutexGuard<'a, ()>>,
        index: Arc<Index>,
        first: usize,
        more: &[Arc<RunReader>],
        condemned: FxHashSet<ContainerNo>,
    ) -> Result<MergedRun<'a>> {
        let runs = [&index.runs()[first..], more].concat();
        let number = self.allocate_run();
        // After the look at the index: who relies on one of its rows, and not yet now, looks at it again.
        let rules = Rules { condemned, needed: self.pins.lock().needed() };
        let is_written = merge_runs(&*self.storage, &run_name(number), &runs, &rules)?;
        let run = is_written.then_some(number);
        Ok(MergedRun { repository: self, _merging: merging, index, first, run })
    }

    /// Durably removes runs that no state names any more.
    pub(crate) fn remove_runs(&self, lease: &Lease, runs: &[u64]) -> Result<()> {
        lease.verify()?;
        let names: Vec<_> = runs.iter().map(|run| run_name(*run)).collect();
        Ok(self.storage.remove_all(&names)?)
    }
}

impl MergedRun<'_> {
    /// Durably lets it take the place of those that it was made of; the index then knows what `covered` says. Runs that
    /// commits have added since stay behind it.
    pub(crate) fn publish(self, lease: &Lease, covered: Covered<'_>) -> Result<()> {
        let old = &self.index.state.runs[self.first..];
        let commit = self.repository.commit.lock();
        let mut state = self.repository.next_state(covered);
        if guarded(Guard::LaterRuns) {
            state.runs.retain(|run| !old.contains(run));
        } else {
            state.runs.truncate(self.first);
        }
        let place = self.first.min(state.runs.len());
        if let Some(run) = self.run {
            state.runs.insert(place, run);
        }
        self.repository.publish_index(lease, state)?;
        drop(commit);
        self.repository.remove_runs(lease, old)
    }
}
