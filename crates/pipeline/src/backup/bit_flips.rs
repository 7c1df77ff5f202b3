//! Tests only: memory that flips a bit between the hashing of a chunk and its sealing. A faulty
//! compressor looks the same from here; `seal` has its own tests for it.

use std::borrow::Cow;

/// A bit is flipped in chunks that begin like this.
const UNLUCKY: &[u8] = b"this chunk was named, and then it lost a bit";

/// A chunk as it is read from the faulty memory.
pub(super) fn flip_bit_of_chunk(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.starts_with(UNLUCKY) {
        return bytes.into();
    }
    let mut lost = bytes.to_vec();
    lost[UNLUCKY.len()] ^= 1;
    lost.into()
}

/// A bit is flipped in manifests with this tag.
const UNLUCKY_TAG: &str = "unlucky-manifest";

/// The body of a manifest as it is read from the faulty memory.
pub(crate) fn flip_bit_of_manifest(bytes: &[u8]) -> Cow<'_, [u8]> {
    let tag = UNLUCKY_TAG.as_bytes();
    let Some(at) = bytes.windows(tag.len()).position(|part| part == tag) else {
        return bytes.into();
    };
    let mut lost = bytes.to_vec();
    lost[at] ^= 1;
    lost.into()
}

mod tests;
