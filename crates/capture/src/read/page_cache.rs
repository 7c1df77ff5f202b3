//! Reading without changing the page cache.
//!
//! `RWF_DONTCACHE` (Linux 6.14, most disk file systems) drops the pages that a read brought in and
//! keeps those that were cached before. Where it is missing, ranges that were not cached before are
//! dropped afterwards.

use crate::syscalls;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, Result, pread, preadv2};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// `linux/fs.h`; rustix has no name for it yet.
const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
const PAGE: u64 = 4096;
/// Larger reads disable the read-ahead of the kernel, which would make the next range look as if it
/// had been cached before.
const NO_READ_AHEAD: usize = 64 * 1024;

/// The device (plus one) that refused the flag last; not tried again for each file.
static REFUSED_BY: AtomicU64 = AtomicU64::new(0);

/// Reads once, at most `buffer` bytes, at `offset` of a file on `device`.
pub(super) fn read_at(
    file: &OwnedFd,
    buffer: &mut [u8],
    offset: u64,
    device: u64,
) -> Result<usize> {
    let mark = device.wrapping_add(1);
    if REFUSED_BY.load(Ordering::Relaxed) == mark {
        return read_and_drop(file, buffer, offset);
    }
    match preadv2(file, &mut [IoSliceMut::new(buffer)], offset, RWF_DONTCACHE) {
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
            let read = read_and_drop(file, buffer, offset)?;
            // Only now: a FIFO in the place of the file refuses it, too, and says nothing about the
            // disk.
            REFUSED_BY.store(mark, Ordering::Relaxed);
            Ok(read)
        }
        result => result,
    }
}

fn read_and_drop(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let was_cold = is_cold(file, offset, buffer.len() as u64);
    if was_cold && buffer.len() >= NO_READ_AHEAD {
        let _ = fadvise(file, 0, None, Advice::Random); // only a hint
    }
    let read = pread(file, &mut *buffer, offset)?;
    if was_cold {
        let start = offset - offset % PAGE;
        let length = offset + buffer.len() as u64 - start;
        let _ = fadvise(file, start, NonZeroU64::new(length), Advice::DontNeed);
    }
    Ok(read)
}

/// Nothing of the range is cached. Its first page may be: the read before ours ended in it.
fn is_cold(file: &OwnedFd, offset: u64, length: u64) -> bool {
    let start = offset.next_multiple_of(PAGE);
    let length = (offset + length).saturating_sub(start);
    length > 0 && syscalls::cached_pages(file.as_fd(), start, length).is_ok_and(|pages| pages == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_flag_what_was_cold_is_cold_again_and_what_was_warm_stays() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &vec![b'x'; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let file = OwnedFd::from(file);
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let cached = || syscalls::cached_pages(file.as_fd(), 0, 1 << 20);
        let Ok(0) = cached() else { return }; // no cachestat, or a file system in memory
        let mut buffer = vec![0; 100_000];
        let mut read_all = |length: usize| {
            for offset in (0..1 << 20).step_by(length) {
                let end = length.min((1 << 20) - offset);
                read_and_drop(&file, &mut buffer[..end], offset as u64).unwrap();
            }
        };
        read_all(100_000);
        assert_eq!(cached(), Ok(0));
        read_all(65_536);
        assert_eq!(cached(), Ok(0));
        fadvise(&file, 0, None, Advice::Normal).unwrap();
        pread(&file, &mut vec![0; 1 << 20][..], 0).unwrap();
        read_all(100_000);
        assert_eq!(cached(), Ok(256));
    }
}
