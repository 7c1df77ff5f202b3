//! Temporary names: what a restore that was killed has left under them, the next one removes in each directory that it
//! opens.

use crate::marker;
use crate::system;
use crate::target::Target;
use rustix::fd::BorrowedFd;
use rustix::fs::AtFlags;
use std::sync::atomic::Ordering;

/// Temporary names begin and end so; between them are the number of the restore, that of the name, and perhaps the name
/// of an object.
const TEMPORARY: &[u8] = b".icecore-";
const PART: &[u8] = b".part";
/// So many names that are left are removed at once.
const LEFT_AT_ONCE: usize = 1024;

/// Whether `name` is a temporary name of the restore that has this marker.
fn is_of(name: &[u8], marker: &[u8]) -> bool {
    let Some(number) = marker.strip_prefix(marker::PREFIX) else { return false };
    let rest = name.strip_prefix(TEMPORARY).and_then(|rest| rest.strip_prefix(number));
    let rest = rest.and_then(|rest| rest.strip_prefix(b"-"));
    let rest = rest.and_then(|rest| rest.strip_suffix(PART)).unwrap_or_default();
    let digits = rest.split(|byte| *byte == b'-').next().unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

impl Target {
    /// Removes what restores that ended in the middle have left in a directory. What cannot be
    /// removed stays, as it was.
    pub(crate) fn remove_left(&self, directory: BorrowedFd<'_>) {
        let ended = self.0.unfinished.ended();
        if ended.is_empty() {
            return;
        }
        let is_left = |name: &[u8]| ended.iter().any(|marker| is_of(name, marker));
        loop {
            let left = system::list(directory, LEFT_AT_ONCE, &|name| !is_left(name));
            let left = left.unwrap_or_default();
            let remove = |name: &Vec<u8>| {
                rustix::fs::unlinkat(directory, &name[..], AtFlags::empty()).is_ok()
            };
            let removed = left.iter().filter(|name| remove(name)).count();
            if removed < LEFT_AT_ONCE {
                return;
            }
        }
    }

    /// A temporary name for an object that gets its own later. It remains only after a crash, until the next restore.
    pub(crate) fn temporary_name(&self) -> Vec<u8> {
        [TEMPORARY, self.next_number().as_bytes(), PART].concat()
    }

    /// The same with `name` in it, to see how the file system lists such names.
    pub(crate) fn temporary_name_like(&self, name: &[u8]) -> Vec<u8> {
        [TEMPORARY, self.next_number().as_bytes(), b"-", name, PART].concat()
    }

    fn next_number(&self) -> String {
        let count = self.0.temporaries.fetch_add(1, Ordering::Relaxed);
        format!("{}-{count}", self.own_number())
    }

    /// The number of this restore, in the names that only it has.
    pub(crate) fn own_number(&self) -> String {
        format!("{}-{:x}{:08x}", std::process::id(), self.0.started.secs, self.0.started.nanos)
    }
}
