//! Reading a whole file at once: open, preadv2, statx, flistxattr, close, and no other call for an
//! unchanged file; one more where holes are possible.

use super::damaged::{DamagedReader, ReadStep};
use super::page_cache::read_at;
use super::racy::now;
use super::{
    RacyWindow, ReadOptions, ReadOutcome, inspect, of_kind, open_file, problem, settle, status_of,
};
use crate::problem::{CaptureOperation, CaptureProblem};
use crate::walk::{Directory, Row};
use crate::xattrs::{self, Xattrs};
use format::entry::Time;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, Result, read};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

/// In smaller files, holes are not worth keeping.
const HOLE_BYTES_MIN: u64 = 4096;
/// A file of unknown size is read in steps of at least this many bytes.
const STEP_BYTES: usize = 64 * 1024;

/// A small file that was read.
#[derive(Debug)]
pub struct SmallFileOutcome {
    /// The outcome; `outcome.row.size` bytes are in the buffer.
    pub outcome: ReadOutcome,
    /// Its extended attributes.
    pub xattrs: Xattrs,
}

/// Reads files that fit into memory.
#[derive(Clone, Copy, Debug)]
pub struct SmallFileReader {
    /// The options.
    pub options: ReadOptions,
    /// Larger files are rejected (`FBIG`); one that grows beyond this while it is read is not read
    /// again, but marked as changed: the caller may read it as a `LargeFileReader`.
    pub bytes_max: u64,
}

impl Default for SmallFileReader {
    fn default() -> Self {
        SmallFileReader { options: ReadOptions::default(), bytes_max: 16 * 1024 * 1024 }
    }
}

/// One attempt to read a file.
struct Attempt {
    length: usize,
    lost: Vec<Range<u64>>,
    row: Row,
    changed: bool,
}

impl SmallFileReader {
    /// Reads `name` in `directory`, which the walk found as `met`. The bytes are the first
    /// `outcome.row.size` of `buffer`, which grows and never shrinks: pass the same one again. `None` when it has
    /// holes: a [`super::LargeFileReader`] tells where.
    pub fn run(
        &self,
        directory: &Arc<Directory>,
        name: &CStr,
        met: &Row,
        buffer: &mut Vec<u8>,
    ) -> std::result::Result<Option<SmallFileOutcome>, CaptureProblem> {
        let fail = |operation| problem(directory, name, operation);
        if met.size > self.bytes_max {
            return Err(fail(CaptureOperation::Read)(Errno::FBIG));
        }
        let mut met = met.clone();
        let mut tries = 0;
        loop {
            let file = open_file(directory, name).map_err(fail(CaptureOperation::Open))?;
            if has_holes(&file, &met) {
                return Ok(None);
            }
            let start = now();
            let window = settle(directory.file_system_kinds(), &file, &met, start, &self.options);
            let kinds = directory.file_system_kinds();
            let attempt = match met.size == 0 && kinds.may_hide_sizes(&file, met.device) {
                true => read_to_end(&file, &met, self.bytes_max, buffer),
                false => read_once(&file, &met, buffer).map_err(of_kind),
            };
            let attempt = attempt.map_err(fail(CaptureOperation::Read))?;
            if attempt.changed && tries < self.options.retries && attempt.row.size <= self.bytes_max
            {
                tries += 1;
                met = attempt.row;
                continue;
            }
            let xattrs = xattrs::of_file(file.as_fd());
            return Ok(Some(SmallFileOutcome { outcome: outcome(attempt, start, window), xattrs }));
        }
    }
}

/// Fewer blocks than bytes are a sign of holes, or of a file system that compresses: only there it is asked.
fn has_holes(file: &OwnedFd, met: &Row) -> bool {
    met.size > HOLE_BYTES_MIN
        && met.is_sparse()
        && seek(file, SeekFrom::Hole(0)).is_ok_and(|hole| hole < met.size)
}

fn outcome(attempt: Attempt, start: Time, window: RacyWindow) -> ReadOutcome {
    let partial = !attempt.lost.is_empty();
    let status = status_of(&attempt.row, start, window, attempt.changed, partial);
    let mut row = attempt.row;
    row.size = attempt.length as u64;
    ReadOutcome { row, status, lost: attempt.lost }
}

/// Reads as many bytes as the file had when it was found, never more: a log that grows faster than
/// we read must have an end.
fn read_once(file: &OwnedFd, met: &Row, buffer: &mut Vec<u8>) -> Result<Attempt> {
    let wanted = usize::try_from(met.size).map_err(|_| Errno::FBIG)?;
    if buffer.len() < wanted {
        buffer.resize(wanted, 0);
    }
    let (length, lost) =
        fill(&mut buffer[..wanted], |part, offset| read_at(file, part, offset, met.device))?;
    let row = inspect(file, met)?;
    let changed = length != wanted || !row.is_same_content(met);
    Ok(Attempt { length, lost, row, changed })
}

/// Reads a file of unknown size: it is told to be empty, where that says nothing. One that has no end is an error.
fn read_to_end(file: &OwnedFd, met: &Row, bytes_max: u64, buffer: &mut Vec<u8>) -> Result<Attempt> {
    let mut length = 0;
    loop {
        if buffer.len() < length + STEP_BYTES {
            buffer.resize(length + STEP_BYTES, 0);
        }
        // From where it is: such a file may have no other places.
        match read(file, &mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if length as u64 > bytes_max {
            return Err(Errno::FBIG);
        }
    }
    let row = inspect(file, met)?;
    let changed = !row.is_same_content(met);
    Ok(Attempt { length, lost: Vec::new(), row, changed })
}

fn fill(
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize>,
) -> Result<(usize, Vec<Range<u64>>)> {
    let (mut reader, mut length, mut lost) = (DamagedReader::default(), 0, Vec::new());
    while length < buffer.len() {
        match reader.read(&mut buffer[length..], length as u64, &mut read)? {
            ReadStep::End => break,
            ReadStep::Data(more) => length += more,
            ReadStep::Lost(gap) => {
                let end = length + gap as usize;
                buffer[length..end].fill(0);
                super::large::add_lost(&mut lost, length as u64..end as u64);
                length = end;
            }
        }
    }
    Ok((length, lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_small_file_has_zeros_where_it_is_lost() {
        let mut buffer = vec![7; 20_000];
        let (length, lost) = fill(&mut buffer, |part, offset| {
            if offset < 12_000 && offset + part.len() as u64 > 5000 {
                return Err(Errno::IO);
            }
            part.fill(9);
            Ok(part.len())
        })
        .unwrap();
        assert_eq!(length, 20_000);
        assert_eq!(lost, vec![4096_u64..12_288]);
        assert!(buffer[..4096].iter().all(|byte| *byte == 9));
        assert!(buffer[4096..12_288].iter().all(|byte| *byte == 0));
        assert!(buffer[12_288..].iter().all(|byte| *byte == 9));
    }
}
