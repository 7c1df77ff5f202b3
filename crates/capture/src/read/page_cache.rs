//! Reading without leaving traces in the page cache.
//!
//! `RWF_DONTCACHE` (Linux 6.14, most disk file systems) drops the pages that a read brought in
//! and leaves those that were there. Where it is missing, ranges of which nothing was cached
//! before are dropped after.

use crate::syscalls;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, Result, pread, preadv2};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// `linux/fs.h`; rustix has no name for it yet.
const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Below this, asking what is cached costs more than the pages are worth on memory file
/// systems, which are the usual ones without the flag.
const WORTH_ASKING: usize = 64 * 1024;

/// The device (plus one) that refused the flag last: not asked again for each file.
static REFUSED_BY: AtomicU64 = AtomicU64::new(0);

/// Reads once, at most `buffer` bytes, at `offset` of a file on `device`.
pub(super) fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64, device: u64) -> Result<usize> {
    let mark = device.wrapping_add(1);
    if REFUSED_BY.load(Ordering::Relaxed) != mark {
        match preadv2(file, &mut [IoSliceMut::new(buffer)], offset, RWF_DONTCACHE) {
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => REFUSED_BY.store(mark, Ordering::Relaxed),
            result => return result,
        }
    }
    read_and_drop(file, buffer, offset)
}

fn read_and_drop(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let length = buffer.len() as u64;
    let was_cold = buffer.len() >= WORTH_ASKING
        && syscalls::cached_pages(file.as_fd(), offset, length).is_ok_and(|pages| pages == 0);
    let read = pread(file, buffer, offset)?;
    if was_cold {
        let _ = fadvise(file, offset, NonZeroU64::new(length), Advice::DontNeed);
    }
    Ok(read)
}
