//! Reading around damaged areas of the medium: the rest of the file is read, the damaged ranges are
//! reported.

use rustix::io::{Errno, Result};

/// The size of reads after a failure: a sector, a page.
const SMALLEST: u64 = 4096;
/// After this many failures in a row the area is dead, and every attempt may take seconds…
const DEAD_AFTER: u32 = 8;
/// … so larger ranges are given up at once.
const DEAD_STEP: u64 = 64 * 1024;

/// The result of one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadStep {
    /// This many bytes.
    Data(usize),
    /// This many bytes are lost; the caller stores zeros.
    Lost(u64),
    /// The file ends here.
    End,
}

/// Reads a file, and remembers where damage was found.
#[derive(Debug, Default)]
pub(super) struct DamagedReader {
    /// Up to this offset it reads in small steps.
    until: u64,
    /// Failures in a row.
    failures: u32,
}

impl DamagedReader {
    /// Reads at `offset` through `read`, a `pread` that may fail. Only errors of the medium are
    /// handled here.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        offset: u64,
        mut read: impl FnMut(&mut [u8], u64) -> Result<usize>,
    ) -> Result<ReadStep> {
        loop {
            let length = self.step(offset, buffer.len());
            match read(&mut buffer[..length], offset) {
                Ok(0) => return Ok(ReadStep::End),
                Ok(length) => {
                    self.failures = 0;
                    return Ok(ReadStep::Data(length));
                }
                Err(Errno::INTR) => {}
                Err(error) if !is_damage(error) => return Err(error),
                Err(_) if length as u64 > SMALLEST => self.until = offset + length as u64,
                Err(_) => return Ok(self.give_up(offset, buffer.len())),
            }
        }
    }

    /// The bytes to read: up to the next multiple of the smallest step where there is damage.
    fn step(&self, offset: u64, wanted: usize) -> usize {
        let small = (SMALLEST - offset % SMALLEST) as usize;
        if offset < self.until { wanted.min(small) } else { wanted }
    }

    fn give_up(&mut self, offset: u64, wanted: usize) -> ReadStep {
        let area = if self.failures < DEAD_AFTER { SMALLEST } else { DEAD_STEP };
        self.failures += 1;
        let length = (area - offset % SMALLEST).min(wanted as u64);
        self.until = self.until.max(offset + length + SMALLEST);
        ReadStep::Lost(length)
    }
}

/// Errors of the medium, of its network, or of a checksum of the file system.
fn is_damage(error: Errno) -> bool {
    matches!(
        error,
        Errno::IO | Errno::ILSEQ | Errno::BADMSG | Errno::UCLEAN | Errno::NODATA | Errno::REMOTEIO
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file of `size` bytes of which `bad` cannot be read; gives what is lost.
    fn lost(size: u64, bad: std::ops::Range<u64>, buffer: usize) -> Vec<(u64, u64)> {
        let (mut reader, mut offset, mut lost) = (DamagedReader::default(), 0, Vec::new());
        let mut buffer = vec![0; buffer];
        while offset < size {
            let wanted = buffer.len().min((size - offset) as usize);
            let step = reader.read(&mut buffer[..wanted], offset, |buffer, at| {
                let end = at + buffer.len() as u64;
                if at < bad.end && bad.start < end { Err(Errno::IO) } else { Ok(buffer.len()) }
            });
            match step.unwrap() {
                ReadStep::Data(length) => offset += length as u64,
                ReadStep::Lost(length) => {
                    lost.push((offset, length));
                    offset += length;
                }
                ReadStep::End => unreachable!(),
            }
        }
        lost
    }

    #[test]
    fn one_bad_page_costs_one_page() {
        assert_eq!(lost(1 << 20, 8192..8200, 1 << 18), [(8192, 4096)]);
        assert_eq!(lost(10_000, 9000..9001, 1 << 18), [(8192, 10_000 - 8192)]);
        assert_eq!(lost(100, 0..1, 1 << 18), [(0, 100)]);
    }

    #[test]
    fn a_dead_area_is_given_up_in_larger_steps() {
        let lost = lost(8 << 20, 1 << 20..2 << 20, 1 << 18);
        let steps: Vec<_> = lost.iter().map(|(_, length)| length / 4096).collect();
        assert_eq!(steps[..10], [1, 1, 1, 1, 1, 1, 1, 1, 16, 16]);
        assert_eq!(lost[0].0, 1 << 20);
        let end = lost.last().map(|(offset, length)| offset + length).unwrap();
        assert!((2 << 20..(2 << 20) + DEAD_STEP).contains(&end));
    }

    #[test]
    fn what_is_no_damage_is_an_error_and_interrupts_are_tried_again() {
        let mut reader = DamagedReader::default();
        assert_eq!(reader.read(&mut [0; 8], 0, |_, _| Err(Errno::PERM)), Err(Errno::PERM));
        let mut tries = 0;
        let step = reader.read(&mut [0; 8], 0, |_, _| {
            tries += 1;
            if tries < 3 { Err(Errno::INTR) } else { Ok(8) }
        });
        assert_eq!(step, Ok(ReadStep::Data(8)));
    }
}
