//! Tests only: memory that loses a bit between the naming of a chunk and its sealing. A compressor
//! that lies looks the same from here; `seal` has tests of its own for it.

use std::borrow::Cow;

/// Chunks that begin so lose a bit on their way.
const UNLUCKY: &[u8] = b"this chunk was named, and then it lost a bit";

/// The bytes as they come out of the memory.
pub(super) fn flip_bit_of_chunk(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.starts_with(UNLUCKY) {
        return bytes.into();
    }
    let mut lost = bytes.to_vec();
    lost[UNLUCKY.len()] ^= 1;
    lost.into()
}

/// In the tags of a backup whose manifest loses a bit.
const UNLUCKY_TAG: &str = "unlucky-manifest";

/// The body of a manifest as it comes out of the memory.
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
