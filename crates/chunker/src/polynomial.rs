//! Polynomials over GF(2) of degree 64, secret and irreducible: Rabin's rolling fingerprint.
//!
//! Two different windows of 512 bits have the same remainder for at most 512 / 64 = 8 of the
//! about 2^64 / 64 = 2^58 irreducible polynomials, so for a random one with probability 2^-55.

use crate::WINDOW;

/// A polynomial of degree 64 without its leading term: bit i stands for x^i.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Polynomial(u64);

impl Polynomial {
    /// The first irreducible polynomial among random candidates. One in 32 odd ones is, so that
    /// the search ends after a few dozen.
    pub(crate) fn draw(mut random: impl FnMut() -> u64) -> Self {
        loop {
            // Without the constant term x would be a factor.
            let candidate = Self(random() | 1);
            if candidate.is_irreducible() {
                return candidate;
            }
        }
    }

    /// Rabin's test for degree 64 = 2^6, whose only prime factor is 2: x^(2^64) = x, and
    /// x^(2^32) - x has no factor in common with the polynomial.
    fn is_irreducible(self) -> bool {
        const X: u64 = 2;
        let half = self.square_times(X, 32);
        self.square_times(half, 32) == X && self.is_coprime_to(half ^ X)
    }

    fn square_times(self, value: u64, times: u32) -> u64 {
        (0..times).fold(value, |value, _| self.multiply(value, value))
    }

    fn multiply(self, a: u64, b: u64) -> u64 {
        (0..64).rev().fold(0, |product, bit| self.times_x(product) ^ (a * (b >> bit & 1)))
    }

    fn times_x(self, value: u64) -> u64 {
        (value << 1) ^ (self.0 * (value >> 63))
    }

    /// Euclid's algorithm.
    fn is_coprime_to(self, other: u64) -> bool {
        let (mut a, mut b) = (1 << 64 | u128::from(self.0), u128::from(other));
        while b != 0 {
            (a, b) = (b, remainder(a, b));
        }
        a == 1
    }

    /// What the eight bits that a step shifts out at the top come back as.
    pub(crate) fn reduce_table(self) -> [u64; 256] {
        std::array::from_fn(|top| self.shift_bytes((top as u64) << 56, 1))
    }

    /// What a byte has become when it leaves the window: its value times x^(8·64).
    pub(crate) fn leave_table(self) -> [u64; 256] {
        std::array::from_fn(|byte| self.shift_bytes(byte as u64, WINDOW))
    }

    fn shift_bytes(self, value: u64, bytes: usize) -> u64 {
        (0..bytes * 8).fold(value, |value, _| self.times_x(value))
    }
}

fn remainder(mut a: u128, b: u128) -> u128 {
    while a != 0 && a.ilog2() >= b.ilog2() {
        a ^= b << (a.ilog2() - b.ilog2());
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_irreducible_polynomial_is_one() {
        assert!(Polynomial(0b11011).is_irreducible()); // x^64 + x^4 + x^3 + x + 1
    }

    #[test]
    fn products_are_not_irreducible() {
        assert!(!Polynomial(1).is_irreducible()); // x^64 + 1 = (x + 1)^64
        assert!(!Polynomial(0).is_irreducible()); // x^64
        assert!(!Polynomial(1 << 32 | 1).is_irreducible()); // (x^32 + x^16 + 1)^2
        assert!(!Polynomial(0b11011 ^ 2).is_irreducible()); // an even number of terms: x + 1 divides
    }

    #[test]
    fn one_in_thirty_two_odd_polynomials_is_irreducible() {
        let mut random = blake3::Hasher::new().finalize_xof();
        let mut next = || {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            Polynomial(u64::from_le_bytes(bytes) | 1)
        };
        let found = (0..1600).filter(|_| next().is_irreducible()).count();
        assert!((25..90).contains(&found), "{found}");
    }

    #[test]
    fn a_byte_leaves_as_its_table_says() {
        let polynomial = Polynomial(0b11011);
        let (reduce, leave) = (polynomial.reduce_table(), polynomial.leave_table());
        let shift = |hash: u64| hash << 8 ^ reduce[(hash >> 56) as usize];
        assert_eq!((0..WINDOW).fold(0xa5, |hash, _| shift(hash)), leave[0xa5]);
    }
}
