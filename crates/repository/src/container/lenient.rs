//! Reading over bad sectors: they become zeros, so that they cost the records they lie in and no
//! others.

use crate::storage::{FileReader, StorageResult};
use format::parity::SHARD_BYTES;

/// How a stretch that cannot be read is taken apart: few tries for each, as a failing disk takes
/// seconds over one. The last is what is lost with a bad sector, and a shard of parity.
const PIECES: [u64; 2] = [128 << 10, SHARD_BYTES as u64];
/// Pieces that may be unreadable. A disk with more of them is dying.
const BAD_MAX: usize = 256;

/// A file some of whose sectors cannot be read.
pub(crate) struct Lenient<'a> {
    file: &'a dyn FileReader,
    /// Pieces that may still turn out to be unreadable.
    left: usize,
    is_whole: bool,
}

impl<'a> Lenient<'a> {
    /// Gives up when too much cannot be read.
    pub(crate) fn new(file: &'a dyn FileReader) -> Self {
        Self { file, left: BAD_MAX, is_whole: true }
    }

    /// Fills `buffer` from `offset`; what cannot be read on its own either is zeros.
    pub(crate) fn read(&mut self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.pieces(buffer, offset, &PIECES)
    }

    fn pieces(&mut self, buffer: &mut [u8], at: u64, pieces: &[u64]) -> StorageResult<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let Err(error) = self.file.read_exact_at(buffer, at) else { return Ok(()) };
        if error.is_unreachable() {
            return Err(error);
        }
        let Some((piece, smaller)) = pieces.split_first() else {
            self.is_whole = false;
            self.left = self.left.checked_sub(1).ok_or(error)?;
            buffer.fill(0);
            return Ok(());
        };
        let (mut rest, mut at) = (buffer, at);
        while !rest.is_empty() {
            // Cut where sectors begin.
            let length = (piece - at % piece).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(length as usize);
            self.pieces(now, at, smaller)?;
            (rest, at) = (later, at + length);
        }
        Ok(())
    }
}

/// Reads what can be read, however little; the rest, also behind the end, is zeros. Whether all
/// could.
pub(crate) fn read_what_can_be(file: &dyn FileReader, buffer: &mut [u8], at: u64) -> bool {
    let Ok(length) = file.length() else { return false };
    let there = (length.saturating_sub(at)).min(buffer.len() as u64) as usize;
    let mut lenient = Lenient { file, left: usize::MAX, is_whole: there == buffer.len() };
    let (inside, behind) = buffer.split_at_mut(there);
    behind.fill(0);
    lenient.read(inside, at).is_ok() && lenient.is_whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageError;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A disk of ones that cannot read some bytes, and fails a few times altogether.
    struct Disk {
        bad: std::ops::Range<u64>,
        hiccups: AtomicUsize,
    }

    impl FileReader for Disk {
        fn length(&self) -> StorageResult<u64> {
            Ok(u64::MAX)
        }

        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
            let hiccup = |left: usize| left.checked_sub(1);
            let fails = self.hiccups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, hiccup);
            let is_bad = offset < self.bad.end && offset + buffer.len() as u64 > self.bad.start;
            if is_bad || fails.is_ok() {
                return Err(StorageError::new("read", "disk", std::io::Error::other("bad sector")));
            }
            buffer.fill(1);
            Ok(())
        }
    }

    fn read(bad: std::ops::Range<u64>, hiccups: usize) -> StorageResult<Vec<u8>> {
        let disk = Disk { bad, hiccups: hiccups.into() };
        let mut buffer = vec![9; 20_000];
        Lenient::new(&disk).read(&mut buffer, 100).map(|()| buffer)
    }

    #[test]
    fn a_bad_sector_costs_its_block() {
        let bytes = read(8_192..8_704, 0).unwrap();
        let zeros: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] == 0).collect();
        assert_eq!(zeros, (8_092..12_188).collect::<Vec<_>>(), "from 100 on");
    }

    #[test]
    fn an_error_that_passes_costs_nothing() {
        assert_eq!(read(0..0, 1).unwrap(), vec![1; 20_000]);
    }

    #[test]
    fn a_disk_that_fails_everywhere_is_not_read_to_its_end() {
        let disk = Disk { bad: 0..u64::MAX, hiccups: 0.into() };
        let mut buffer = vec![0; (BAD_MAX + 1) * SHARD_BYTES];
        assert!(Lenient::new(&disk).read(&mut buffer, 0).is_err());
    }
}
