//! Chunking of a stream of bytes.

use super::chunk_writer::ChunkWriter;
use super::context::BackupContext;
use super::counters::timed;
use super::object_dedup::ObjectDedup;
use super::run_list::RunListBuilder;
use crate::Result;
use std::ops::Range;

/// Cuts a stream of bytes into chunks; buffers what is not cut yet.
pub(super) struct ChunkBuffer {
    buffer: Vec<u8>,
    /// The part that is filled and not cut yet.
    filled: Range<usize>,
}

/// The size of the buffer; at least twice the largest chunk.
const CHUNK_BUFFER_BYTES: usize = 2 << 20;

impl ChunkBuffer {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::new(), filled: 0..0 }
    }

    /// Empties the buffer and keeps its memory.
    pub(super) fn restart(&mut self) {
        self.filled = 0..0;
    }

    /// Free space for at least one more piece; the content is moved to the front.
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

    /// Notes how many bytes of [`ChunkBuffer::room`] were filled.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled.end += bytes;
    }

    /// Cuts as many chunks as the content determines; everything if `at_end`.
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
