//! Sessions: one fresh key for each writing process, counter nonces, no state to keep on disk.
//!
//! A writer makes a [`SessionKey`] from random bytes, stores it sealed to the recipient, and seals
//! its records with it. A reader opens the sealed session first, then the records.

use aws_lc_rs::aead::{self, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ids::{KeyEpoch, RepositoryId, SessionId};
use zeroize::{Zeroize, Zeroizing};

use crate::context::{self, derive};
use crate::epoch::{EpochSecrets, KEY_EPOCHS_MAX, Recipient};
use crate::nonce::nonce_bytes;
use crate::recipient::{receiving, sending};
use crate::{Error, Nonce, RecipientPublic, RecipientSecret, error::damaged};

/// Bytes that sealing adds to a record, the authentication tag.
pub const TAG_LEN: usize = 16;

/// How records are sealed. Both are 256-bit AEADs with 96-bit nonces and 16-byte tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cipher {
    /// The fast one where the processor knows AES.
    Aes256Gcm = 1,
    /// The fast one, in constant time, where it does not.
    ChaCha20Poly1305 = 2,
}

impl Cipher {
    /// The faster one on this processor.
    pub fn fastest() -> Self {
        if has_aes() { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|cipher| *cipher as u8 == byte)
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// Seals and opens the records of one session.
pub struct SessionKey {
    session: SessionId,
    cipher: Cipher,
    random: Zeroizing<[u8; 32]>,
    aead: LessSafeKey,
}

impl SessionKey {
    /// The key of `session` from 32 bytes that were never used before.
    pub fn new(session: SessionId, random: [u8; 32], cipher: Cipher) -> Self {
        let random = Zeroizing::new(random);
        let key = derive(context::SESSION_KEY, &[&random[..], &session.0, &[cipher as u8]]);
        // The derived key always has the length both ciphers take: failing here is a bug.
        let key = UnboundKey::new(cipher.algorithm(), &key[..]).expect("a 32-byte key");
        Self { session, cipher, random, aead: LessSafeKey::new(key) }
    }

    /// The session's name.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// How its records are sealed.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// This key, readable only for `recipient` and only in `repository`. `ephemeral_random` must
    /// be fresh for each call.
    pub fn seal_for(
        &self,
        recipient: &Recipient,
        repository: RepositoryId,
        ephemeral_random: [u8; 32],
    ) -> SealedSession {
        let ephemeral = RecipientSecret::from_bytes(ephemeral_random);
        // A recipient comes out of an authenticated slot or list, never from the storage.
        let key = sending(&ephemeral, &recipient.public, repository);
        let key = key.expect("the recipient's key is sound");
        let header = self.header(recipient.epoch);
        let mut secret = Vec::with_capacity(32 + TAG_LEN);
        secret.extend_from_slice(&self.random[..]);
        key.seal(&header, &mut secret);
        SealedSession::join(&header, &ephemeral.public(), &secret)
    }

    fn header(&self, epoch: KeyEpoch) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..SessionId::LEN].copy_from_slice(&self.session.0);
        header[SessionId::LEN] = self.cipher as u8;
        header[EPOCH_AT..].copy_from_slice(&epoch.0.to_le_bytes());
        header
    }

    /// Seals `buffer` and appends the tag of [`TAG_LEN`] bytes. `aad` is bound but not stored.
    ///
    /// # Panics
    /// When `buffer` exceeds 64 GiB less 32 bytes (the caller's own bug: records have limits far below).
    pub fn seal_in_place(&self, nonce: Nonce, aad: &[u8], buffer: &mut Vec<u8>) {
        let nonce = library_nonce(nonce.counter());
        let tag = self.aead.seal_in_place_separate_tag(nonce, Aad::from(aad), buffer);
        buffer.extend_from_slice(tag.expect("a record is far below 64 GiB").as_ref());
    }

    /// The plaintext at the start of `buffer`, which holds ciphertext ‖ tag.
    ///
    /// # Errors
    /// [`Error::Damaged`] when data, tag, nonce, `aad` or key is not what it was sealed with.
    pub fn open_in_place<'a>(
        &self,
        nonce_counter: u64,
        aad: &[u8],
        buffer: &'a mut [u8],
    ) -> Result<&'a mut [u8], Error> {
        let nonce = library_nonce(nonce_counter);
        let opened = self.aead.open_in_place(nonce, Aad::from(aad), buffer);
        opened.map_err(|_| damaged("a sealed record"))
    }
}

fn library_nonce(counter: u64) -> aead::Nonce {
    aead::Nonce::assume_unique_for_key(nonce_bytes(counter))
}

const EPOCH_AT: usize = SessionId::LEN + 1;
const HEADER_LEN: usize = EPOCH_AT + 4;
const KEY_END: usize = HEADER_LEN + 32;

/// A session key on disk: session id (16) ‖ cipher (1) ‖ key epoch (4) ‖ ephemeral public key (32) ‖
/// sealed random bytes (32) ‖ tag (16).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedSession(pub [u8; SealedSession::LEN]);

impl SealedSession {
    /// Length in bytes.
    pub const LEN: usize = KEY_END + 32 + TAG_LEN;

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn join(header: &[u8; HEADER_LEN], ephemeral: &RecipientPublic, sealed: &[u8]) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..HEADER_LEN].copy_from_slice(header);
        bytes[HEADER_LEN..KEY_END].copy_from_slice(ephemeral.as_bytes());
        bytes[KEY_END..].copy_from_slice(sealed);
        Self(bytes)
    }
}

/// The key epoch in whose recipient's name `sealed` says it was sealed; `None` for no sealed session.
/// Only who opens it knows whether that is so.
pub fn epoch_of(sealed: &[u8]) -> Option<KeyEpoch> {
    let sealed = <&[u8; SealedSession::LEN]>::try_from(sealed).ok()?;
    let epoch = u32::from_le_bytes(*sealed.get(EPOCH_AT..)?.first_chunk()?);
    (epoch < KEY_EPOCHS_MAX).then_some(KeyEpoch(epoch))
}

/// Opens what [`SessionKey::seal_for`] made.
pub(crate) fn open_sealed(
    sealed: &[u8],
    own: &EpochSecrets,
    repository: RepositoryId,
) -> Result<SessionKey, Error> {
    let wrong = || damaged("a sealed session");
    let epoch = epoch_of(sealed).ok_or_else(wrong)?;
    let later = || Error::LaterEpoch { epoch, newest: own.latest_epoch() };
    let own = own.recipient_secret(epoch).ok_or_else(later)?;
    let mut bytes = <[u8; SealedSession::LEN]>::try_from(sealed).map_err(|_| wrong())?;
    let (clear, secret) = bytes.split_at_mut(KEY_END);
    let (header, ephemeral) = clear.split_at(HEADER_LEN);
    let ephemeral = ephemeral.try_into().map_err(|_| wrong())?;
    let cipher = Cipher::from_byte(header[SessionId::LEN]).ok_or_else(wrong)?;
    let session = SessionId::from_slice(&header[..SessionId::LEN]).ok_or_else(wrong)?;
    let key = receiving(&own, &RecipientPublic::from_bytes(ephemeral), repository)?;
    let random = key.open(header, secret).ok_or_else(wrong)?;
    let key = SessionKey::new(session, (&*random).try_into().map_err(|_| wrong())?, cipher);
    random.zeroize();
    Ok(key)
}

#[cfg(test)]
mod tests;
