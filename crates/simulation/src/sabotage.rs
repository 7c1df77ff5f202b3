//! Protections that are taken out one by one, to show that the simulation sees what each of them
//! is for. Needs the feature `sabotage`.

use crate::disk::LeftOut;
use crate::world::run_without;
use crate::world::stories::{self, tell};
pub use repository::sabotage::Point;
use repository::sabotage::take_out;

/// Every sync that something acknowledged rests on.
pub const SYNCS: [LeftOut; 8] = [
    LeftOut { verb: "sync", names: "containers/*" },
    LeftOut { verb: "sync directory", names: "containers/*" },
    LeftOut { verb: "sync directory", names: "containers" },
    LeftOut { verb: "sync", names: "index/run-*" },
    LeftOut { verb: "sync", names: "index/state*" },
    LeftOut { verb: "sync directory", names: "index" },
    LeftOut { verb: "sync", names: "snapshots/*" },
    LeftOut { verb: "sync directory", names: "snapshots" },
];

/// What is taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// A sync.
    Sync(LeftOut),
    /// A check of the engine.
    Check(Point),
}

impl Sabotage {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        SYNCS.into_iter().map(Self::Sync).chain(Point::ALL.into_iter().map(Self::Check))
    }

    /// How people call it.
    pub fn name(&self) -> String {
        match self {
            Self::Sync(LeftOut { verb, names }) => format!("{verb} {names}"),
            Self::Check(point) => format!("{point:?}"),
        }
    }
}

/// What showed that a sabotage is one, and how. Only one at a time in a process.
pub fn first_victim(sabotage: Sabotage, mut seeds: impl Iterator<Item = u64>) -> Option<String> {
    let (sync, point) = match sabotage {
        Sabotage::Sync(sync) => (Some(sync), None),
        Sabotage::Check(point) => (None, Some(point)),
    };
    take_out(point);
    let story = stories::ALL.iter().find_map(|(name, story)| {
        let what = tell(*story, sync).err()?;
        Some(format!("{name}: {what}"))
    });
    let found = story.or_else(|| {
        seeds.find_map(|seed| {
            let failure = run_without(sync, seed, false).err()?;
            Some(format!("seed {seed}: {}", failure.what))
        })
    });
    take_out(None);
    found
}
