//! What was copied, and how the index comes to point there.

use crate::container::{self, part_name};
use crate::index::run::{Prefix, RunReader, write_spill};
use crate::lease::Lease;
use crate::publication::MergedRun;
use crate::{Repository, Result};
use ids::{ContainerNo, RecordLocation};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::sync::Arc;

/// What was copied.
#[derive(Default)]
pub(super) struct Copied {
    runs: Vec<(String, Arc<RunReader>)>,
    /// Containers that were begun.
    begun: RefCell<Vec<ContainerNo>>,
    pub(super) bytes: u64,
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
        write_spill(&*repository.storage, &name, placed)?;
        let run = Arc::new(RunReader::open(&*repository.storage, &name)?);
        self.runs.push((name, run));
        placed.clear();
        Ok(())
    }

    /// Durably writes the run that points to the copies, and to nothing in `condemned` any more. Commits go on.
    pub(super) fn merge<'a>(
        &self,
        repository: &'a Repository,
        condemned: &[ContainerNo],
    ) -> Result<MergedRun<'a>> {
        let condemned: FxHashSet<_> = condemned.iter().copied().collect();
        let copies: Vec<_> = self.runs.iter().map(|(_, run)| run.clone()).collect();
        repository.merge_index(&copies, condemned)
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
