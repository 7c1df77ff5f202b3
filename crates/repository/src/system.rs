//! The system calls that `rustix` does not wrap.
#![allow(unsafe_code, reason = "sync_file_range and cachestat have no safe wrapper")]

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

/// `cachestat(2)`, since Linux 6.5; one number on all architectures but Alpha.
const CACHESTAT: libc::c_long = 451;

/// Pages of the whole file that are in the cache of the system; `None` when it does not say.
pub(crate) fn cached_pages(file: BorrowedFd<'_>) -> Option<u64> {
    let range = [0_u64; 2]; // offset, length; 0 is all
    let mut found = [0_u64; 5]; // in the cache, dirty, in write-back, evicted, recently evicted
    // SAFETY: the kernel reads two and writes five numbers of 64 bits, which outlive the call.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0)
    };
    (done == 0).then_some(found[0])
}
