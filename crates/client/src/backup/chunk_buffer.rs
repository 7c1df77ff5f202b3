//! A stream of bytes on its way into chunks.

use super::chunk_writer::ChunkWriter;
use super::context::BackupContext;
use super::counters::timed;
use super::object_dedup::ObjectDedup;
use super::run_list::RunListBuilder;
use crate::Result;
use std::ops::Range;

/// A stream of bytes on its way into chunks: keeps what is not cut yet.
pub(super) struct ChunkBuffer {
    buffer: Vec<u8>,
    /// What is filled and not cut yet.
    filled: Range<usize>,
}

/// Room in which a chunk is looked for, at least twice the largest chunk.
const CHUNK_BUFFER_BYTES: usize = 2 << 20;

impl ChunkBuffer {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::new(), filled: 0..0 }
    }

    /// Nothing is in it any more; its memory is used again.
    pub(super) fn restart(&mut self) {
        self.filled = 0..0;
    }

    /// Room for at least one more piece; what is in it is moved to the front.
    pub(super) fn room(&mut self, shared: &BackupContext<'_>) -> &mut [u8] {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        let most = CHUNK_BUFFER_BYTES.max(2 * shared.chunker.params().max as usize);
        let wanted = most.max(self.filled.end + most / 2);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.filled.end..wanted]
    }

    /// Says how many bytes of [`ChunkBuffer::room`] were filled.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled.end += bytes;
    }

    /// Cuts as far as the bytes tell; all of them when `at_end`.
    pub(super) fn cut(
        &mut self,
        at_end: bool,
        writer: &mut ChunkWriter<'_>,
        runs: &mut RunListBuilder,
        object: &mut ObjectDedup,
    ) -> Result<()> {
        let shared = writer.context();
        loop {
            let rest = &self.buffer[self.filled.clone()];
            let hash_secs = &mut writer.counters.report.stages.hash_secs;
            let cut = timed(hash_secs, || shared.chunker.next_cut(rest, at_end));
            let Some(length) = cut.filter(|length| *length > 0) else { return Ok(()) };
            let id = writer.chunk(&rest[..length], object)?;
            runs.data(id, length as u32, shared.pages)?;
            self.filled.start += length;
        }
    }
}
