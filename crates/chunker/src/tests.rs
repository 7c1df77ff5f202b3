//! Tests of both ways to cut: what every chunker promises, and that cuts never change.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const BOTH: [Privacy; 2] = [Privacy::Standard, Privacy::Hardened];
/// Small sizes, so that short inputs have many cuts.
const SMALL: Params = Params { min: 128, average: 512, max: 2048 };

/// Bytes without a pattern, the same every time.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
    bytes
}

fn chunker(privacy: Privacy, params: Params) -> Chunker {
    Chunker::new(privacy, &[7; 32], params)
}

fn cut(chunker: &Chunker, mut data: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(len) = chunker.next_cut(data, true) {
        lengths.push(len);
        data = &data[len..];
    }
    lengths
}

/// Cuts as a reader of a stream does: it holds back what has no cut yet.
fn cut_stream(chunker: &Chunker, data: &[u8], mut read_len: impl FnMut() -> usize) -> Vec<usize> {
    let (mut lengths, mut buffer, mut rest) = (Vec::new(), Vec::new(), data);
    loop {
        while let Some(len) = chunker.next_cut(&buffer, rest.is_empty()) {
            lengths.push(len);
            buffer.drain(..len);
        }
        if rest.is_empty() {
            return lengths;
        }
        let (read, behind) = rest.split_at(read_len().clamp(1, rest.len()));
        buffer.extend_from_slice(read);
        rest = behind;
    }
}

fn contents<'a>(chunker: &Chunker, data: &'a [u8]) -> HashSet<&'a [u8]> {
    let mut rest = data;
    let take = |len| rest.split_off(..len).expect("within");
    cut(chunker, data).into_iter().map(take).collect()
}

fn digest(lengths: &[usize]) -> String {
    let bytes: Vec<u8> = lengths.iter().flat_map(|len| (*len as u64).to_le_bytes()).collect();
    blake3::hash(&bytes).to_hex()[..16].to_string()
}

#[test]
fn cuts_of_fixed_bytes_are_fixed() {
    let data = noise(4 << 20);
    let standard = cut(&chunker(Privacy::Standard, Params::DEFAULT), &data);
    let hardened = cut(&chunker(Privacy::Hardened, Params::DEFAULT), &data);
    assert_eq!(format!("{:?}", &standard[..4]), "[164349, 151504, 76440, 118276]");
    assert_eq!(format!("{:?}", &hardened[..4]), "[161772, 194898, 150493, 118848]");
    assert_eq!(digest(&standard), "def053f2dd6d710b");
    assert_eq!(digest(&hardened), "bd31c68d2054b79c");
}

#[test]
fn the_mean_is_near_the_average() {
    for (privacy, params, len) in [
        (Privacy::Standard, Params::DEFAULT, 16 << 20),
        (Privacy::Hardened, Params::DEFAULT, 8 << 20),
        (Privacy::Standard, SMALL, 1 << 20),
    ] {
        let mean = len / cut(&chunker(privacy, params), &noise(len)).len();
        let average = params.average as usize;
        assert!(mean.abs_diff(average) * 4 < average, "{privacy:?}: {mean}");
    }
}

#[test]
fn bytes_inserted_at_the_front_change_few_chunks() {
    let data = noise(4 << 20);
    let shifted = [b"inserted".as_slice(), &data].concat();
    for privacy in BOTH {
        let chunker = chunker(privacy, Params::DEFAULT);
        let (before, after) = (contents(&chunker, &data), contents(&chunker, &shifted));
        let new = after.difference(&before).count();
        assert!(new <= 6, "{privacy:?}: {new} of {} chunks are new", after.len());
    }
}

#[test]
fn another_key_cuts_elsewhere() {
    let data = noise(4 << 20);
    for privacy in BOTH {
        let other = Chunker::new(privacy, &[8; 32], Params::DEFAULT);
        assert_ne!(cut(&other, &data), cut(&chunker(privacy, Params::DEFAULT), &data));
    }
}

#[test]
fn zeros_are_cut_at_the_same_length_again_and_again() {
    for privacy in BOTH {
        let lengths = cut(&chunker(privacy, Params::DEFAULT), &vec![0; 4 << 20]);
        assert!(lengths.windows(2).rev().skip(1).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn nothing_has_no_chunks_and_little_waits_for_more() {
    for privacy in BOTH {
        let chunker = chunker(privacy, SMALL);
        assert_eq!(chunker.next_cut(&[], true), None);
        assert_eq!(chunker.next_cut(&[], false), None);
        assert_eq!(chunker.next_cut(&[1; 100], true), Some(100));
        assert_eq!(chunker.next_cut(&[1; 100], false), None);
    }
}

#[test]
fn bytes_behind_the_longest_chunk_do_not_matter() {
    let data = noise(8192);
    for privacy in BOTH {
        let chunker = chunker(privacy, SMALL);
        assert_eq!(chunker.next_cut(&data, false), chunker.next_cut(&data[..2048], false));
    }
}

#[test]
fn every_context_string_stands_in_the_document() {
    let document = include_str!("../../../docs/CRYPTO.md");
    for context in [gear::CONTEXT, hardened::CONTEXT] {
        assert!(document.contains(&format!("`{context}`")), "{context} is undocumented");
    }
}

#[test]
fn threads_may_share_a_chunker() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Chunker>();
}

#[test]
fn senseless_sizes_are_told() {
    let valid = |min, average, max| Params { min, average, max }.is_valid();
    assert!(Params::DEFAULT.is_valid() && SMALL.is_valid());
    assert!(!valid(63, 512, 2048));
    assert!(!valid(512, 512, 2048));
    assert!(!valid(128, 500, 2048));
    assert!(!valid(128, 512, 512));
    assert!(!valid(0, 0, 0));
    assert!(!valid(64, 1 << 31, u32::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn chunks_are_within_limits_and_join_to_the_data(start in 0..4000usize, len in 0..40_000usize) {
        let all = noise(44_000);
        let data = &all[start..start + len];
        for privacy in BOTH {
            let lengths = cut(&chunker(privacy, SMALL), data);
            prop_assert_eq!(lengths.iter().sum::<usize>(), len);
            prop_assert!(lengths.iter().all(|len| *len <= 2048));
            prop_assert!(lengths.iter().rev().skip(1).all(|len| *len >= 128));
        }
    }

    #[test]
    fn a_stream_read_in_any_pieces_is_cut_like_the_whole(
        reads in proptest::collection::vec(1..9000usize, 1..20),
        quarters in 1..8usize,
    ) {
        let data = noise(quarters * 10_000);
        for privacy in BOTH {
            let chunker = chunker(privacy, SMALL);
            let mut next = reads.iter().copied().cycle();
            let streamed = cut_stream(&chunker, &data, || next.next().unwrap_or(1));
            prop_assert_eq!(streamed, cut(&chunker, &data));
        }
    }
}
