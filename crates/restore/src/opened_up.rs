//! Directories that had to be opened for writing and keep their attributes, until they are closed again: the target
//! itself, what is only above the paths that were backed up, and with `Overwrite::Never` all that were there.

use crate::flags;
use crate::system;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Result;

/// How a directory was before, and its path.
type Opened = (Statx, Vec<u8>);

/// By device and inode: a handle may be closed and opened again meanwhile.
#[derive(Default)]
pub(crate) struct OpenedUp {
    before: Mutex<FxHashMap<(u64, u64), Opened>>,
    /// Those that somebody had locked, whatever becomes of them, as they were.
    locked: Mutex<FxHashMap<(u64, u64), Statx>>,
    /// Those among them in which something was to be deleted, and stays.
    refused: Mutex<FxHashSet<(u64, u64)>>,
    /// Those to which this restore gave the locks of the snapshot.
    given: Mutex<FxHashSet<(u64, u64)>>,
}

impl OpenedUp {
    /// Notes how the directory `path` was before.
    pub(crate) fn note(&self, before: &Statx, path: &[u8]) {
        self.before.lock().entry(key(before)).or_insert_with(|| (*before, path.to_vec()));
        if self.was_locked(before) {
            self.locked.lock().entry(key(before)).or_insert(*before);
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
            self.note(&before, b"");
        }
        Ok(())
    }

    /// Whether somebody had locked a directory before this restore.
    pub(crate) fn was_locked(&self, now: &Statx) -> bool {
        let is_given = || self.given.lock().contains(&key(now));
        flags::are_locked(now) && !is_given() || self.locks_of(now).is_some()
    }

    /// How a directory was that somebody had locked, and that was unlocked since.
    pub(crate) fn locks_of(&self, now: &Statx) -> Option<Statx> {
        self.locked.lock().get(&key(now)).copied()
    }

    /// Something in it stays for its locks: with them, so that the next restore leaves it alone, too.
    pub(crate) fn keep_locks(&self, now: &Statx) {
        self.refused.lock().insert(key(now));
    }

    /// Locks a directory again that keeps its locks, whatever the snapshot has.
    pub(crate) fn lock_what_is_kept(&self, directory: BorrowedFd<'_>, now: &Statx) -> Result<()> {
        let before = self.locks_of(now).filter(|_| self.refused.lock().contains(&key(now)));
        before.map_or(Ok(()), |before| flags::lock_again(directory, &before))
    }

    /// From now on it may have the locks of the snapshot, which keep nothing from being deleted.
    pub(crate) fn gives_locks(&self, directory: &Statx) {
        self.given.lock().insert(key(directory));
    }

    /// Gives an open directory its mode and its flags back.
    pub(crate) fn close(&self, directory: BorrowedFd<'_>, now: &Statx) -> Result<()> {
        let Some((before, _)) = self.before.lock().remove(&key(now)) else { return Ok(()) };
        if system::mode(&before) != system::mode(now) {
            rustix::fs::fchmod(directory, Mode::from_raw_mode(system::mode(&before)))?;
        }
        flags::lock_again(directory, &before)
    }

    /// The same for all that are left, below `root`: the restore ended before it came to them.
    pub(crate) fn close_all(&self, root: BorrowedFd<'_>) {
        let left = self.before.lock().values().map(|(_, path)| path.clone()).collect::<Vec<_>>();
        let mut left: Vec<_> = left.iter().filter(|path| !path.is_empty()).collect();
        // The deepest first: once those above are closed, it may be out of reach.
        left.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in left {
            let Ok(open) = system::open_beneath(root, path, OFlags::RDONLY) else { continue };
            let _ = system::stat_open(open.as_fd()).and_then(|now| self.close(open.as_fd(), &now));
        }
    }
}

fn key(stat: &Statx) -> (u64, u64) {
    (system::device(stat), stat.stx_ino)
}
