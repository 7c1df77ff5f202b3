//! Check: do all snapshots restore? Structure always, every stored byte when asked for. Reads
//! only, needs no lease, unless what has rotted is to be repaired first. Behind a server: `afar`.

mod damage;
mod data;
mod history;
mod keys;
mod remote;
mod repair;
mod structure;

use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use serde::Serialize;
use std::time::Instant;

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Share of the containers to read wholly, in per cent; none when `None`.
    pub read_data_percent: Option<f64>,
    /// Threads that read; 0 for one per core.
    pub threads: usize,
    /// Write what has rotted and can be healed as it was, before anything is checked.
    pub repair: bool,
}

/// What is wrong, and whom it concerns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Damage {
    /// What is wrong.
    pub what: String,
    /// Whether parity makes it good: it restores, and `check --repair` writes it as it was.
    pub healable: bool,
    /// Snapshots that need it.
    pub snapshots: Vec<String>,
    /// Paths that need it, the first ones; escaping is for who prints.
    #[serde(skip)]
    pub paths: Vec<Vec<u8>>,
    /// Paths of which there are so many that they are not named.
    pub more_paths: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Snapshots checked.
    pub snapshots: u64,
    /// Pages of trees read.
    pub pages: u64,
    /// Distinct chunks that the snapshots need.
    pub chunks: u64,
    /// Containers looked at.
    pub containers: u64,
    /// Containers read wholly.
    pub containers_read: u64,
    /// Bytes read of them.
    pub bytes_read: u64,
    /// What was repaired, container by container.
    pub repaired: Vec<String>,
    /// What is wrong; nothing is when this is empty and the check ended.
    pub damages: Vec<Damage>,
    /// Keys whose slots are damaged: they open nothing any more.
    pub damaged_keys: Vec<String>,
    /// Whether the index names what is damaged, or a rebuild finds what is missing.
    pub needs_rebuild: bool,
    /// What may be as it was meant, and somebody may miss.
    pub notes: Vec<Damage>,
    /// Snapshots that others cite and that are not listed, where tombstones cannot be seen: forgotten, or lost.
    pub gaps: u64,
    /// What cannot be checked from where this ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<&'static str>,
    /// Wall time.
    pub elapsed_secs: f64,
}

impl CheckReport {
    /// The snapshots that damage concerns, each once.
    pub fn damaged_snapshots(&self) -> Vec<String> {
        let named = self.damages.iter().filter(|damage| !damage.healable);
        let all: std::collections::BTreeSet<_> =
            named.flat_map(|damage| damage.snapshots.iter().cloned()).collect();
        all.into_iter().collect()
    }
}

/// Checks the repository, or what of it can be seen from here.
pub fn run(
    repository: &UnlockedRepository,
    options: &CheckOptions,
    progress: &Progress,
) -> Result<CheckReport> {
    let begun = Instant::now();
    if repository.local().is_err() {
        let mut report = CheckReport::default();
        remote::run(repository, options, progress, &mut report)?;
        report.elapsed_secs = begun.elapsed().as_secs_f64();
        return Ok(report);
    }
    repository.local()?.refresh()?;
    // Asking for what no one has reads the filters of the index, which a restore never does.
    repository.local()?.index().find(&ids::ObjectId([0; ids::ObjectId::LEN]))?;
    let mut report = CheckReport::default();
    if options.repair {
        repair::run(repository, progress, &mut report)?;
    }
    keys::check(repository, &mut report)?;
    let found = structure::check(repository, progress, &mut report)?;
    let seen = data::check(repository, options, progress, &mut report)?;
    keys::check_epoch(repository, &mut report)?;
    history::check(repository, &found, &seen, &mut report)?;
    damage::attribute(repository, &found, &seen, &mut report)?;
    report.elapsed_secs = begun.elapsed().as_secs_f64();
    Ok(report)
}
