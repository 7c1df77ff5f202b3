//! What the holder of a key can do: a writer names, cuts, seals and signs; a reader also opens.
//!
//! The power is in the type: code that gets only [`WriterKeys`] cannot read, whatever it does.

use std::sync::Arc;

use ids::{KeyEpoch, KeyId, RepositoryId};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::delivery::{self, Purpose};
use crate::epoch::{EpochSecrets, Recipient};
use crate::error::damaged;
use crate::key_list::SignedKeyList;
use crate::sign::SIGNATURE_LEN;
use crate::{Error, IdKey, KeyMaterial, Privacy, RecipientSecret, SessionKey, Signer, session};

/// Seed of the chunker: decides where files are cut.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ChunkerKey(pub [u8; 32]);

/// The keys for writing, and nothing else: a write-only key holds only these.
pub struct WriterKeys {
    /// Names chunks and pages.
    pub ids: IdKey,
    /// Cuts files.
    pub chunker: ChunkerKey,
    /// The recipient of sessions at the time when the key was made; the key list has the current one.
    pub recipient: Recipient,
    /// Signs manifests; `None` for a read-only key.
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
    /// [`Error::CannotSign`] for a read-only key.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], Error> {
        Ok(self.signer.as_ref().ok_or(Error::CannotSign)?.sign(message))
    }

    /// The recipient of new sessions, as `list` names it.
    ///
    /// # Errors
    /// [`Error::OldKeyList`] for a list of an earlier epoch than that in which the key was made;
    /// [`Error::Damaged`] for one that names another recipient for that epoch.
    pub fn recipient_in(&self, list: &SignedKeyList) -> Result<Recipient, Error> {
        let (own, listed) = (self.recipient, list.recipient());
        if listed.epoch < own.epoch {
            return Err(Error::OldKeyList { epoch: listed.epoch, made_in: own.epoch });
        }
        if listed.epoch == own.epoch && listed != own {
            return Err(damaged("the recipient in the key list"));
        }
        Ok(listed)
    }
}

/// The keys for reading: they open sessions, and cannot certify keys.
#[derive(Clone)]
pub struct ReaderKeys {
    pub(crate) id: KeyId,
    pub(crate) epochs: Arc<EpochSecrets>,
    /// What opens deliveries; a full key needs none.
    pub(crate) delivery: Option<RecipientSecret>,
    pub(crate) repository: RepositoryId,
}

impl ReaderKeys {
    /// The latest key epoch that they read.
    pub fn latest_epoch(&self) -> KeyEpoch {
        self.epochs.latest_epoch()
    }

    /// The key of a session that a writer of this repository sealed.
    ///
    /// # Errors
    /// [`Error::LaterEpoch`] when it was sealed in a key epoch that these keys do not read;
    /// [`Error::Damaged`] when the bytes are not a session sealed to its recipient here.
    pub fn open_session(&self, sealed: &[u8]) -> Result<SessionKey, Error> {
        session::open_sealed(sealed, &self.epochs, self.repository)
    }

    /// The keys for all epochs up to that of `list`; `None` when these read as much, or when the list
    /// has no delivery for them.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the delivered secret does not lead to the one that these keys hold.
    pub fn with_delivery(&self, list: &SignedKeyList) -> Result<Option<Self>, Error> {
        let (Some(own), Some(sealed)) = (&self.delivery, list.delivery(self.id)) else {
            return Ok(None);
        };
        if list.epoch() <= self.latest_epoch() {
            return Ok(None);
        }
        let purpose = Purpose { repository: self.repository, epoch: list.epoch(), key: self.id };
        let secret = delivery::open(sealed, own, list.ephemeral(), purpose)?;
        let epochs = EpochSecrets::up_to(list.epoch(), secret);
        let before =
            epochs.secret(self.latest_epoch()).zip(self.epochs.secret(self.latest_epoch()));
        let is_next = before.is_some_and(|(one, other)| one.as_bytes() == other.as_bytes());
        if !is_next || epochs.recipient(list.epoch()) != Some(list.recipient()) {
            return Err(damaged("a delivery"));
        }
        Ok(Some(Self { epochs: Arc::new(epochs), ..self.clone() }))
    }
}

/// The keys that a password or recovery key opened.
pub struct KeyRing {
    /// Makes ids and seals; without signing key and chunker for a read-only key.
    pub writer: WriterKeys,
    /// The keys for reading; a write-only key has none.
    pub reader: Option<ReaderKeys>,
    /// All secrets, to make further slots with [`crate::create_slot`]; only a full key has them.
    pub certifier: Option<KeyMaterial>,
}

impl KeyRing {
    /// The ring of a full key that signs with `signer`; its slot `id` was made in the epoch of `recipient`.
    pub(crate) fn full(
        material: KeyMaterial,
        signer: Signer,
        id: KeyId,
        recipient: Recipient,
    ) -> Self {
        let (epochs, repository) = (material.epochs.clone(), material.repository);
        let writer = WriterKeys {
            ids: material.domain.id_key(),
            chunker: material.domain.chunker_key(),
            recipient,
            signer: Some(signer),
            repository,
            privacy: material.privacy,
        };
        let reader = ReaderKeys { id, epochs, delivery: None, repository };
        Self { writer, reader: Some(reader), certifier: Some(material) }
    }
}
