//! Directories that had to be opened for writing and keep their attributes, until they are closed again: the target
//! itself, what is only above the paths that were backed up, and with `Overwrite::Never` all that were there.

use crate::flags;
use crate::system;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, Statx};
use rustix::io::Result;

/// By device and inode: a handle may be closed and opened again meanwhile.
#[derive(Default)]
pub(crate) struct OpenedUp {
    /// How they were.
    before: Mutex<FxHashMap<(u64, u64), Statx>>,
    /// Those that somebody had locked, whatever becomes of them.
    locked: Mutex<FxHashSet<(u64, u64)>>,
}

impl OpenedUp {
    /// Notes how a directory was before.
    pub(crate) fn note(&self, before: &Statx) {
        self.before.lock().entry(key(before)).or_insert(*before);
        if flags::are_locked(before) {
            self.locked.lock().insert(key(before));
        }
    }

    /// It gets the attributes of the snapshot instead.
    pub(crate) fn forget(&self, directory: &Statx) {
        self.before.lock().remove(&key(directory));
    }

    /// Lifts the locks of the target itself, whatever may be overwritten in it. Its mode stays: who made it chose that.
    pub(crate) fn unlock_root(&self, root: BorrowedFd<'_>) -> Result<()> {
        let before = system::stat_open(root)?;
        if flags::are_locked(&before) && flags::clear_locks(root).is_ok() {
            self.note(&before);
        }
        Ok(())
    }

    /// Whether somebody had locked a directory before this restore.
    pub(crate) fn was_locked(&self, now: &Statx) -> bool {
        flags::are_locked(now) || self.locked.lock().contains(&key(now))
    }

    /// Gives an open directory its mode and its flags back.
    pub(crate) fn close(&self, directory: BorrowedFd<'_>, now: &Statx) -> Result<()> {
        let Some(before) = self.before.lock().remove(&key(now)) else { return Ok(()) };
        if system::mode(&before) != system::mode(now) {
            rustix::fs::fchmod(directory, Mode::from_raw_mode(system::mode(&before)))?;
        }
        flags::lock_again(directory, &before)
    }
}

fn key(stat: &Statx) -> (u64, u64) {
    (system::device(stat), stat.stx_ino)
}
