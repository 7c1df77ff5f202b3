//! What calls of `icecore run` remember: how far schedules are settled, what lies in the trash, and the clock. One file
//! for each repository, replaced as a whole and durably before anything that it speaks of is done.

use crate::alone;
use crate::codes::Code;
use crate::failure::{Failure, Result};
use clock::{Clock, Reading, Tick};
use ids::SnapshotId;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The state of a repository, held by this process alone.
pub(super) struct State {
    path: PathBuf,
    pub(super) stored: Stored,
    now: Reading,
    _lock: File,
}

/// What the file holds.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    clock: Option<Clock>,
    /// By policy, source and schedule.
    pub(super) schedules: BTreeMap<String, Settled>,
    /// Since when snapshots lie in the trash.
    pub(super) trash: BTreeMap<String, i64>,
}

/// How far a schedule is settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settled {
    /// All runs due up to this time were started, or recorded as missed.
    pub(super) secs: i64,
    /// The same by a clock of the machine that was ahead of what could be.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) wall_secs: i64,
    /// The last run, if it failed; also one that was started and has not ended.
    pub(super) failed: Option<FailedRun>,
    /// When the last backup ended, partial or not.
    pub(super) last_backup_secs: Option<i64>,
}

fn is_zero(secs: &i64) -> bool {
    *secs == 0
}

/// A run that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailedRun {
    pub(super) due_secs: i64,
    pub(super) attempts: u32,
    pub(super) ended_secs: i64,
}

impl State {
    /// The state of the repository of this id, in `folder`. Nobody else has it meanwhile.
    pub(super) fn open(folder: &Path, repository: &str) -> Result<Self> {
        let failed = |error: io::Error| Failure::file(folder, &error);
        // What lies above it may be shared with a server of another user.
        fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(failed)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = lock(&folder.join(format!("{repository}.lock")))?;
        let path = folder.join(format!("{repository}.json"));
        let stored: Stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| damaged(&path, &error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Stored::default(),
            Err(error) => return Err(Failure::file(&path, &error)),
        };
        let mut state = Self { path, stored, now: Reading::certain(0), _lock: lock };
        state.read_clock();
        Ok(state)
    }

    /// The time, believed within bounds.
    pub(super) fn read_clock(&mut self) -> Reading {
        let tick = tick();
        let clock = self.stored.clock.get_or_insert_with(|| Clock::start(tick));
        self.now = clock.read(tick);
        self.now
    }

    /// The same, when somebody says that the clock of the machine is right.
    pub(super) fn confirm_clock(&mut self) -> Reading {
        let tick = tick();
        let clock = self.stored.clock.get_or_insert_with(|| Clock::start(tick));
        self.now = clock.confirm(tick);
        self.now
    }

    /// Durably replaces the file.
    pub(super) fn store(&mut self) -> Result<()> {
        self.read_clock();
        let failed = |error: io::Error| Failure::file(&self.path, &error);
        let text = serde_json::to_vec(&self.stored).map_err(|error| failed(error.into()))?;
        replace(&self.path, &text).map_err(failed)
    }
}

fn lock(path: &Path) -> Result<File> {
    alone::hold(path, || {
        let message = "another icecore run is at work on this repository";
        Failure::new(Code::InUse, message)
            .hint("It does what is due. If it is a timer's, nothing is to be done.")
    })
}

/// Begun anew, all schedules would forget what they missed, and the trash since when it lies there.
fn damaged(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::new(Code::Failed, format!("{} is damaged: {error}", path.display())).hint(format!(
        "To begin anew, with nothing in the trash and nothing missed: rm {}",
        path.display()
    ))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// What the clocks say.
fn tick() -> Tick {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16);
    let boot = boot.unwrap_or(clock::UNKNOWN_BOOT);
    let wall_secs = jiff::Timestamp::now().as_second();
    Tick { wall_secs, boot, up_secs: clock_gettime(ClockId::Boottime).tv_sec }
}

/// Snapshots that are gone need no entry in the trash.
pub(super) fn keep_existing(trash: &mut BTreeMap<String, i64>, existing: &[SnapshotId]) {
    let existing: std::collections::BTreeSet<_> =
        existing.iter().map(ToString::to_string).collect();
    trash.retain(|id, _| existing.contains(id));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_state_and_the_next_finds_it_as_it_was_stored() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = State::open(folder.path(), "r").unwrap();
        first.stored.trash.insert("a".to_owned(), 5);
        let settled = Settled { secs: 7, ..Settled::default() };
        first.stored.schedules.insert("p".to_owned(), settled.clone());
        first.store().unwrap();
        let second = State::open(folder.path(), "r").err().unwrap();
        assert_eq!(second.code, Code::InUse);
        assert!(State::open(folder.path(), "other").is_ok());
        drop(first);
        // A program that another test starts at this moment has the lock until it runs.
        let free = (0..500).find_map(|_| {
            let opened = State::open(folder.path(), "r").ok();
            opened.or_else(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                None
            })
        });
        let again = free.unwrap();
        assert_eq!(again.stored.trash["a"], 5);
        assert_eq!(again.stored.schedules["p"], settled);
    }

    #[test]
    fn a_damaged_state_is_not_begun_anew_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{", "[]", "{\"trash\":{\"a\":\"b\"}}", "{\"unknown\":1}"] {
            fs::write(folder.path().join("r.json"), text).unwrap();
            let failure = State::open(folder.path(), "r").err().unwrap();
            assert!(failure.hint.unwrap().contains("rm "), "{text}");
        }
    }
}
