//! Reading over bad sectors: they become zeros, so that they cost the records they lie in and no
//! others.

use crate::storage::{FileReader, StorageResult};

/// What is read at once when a larger read failed: a page of the cache, so that a bad sector
/// costs no more than its page.
const BLOCK_BYTES: usize = 4096;
/// Blocks that may be unreadable. A disk with more of them is failing, and each may take seconds.
const BAD_BLOCKS_MAX: usize = 256;

/// A file some of whose blocks cannot be read.
pub(super) struct Lenient<'a> {
    file: &'a dyn FileReader,
    bad_blocks: usize,
}

impl<'a> Lenient<'a> {
    pub(super) fn new(file: &'a dyn FileReader) -> Self {
        Self { file, bad_blocks: 0 }
    }

    /// Length in bytes.
    pub(super) fn length(&self) -> StorageResult<u64> {
        self.file.length().or_else(|_| self.file.length())
    }

    /// Fills `buffer` from `offset`; what still cannot be read on its own is zeros. An error when
    /// too much cannot be read.
    pub(super) fn read(&mut self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        if self.file.read_exact_at(buffer, offset).is_ok() {
            return Ok(());
        }
        let mut offset = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            // Blocks begin at multiples of their size, as sectors do.
            let to_next = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
            let (block, behind) = rest.split_at_mut(to_next.min(rest.len()));
            self.read_block(block, offset)?;
            offset += block.len() as u64;
            rest = behind;
        }
        Ok(())
    }

    fn read_block(&mut self, block: &mut [u8], offset: u64) -> StorageResult<()> {
        let Err(error) = self.file.read_exact_at(block, offset) else { return Ok(()) };
        self.bad_blocks += 1;
        if self.bad_blocks > BAD_BLOCKS_MAX {
            return Err(error);
        }
        block.fill(0);
        Ok(())
    }
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
        let mut buffer = vec![0; (BAD_BLOCKS_MAX + 1) * BLOCK_BYTES];
        assert!(Lenient::new(&disk).read(&mut buffer, 0).is_err());
    }
}
