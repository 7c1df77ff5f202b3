//! The one system call that `rustix` does not wrap.
#![allow(unsafe_code, reason = "sync_file_range has no safe wrapper")]

use rustix::fd::{AsRawFd, BorrowedFd};

/// Starts write-back of a range, without waiting. It makes nothing durable; it only makes the
/// later sync short. Errors show up at that sync.
pub(crate) fn start_write_back(file: BorrowedFd<'_>, offset: u64, length: u64) {
    // SAFETY: takes numbers only, and the descriptor is borrowed for the call.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset as i64,
            length as i64,
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
}
