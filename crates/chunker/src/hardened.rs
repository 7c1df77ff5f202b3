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

const CONTEXT: &str = "icecore 2026 hardened chunker v1";
const AES_LEN: usize = 16;
/// Places that are decided together: 4 KiB for AES at a time.
const BATCH: usize = 256;

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
        let mut search = Search::new(self, data, first, part);
        (first..last).step_by(BATCH).find_map(|at| search.batch(at, last.min(at + BATCH)))
    }

    fn aes(&self) -> StreamingEncryptingKey {
        let key = UnboundCipherKey::new(&AES_128, &self.aes_key).expect("a 16-byte key");
        StreamingEncryptingKey::ecb_pkcs7(key).expect("AES-128 in ECB mode exists")
    }
}

/// A search under way: the hashes just before the next place.
struct Search<'a> {
    chunker: &'a Hardened,
    data: &'a [u8],
    aes: StreamingEncryptingKey,
    mask: u32,
    hashes: [u64; 2],
    blocks: [u8; BATCH * AES_LEN],
    decisions: [u8; (BATCH + 1) * AES_LEN],
}

impl<'a> Search<'a> {
    fn new(chunker: &'a Hardened, data: &'a [u8], first: usize, part: Part) -> Self {
        let hashes = [0, 1].map(|i| chunker.fingerprints[i].at(data, first));
        Self {
            chunker,
            data,
            aes: chunker.aes(),
            mask: (1 << part.bits(chunker.params)) - 1,
            hashes,
            blocks: [0; BATCH * AES_LEN],
            decisions: [0; (BATCH + 1) * AES_LEN],
        }
    }

    /// The first cut `n` with `first <= n < last`, at most a batch of places.
    fn batch(&mut self, first: usize, last: usize) -> Option<usize> {
        self.hash(first, last);
        let used = (last - first) * AES_LEN;
        // The mode is bulk encryption of single blocks: every block is decided for itself.
        self.aes.update(&self.blocks[..used], &mut self.decisions).expect("room for every block");
        let low = |block: &[u8]| u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        let mut decisions = self.decisions[..used].chunks_exact(AES_LEN);
        decisions.position(|block| low(block) & self.mask == 0).map(|place| first + place)
    }

    /// Fills `blocks` with the hashes of the places, and goes one step further.
    fn hash(&mut self, first: usize, last: usize) {
        let [one, two] = &self.chunker.fingerprints;
        let [mut a, mut b] = self.hashes;
        let leaves = &self.data[first - WINDOW..last - WINDOW];
        let moves = self.data[first..last].iter().zip(leaves);
        for (block, (enters, leaves)) in self.blocks.chunks_exact_mut(AES_LEN).zip(moves) {
            block[..8].copy_from_slice(&a.to_le_bytes());
            block[8..].copy_from_slice(&b.to_le_bytes());
            a = one.step(a, *enters, *leaves);
            b = two.step(b, *enters, *leaves);
        }
        self.hashes = [a, b];
    }
}
