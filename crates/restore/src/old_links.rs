//! Objects that lost a name to this restore and have others.
//!
//! Where a file system records no time of birth (NTFS and others through FUSE, NFS 3), the last change stands for it.
//! Taking one name of an object changes the object, so its other names would look as if this restore had made them.

use crate::system;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::fs::{FileType, Statx};

/// The most that are remembered (16 MiB). The names of others are kept and reported.
const REMEMBERED_MAX: usize = 1 << 20;

/// Their devices and inodes.
#[derive(Default)]
pub(crate) struct OldLinks(Mutex<FxHashSet<(u64, u64)>>);

impl OldLinks {
    /// An object that was there before is about to lose a name. With its last one it is gone, and a new object may get
    /// its number.
    pub(crate) fn loses_a_name(&self, old: &Statx) {
        if system::has_birth_time(old) || system::file_type(old) == FileType::Directory {
            return;
        }
        let mut known = self.0.lock();
        if old.stx_nlink <= 1 {
            known.remove(&system::identity(old));
        } else if known.len() < REMEMBERED_MAX {
            known.insert(system::identity(old));
        }
    }

    pub(crate) fn has(&self, stat: &Statx) -> bool {
        !system::has_birth_time(stat) && self.0.lock().contains(&system::identity(stat))
    }
}
