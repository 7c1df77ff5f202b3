//! Directories above the paths that were backed up. Of those that were there nobody asked for more than what lies
//! below, so they keep their attributes; those that a restore makes get them from the snapshot.
//!
//! Times do not tell the two apart: what is put into a directory changes it, and some file systems have no time of
//! birth.

use crate::system;
use crate::target::{Target, is_as_made};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::fd::BorrowedFd;
use rustix::fs::Statx;
use rustix::io::Result;

/// Those that this restore made, by device and inode. There are few: no more than the sources have directories above
/// them.
#[derive(Default)]
pub(crate) struct MadeAbove(Mutex<FxHashSet<(u64, u64)>>);

impl Target {
    /// Notes a directory that was just made.
    pub(crate) fn note_made(&self, directory: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
        self.note_activity();
        if self.0.options.is_above_sources(path) {
            let made = system::identity(&system::stat_open(directory)?);
            self.0.made_above.0.lock().insert(made);
        }
        Ok(())
    }

    /// Whether this restore, or one before it that did not finish, made a directory above the paths that were backed
    /// up. Of an earlier one it has to be as that left it.
    pub(crate) fn has_made_above(&self, directory: &Statx) -> bool {
        let is_made = self.0.made_above.0.lock().contains(&system::identity(directory));
        is_made || self.has_made_before(directory)
    }

    /// Whether a restore before this one that did not finish made a directory, and left it so.
    pub(crate) fn has_made_before(&self, directory: &Statx) -> bool {
        is_as_made(directory, &self.0.credentials)
            && self.0.unfinished.has_made(directory, self.0.options.scope.as_ref())
    }
}
