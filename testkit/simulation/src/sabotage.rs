//! Switches off guards and syncs one by one, to show that the simulation detects it. Needs the feature `sabotage`.

use crate::disk::SkippedSync;
use crate::world::run_without;
use crate::world::scenarios::{self, run_scenario};
pub use repository::guard::Guard;
use repository::guard::disable;

/// Every sync that acknowledged data depends on.
pub const SYNCS: [SkippedSync; 8] = [
    SkippedSync { verb: "sync", names: "containers/*" },
    SkippedSync { verb: "sync directory", names: "containers/*" },
    SkippedSync { verb: "sync directory", names: "containers" },
    SkippedSync { verb: "sync", names: "index/run-*" },
    SkippedSync { verb: "sync", names: "index/state*" },
    SkippedSync { verb: "sync directory", names: "index" },
    SkippedSync { verb: "sync", names: "snapshots/*" },
    SkippedSync { verb: "sync directory", names: "snapshots" },
];

/// What is switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// A sync.
    Sync(SkippedSync),
    /// A guard of the engine.
    Check(Guard),
}

impl Sabotage {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        SYNCS.into_iter().map(Self::Sync).chain(Guard::ALL.into_iter().map(Self::Check))
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Sync(SkippedSync { verb, names }) => format!("{verb} {names}"),
            Self::Check(point) => format!("{point:?}"),
        }
    }
}

/// The first scenario or seed that detects `sabotage`, and how. Only one sabotage at a time in a process.
pub fn first_detection(sabotage: Sabotage, mut seeds: impl Iterator<Item = u64>) -> Option<String> {
    let (sync, point) = match sabotage {
        Sabotage::Sync(sync) => (Some(sync), None),
        Sabotage::Check(point) => (None, Some(point)),
    };
    disable(point);
    let scenario = scenarios::ALL.iter().find_map(|(name, scenario)| {
        let what = run_scenario(*scenario, sync).err()?;
        Some(format!("{name}: {what}"))
    });
    let found = scenario.or_else(|| {
        seeds.find_map(|seed| {
            let failure = run_without(sync, seed, false).err()?;
            Some(format!("seed {seed}: {}", failure.what))
        })
    });
    disable(None);
    found
}
