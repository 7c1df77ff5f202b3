//! Check: can all snapshots be restored? The structure always, every stored byte on request. Only
//! reads, and needs no lease, unless damage is to be repaired first. For a repository on a server:
//! `remote`.

mod damage;
mod data;
mod history;
mod keys;
mod located;
mod remote;
mod repair;
mod structure;

use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use repository::Repository;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Share of the containers to read completely, in percent; `None` for none.
    pub read_data_percent: Option<f64>,
    /// Threads that read; 0 for one per core.
    pub threads: usize,
    /// First repair damage that parity or a copy can heal.
    pub repair: bool,
}

/// Damage, and the snapshots and paths that it affects.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Damage {
    /// What is wrong.
    pub what: String,
    /// Whether the repository itself has what it takes to heal it: restores succeed, and `check --repair` repairs it.
    pub healable: bool,
    /// Whether it is a file that is stored twice: its twin heals it, not parity.
    #[serde(skip)]
    pub has_twin: bool,
    /// Snapshots that it affects.
    pub snapshots: Vec<String>,
    /// The first paths that it affects, not escaped.
    #[serde(skip)]
    pub paths: Vec<Vec<u8>>,
    /// How many more paths it affects.
    pub more_paths: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Snapshots checked.
    pub snapshots: u64,
    /// Pages of trees read.
    pub pages: u64,
    /// Distinct chunks that the snapshots need.
    pub chunks: u64,
    /// Containers inspected.
    pub containers: u64,
    /// Containers read completely.
    pub containers_read: u64,
    /// Bytes read from them.
    pub bytes_read: u64,
    /// Containers in archives: not read, and of their content nothing is said.
    #[serde(default)]
    pub containers_archived: u64,
    /// Cold containers of which only the name was looked for: reading them costs more than usual.
    #[serde(default)]
    pub containers_cold: u64,
    /// What was repaired, one line per container.
    pub repaired: Vec<String>,
    /// Damage; empty if everything that was checked is good.
    pub damages: Vec<Damage>,
    /// Keys whose slots are damaged and open nothing.
    pub damaged_keys: Vec<String>,
    /// Whether a rebuild would help: the index refers to damaged data, or a container has what is
    /// missing.
    pub needs_rebuild: bool,
    /// What may be intended, but deserves a look.
    pub notes: Vec<Damage>,
    /// Snapshots that are whole and not in the list, since their backups ended just before: the next one lists them.
    #[serde(default)]
    pub orphans: u64,
    /// Snapshots that others cite and that are not in the list, if tombstones cannot be read:
    /// forgotten or lost.
    pub gaps: u64,
    /// Snapshots that are missing because a server let them expire, as it signed.
    pub expired: u64,
    /// What cannot be checked remotely.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<&'static str>,
    /// Wall time.
    pub elapsed_secs: f64,
}

impl CheckReport {
    /// The ids of the damaged snapshots, each once.
    pub fn damaged_snapshots(&self) -> Vec<String> {
        let named = self.damages.iter().filter(|damage| !damage.healable);
        let all: std::collections::BTreeSet<_> =
            named.flat_map(|damage| damage.snapshots.iter().cloned()).collect();
        all.into_iter().collect()
    }
}

/// Checks the repository; on a server, what can be checked remotely.
///
/// # Errors
/// When the storage is unreachable or the key cannot read; damage is reported, not returned.
pub fn run(
    repository: &UnlockedRepository,
    options: &CheckOptions,
    progress: &Progress,
) -> Result<CheckReport> {
    run_with(repository, &[], options, progress)
}

/// The same; a repair takes what parity cannot heal from `copies`.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    repository: &UnlockedRepository,
    copies: &[Arc<Repository>],
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
    // Looking up an id that does not exist reads the filters of the index, which a restore never
    // does.
    repository.local()?.index().find(&ids::ObjectId([0; ids::ObjectId::LEN]))?;
    let mut report = CheckReport::default();
    if options.repair {
        repair::run(repository, copies, progress, &mut report)?;
    }
    keys::check(repository, &mut report)?;
    let found = structure::check(repository, progress, &mut report)?;
    let seen = data::check(repository, options, progress, &mut report)?;
    keys::check_epoch(repository, &mut report)?;
    // A manifest or a tombstone may lie where nobody can look: what is missed may be there.
    if seen.archived_others == 0 {
        history::check(repository, &found, &seen, &mut report)?;
    } else {
        history::tell_unread(seen.archived_others, &mut report);
    }
    damage::attribute(repository, &found, &seen, &mut report)?;
    report.elapsed_secs = begun.elapsed().as_secs_f64();
    Ok(report)
}
