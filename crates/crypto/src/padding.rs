//! Padmé: lengths rounded up so that they tell O(log log n) bits, at a cost of at most 12 %.
//!
//! From "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs" (Nikitin,
//! Barman, Lueks, Underwood, Hubaux, Ford; PETS 2019), section 4.

/// The padded length of `len` bytes: the smallest number ≥ `len` whose mantissa is no longer than
/// its exponent. A length within 12 % of `u64::MAX` may have none and stays as it is.
pub fn padme(len: u64) -> u64 {
    let Some(exponent) = len.checked_ilog2().filter(|exponent| *exponent > 0) else {
        return len;
    };
    let mantissa_bits = exponent.ilog2() + 1;
    let mask = (1u64 << (exponent - mantissa_bits)) - 1;
    len.checked_add(mask).map_or(len, |sum| sum & !mask)
}

/// The padded length of `len` bytes in a `standard` repository: seven bits are kept, so that a
/// record says its length to within 1/128, at a cost of 0.4 % on average. Records gather many
/// chunks; where even this is too much to tell, `hardened` pads by [`padme`].
pub fn seven_bits(len: u64) -> u64 {
    let exponent = len.checked_ilog2().unwrap_or(0);
    let mask = (1u64 << exponent.saturating_sub(7)) - 1;
    len.checked_add(mask).map_or(len, |sum| sum & !mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_lengths() {
        let known = [(0, 0), (1, 1), (2, 2), (8, 8), (9, 10), (100, 104), (1000, 1024)];
        for (len, padded) in known {
            assert_eq!(padme(len), padded, "{len}");
        }
        assert_eq!(padme(131_073), 135_168); // 2^17 + 1 keeps 5 bits: the next multiple of 2^12
    }

    #[test]
    fn the_overhead_of_every_length_to_a_mebibyte_is_within_the_papers_bound() {
        for len in 1..=1u64 << 20 {
            let overhead = padme(len) - len;
            assert!(overhead * 100 <= len * 12, "{len}: {overhead}");
        }
    }

    #[test]
    fn seven_bits_cost_less_than_a_hundredth() {
        for len in (1..=4u64 << 20).step_by(997) {
            let padded = seven_bits(len);
            assert!(padded >= len && (padded - len) * 128 <= len, "{len}: {padded}");
            assert_eq!(seven_bits(padded), padded);
        }
    }

    #[test]
    fn few_lengths_remain() {
        let remaining: std::collections::BTreeSet<u64> = (1..=1u64 << 19).map(padme).collect();
        assert!(remaining.len() < 500, "{}", remaining.len());
    }

    proptest! {
        #[test]
        fn padding_never_shrinks_is_monotone_and_pads_nothing_twice(len in 0..u64::MAX) {
            prop_assert!(padme(len) >= len);
            prop_assert!(padme(len + 1) >= padme(len) || padme(len + 1) == len + 1);
            prop_assert_eq!(padme(padme(len)), padme(len));
        }
    }
}
