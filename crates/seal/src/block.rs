//! Blocks of objects, and their compression.

use crate::{Error, Result};
use format::limits::RECORD_OBJECTS_MAX;
use format::page::{Page, put_head};
use format::record::{Codec, RecordKind};
use ids::ObjectId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// The objects for one record.
pub struct Block {
    kind: RecordKind,
    pub(crate) ids: Vec<ObjectId>,
    pub(crate) clear: Vec<u8>,
    /// Length of each object's part of `clear`.
    heads: Vec<u32>,
    payloads: Vec<u8>,
    lengths: Vec<u8>,
    similarity: Similarity,
}

impl Block {
    /// An empty block of chunks or pages.
    pub fn new(kind: RecordKind) -> Self {
        let (ids, clear, heads, payloads, lengths) = Default::default();
        Self { kind, ids, clear, heads, payloads, lengths, similarity: Similarity::default() }
    }

    /// An empty block for the next objects of the same source.
    pub fn successor(&self) -> Self {
        Self { similarity: self.similarity.clone(), ..Self::new(self.kind) }
    }

    /// The kind of its objects.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Its size in bytes.
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
        self.push(id, ObjectId::LEN, bytes);
    }

    /// Adds a page.
    pub fn push_page(&mut self, id: ObjectId, page: &Page) {
        let before = self.clear.len();
        put_head(&mut self.clear, page.kind, id, &page.refs);
        self.push(id, self.clear.len() - before, &page.payload);
    }

    /// Empties it; its memory is used again.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.clear.clear();
        self.heads.clear();
        self.payloads.clear();
        self.lengths.clear();
    }

    /// The ids of its objects, in order.
    pub fn ids(&self) -> &[ObjectId] {
        &self.ids
    }

    /// Whether the objects of `other` fit, by their count.
    pub fn has_room_for(&self, other: &Self) -> bool {
        self.len() + other.len() <= RECORD_OBJECTS_MAX
    }

    /// Moves all objects of `other`, of the same kind, behind those of this.
    pub fn append(&mut self, other: &mut Self) {
        self.ids.append(&mut other.ids);
        self.clear.append(&mut other.clear);
        self.heads.append(&mut other.heads);
        self.payloads.append(&mut other.payloads);
        self.lengths.append(&mut other.lengths);
    }

    /// Keeps the objects for which `keep` has `true`, by their position.
    pub fn retain(&mut self, keep: &[bool]) {
        if keep.iter().all(|keep| *keep) {
            return;
        }
        let heads: Vec<usize> = self.heads.iter().map(|bytes| *bytes as usize).collect();
        let lengths = self.lengths.as_chunks::<4>().0.iter();
        let payloads: Vec<usize> =
            lengths.map(|bytes| u32::from_le_bytes(*bytes) as usize).collect();
        retain_parts(&mut self.clear, &heads, keep);
        retain_parts(&mut self.payloads, &payloads, keep);
        retain_parts(&mut self.lengths, &vec![4; keep.len()], keep);
        let mut kept = keep.iter();
        self.ids.retain(|_| kept.next() == Some(&true));
        let mut kept = keep.iter();
        self.heads.retain(|_| kept.next() == Some(&true));
    }

    fn push(&mut self, id: ObjectId, head_bytes: usize, bytes: &[u8]) {
        self.heads.push(head_bytes as u32);
        self.ids.push(id);
        self.payloads.extend_from_slice(bytes);
        self.lengths.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    }

    /// The plaintext (payloads, then their lengths), and what it is like.
    pub(crate) fn plaintext(&mut self) -> (&[u8], &Similarity) {
        self.payloads.append(&mut self.lengths);
        (&self.payloads, &self.similarity)
    }
}

/// Keeps of the parts of `bytes`, whose lengths are `lengths`, those that `keep` says.
fn retain_parts(bytes: &mut Vec<u8>, lengths: &[usize], keep: &[bool]) {
    let (mut from, mut to) = (0, 0);
    for (length, keep) in lengths.iter().zip(keep) {
        if *keep {
            bytes.copy_within(from..from + length, to);
            to += length;
        }
        from += length;
    }
    bytes.truncate(to);
}

/// How hard to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By the result: fast where that compresses nearly as well (source code, data that does not compress), harder
    /// where that pays (text, logs, dumps).
    Auto,
    /// A level of Zstandard, from -7 to 19.
    Fixed(i32),
}

/// Compresses blocks; keeps its tables between calls.
pub struct BlockCompressor {
    quick: Compressor<'static>,
    /// For data on which the harder search pays.
    strong: Option<Compressor<'static>>,
    /// For when bytes are dear: see [`BlockCompressor::set_auto_step`].
    harder: Option<Compressor<'static>>,
    step: u8,
}

/// Levels of Zstandard for the steps from 1 on.
const AUTO_STEP_LEVELS: [i32; 3] = [4, 7, 11];
/// The highest step.
pub const AUTO_STEP_MAX: u8 = AUTO_STEP_LEVELS.len() as u8;

/// How well the last block of a source compressed: neighbors are alike. Blocks of one source may
/// be packed by several threads.
#[derive(Clone, Default)]
pub(crate) struct Similarity(Arc<AtomicU8>);

impl Similarity {
    fn is(&self, kind: Kind) -> bool {
        self.0.load(Ordering::Relaxed) == kind as u8
    }

    fn set(&self, kind: Kind) {
        self.0.store(kind as u8, Ordering::Relaxed);
    }
}

/// How well data compresses.
#[derive(Clone, Copy)]
enum Kind {
    /// The quick search did nearly all, or no search does much.
    Quick,
    /// The harder search pays.
    Strong,
    /// Media, archives, what is encrypted: not at all.
    Noise,
}

/// Compresses to less than this share (in per cent): the quick search did nearly all.
const QUICK_BELOW_PERCENT: usize = 25;
/// Hardly compresses: no search does much.
const QUICK_ABOVE_PERCENT: usize = 90;
/// Does not compress.
const NOISE_PERCENT: usize = 98;
/// After noise, this many samples of this many bytes tell whether there is more of it.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 4096;

impl BlockCompressor {
    /// A compressor for `level`.
    pub fn new(level: Level) -> Result<Self> {
        let (quick, strong) = match level {
            Level::Auto => (Compressor::new(1), Some(strong())),
            Level::Fixed(level) => (Compressor::new(level), None),
        };
        let quick = quick.map_err(|_| Error::Compress)?;
        let strong = strong.transpose().map_err(|_| Error::Compress)?;
        Ok(Self { quick, strong, harder: None, step: 0 })
    }

    /// Sets how much bytes cost compared with time: from 0, at which only the data decides, to [`AUTO_STEP_MAX`]. Has
    /// an effect only with [`Level::Auto`].
    pub fn set_auto_step(&mut self, step: u8) -> Result<()> {
        let step = if self.strong.is_some() { step.min(AUTO_STEP_MAX) } else { 0 };
        if step == self.step {
            return Ok(());
        }
        let level = step.checked_sub(1).map(|at| AUTO_STEP_LEVELS[usize::from(at)]);
        let harder = level.map(Compressor::new).transpose();
        self.harder = harder.map_err(|_| Error::Compress)?;
        self.step = step;
        Ok(())
    }

    /// Compresses with what did well on the block before, and notes how well it did.
    fn compress(&mut self, plain: &[u8], similar: &Similarity, out: &mut Vec<u8>) -> Result<usize> {
        let compressor = match (&mut self.harder, &mut self.strong) {
            (Some(harder), _) => harder,
            (_, Some(strong)) if similar.is(Kind::Strong) => strong,
            _ => &mut self.quick,
        };
        let packed = compressor.compress_to_buffer(plain, out).map_err(|_| Error::Compress)?;
        similar.set(match packed * 100 / plain.len().max(1) {
            NOISE_PERCENT.. => Kind::Noise,
            QUICK_BELOW_PERCENT..QUICK_ABOVE_PERCENT => Kind::Strong,
            _ => Kind::Quick,
        });
        Ok(packed)
    }

    /// Whether `plain` is noise like the block before it: then nobody searches it all.
    fn is_more_noise(
        &mut self,
        plain: &[u8],
        similar: &Similarity,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let stride = plain.len() / SAMPLES;
        if self.strong.is_none() || !similar.is(Kind::Noise) || stride < SAMPLE_BYTES {
            return Ok(false);
        }
        for sample in plain.chunks(stride).map(|part| &part[..SAMPLE_BYTES.min(part.len())]) {
            out.clear();
            let packed = self.quick.compress_to_buffer(sample, out).map_err(|_| Error::Compress)?;
            if packed * 100 < sample.len() * NOISE_PERCENT {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts `plain` into `out` by the codec that is returned: raw unless compressing saves 3 %.
    pub(crate) fn pack(
        &mut self,
        plain: &[u8],
        similar: &Similarity,
        out: &mut Vec<u8>,
    ) -> Result<Codec> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(plain.len()) + SLACK_BYTES);
        if !self.is_more_noise(plain, similar, out)? {
            out.clear();
            let packed = self.compress(plain, similar, out)?;
            if packed < plain.len() - plain.len() / 32 {
                return Ok(Codec::Zstd);
            }
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
