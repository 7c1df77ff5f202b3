//! Reading objects safely while others change them.
//!
//! - [`SmallFileReader`]: a whole file in one call; five system calls for an unchanged file.
//! - [`LargeFileReader`]: in pieces; holes are skipped.
//! - [`link_target`]: where a symbolic link points.
//! - [`RacyWindow`]: how long a file is racy.
//!
//! Files are opened in their directory, never through a link, without blocking, and are checked to
//! be regular after opening, in case a FIFO took the place of a file. The page cache is left as it
//! was.

mod damaged;
mod large;
mod lease;
mod page_cache;
mod racy;
mod small;
#[cfg(test)]
mod tests;

pub use large::{LargeFileReader, Piece};
pub use racy::{RacyWindow, racy};
pub use small::{SmallFileOutcome, SmallFileReader};

use crate::file_system_kinds::FileSystemKinds;
use crate::gone;
use crate::problem::{CaptureOperation, CaptureProblem, REPLACED};
use crate::syscalls;
use crate::walk::{Directory, Row, open_quietly};
use format::entry::{Kind, STATUS_CHANGED, STATUS_PARTIAL, STATUS_RACY, Time};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, StatxFlags, readlinkat, statx};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

/// The options for reading files.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// How often a small file that changes while it is read is read again.
    pub retries: u32,
    /// How long a file is racy.
    pub window: RacyWindow,
    /// Write racy files back before they are read, so that a later store changes their times: costs
    /// a disk flush per racy file, and saves reading it again next time.
    pub sync_young: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { retries: 2, window: RacyWindow::of_this_machine(), sync_young: false }
    }
}

/// The outcome of reading a file.
#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// The attributes after reading. Its `size` is the number of bytes that were read.
    pub row: Row,
    /// `STATUS_*` bits of `format::entry`.
    pub status: u8,
    /// Ranges that could not be read; they read as zeros.
    pub lost: Vec<Range<u64>>,
}

impl ReadOutcome {
    /// Whether it changed while it was read.
    pub fn changed(&self) -> bool {
        self.status & STATUS_CHANGED != 0
    }
}

/// A problem with `name` in `directory`.
pub(crate) fn problem(
    directory: &Arc<Directory>,
    name: &CStr,
    operation: CaptureOperation,
) -> impl Fn(Errno) -> CaptureProblem {
    move |error| {
        let problem = CaptureProblem { path: directory.path_of(name.to_bytes()), operation, error };
        problem.told_apart(directory, name)
    }
}

/// Where a symbolic link points.
pub fn link_target(
    directory: &Arc<Directory>,
    name: &CStr,
) -> std::result::Result<Vec<u8>, CaptureProblem> {
    let target = directory.handle().and_then(|handle| {
        gone::reopening(&*handle, name, || readlinkat(&*handle, name, Vec::new()))
    });
    // What is no link any more has no target.
    let target = target.map_err(|error| if error == Errno::INVAL { REPLACED } else { error });
    let failed = problem(directory, name, CaptureOperation::Read);
    target.map(std::ffi::CString::into_bytes).map_err(failed)
}

/// What says that a link, a socket, a FIFO or a directory took the place of a file: that is gone, but what is there is
/// not in the snapshot.
fn of_kind(error: Errno) -> Errno {
    match error {
        Errno::LOOP | Errno::NXIO | Errno::SPIPE | Errno::ISDIR => REPLACED,
        error => error,
    }
}

fn open_file(directory: &Arc<Directory>, name: &CStr) -> Result<OwnedFd> {
    let parent = directory.handle()?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || directory.sparing_descriptors(|| open_quietly(&*parent, name, flags));
    lease::opening(|| gone::reopening(&*parent, name, open)).map_err(of_kind)
}

/// The current attributes; an error if it is not a regular file.
fn inspect(file: &OwnedFd, met: &Row) -> Result<Row> {
    const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);
    let now = met.refreshed(&statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?);
    if now.kind == Kind::File { Ok(now) } else { Err(REPLACED) }
}

/// Before a file is read: drops old pages of it, and writes a racy file back if requested. Returns for
/// how long later stores through mappings may not change its times.
fn settle(
    file_system_kinds: &FileSystemKinds,
    file: &OwnedFd,
    met: &Row,
    start: Time,
    options: &ReadOptions,
) -> RacyWindow {
    file_system_kinds.forget_old_pages(file, met.device, met.links);
    if options.window.0.is_zero() {
        return options.window;
    }
    if !file_system_kinds.has_write_back(file, met.device) {
        return RacyWindow::FOR_EVER;
    }
    let is_settled = options.sync_young
        && racy(met.ctime, start, options.window)
        && syscalls::write_back(file.as_fd()).is_ok();
    // Even a settled file is racy within the grain of the clock.
    if is_settled { RacyWindow::CLOCK_GRAIN } else { options.window }
}

/// The status of what was read from `start` on: `now` are its times after the read.
fn status_of(now: &Row, start: Time, window: RacyWindow, changed: bool, partial: bool) -> u8 {
    let bits = [
        (racy(now.ctime, start, window), STATUS_RACY),
        (changed, STATUS_CHANGED),
        (partial, STATUS_PARTIAL),
    ];
    bits.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum()
}
