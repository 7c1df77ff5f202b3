//! Gathering objects and making them small.

use crate::{Error, Result};
use format::limits::RECORD_OBJECTS_MAX;
use format::page::{Page, put_head};
use format::record::{Codec, RecordKind};
use ids::ObjectId;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

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

/// How hard to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By what it gives: quickly where that does nearly as well (source code, and what does not
    /// compress at all), harder where it pays (prose, logs, dumps).
    Auto,
    /// A level of Zstandard, -7 to 19.
    Fixed(i32),
}

/// Compresses; keeps its tables between calls.
pub struct Packer {
    quick: Compressor<'static>,
    /// For data on which the harder search pays.
    strong: Option<Compressor<'static>>,
    /// Whether the last record was such data: neighbours are alike.
    is_strong: bool,
}

/// Compresses to less than this share (in per cent): the quick search did nearly all.
const QUICK_BELOW_PERCENT: usize = 25;
/// Hardly compresses: no search does much.
const QUICK_ABOVE_PERCENT: usize = 90;

impl Packer {
    /// A packer.
    pub fn new(level: Level) -> Result<Self> {
        let (quick, strong) = match level {
            Level::Auto => (Compressor::new(1), Some(strong())),
            Level::Fixed(level) => (Compressor::new(level), None),
        };
        let quick = quick.map_err(|_| Error::Compress)?;
        let strong = strong.transpose().map_err(|_| Error::Compress)?;
        Ok(Self { quick, strong, is_strong: false })
    }

    /// Compresses with what did well on the record before, and chooses for the next one.
    fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let compressor = match &mut self.strong {
            Some(strong) if self.is_strong => strong,
            _ => &mut self.quick,
        };
        let packed = compressor.compress_to_buffer(plain, out).map_err(|_| Error::Compress)?;
        let percent = packed * 100 / plain.len().max(1);
        self.is_strong = (QUICK_BELOW_PERCENT..QUICK_ABOVE_PERCENT).contains(&percent);
        Ok(packed)
    }

    /// Puts `plain` into `out` by the codec that is returned: raw unless compressing saves 3 %.
    pub(crate) fn pack(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<Codec> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(plain.len()) + SLACK_BYTES);
        let packed = self.compress(plain, out)?;
        if packed < plain.len() - plain.len() / 32 {
            return Ok(Codec::Zstd);
        }
        out.clear();
        out.extend_from_slice(plain);
        Ok(Codec::Raw)
    }
}

/// Between levels 2 and 3: on prose 97 % of what level 3 saves, in 90 % of its time (measured on
/// the MIDDLE set, `examples/levels.rs`).
fn strong() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(3)?;
    let parameters = [
        CParameter::WindowLog(21),
        CParameter::HashLog(17),
        CParameter::ChainLog(15),
        CParameter::MinMatch(6),
    ];
    parameters.into_iter().try_for_each(|parameter| compressor.set_parameter(parameter))?;
    Ok(compressor)
}

/// Room for length, tag and most paddings, so that the buffer need not move.
const SLACK_BYTES: usize = 16 << 10;
