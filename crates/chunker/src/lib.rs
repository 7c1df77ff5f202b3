//! Content-defined cutting of files. Pure: bytes in, lengths out.
//!
//! A cut stands where the last 64 bytes say so, under a key. Equal content is therefore cut alike
//! at any offset, and without the key nobody can tell where. There are two algorithms, chosen once for
//! each repository: [`Privacy::Standard`] is fast (`gear.rs`); [`Privacy::Hardened`] leaks nothing
//! of the key through the lengths (`hardened.rs`). What each promises: `docs/CRYPTO.md`.

mod gear;
mod hardened;
mod polynomial;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use gear::Gear;
use hardened::Hardened;

/// Bytes that decide whether there is a cut after them.
const WINDOW: usize = 64;

/// Sizes of chunks in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// No chunk but a file's last is shorter. At least 64.
    pub min: u32,
    /// Mean size aimed at; a power of two of at least 256.
    pub average: u32,
    /// No chunk is longer.
    pub max: u32,
}

/// The largest `max` that a repository may ask for: 64 MiB. Readers allocate up to this.
pub const MAX_CHUNK_LEN: u32 = 64 << 20;

impl Params {
    /// 32 KiB, 128 KiB, 512 KiB.
    pub const DEFAULT: Self = Self { min: 32 << 10, average: 128 << 10, max: 512 << 10 };

    /// Whether [`Chunker::new`] accepts them. Check parameters from a file first.
    pub fn is_valid(self) -> bool {
        let ordered = self.min <= self.average / 2 && self.average <= self.max / 2;
        let bounded = self.min as usize >= WINDOW && self.max <= MAX_CHUNK_LEN;
        ordered && bounded && self.average.is_power_of_two() && self.average >= 256
    }

    /// Where the search turns from hard to easy. A little below the average, since the easy part
    /// adds a quarter of it to what gets there.
    fn center(self) -> usize {
        (self.average - self.average / 8) as usize
    }

    fn average_bits(self) -> u32 {
        self.average.ilog2()
    }
}

impl Default for Params {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How much the lengths of chunks may reveal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privacy {
    /// Fast; somebody who sees the lengths of chunks of known files can compute the key.
    Standard,
    /// Slower; lengths reveal nothing about the key.
    Hardened,
}

#[derive(Clone)]
enum Kind {
    Standard(Arc<Gear>),
    Hardened(Arc<Hardened>),
}

/// Finds where to cut. Cheap to clone; may be shared between threads.
#[derive(Clone)]
pub struct Chunker {
    params: Params,
    kind: Kind,
}

impl Chunker {
    /// A chunker that cuts by `key`.
    ///
    /// # Panics
    /// When `params` are not [valid](Params::is_valid).
    pub fn new(privacy: Privacy, key: &[u8; 32], params: Params) -> Self {
        assert!(params.is_valid(), "chunk sizes must be checked before: {params:?}");
        let kind = match privacy {
            Privacy::Standard => Kind::Standard(Arc::new(Gear::new(key, params))),
            Privacy::Hardened => Kind::Hardened(Arc::new(Hardened::new(key, params))),
        };
        Self { params, kind }
    }

    /// Its parameters.
    pub fn params(&self) -> Params {
        self.params
    }

    /// Length of the first chunk of `data`, which starts where the last chunk ended.
    ///
    /// `None` when that takes more data (only when `!at_end` and `data.len() < max`), or when
    /// `data` is empty. Each call starts the search again: pass at least `max` bytes at a time
    /// where there are as many.
    pub fn next_cut(&self, data: &[u8], at_end: bool) -> Option<usize> {
        let seen = &data[..data.len().min(self.params.max as usize)];
        let whole = at_end || data.len() >= self.params.max as usize;
        let rest = (whole && !seen.is_empty()).then_some(seen.len());
        self.find(seen).or(rest)
    }

    /// The first cut in `seen`, if there is one.
    fn find(&self, seen: &[u8]) -> Option<usize> {
        let (min, center) = (self.params.min as usize, self.params.center());
        if seen.len() <= min {
            return None;
        }
        let turn = seen.len().min(center);
        let hard = self.search(seen, min, turn, Part::Hard);
        hard.or_else(|| self.search(seen, turn, seen.len(), Part::Easy))
    }

    /// The first cut `n` with `first <= n < last`.
    fn search(&self, data: &[u8], first: usize, last: usize, part: Part) -> Option<usize> {
        match &self.kind {
            Kind::Standard(gear) => gear.search(data, first, last, part),
            Kind::Hardened(hardened) => hardened.search(data, first, last, part),
        }
    }
}

/// FastCDC's normalized chunking, level 2: cuts are four times rarer than the average before the
/// center and four times as common behind it, so that sizes gather around the average.
#[derive(Clone, Copy)]
enum Part {
    Hard,
    Easy,
}

impl Part {
    /// Bits of a decision that must be zero.
    fn bits(self, params: Params) -> u32 {
        match self {
            Self::Hard => params.average_bits() + 2,
            Self::Easy => params.average_bits() - 2,
        }
    }
}
