//! What was copied, and how the index comes to point there.

use crate::container::{self, part_name};
use crate::container_numbers::ContainerNumbers;
use crate::index::run::{Prefix, RunReader};
use crate::index::state::State;
use crate::index::{merge_runs, run_name};
use crate::lease::Lease;
use crate::session::{remove_runs, write_run};
use crate::{Repository, Result};
use ids::{ContainerNo, RecordLocation};
use parking_lot::MutexGuard;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was copied.
#[derive(Default)]
pub(super) struct Copied {
    runs: Vec<(String, Arc<RunReader>)>,
    /// Containers that were begun.
    begun: RefCell<Vec<ContainerNo>>,
    pub(super) bytes: u64,
}

/// An index that points to the copies, and to nothing that is condemned. Nobody commits meanwhile.
pub(super) struct Ready<'a> {
    repository: &'a Repository,
    _commit: MutexGuard<'a, ()>,
    state: State,
    old: Vec<u64>,
}

impl Copied {
    /// Notes that a container is begun.
    pub(super) fn note(&self, number: ContainerNo) -> ContainerNo {
        self.begun.borrow_mut().push(number);
        number
    }

    /// Writes `placed` as a run, and empties it.
    pub(super) fn spill(
        &mut self,
        repository: &Repository,
        lease: &Lease,
        placed: &mut FxHashMap<Prefix, RecordLocation>,
    ) -> Result<()> {
        let (generation, number) = (lease.generation(), self.runs.len());
        let name = format!("index/spill-{generation:x}-reclaim-{number:x}");
        write_run(&*repository.storage, &name, placed)?;
        let run = Arc::new(RunReader::open(&*repository.storage, &name)?);
        self.runs.push((name, run));
        Ok(())
    }

    /// Makes the index that points to the copies, and to nothing in `condemned` any more.
    pub(super) fn ready<'a>(
        &self,
        repository: &'a Repository,
        numbers: &ContainerNumbers<'_>,
        condemned: &[ContainerNo],
    ) -> Result<Ready<'a>> {
        let commit = repository.commit.lock();
        let condemned: FxHashSet<_> = condemned.iter().copied().collect();
        let index = repository.index();
        let mut state = index.state.clone();
        let number = repository.allocate_run(&mut state);
        let mut runs = index.runs().to_vec();
        runs.extend(self.runs.iter().map(|(_, run)| run.clone()));
        let keep = |location: RecordLocation| {
            (!condemned.contains(&location.container)).then_some(location)
        };
        let written = merge_runs(&*repository.storage, &run_name(number), &runs, keep)?;
        state.runs = if written { vec![number] } else { Vec::new() };
        let allocated = repository.next_container.load(Ordering::Relaxed);
        let unsettled = repository.pins.lock().first_unsettled(Some(numbers.session()));
        state.next_container = unsettled.unwrap_or(allocated).min(allocated);
        Ok(Ready { repository, _commit: commit, state, old: index.state.runs.clone() })
    }

    /// Removes the runs of the copies: the index holds what they say.
    pub(super) fn remove_runs(&self, repository: &Repository) -> Result<()> {
        self.runs.iter().try_for_each(|(name, _)| Ok(repository.storage.remove(name)?))
    }

    /// Removes the copies, of which nobody knows. Whatever of them stays is found by the next lease.
    pub(super) fn discard(&self, repository: &Repository) {
        let storage = &*repository.storage;
        for number in self.begun.borrow().iter() {
            let _ = storage.remove(&container::name(*number));
            let _ = storage.remove(&part_name(*number));
        }
        let _ = self.remove_runs(repository);
    }
}

impl Ready<'_> {
    /// Durably lets the index be this.
    pub(super) fn publish(self, lease: &Lease) -> Result<()> {
        self.repository.publish_index(lease, self.state)?;
        remove_runs(&*self.repository.storage, lease, self.old.iter())
    }
}
