//! Where a rebuild finds objects, when more than one record names them.
//!
//! Two sessions may store the same object at the same time, and a reclaim that was killed leaves both records. But a
//! record may also name objects that it does not have: whoever stores may store such, and no server can open them. The
//! index of before tells them apart, as far as it can be read: it never named such a record. Where it cannot, the
//! oldest record counts, since nobody can name an object that nobody has stored.

use crate::Result;
use crate::index::run::{Prefix, RunReader, write_spill};
use crate::index::state::State;
use crate::index::{Rules, merge_runs, run_name};
use crate::lease::Lease;
use crate::storage::Storage;
use ids::RecordLocation;
use rustc_hash::FxHashMap;
use std::sync::Arc;

const DIRECTORY: &str = "index";
const SPILL: &str = "spill-rebuild";

/// Removes what a rebuild that failed has written: on a full disk it would be in the place of the reserve.
pub(super) fn remove_spills(storage: &dyn Storage, lease: &Lease) -> Result<()> {
    let names = storage.list(DIRECTORY)?;
    for name in names.iter().filter(|name| name.starts_with(SPILL)) {
        lease.verify()?;
        storage.remove(&format!("{DIRECTORY}/{name}"))?;
    }
    Ok(())
}

/// Runs of one level that are open at a time, each with a descriptor; as many become one of the next level.
const RUNS_A_LEVEL: usize = 64;

/// What was found so far.
pub(super) struct Places {
    /// The index of before: the runs that can be read, the newest first.
    before: Vec<Arc<RunReader>>,
    /// Where the index of before has them, too.
    known: Spills,
    /// All others.
    other: Spills,
    /// Ids of each kind that are kept in memory.
    ids_max: usize,
}

impl Places {
    /// Nothing yet, behind the index that `state` names.
    pub(super) fn new(storage: &dyn Storage, state: &State, ids_max: usize) -> Self {
        let runs = state.runs.iter().rev();
        let before = runs.filter_map(|run| RunReader::open(storage, &run_name(*run)).ok());
        Self {
            before: before.map(Arc::new).collect(),
            known: Spills::new("known"),
            other: Spills::new("other"),
            ids_max,
        }
    }

    /// Takes what one container names, in the order in which it does.
    pub(super) fn take(
        &mut self,
        storage: &dyn Storage,
        found: Vec<(Prefix, RecordLocation)>,
    ) -> Result<()> {
        let mut prefixes: Vec<_> = found.iter().map(|(prefix, _)| *prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let before = self.places_before(prefixes);
        for (prefix, location) in found {
            let is_known = before.get(&prefix) == Some(&location);
            let kind = if is_known { &mut self.known } else { &mut self.other };
            kind.placed.entry(prefix).or_insert(location);
        }
        for kind in [&mut self.known, &mut self.other] {
            if kind.placed.len() >= self.ids_max {
                kind.write(storage)?;
            }
        }
        Ok(())
    }

    /// Where the index of before has them. A run that is damaged says nothing any more.
    fn places_before(&mut self, mut prefixes: Vec<Prefix>) -> FxHashMap<Prefix, RecordLocation> {
        let mut places = FxHashMap::default();
        self.before.retain(|run| {
            let mut cursor = run.cursor();
            let mut is_good = true;
            prefixes.retain(|prefix| match cursor.find(prefix) {
                Ok(Some(location)) => places.insert(*prefix, location).is_some(),
                Ok(None) => true,
                Err(_) => {
                    is_good = false;
                    true
                }
            });
            is_good
        });
        places
    }

    /// Writes all of it as the run `name`; whether there is anything.
    pub(super) fn finish(mut self, storage: &dyn Storage, name: &str) -> Result<bool> {
        for kind in [&mut self.known, &mut self.other] {
            if !kind.placed.is_empty() {
                kind.write(storage)?;
            }
        }
        // Of equal rows the last run's counts.
        let mut runs = self.other.into_runs();
        runs.extend(self.known.into_runs());
        merge_runs(storage, name, &runs, &Rules::default())
    }
}

/// Rows that a rebuild has written so far. However many they are, few files are open. Of each object the first row
/// counts.
struct Spills {
    kind: &'static str,
    placed: FxHashMap<Prefix, RecordLocation>,
    /// The oldest first, in each level and from the last level to the first.
    levels: Vec<Vec<(String, Arc<RunReader>)>>,
    names: usize,
}

impl Spills {
    fn new(kind: &'static str) -> Self {
        Self { kind, placed: FxHashMap::default(), levels: Vec::new(), names: 0 }
    }

    /// Writes what is in memory as a run.
    fn write(&mut self, storage: &dyn Storage) -> Result<()> {
        let name = self.name();
        write_spill(storage, &name, &self.placed)?;
        self.placed.clear();
        self.add(storage, 0, &name)
    }

    fn add(&mut self, storage: &dyn Storage, level: usize, name: &str) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push((name.to_owned(), Arc::new(RunReader::open(storage, name)?)));
        if self.levels[level].len() < RUNS_A_LEVEL {
            return Ok(());
        }
        let (full, merged) = (std::mem::take(&mut self.levels[level]), self.name());
        let (names, runs): (Vec<_>, Vec<_>) = full.into_iter().rev().unzip();
        storage.remove(&merged)?;
        merge_runs(storage, &merged, &runs, &Rules::default())?;
        // Nobody needs them any more, and there may be as many bytes of them as the index has.
        names.iter().try_for_each(|name| storage.unlink(name))?;
        self.add(storage, level + 1, &merged)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{DIRECTORY}/{SPILL}-{}-{:x}", self.kind, self.names)
    }

    /// All of them, the newest first.
    fn into_runs(self) -> Vec<Arc<RunReader>> {
        self.levels
            .into_iter()
            .flat_map(|level| level.into_iter().rev())
            .map(|(_, run)| run)
            .collect()
    }
}
