//! What the holder of a key can do: a writer names, cuts, seals and signs; a reader also opens.
//!
//! The power is in the type: code that gets only [`WriterKeys`] cannot read, whatever it does.

use ids::RepositoryId;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{
    DomainSecret, Error, IdKey, KeyMaterial, Privacy, RecipientPublic, RecipientSecret, SessionKey,
    Signer, session,
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
    /// Signs manifests.
    pub signer: Signer,
    /// The repository the keys belong to.
    pub repository: RepositoryId,
    /// How files are cut.
    pub privacy: Privacy,
}

/// What a reader holds in addition.
#[derive(Clone)]
pub struct ReaderKeys {
    pub(crate) material: KeyMaterial,
}

impl ReaderKeys {
    /// The key of a session that a writer of this repository sealed.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are not a session sealed to this recipient here.
    pub fn open_session(&self, sealed: &[u8]) -> Result<SessionKey, Error> {
        session::open_sealed(sealed, self.recipient_secret(), self.material.repository)
    }

    /// All secrets, to create a further slot with [`crate::create_slot`].
    pub fn material(&self) -> &KeyMaterial {
        &self.material
    }

    /// The domain's secret.
    pub fn domain_secret(&self) -> &DomainSecret {
        &self.material.domain
    }

    fn recipient_secret(&self) -> &RecipientSecret {
        &self.material.recipient
    }
}

/// What a password or recovery key opened.
pub struct KeyRing {
    /// Every key can write.
    pub writer: WriterKeys,
    /// Only a full key can read.
    pub reader: Option<ReaderKeys>,
}

impl KeyRing {
    /// The ring of somebody who holds all secrets and signs with `signer`.
    pub(crate) fn full(material: KeyMaterial, signer: Signer) -> Self {
        let writer = WriterKeys {
            ids: material.domain.id_key(),
            chunker: material.domain.chunker_key(),
            recipient: material.recipient.public(),
            signer,
            repository: material.repository,
            privacy: material.privacy,
        };
        Self { writer, reader: Some(ReaderKeys { material }) }
    }
}
