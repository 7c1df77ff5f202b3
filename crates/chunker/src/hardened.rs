//! Hardened: a universal hash of the window, then AES-128. A cut stands where low bits are zero.
//!
//! Every rolling hash that decides by itself gives one equation in its key with each cut that is
//! seen (Truong et al., CCS 2025, broke five backup systems by that). Here AES stands between:
//! decisions look random as long as no two different windows have the same hash. Two independent
//! fingerprints fill an AES block, so that two windows collide with probability 2^-110; among
//! 2^50 places (1 PiB cut with one key) some two collide with probability 2^-11.

use aws_lc_rs::cipher::{AES_128, StreamingEncryptingKey, UnboundCipherKey};

use crate::polynomial::Polynomial;
use crate::{Params, Part, WINDOW};

pub(crate) const CONTEXT: &str = "icecore 2026 hardened chunker v1";
const AES_LEN: usize = 16;
/// Places that are decided together: 4 KiB for AES at a time.
const BATCH: usize = 256;
/// A hash needs the one before; a second lane keeps the processor busy meanwhile.
const LANES: usize = 2;
/// Places of one lane before the lanes move on: long against the 64 steps that start a lane, short
/// against a chunk.
const SPAN: usize = 2048;

pub(crate) struct Hardened {
    fingerprints: [Fingerprint; 2],
    aes_key: [u8; AES_LEN],
    params: Params,
}

struct Fingerprint {
    reduce: [u64; 256],
    leave: [u64; 256],
}

impl Fingerprint {
    fn new(polynomial: Polynomial) -> Self {
        Self { reduce: polynomial.reduce_table(), leave: polynomial.leave_table() }
    }

    #[inline(always)]
    fn step(&self, hash: u64, enters: u8, leaves: u8) -> u64 {
        let shifted = hash << 8 | u64::from(enters);
        shifted ^ self.reduce[(hash >> 56) as usize] ^ self.leave[usize::from(leaves)]
    }

    /// The hash of the `WINDOW` bytes before place `n`.
    fn at(&self, data: &[u8], n: usize) -> u64 {
        data[n - WINDOW..n].iter().fold(0, |hash, byte| self.step(hash, *byte, 0))
    }
}

impl Hardened {
    pub(crate) fn new(key: &[u8; 32], params: Params) -> Self {
        let mut random = blake3::Hasher::new_derive_key(CONTEXT).update(key).finalize_xof();
        let mut aes_key = [0; AES_LEN];
        random.fill(&mut aes_key);
        let mut next = || {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            u64::from_le_bytes(bytes)
        };
        let fingerprints = std::array::from_fn(|_| Fingerprint::new(Polynomial::draw(&mut next)));
        Self { fingerprints, aes_key, params }
    }

    /// The first cut `n` with `first <= n < last`; there are at least 64 bytes before `first`.
    pub(crate) fn search(
        &self,
        data: &[u8],
        first: usize,
        last: usize,
        part: Part,
    ) -> Option<usize> {
        Search::new(self, data, part).run(first, last)
    }

    /// The hashes of the next place.
    #[inline(always)]
    fn step(&self, hashes: Hashes, enters: u8, leaves: u8) -> Hashes {
        let [one, two] = &self.fingerprints;
        [one.step(hashes[0], enters, leaves), two.step(hashes[1], enters, leaves)]
    }

    fn aes(&self) -> StreamingEncryptingKey {
        let key = UnboundCipherKey::new(&AES_128, &self.aes_key).expect("a 16-byte key");
        StreamingEncryptingKey::ecb_pkcs7(key).expect("AES-128 in ECB mode exists")
    }
}

/// A search under way.
struct Search<'a> {
    chunker: &'a Hardened,
    data: &'a [u8],
    aes: StreamingEncryptingKey,
    mask: u32,
    blocks: [[u8; AES_LEN]; BATCH],
    decisions: [u8; (BATCH + 1) * AES_LEN],
}

/// The hashes of the next place.
type Hashes = [u64; 2];

impl<'a> Search<'a> {
    fn new(chunker: &'a Hardened, data: &'a [u8], part: Part) -> Self {
        Self {
            chunker,
            data,
            aes: chunker.aes(),
            mask: (1 << part.bits(chunker.params)) - 1,
            blocks: [[0; AES_LEN]; BATCH],
            decisions: [0; (BATCH + 1) * AES_LEN],
        }
    }

    fn run(&mut self, first: usize, last: usize) -> Option<usize> {
        let mut at = first;
        while last - at >= LANES * SPAN {
            if let Some(cut) = self.side_by_side(at) {
                return Some(cut);
            }
            at += LANES * SPAN;
        }
        self.one_lane(at, last)
    }

    /// The first cut in the `LANES * SPAN` places from `first` on. The second lane's first cut
    /// waits until the first lane has found none.
    fn side_by_side(&mut self, first: usize) -> Option<usize> {
        let mut hashes = [self.warm(first), self.warm(first + SPAN)];
        let mut later = None;
        for at in (first..first + SPAN).step_by(BATCH / LANES) {
            self.hash_lanes(at, &mut hashes);
            self.decide(BATCH);
            if let Some(place) = self.first_cut(0, BATCH / LANES) {
                return Some(at + place);
            }
            let second = || self.first_cut(BATCH / LANES, BATCH).map(|place| at + SPAN + place);
            later = later.or_else(second);
        }
        later
    }

    fn one_lane(&mut self, first: usize, last: usize) -> Option<usize> {
        let mut hashes = self.warm(first);
        (first..last).step_by(BATCH).find_map(|at| {
            let count = BATCH.min(last - at);
            self.hash_lane(at, count, &mut hashes);
            self.decide(count);
            self.first_cut(0, count).map(|place| at + place)
        })
    }

    fn warm(&self, place: usize) -> Hashes {
        [0, 1].map(|i| self.chunker.fingerprints[i].at(self.data, place))
    }

    /// Encrypts the first `count` blocks. The mode is bulk encryption of single blocks: every one
    /// is decided for itself.
    fn decide(&mut self, count: usize) {
        let blocks = self.blocks[..count].as_flattened();
        self.aes.update(blocks, &mut self.decisions).expect("room for every block");
    }

    /// The first decision for a cut among the blocks `from..to`, counted from `from`.
    fn first_cut(&self, from: usize, to: usize) -> Option<usize> {
        let low = |block: &[u8]| u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        let mut decisions = self.decisions[from * AES_LEN..to * AES_LEN].chunks_exact(AES_LEN);
        decisions.position(|block| low(block) & self.mask == 0)
    }

    /// Fills the first `count` blocks with the hashes of the places from `first` on.
    fn hash_lane(&mut self, first: usize, count: usize, hashes: &mut Hashes) {
        let (enters, leaves) = self.moves(first, count);
        for i in 0..count {
            self.blocks[i] = block(*hashes);
            *hashes = self.chunker.step(*hashes, enters[i], leaves[i]);
        }
    }

    /// Fills one half of the blocks from `first` on, the other from `first + SPAN` on. Indices
    /// instead of iterators: this loop is most of the cost, and twice as slow in a build that
    /// does not inline iterators.
    fn hash_lanes(&mut self, first: usize, hashes: &mut [Hashes; LANES]) {
        const COUNT: usize = BATCH / LANES;
        let (enters_a, leaves_a) = self.moves(first, COUNT);
        let (enters_b, leaves_b) = self.moves(first + SPAN, COUNT);
        let [mut a, mut b] = *hashes;
        for i in 0..COUNT {
            self.blocks[i] = block(a);
            self.blocks[COUNT + i] = block(b);
            a = self.chunker.step(a, enters_a[i], leaves_a[i]);
            b = self.chunker.step(b, enters_b[i], leaves_b[i]);
        }
        *hashes = [a, b];
    }

    /// The bytes that enter and leave the window behind each of `count` places from `first` on.
    fn moves(&self, first: usize, count: usize) -> (&'a [u8], &'a [u8]) {
        let leaves = &self.data[first - WINDOW..first - WINDOW + count];
        (&self.data[first..first + count], leaves)
    }
}

/// What AES encrypts for a place.
#[inline(always)]
fn block([a, b]: Hashes) -> [u8; AES_LEN] {
    (u128::from(b) << 64 | u128::from(a)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_hangs_on_its_window_alone() {
        let hardened = Hardened::new(&[1; 32], Params::DEFAULT);
        let data = crate::tests::noise(4096);
        let search = Search::new(&hardened, &data, Part::Easy);
        let (enters, leaves) = search.moves(64, 3900);
        let mut rolled = search.warm(64);
        for i in 0..3900 {
            assert_eq!(rolled, search.warm(64 + i));
            rolled = hardened.step(rolled, enters[i], leaves[i]);
        }
    }

    #[test]
    fn two_lanes_find_what_one_finds() {
        let params = Params { min: 64, average: 4096, max: 1 << 20 };
        let hardened = Hardened::new(&[1; 32], params);
        let data = crate::tests::noise(1 << 17);
        let mut search = Search::new(&hardened, &data, Part::Hard);
        for first in (64..data.len() - 100).step_by(1777) {
            assert_eq!(search.run(first, data.len()), search.one_lane(first, data.len()));
        }
    }
}
