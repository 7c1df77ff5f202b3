//! The chunk index maps ids to record locations. It is a cache of the containers and can be rebuilt at any time. What
//! it says must be true, so every page has a checksum.
//!
//! It is a few immutable sorted runs ([`run`]) and a small file, `index/state`, that names them.
//! Runs are merged when they grow alike in size, so that there are O(log n) of them.

pub(crate) mod run;
pub(crate) mod state;

use crate::Result;
use crate::storage::Storage;
use ids::{ObjectId, RecordLocation};
use run::{Prefix, Row, RunReader, RunWriter};
use state::State;
use std::sync::Arc;

/// A run is merged with the one before it unless that one is this many times larger.
const SIZE_RATIO: u64 = 4;

/// The published index at one point in time.
pub struct Index {
    /// What the state file says.
    pub(crate) state: State,
    runs: Vec<Arc<RunReader>>,
}

impl Index {
    /// The index that `state` names.
    pub(crate) fn open(storage: &dyn Storage, state: State) -> Result<Self> {
        let open = |number: &u64| RunReader::open(storage, &run_name(*number)).map(Arc::new);
        let runs = state.runs.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { state, runs })
    }

    /// The index that `state` names; runs that this one has open stay open.
    pub(crate) fn followed_by(&self, storage: &dyn Storage, state: State) -> Result<Self> {
        let open = |number: &u64| match self.state.runs.iter().position(|run| run == number) {
            Some(at) => Ok(self.runs[at].clone()),
            None => RunReader::open(storage, &run_name(*number)).map(Arc::new),
        };
        let runs = state.runs.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { state, runs })
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

    /// Calls `visit` with every row, sorted by prefix; newest first where runs hold it twice.
    pub(crate) fn visit(&self, mut visit: impl FnMut(Row) -> Result<()>) -> Result<()> {
        let mut before = None;
        Merge::new(&self.runs)?.for_each(|row| {
            if before.replace(row.prefix) == Some(row.prefix) { Ok(()) } else { visit(row) }
        })
    }

    /// The first of the newest runs that are to be one: none of them is much larger than all behind it together.
    pub(crate) fn first_to_merge(&self) -> usize {
        let (mut first, mut entries) = (self.runs.len(), 0);
        while let Some(run) = first.checked_sub(1).and_then(|before| self.runs.get(before)) {
            if entries > 0 && run.entries() >= entries * SIZE_RATIO {
                break;
            }
            entries += run.entries();
            first -= 1;
        }
        first
    }
}

/// Writes one run from `runs` (oldest first), each prefix once, as `keep` maps its place:
/// `None` drops it. Nothing is written when nothing is left.
pub(crate) fn merge_runs(
    storage: &dyn Storage,
    name: &str,
    runs: &[Arc<RunReader>],
    mut keep: impl FnMut(RecordLocation) -> Option<RecordLocation>,
) -> Result<bool> {
    let total = runs.iter().map(|run| run.entries()).sum();
    let mut before = None;
    RunWriter::write(storage, name, total, |writer| {
        Merge::new(runs)?.for_each(|row| {
            if before == Some(row.prefix) {
                return Ok(());
            }
            match keep(row.location) {
                Some(location) => {
                    before = Some(row.prefix);
                    writer.push(Row { prefix: row.prefix, location })
                }
                None => Ok(()),
            }
        })
    })
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

/// Reads several runs as one sorted stream; of equal prefixes the newest run's comes first.
struct Merge<'a> {
    streams: Vec<run::Stream<'a>>,
    heads: Vec<Option<Row>>,
}

impl<'a> Merge<'a> {
    fn new(runs: &'a [Arc<RunReader>]) -> Result<Self> {
        let mut streams: Vec<_> = runs.iter().rev().map(|run| run.stream()).collect();
        let heads = streams.iter_mut().map(run::Stream::next_row).collect::<Result<_>>()?;
        Ok(Self { streams, heads })
    }

    fn for_each(mut self, mut visit: impl FnMut(Row) -> Result<()>) -> Result<()> {
        while let Some(at) = self.smallest() {
            if let Some(row) = self.heads[at] {
                visit(row)?;
            }
            self.heads[at] = self.streams[at].next_row()?;
        }
        Ok(())
    }

    fn smallest(&self) -> Option<usize> {
        let heads = self.heads.iter().enumerate();
        let some = heads.filter_map(|(at, head)| head.map(|row| (row.prefix, at)));
        some.min().map(|(_, at)| at)
    }
}
