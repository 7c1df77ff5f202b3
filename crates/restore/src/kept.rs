//! Whether the file system keeps what was set. Some say that they do, and do not: times in whole seconds (sshfs, ext4
//! with small inodes) or tenths of a microsecond (NTFS), no modes or owners at all (NTFS without its options).

use crate::handle::AttributeHandle;
use crate::problem::Attribute;
use crate::system;
use crate::target::Target;
use format::entry::Entry;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Seconds that every file system can store; beyond, the kernel silently uses the nearest.
const USUAL_SECS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;
/// How many objects are looked at first, and which part of them later, as long as all is kept: a look at each would
/// cost a hundredth of a restore.
const LOOKED_AT_FIRST: u64 = 64;
const LOOKED_AT_ONE_IN: u64 = 64;

/// What an object has, if the file system keeps it.
pub(crate) struct Wanted {
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) mode: Option<u32>,
}

/// Which objects are looked at again.
#[derive(Default)]
pub(crate) struct Looks {
    done: AtomicU64,
    /// Something was not kept: all are looked at from then on.
    is_doubtful: AtomicBool,
}

impl Looks {
    fn takes(&self, secs: i64) -> bool {
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        number < LOOKED_AT_FIRST
            || number.is_multiple_of(LOOKED_AT_ONE_IN)
            || !USUAL_SECS.contains(&secs)
            || self.is_doubtful.load(Ordering::Relaxed)
    }
}

impl Target {
    /// Compares what an object has now with what was set, and reports what the file system did not keep.
    pub(crate) fn verify_kept(&self, handle: AttributeHandle<'_>, entry: &Entry, wanted: &Wanted) {
        if !self.0.looks.takes(entry.mtime.secs) {
            return;
        }
        let stat = match handle.stat() {
            Ok(stat) => stat,
            Err(error) => return self.degrade(entry, Attribute::Mtime, error),
        };
        let doubt = || self.0.looks.is_doubtful.store(true, Ordering::Relaxed);
        let not_kept = Errno::OPNOTSUPP;
        if wanted.owner.is_some_and(|owner| owner != (stat.stx_uid, stat.stx_gid)) {
            doubt();
            self.degrade_one_of(|all| &mut all.owners, entry, Attribute::Owner, not_kept);
        }
        if wanted.mode.is_some_and(|mode| mode != system::mode(&stat)) {
            doubt();
            self.degrade_one_of(|all| &mut all.modes, entry, Attribute::Mode, not_kept);
        }
        let kept = system::mtime(&stat);
        if kept == entry.mtime {
            return;
        }
        doubt();
        if kept.secs == entry.mtime.secs {
            self.degrade_one_of(|all| &mut all.times, entry, Attribute::Mtime, not_kept);
        } else {
            self.degrade(entry, Attribute::Mtime, Errno::OVERFLOW);
        }
    }
}
