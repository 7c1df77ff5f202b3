//! Names of chunks and pages: keyed BLAKE3 of type and plaintext, cut to 24 bytes, of which the
//! last bit tells the type, so that pages and chunks can be told apart without a key.
//!
//! The type is bound by a key of its own, not by a prefix: hashing then reads the plaintext where
//! it lies. Spoofing an object of one type as another broke two other systems (CVE-2016-10099,
//! CVE-2023-36811).

use ids::ObjectId;
use std::borrow::Cow;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::context::{self, derive};

/// Makes the ids of one dedup domain. Its holder can confirm a guess of a plaintext, and no more.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct IdKey {
    seed: [u8; 32],
    chunk: [u8; 32],
    page: [u8; 32],
    /// In a domain without deduplication: the backup whose objects are named.
    backup: Option<Backup>,
}

/// The objects of one backup in a domain without deduplication. The last four bytes of an id are its number, the first
/// twenty are hidden by its mask: so equal data of two backups has two ids, and the id says how to verify its object.
#[derive(Clone, Copy, Zeroize)]
struct Backup {
    number: [u8; 4],
    mask: [u8; HASH_BYTES],
}

/// Bytes of the hash in an id that has the number of a backup.
const HASH_BYTES: usize = ObjectId::LEN - 4;

impl IdKey {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        let chunk = *derive(context::CHUNK_ID, &[&seed]);
        let page = *derive(context::PAGE_ID, &[&seed]);
        Self { seed, chunk, page, backup: None }
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The same key for a domain without deduplication: it names what belongs to no backup (number 0).
    #[must_use]
    pub fn without_dedup(&self) -> Self {
        Self { backup: Some(self.numbered([0; 4])), ..self.clone() }
    }

    /// In a domain without deduplication, the key that names the objects of backup `number`, whose lowest bit in the
    /// last byte does not count; in any other one, the same key.
    #[must_use]
    pub fn of_backup(&self, number: [u8; 4]) -> Self {
        Self { backup: self.backup.map(|_| self.numbered(number)), ..self.clone() }
    }

    /// Whether ids have the number of a backup.
    pub fn is_per_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// The id of a chunk of file content.
    pub fn chunk_id(&self, plaintext: &[u8]) -> ObjectId {
        self.name(blake3::keyed_hash(&self.chunk, plaintext), false)
    }

    /// The id of a page: its kind, the ids it refers to in order, and its payload. The count of
    /// ids is hashed before them, so that an id cannot move into the payload unnoticed.
    pub fn page_id(&self, kind: u8, refs: &[ObjectId], payload: &[u8]) -> ObjectId {
        let mut hasher = blake3::Hasher::new_keyed(&self.page);
        hasher.update(&[kind]).update(&(refs.len() as u64).to_le_bytes());
        for id in refs {
            hasher.update(&self.content_of_id(id).0);
        }
        self.name(hasher.update(payload).finalize(), true)
    }

    /// Whether `id` names the chunk `plaintext`, of whatever backup.
    pub fn is_chunk(&self, id: &ObjectId, plaintext: &[u8]) -> bool {
        self.like(id).chunk_id(plaintext) == *id
    }

    /// Whether `id` names this page, of whatever backup.
    pub fn is_page(&self, id: &ObjectId, kind: u8, refs: &[ObjectId], payload: &[u8]) -> bool {
        self.like(id).page_id(kind, refs, payload) == *id
    }

    /// What two ids of the same content have in common: without deduplication, the hash and the type; else the id.
    pub fn content_of_id(&self, id: &ObjectId) -> ObjectId {
        let Some(own) = &self.backup else { return *id };
        let number = number_of(id);
        let backup = if number == own.number { *own } else { self.numbered(number) };
        let mut bare = ObjectId([0; ObjectId::LEN]);
        let hash = id.0.iter().zip(backup.mask).map(|(byte, mask)| byte ^ mask);
        bare.0.iter_mut().zip(hash).for_each(|(to, byte)| *to = byte);
        bare.with_type(id.is_page())
    }

    /// The key that names the objects of the backup of `id`.
    fn like(&self, id: &ObjectId) -> Cow<'_, Self> {
        match &self.backup {
            Some(own) if own.number != number_of(id) => Cow::Owned(self.of_backup(number_of(id))),
            _ => Cow::Borrowed(self),
        }
    }

    fn name(&self, hash: blake3::Hash, is_page: bool) -> ObjectId {
        self.masked(shorten(hash, is_page))
    }

    /// `id` as one of the backup of this key, if ids have numbers.
    fn masked(&self, mut id: ObjectId) -> ObjectId {
        let Some(backup) = &self.backup else { return id };
        let is_page = id.is_page();
        id.0.iter_mut().zip(backup.mask).for_each(|(byte, mask)| *byte ^= mask);
        id.0[HASH_BYTES..].copy_from_slice(&backup.number);
        id.with_type(is_page)
    }

    fn numbered(&self, number: [u8; 4]) -> Backup {
        let number = even(number);
        let mut mask = [0; HASH_BYTES];
        mask.copy_from_slice(&derive(context::BACKUP_MASK, &[&self.seed, &number])[..HASH_BYTES]);
        Backup { number, mask }
    }
}

fn number_of(id: &ObjectId) -> [u8; 4] {
    let mut number = [0; 4];
    number.copy_from_slice(&id.0[HASH_BYTES..]);
    even(number)
}

/// `number` without the bit that tells pages from chunks.
fn even(number: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = number;
    [a, b, c, d & !1]
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

    #[test]
    fn equal_data_of_two_backups_has_two_ids_and_each_is_verified_without_its_key() {
        let keys = key().without_dedup();
        let [one, two] = [[1, 2, 3, 4], [9, 8, 7, 6]].map(|number| keys.of_backup(number));
        let chunks = [one.chunk_id(b"x"), two.chunk_id(b"x")];
        let pages = [0, 1].map(|at| [&one, &two][at].page_id(1, &[chunks[at]], b"names"));
        for [a, b] in [chunks, pages] {
            assert!(a != b && a.0[..12] != b.0[..12], "the index keeps twelve bytes");
            for keys in [&keys, &one, &two] {
                assert_eq!(keys.content_of_id(&a), keys.content_of_id(&b));
            }
        }
        for keys in [&keys, &one, &two] {
            for at in [0, 1] {
                assert!(keys.is_chunk(&chunks[at], b"x") && !keys.is_chunk(&chunks[at], b"y"));
                assert!(keys.is_page(&pages[at], 1, &[chunks[at]], b"names"));
                assert!(!keys.is_page(&pages[at], 1, &[], b"names"));
            }
        }
        assert!(pages[1].is_page() && !chunks[1].is_page());
    }

    #[test]
    fn an_id_without_deduplication_is_a_hidden_hash_and_the_number_of_the_backup() {
        let keys = key().without_dedup().of_backup([1, 2, 3, 5]);
        let id = keys.chunk_id(b"hello");
        assert_eq!(id.0[20..], [1, 2, 3, 4], "the last bit tells the type");
        let mask = blake3::derive_key(
            "icecore 2026 backup mask v1",
            &[&[3; 32][..], &[1, 2, 3, 4]].concat(),
        );
        let hash: Vec<u8> =
            id.0.iter().zip(mask).take(20).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(hash, key().chunk_id(b"hello").0[..20]);
        let page = keys.page_id(1, &[id], b"names");
        assert_eq!(page.0[20..], [1, 2, 3, 5]);
    }

    #[test]
    fn a_flipped_bit_of_an_id_names_nothing() {
        for keys in [key(), key().without_dedup().of_backup([1, 2, 3, 4])] {
            let id = keys.chunk_id(b"hello");
            for bit in 0..ObjectId::LEN * 8 {
                let mut other = id;
                other.0[bit / 8] ^= 1 << (bit % 8);
                assert!(!keys.is_chunk(&other, b"hello"), "bit {bit}");
            }
        }
    }

    #[test]
    fn where_data_is_deduplicated_ids_have_no_numbers() {
        assert_eq!(key().of_backup([1; 4]).chunk_id(b"x"), key().chunk_id(b"x"));
        assert_eq!(key().content_of_id(&key().chunk_id(b"x")), key().chunk_id(b"x"));
    }
}
