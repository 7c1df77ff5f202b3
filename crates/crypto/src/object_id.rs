//! Names of chunks and pages: keyed BLAKE3 of type and plaintext, cut to 24 bytes, of which the
//! last bit tells the type, so that pages and chunks can be told apart without a key.
//!
//! The type is bound by a key of its own, not by a prefix: hashing then reads the plaintext where
//! it lies. Spoofing an object of one type as another broke two other systems (CVE-2016-10099,
//! CVE-2023-36811).

use ids::ObjectId;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::context::{self, derive};

/// Makes the ids of one dedup domain. Its holder can confirm a guess of a plaintext, and no more.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct IdKey {
    seed: [u8; 32],
    chunk: [u8; 32],
    page: [u8; 32],
}

impl IdKey {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        let chunk = *derive(context::CHUNK_ID, &[&seed]);
        let page = *derive(context::PAGE_ID, &[&seed]);
        Self { seed, chunk, page }
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The id of a chunk of file content.
    pub fn chunk_id(&self, plaintext: &[u8]) -> ObjectId {
        shorten(blake3::keyed_hash(&self.chunk, plaintext), false)
    }

    /// The id of a page: its kind, the ids it refers to in order, and its payload. The count of
    /// ids is hashed before them, so that an id cannot move into the payload unnoticed.
    pub fn page_id(&self, kind: u8, refs: &[ObjectId], payload: &[u8]) -> ObjectId {
        let mut hasher = blake3::Hasher::new_keyed(&self.page);
        hasher.update(&[kind]).update(&(refs.len() as u64).to_le_bytes());
        for id in refs {
            hasher.update(&id.0);
        }
        shorten(hasher.update(payload).finalize(), true)
    }
}

fn shorten(hash: blake3::Hash, is_page: bool) -> ObjectId {
    let mut id = ObjectId([0; ObjectId::LEN]);
    id.0.copy_from_slice(&hash.as_bytes()[..ObjectId::LEN]);
    id.with_type(is_page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> IdKey {
        IdKey::from_seed([3; 32])
    }

    #[test]
    fn ids_of_fixed_objects_are_fixed() {
        let child = key().chunk_id(b"hello");
        assert_eq!(child.to_string(), "5636265c7082c2c223bec91207c1810a17d3b9ecbf2c62da");
        assert_eq!(
            key().chunk_id(b"").to_string(),
            "02a5f859b84ee0e1af3febc18f526e0c66a33d63a1c33f10"
        );
        assert_eq!(
            key().page_id(1, &[child], b"names").to_string(),
            "e09345b7fc6e0b19dcee224e081dde149cb4410787384355"
        );
    }

    #[test]
    fn a_chunk_is_the_keyed_hash_of_its_plaintext_under_the_chunk_key() {
        let chunk_key = blake3::derive_key("icecore 2026 chunk id v1", &[3; 32]);
        let expected = blake3::keyed_hash(&chunk_key, b"hello");
        let id = key().chunk_id(b"hello");
        assert_eq!(id.0[..23], expected.as_bytes()[..23]);
        assert!(!id.is_page() && key().page_id(1, &[], b"").is_page());
    }

    #[test]
    fn a_page_never_has_the_id_of_a_chunk_with_the_same_bytes() {
        let id = key().chunk_id(b"x");
        let mut hashed = vec![1];
        hashed.extend(1u64.to_le_bytes());
        hashed.extend(id.0);
        hashed.extend(b"names");
        assert_ne!(key().page_id(1, &[id], b"names"), key().chunk_id(&hashed));
    }

    #[test]
    fn kind_references_and_payload_all_count() {
        let (a, b) = (key().chunk_id(b"a"), key().chunk_id(b"b"));
        let page = key().page_id(1, &[a, b], b"p");
        assert_ne!(page, key().page_id(2, &[a, b], b"p"));
        assert_ne!(page, key().page_id(1, &[b, a], b"p"));
        assert_ne!(page, key().page_id(1, &[a, b], b"q"));
    }

    #[test]
    fn a_reference_moved_into_the_payload_gives_another_id() {
        let (a, b) = (key().chunk_id(b"a"), key().chunk_id(b"b"));
        let moved = [&b.0[..], b"p"].concat();
        assert_ne!(key().page_id(1, &[a, b], b"p"), key().page_id(1, &[a], &moved));
    }

    #[test]
    fn another_key_gives_other_ids() {
        assert_ne!(key().chunk_id(b"a"), IdKey::from_seed([4; 32]).chunk_id(b"a"));
    }
}
