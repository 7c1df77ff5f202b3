//! Standard: keyed Gear. A byte shifts the hash left by one and adds its random number, so that a
//! byte has left the 64-bit hash after 64 steps: the window costs nothing.

use crate::{Params, Part, WINDOW};

pub(crate) const CONTEXT: &str = "icecore 2026 gear table v1";
/// Places that one lane searches at a time. Small, since what lies behind a cut is hashed in vain.
const LANE: usize = 1024;
/// One step needs the result of the step before; four lanes keep the processor busy meanwhile.
const LANES: usize = 4;
const BLOCK: usize = LANE * LANES;

pub(crate) struct Gear {
    table: [u64; 256],
    hard: u64,
    easy: u64,
}

impl Gear {
    pub(crate) fn new(key: &[u8; 32], params: Params) -> Self {
        let mask = |part: Part| spread(part.bits(params));
        Self { table: table(key), hard: mask(Part::Hard), easy: mask(Part::Easy) }
    }

    /// The first cut `n` with `first <= n < last`; there are at least 64 bytes before `first`.
    pub(crate) fn search(
        &self,
        data: &[u8],
        first: usize,
        last: usize,
        part: Part,
    ) -> Option<usize> {
        let mask = match part {
            Part::Hard => self.hard,
            Part::Easy => self.easy,
        };
        let mut at = first;
        while last - at >= BLOCK {
            if self.block_has_cut(data, at, mask) {
                return self.one_by_one(data, at, last, mask);
            }
            at += BLOCK;
        }
        self.one_by_one(data, at, last, mask)
    }

    /// Whether there is a cut in the `BLOCK` places from `first` on. Which is the first of them is
    /// left to `one_by_one`: it happens once for each chunk.
    fn block_has_cut(&self, data: &[u8], first: usize, mask: u64) -> bool {
        let lane = |i: usize| &data[first + i * LANE - 1..first + (i + 1) * LANE - 1];
        let mut hashes: [u64; LANES] = std::array::from_fn(|i| self.warm(data, first + i * LANE));
        let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
        for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
            hashes[0] = self.step(hashes[0], *a);
            hashes[1] = self.step(hashes[1], *b);
            hashes[2] = self.step(hashes[2], *c);
            hashes[3] = self.step(hashes[3], *d);
            if hashes.iter().any(|hash| hash & mask == 0) {
                return true;
            }
        }
        false
    }

    fn one_by_one(&self, data: &[u8], first: usize, last: usize, mask: u64) -> Option<usize> {
        let mut hash = self.warm(data, first);
        let found = data[first - 1..last - 1].iter().position(|byte| {
            hash = self.step(hash, *byte);
            hash & mask == 0
        });
        found.map(|place| first + place)
    }

    /// The hash of all of the window but its last byte, for a cut at `n`.
    fn warm(&self, data: &[u8], n: usize) -> u64 {
        data[n - WINDOW..n - 1].iter().fold(0, |hash, byte| self.step(hash, *byte))
    }

    #[inline(always)]
    fn step(&self, hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(self.table[usize::from(byte)])
    }
}

fn table(key: &[u8; 32]) -> [u64; 256] {
    let mut random = blake3::Hasher::new_derive_key(CONTEXT).update(key).finalize_xof();
    std::array::from_fn(|_| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    })
}

/// A mask of `bits` ones: every second bit from the top, where a bit hangs on most bytes of the
/// window. `spread(n)` is part of `spread(n + 1)`.
fn spread(bits: u32) -> u64 {
    (0..bits).fold(0, |mask, i| mask | 1 << (63 - 2 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_as_many_ones_as_asked_and_nest() {
        assert_eq!(spread(2), 0b101 << 61);
        for bits in 1..28 {
            assert_eq!(spread(bits).count_ones(), bits);
            assert_eq!(spread(bits) & spread(bits + 1), spread(bits));
        }
    }

    #[test]
    fn lanes_find_what_one_by_one_finds() {
        let gear = Gear::new(&[1; 32], Params::DEFAULT);
        let data = crate::tests::noise(1 << 20);
        for first in (64..1 << 19).step_by(7777) {
            let mask = spread(14);
            let slow = gear.one_by_one(&data, first, data.len(), mask);
            let gear = Gear { easy: mask, table: gear.table, hard: 0 };
            assert_eq!(gear.search(&data, first, data.len(), Part::Easy), slow);
        }
    }
}
