//! The chunk index maps ids to record locations. It is a cache of the containers and can be rebuilt at any time. What
//! it says must be true, so every page has a checksum.
//!
//! It is a few immutable sorted runs ([`run`]) and a small file, `index/state`, that names them.
//! Four runs of like size become one, so that there are O(log n) of them.

mod compaction;
pub(crate) mod interrupted;
mod merge;
pub(crate) mod pending;
pub(crate) mod run;
pub(crate) mod state;

use crate::Result;
use crate::neighbors::RecentLists;
use crate::storage::Storage;
use ids::{ObjectId, RecordLocation};
use merge::Merge;
pub(crate) use merge::{Rules, merge_runs};
use run::{Prefix, Row, RunReader};
use state::State;
use std::sync::Arc;

/// The published index at one point in time.
pub struct Index {
    /// What the state file says.
    pub(crate) state: State,
    runs: Vec<Arc<RunReader>>,
    recent_lists: RecentLists,
}

impl Index {
    /// The index that `state` names.
    pub(crate) fn open(storage: &dyn Storage, state: State) -> Result<Self> {
        let open = |number: &u64| RunReader::open(storage, &run_name(*number)).map(Arc::new);
        let runs = state.runs.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { state, runs, recent_lists: RecentLists::default() })
    }

    /// The index that `state` names; runs that this one has open stay open.
    pub(crate) fn followed_by(&self, storage: &dyn Storage, state: State) -> Result<Self> {
        let open = |number: &u64| match self.state.runs.iter().position(|run| run == number) {
            Some(at) => Ok(self.runs[at].clone()),
            None => RunReader::open(storage, &run_name(*number)).map(Arc::new),
        };
        let runs = state.runs.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { state, runs, recent_lists: RecentLists::default() })
    }

    /// What records of this index hold, as far as somebody looked lately.
    pub(crate) fn recent_lists(&self) -> &RecentLists {
        &self.recent_lists
    }

    /// The runs, oldest first.
    pub(crate) fn runs(&self) -> &[Arc<RunReader>] {
        &self.runs
    }

    /// Number of ids (twice those that two runs hold).
    pub fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.entries()).sum()
    }

    /// The location of the record that holds `id`, if any. Reads the filters first: for ids that are mostly new.
    pub fn find(&self, id: &ObjectId) -> Result<Option<RecordLocation>> {
        let prefix = prefix_of(id);
        for run in self.runs.iter().rev() {
            if run.may_contain(&prefix)?
                && let Some(location) = run.find(&prefix)?
            {
                return Ok(Some(location));
            }
        }
        Ok(None)
    }

    /// The locations of `ids`, in their order. Reads each page of the index at most once: for many ids that mostly
    /// exist.
    pub fn find_many(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_unstable_by_key(|at| ids[*at as usize]);
        let mut locations = vec![None; ids.len()];
        for run in self.runs.iter().rev() {
            let mut cursor = run.cursor();
            for at in &order {
                let at = *at as usize;
                if locations[at].is_none() {
                    locations[at] = cursor.find(&prefix_of(&ids[at]))?;
                }
            }
        }
        Ok(locations)
    }

    /// The locations of those of `prefixes` that it knows. Reads the filters first, and each page at most once: for many
    /// that are mostly new.
    pub(crate) fn find_known(&self, prefixes: Vec<Prefix>) -> Result<Vec<Row>> {
        self.find_newer(&[], prefixes)
    }

    /// The same without the runs of these numbers.
    pub(crate) fn find_newer(&self, than: &[u64], mut prefixes: Vec<Prefix>) -> Result<Vec<Row>> {
        let runs = self.state.runs.iter().zip(&self.runs).rev();
        let mut newer = runs.filter(|(number, _)| !than.contains(number)).peekable();
        if newer.peek().is_some() {
            prefixes.sort_unstable();
        }
        let mut found = Vec::new();
        for (_, run) in newer {
            let (mut cursor, mut left) = (run.cursor(), Vec::with_capacity(prefixes.len()));
            for prefix in prefixes {
                let maybe = run.may_contain(&prefix)?;
                match if maybe { cursor.find(&prefix)? } else { None } {
                    Some(location) => found.push(Row { prefix, location }),
                    None => left.push(prefix),
                }
            }
            prefixes = left;
        }
        Ok(found)
    }

    /// Calls `visit` with every row, sorted by prefix; newest first where runs hold it twice.
    pub(crate) fn visit(&self, mut visit: impl FnMut(Row) -> Result<()>) -> Result<()> {
        let mut before = None;
        Merge::new(&self.runs)?.for_each(|row| {
            if before.replace(row.prefix) == Some(row.prefix) { Ok(()) } else { visit(row) }
        })
    }

    /// The first of the newest runs that are to be one; their number if none are.
    pub(crate) fn first_to_merge(&self) -> usize {
        compaction::first_to_merge(&self.runs.iter().map(|run| run.entries()).collect::<Vec<_>>())
    }
}

/// Name of the run with this number.
pub(crate) fn run_name(number: u64) -> String {
    format!("index/run-{number:010x}")
}

pub(crate) fn prefix_of(id: &ObjectId) -> Prefix {
    let mut prefix = [0; run::PREFIX_BYTES];
    prefix.copy_from_slice(&id.0[..run::PREFIX_BYTES]);
    prefix
}
