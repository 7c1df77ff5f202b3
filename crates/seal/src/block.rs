//! Gathering objects and making them small.

use crate::{Error, Result};
use format::limits::RECORD_OBJECTS_MAX;
use format::page::{Page, put_head};
use format::record::{Codec, RecordKind};
use ids::ObjectId;

/// Objects on their way into one record.
pub struct Block {
    kind: RecordKind,
    pub(crate) ids: Vec<ObjectId>,
    pub(crate) clear: Vec<u8>,
    payloads: Vec<u8>,
    lengths: Vec<u8>,
}

impl Block {
    /// An empty block of chunks or pages.
    pub fn new(kind: RecordKind) -> Self {
        Self { kind, ids: Vec::new(), clear: Vec::new(), payloads: Vec::new(), lengths: Vec::new() }
    }

    /// What it gathers.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Bytes gathered.
    pub fn bytes(&self) -> usize {
        self.payloads.len() + self.clear.len()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether another object of `bytes` would go over `target`, or over the count of objects.
    pub fn is_full_for(&self, bytes: usize, target: usize) -> bool {
        !self.is_empty() && (self.bytes() + bytes > target || self.len() >= RECORD_OBJECTS_MAX)
    }

    /// Adds a chunk.
    pub fn push_chunk(&mut self, id: ObjectId, bytes: &[u8]) {
        self.clear.extend_from_slice(&id.0);
        self.push(id, bytes);
    }

    /// Adds a page.
    pub fn push_page(&mut self, id: ObjectId, page: &Page) {
        put_head(&mut self.clear, page.kind, id, &page.refs);
        self.push(id, &page.payload);
    }

    /// Empties it; its memory is used again.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.clear.clear();
        self.payloads.clear();
        self.lengths.clear();
    }

    fn push(&mut self, id: ObjectId, bytes: &[u8]) {
        self.ids.push(id);
        self.payloads.extend_from_slice(bytes);
        self.lengths.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    }

    /// The plaintext: payloads, then their lengths.
    pub(crate) fn plaintext(&mut self) -> &[u8] {
        self.payloads.append(&mut self.lengths);
        &self.payloads
    }
}

/// Compresses; keeps its tables between calls.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    level: i32,
}

impl Packer {
    /// A packer at a Zstandard `level`.
    pub fn new(level: i32) -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(level).map_err(|_| Error::Compress)?;
        Ok(Self { compressor, level })
    }

    /// The level.
    pub fn level(&self) -> i32 {
        self.level
    }

    /// Changes the level, for when another stage is the bottleneck.
    pub fn set_level(&mut self, level: i32) -> Result<()> {
        if level != self.level {
            self.compressor.set_compression_level(level).map_err(|_| Error::Compress)?;
            self.level = level;
        }
        Ok(())
    }

    /// Puts `plain` into `out` by the codec that is returned: raw unless compressing saves 3 %.
    pub(crate) fn pack(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<Codec> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(plain.len()) + SLACK_BYTES);
        let packed = self.compressor.compress_to_buffer(plain, out).map_err(|_| Error::Compress)?;
        if packed < plain.len() - plain.len() / 32 {
            return Ok(Codec::Zstd);
        }
        out.clear();
        out.extend_from_slice(plain);
        Ok(Codec::Raw)
    }
}

/// Room for length, tag and most paddings, so that the buffer need not move.
const SLACK_BYTES: usize = 16 << 10;
