//! Reading a file in pieces: data, holes, and ranges that are lost.

use super::damaged::{DamagedReader, ReadStep};
use super::page_cache::read_at;
use super::racy::now;
use super::{RacyWindow, ReadOptions, ReadOutcome, inspect, open_file, problem, settle, status_of};
use crate::problem::{CaptureOperation, CaptureProblem};
use crate::walk::{Directory, Row};
use crate::xattrs::{self, Xattrs};
use format::entry::Time;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::Arc;

/// A piece of a file. Pieces come in order and without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Bytes, in the buffer of the caller.
    Data {
        /// Where in the file.
        offset: u64,
        /// How many.
        length: usize,
    },
    /// A hole: it reads as zeros, and is skipped.
    Hole {
        /// Where in the file.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Bytes that could not be read, to be stored as a hole. `finish` lists them.
    Lost {
        /// Where in the file.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// The end.
    End,
}

/// A file that is being read.
#[derive(Debug)]
pub struct LargeFileReader {
    file: OwnedFd,
    directory: Arc<Directory>,
    name: CString,
    /// As it was when it was opened.
    opened: Row,
    start: Time,
    window: RacyWindow,
    reader: DamagedReader,
    offset: u64,
    /// Data up to here; beyond it may be a hole.
    data_end: u64,
    lost: Vec<Range<u64>>,
}

impl LargeFileReader {
    /// Opens `name` in `directory`, which the walk found as `met`. Reads the file as it is now, up
    /// to its current size.
    pub fn open(
        directory: &Arc<Directory>,
        name: &CStr,
        met: &Row,
        options: &ReadOptions,
    ) -> std::result::Result<Self, CaptureProblem> {
        let fail = problem(directory, name, CaptureOperation::Open);
        let file = open_file(directory, name).map_err(&fail)?;
        let start = now();
        let window = settle(directory.file_system_kinds(), &file, met, start, options);
        let opened = inspect(&file, met).map_err(&fail)?;
        let _ = fadvise(&file, 0, None, Advice::Sequential); // only a hint
        let data_end = if opened.is_sparse() { 0 } else { opened.size };
        Ok(LargeFileReader {
            file,
            directory: directory.clone(),
            name: name.into(),
            opened,
            start,
            window,
            reader: DamagedReader::default(),
            offset: 0,
            data_end,
            lost: Vec::new(),
        })
    }

    /// The attributes when it was opened.
    pub fn row(&self) -> &Row {
        &self.opened
    }

    /// Its extended attributes.
    pub fn xattrs(&self) -> Xattrs {
        xattrs::of_file(self.file.as_fd())
    }

    /// Continues at `offset`: what is before it is known from an interrupted read.
    pub fn skip_to(&mut self, offset: u64) {
        self.offset = offset.min(self.opened.size);
        if self.opened.is_sparse() {
            self.data_end = self.offset;
        }
    }

    /// The next piece. Never goes beyond the size that the file had when it was opened.
    pub fn next(&mut self, buffer: &mut [u8]) -> std::result::Result<Piece, CaptureProblem> {
        let piece = self.next_piece(buffer);
        piece.map_err(problem(&self.directory, &self.name, CaptureOperation::Read))
    }

    fn next_piece(&mut self, buffer: &mut [u8]) -> Result<Piece> {
        if self.offset >= self.opened.size || buffer.is_empty() {
            return Ok(Piece::End);
        }
        if self.offset >= self.data_end {
            let data = self.find_data()?;
            if data > self.offset {
                return Ok(self.hole_up_to(data));
            }
        }
        self.read(buffer)
    }

    /// The offset of the next data; also looks up where that data ends.
    fn find_data(&mut self) -> Result<u64> {
        let size = self.opened.size;
        let data = match seek(&self.file, SeekFrom::Data(self.offset)) {
            Ok(data) => data.min(size),
            Err(Errno::NXIO) => return Ok(size), // only a hole up to the end
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.data_end = size; // this file system does not tell
                return Ok(self.offset);
            }
            Err(error) => return Err(error),
        };
        self.data_end = seek(&self.file, SeekFrom::Hole(data)).map_or(size, |end| end.min(size));
        // Another process may punch holes meanwhile: what is there now is read.
        self.data_end = self.data_end.max(data.saturating_add(1)).min(size);
        Ok(data)
    }

    fn hole_up_to(&mut self, end: u64) -> Piece {
        let offset = std::mem::replace(&mut self.offset, end);
        Piece::Hole { offset, length: end - offset }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<Piece> {
        let left = self.data_end.min(self.opened.size) - self.offset;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let (file, device, offset) = (&self.file, self.opened.device, self.offset);
        let step = self
            .reader
            .read(&mut buffer[..wanted], offset, |part, at| read_at(file, part, at, device))?;
        Ok(match step {
            ReadStep::End => Piece::End, // it shrank; finish() will tell
            ReadStep::Data(length) => {
                self.offset += length as u64;
                Piece::Data { offset, length }
            }
            ReadStep::Lost(length) => {
                self.offset += length;
                add_lost(&mut self.lost, offset..self.offset);
                Piece::Lost { offset, length }
            }
        })
    }

    /// Finishes reading. If the file changed, the caller may open and read it again.
    pub fn finish(self) -> std::result::Result<ReadOutcome, CaptureProblem> {
        let fail = problem(&self.directory, &self.name, CaptureOperation::Inspect);
        let mut row = inspect(&self.file, &self.opened).map_err(fail)?;
        let changed = self.offset != self.opened.size || !row.is_same_content(&self.opened);
        let partial = !self.lost.is_empty();
        let status = status_of(&row, self.start, self.window, changed, partial);
        row.size = self.offset;
        Ok(ReadOutcome { row, status, lost: self.lost })
    }
}

/// Adds a lost range; adjacent ranges are merged.
pub(super) fn add_lost(lost: &mut Vec<Range<u64>>, range: Range<u64>) {
    match lost.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => lost.push(range),
    }
}
