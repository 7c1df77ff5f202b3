//! What the holder of a key can do: a writer names, cuts, seals and signs; a reader also opens.
//!
//! The power is in the type: code that gets only [`WriterKeys`] cannot read, whatever it does.

use ids::RepositoryId;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::sign::SIGNATURE_LEN;
use crate::{
    Error, IdKey, KeyMaterial, Privacy, RecipientPublic, RecipientSecret, SessionKey, Signer,
    session,
};

/// Seed of the chunker: decides where files are cut.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ChunkerKey(pub [u8; 32]);

/// What is needed to write, and no more: a write-only key holds only this.
pub struct WriterKeys {
    /// Names chunks and pages.
    pub ids: IdKey,
    /// Cuts files.
    pub chunker: ChunkerKey,
    /// Whom sessions are sealed to.
    pub recipient: RecipientPublic,
    /// Signs manifests; `None` for who only reads.
    pub signer: Option<Signer>,
    /// The repository the keys belong to.
    pub repository: RepositoryId,
    /// How files are cut.
    pub privacy: Privacy,
}

impl WriterKeys {
    /// The signature of this key's holder over `message`.
    ///
    /// # Errors
    /// [`Error::CannotSign`] for who only reads.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], Error> {
        Ok(self.signer.as_ref().ok_or(Error::CannotSign)?.sign(message))
    }
}

/// What a reader holds in addition: it opens sessions, and cannot certify anybody.
#[derive(Clone)]
pub struct ReaderKeys {
    pub(crate) recipient: RecipientSecret,
    pub(crate) repository: RepositoryId,
}

impl ReaderKeys {
    /// The key of a session that a writer of this repository sealed.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are not a session sealed to this recipient here.
    pub fn open_session(&self, sealed: &[u8]) -> Result<SessionKey, Error> {
        session::open_sealed(sealed, &self.recipient, self.repository)
    }
}

/// What a password or recovery key opened.
pub struct KeyRing {
    /// Names and seals; who only reads has no signing key in it, and no chunker.
    pub writer: WriterKeys,
    /// What reads; a write-only key has none.
    pub reader: Option<ReaderKeys>,
    /// All secrets, to make further slots with [`crate::create_slot`]; only a full key has them.
    pub certifier: Option<KeyMaterial>,
}

impl KeyRing {
    /// The ring of somebody who holds all secrets and signs with `signer`.
    pub(crate) fn full(material: KeyMaterial, signer: Signer) -> Self {
        let writer = WriterKeys {
            ids: material.domain.id_key(),
            chunker: material.domain.chunker_key(),
            recipient: material.recipient.public(),
            signer: Some(signer),
            repository: material.repository,
            privacy: material.privacy,
        };
        let reader =
            ReaderKeys { recipient: material.recipient.clone(), repository: material.repository };
        Self { writer, reader: Some(reader), certifier: Some(material) }
    }
}
