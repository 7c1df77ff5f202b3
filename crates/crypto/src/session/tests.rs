//! Tests of sessions: fixed bytes, and that nothing changed is ever accepted.

use proptest::prelude::*;

use super::*;
use crate::testing::{counting_random, hex, material};
use crate::{KeyMaterial, NonceCounter, ReaderKeys};

const SESSION: SessionId = SessionId([0x5e; 16]);

fn key(cipher: Cipher) -> SessionKey {
    SessionKey::new(SESSION, [0x11; 32], cipher)
}

fn sealed(key: &SessionKey, counter: &NonceCounter, aad: &[u8], text: &[u8]) -> Vec<u8> {
    let mut buffer = text.to_vec();
    key.seal_in_place(counter.next(text.len()).expect("room"), aad, &mut buffer);
    buffer
}

fn reader(material: KeyMaterial) -> ReaderKeys {
    let (id, epochs, delivery) = (ids::KeyId([0; 8]), material.epochs.clone(), None);
    ReaderKeys { id, epochs, delivery, repository: material.repository }
}

fn recipient() -> Recipient {
    material().epochs.recipient(KeyEpoch(0x0201)).expect("an epoch")
}

fn sealed_session() -> SealedSession {
    key(Cipher::Aes256Gcm).seal_for(&recipient(), material().repository, [0x77; 32])
}

#[test]
fn sealed_bytes_of_fixed_keys_are_fixed() {
    let aes = sealed(&key(Cipher::Aes256Gcm), &NonceCounter::new(), b"aad", b"hello");
    let chacha = sealed(&key(Cipher::ChaCha20Poly1305), &NonceCounter::new(), b"aad", b"hello");
    assert_eq!(hex(&aes), "bd8c18cdbcc64f81439832c275a40f83023d51c363");
    assert_eq!(hex(&chacha), "e3e653134417d40852ca13da24c5736bc43455c78e");
}

#[test]
fn a_sealed_session_of_fixed_keys_is_fixed() {
    assert_eq!(
        hex(sealed_session().as_bytes()),
        "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e01010200001cf579aba45a10ba1d1ef06d91fca2aa9ed0a1150515653155405d0b18cb9a67ecb28aef7c83bb4db40d3ca1bdb880690866a65517f9fec9ea9d6c77ee6760ff43a9714054a5353b8d0988667ea5027d"
    );
}

#[test]
fn equal_plaintexts_never_give_equal_ciphertexts() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let (key, counter) = (key(cipher), NonceCounter::new());
        let all: std::collections::BTreeSet<_> =
            (0..1000).map(|_| sealed(&key, &counter, b"", &[0; 32])).collect();
        assert_eq!(all.len(), 1000);
    }
}

#[test]
fn equal_plaintexts_of_two_sessions_differ() {
    let other = SessionKey::new(SessionId([1; 16]), [0x11; 32], Cipher::Aes256Gcm);
    let here = sealed(&key(Cipher::Aes256Gcm), &NonceCounter::new(), b"", &[0; 32]);
    assert_ne!(here, sealed(&other, &NonceCounter::new(), b"", &[0; 32]));
}

#[test]
fn what_was_sealed_opens_again() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let mut buffer = sealed(&key(cipher), &NonceCounter::new(), b"aad", b"hello");
        assert_eq!(buffer.len(), 5 + TAG_LEN);
        let plain = key(cipher).open_in_place(0, b"aad", &mut buffer);
        assert_eq!(plain.map(|bytes| bytes.to_vec()), Ok(b"hello".to_vec()));
    }
}

#[test]
fn every_flipped_bit_of_a_record_is_refused() {
    let good = sealed(&key(Cipher::Aes256Gcm), &NonceCounter::new(), b"aad", b"hello");
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(key(Cipher::Aes256Gcm).open_in_place(0, b"aad", &mut bad).is_err(), "bit {bit}");
    }
}

#[test]
fn another_nonce_associated_data_length_or_cipher_is_refused() {
    let good = sealed(&key(Cipher::Aes256Gcm), &NonceCounter::new(), b"aad", b"hello");
    let open = |cipher, nonce, aad: &[u8], len: usize| {
        key(cipher).open_in_place(nonce, aad, &mut good.clone()[..len]).is_ok()
    };
    assert!(open(Cipher::Aes256Gcm, 0, b"aad", good.len()));
    assert!(!open(Cipher::Aes256Gcm, 1, b"aad", good.len()));
    assert!(!open(Cipher::Aes256Gcm, 0, b"aae", good.len()));
    assert!(!open(Cipher::Aes256Gcm, 0, b"", good.len()));
    assert!(!open(Cipher::ChaCha20Poly1305, 0, b"aad", good.len()));
    assert!((0..good.len()).all(|len| !open(Cipher::Aes256Gcm, 0, b"aad", len)));
}

#[test]
fn the_recipient_opens_a_session_and_its_records() {
    let opened = reader(material()).open_session(sealed_session().as_bytes()).expect("intact");
    assert_eq!((opened.session(), opened.cipher()), (SESSION, Cipher::Aes256Gcm));
    let mut record = sealed(&key(Cipher::Aes256Gcm), &NonceCounter::new(), b"", b"hello");
    assert_eq!(
        opened.open_in_place(0, b"", &mut record).map(|b| b.to_vec()),
        Ok(b"hello".to_vec())
    );
}

#[test]
fn another_recipient_or_repository_cannot_open_a_session() {
    let sealed = sealed_session();
    let mut elsewhere = material();
    elsewhere.repository = RepositoryId([9; 16]);
    let mut stranger = KeyMaterial::generate(&mut counting_random(4));
    stranger.repository = material().repository;
    assert!(reader(elsewhere).open_session(sealed.as_bytes()).is_err());
    assert!(reader(stranger).open_session(sealed.as_bytes()).is_err());
}

#[test]
fn every_flipped_byte_and_every_truncation_of_a_sealed_session_is_refused() {
    let (reader, good) = (reader(material()), sealed_session());
    for at in 0..SealedSession::LEN {
        let mut bad = good.clone();
        bad.0[at] ^= 0x10;
        assert!(reader.open_session(bad.as_bytes()).is_err(), "byte {at}");
        assert!(reader.open_session(&good.0[..at]).is_err(), "length {at}");
    }
}

#[test]
fn a_sealed_session_says_its_epoch_and_opens_in_no_other() {
    assert_eq!(epoch_of(sealed_session().as_bytes()), Some(KeyEpoch(0x0201)));
    for epoch in [0, 0x0200, 0x0202, KEY_EPOCHS_MAX - 1, KEY_EPOCHS_MAX, u32::MAX] {
        let mut moved = sealed_session();
        moved.0[EPOCH_AT..EPOCH_AT + 4].copy_from_slice(&u32::to_le_bytes(epoch));
        assert!(reader(material()).open_session(moved.as_bytes()).is_err(), "{epoch}");
        let known = (epoch < KEY_EPOCHS_MAX).then_some(KeyEpoch(epoch));
        assert_eq!(epoch_of(moved.as_bytes()), known);
    }
    assert_eq!(epoch_of(&sealed_session().0[1..]), None);
}

#[test]
fn fresh_ephemeral_bytes_give_other_sealed_bytes() {
    let again = key(Cipher::Aes256Gcm).seal_for(&recipient(), material().repository, [0x78; 32]);
    assert_ne!(again, sealed_session());
}

#[test]
fn threads_may_share_keys() {
    fn shared<T: Send + Sync>() {}
    shared::<SessionKey>();
    shared::<NonceCounter>();
    shared::<crate::KeyRing>();
}

proptest! {
    #[test]
    fn any_record_opens_to_what_it_was(
        text in proptest::collection::vec(any::<u8>(), 0..2000),
        aad in proptest::collection::vec(any::<u8>(), 0..100),
        chacha in any::<bool>(),
    ) {
        let key = key(if chacha { Cipher::ChaCha20Poly1305 } else { Cipher::Aes256Gcm });
        let mut buffer = sealed(&key, &NonceCounter::new(), &aad, &text);
        prop_assert_eq!(key.open_in_place(0, &aad, &mut buffer).expect("intact"), &text[..]);
    }

    #[test]
    fn random_bytes_are_no_session(bytes in proptest::collection::vec(any::<u8>(), 94..109)) {
        prop_assert!(reader(material()).open_session(&bytes).is_err());
    }
}
