//! The key list: the keys of a repository, whose signatures count, and the current key epoch. Signed by the root key.
//!
//! A slot's file says what a password opens; this list says what the key may do. A removed key stays in the list, with
//! the last sequence number of a snapshot that it may have signed: earlier signatures stay valid, later ones are not.
//! A key that is not in the list is unknown.
//!
//! When a key that reads is removed, the next list begins a key epoch: it names the recipient of that
//! epoch, and holds the epoch's secret for each key that stays and cannot compute it. Removing a key and
//! beginning an epoch are one file, replaced at once.
//!
//! ```text
//! ┌ head, 112 ┬ entries, 119 each ┬ deliveries, 48 each ┬ signature, 64 ┬ checksum, 16 ┐
//! └── signed by the root ───────────────────────────────┘               │              │
//! └── covered by the checksum ──────────────────────────────────────────┘              │
//! ```
//! The tables of head and entry are in `docs/CRYPTO.md`.

mod layout;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Deref;

use ids::{KeyEpoch, KeyId, RepositoryId};

use crate::delivery::{self, Delivery, Purpose};
use crate::domain::draw;
use crate::epoch::{LAST_KEY_EPOCH, Recipient};
use crate::error::damaged;
use crate::{
    Error, KeyMaterial, Random, RecipientPublic, RecipientSecret, Role, RootVerifyKey, SlotInfo,
    VerifyKey, verify_slot_certificate,
};
pub use layout::{KEY_LIST_MAX, KEYS_MAX, epoch_of, version_of};

/// A key that is or was in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyEntry {
    /// The slot.
    pub id: KeyId,
    /// Verifies its signatures; zeros for a key that does not sign.
    pub verify_key: VerifyKey,
    /// What its holder may do.
    pub role: Role,
    /// Whether it may sign for the node that `label` names and for no other.
    pub bound: bool,
    /// The slot's label.
    pub label: String,
    /// The key epoch in which it was made.
    pub epoch: KeyEpoch,
    /// Of a removed key: the last sequence number of a snapshot that it may have signed.
    pub valid_up_to: Option<u64>,
}

impl KeyEntry {
    /// Whether a snapshot with the number `sequence` may be signed by it.
    pub fn may_sign(&self, sequence: u64) -> bool {
        self.role.writes() && self.valid_up_to.is_none_or(|last| sequence <= last)
    }

    /// Whether it may sign for `node`.
    pub fn may_sign_for(&self, node: &str) -> bool {
        self.role.writes() && (!self.bound || self.label == node)
    }

    /// Whether it was not removed.
    pub fn is_live(&self) -> bool {
        self.valid_up_to.is_none()
    }
}

/// All keys of a repository, by their ids, and its key epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyList {
    repository: RepositoryId,
    version: u64,
    made_secs: i64,
    epoch: KeyEpoch,
    entries: Vec<KeyEntry>,
}

impl KeyList {
    /// The empty first list of a repository.
    pub fn new(repository: RepositoryId) -> Self {
        Self {
            repository,
            version: 0,
            made_secs: 0,
            epoch: KeyEpoch::default(),
            entries: Vec::new(),
        }
    }

    /// The same list, numbered after `version` and in `epoch`, but not beyond the last epoch: to replace lost lists.
    pub fn continuing_from(self, version: u64, epoch: KeyEpoch) -> Self {
        Self { version, epoch: epoch.min(LAST_KEY_EPOCH), ..self }
    }

    /// Rises with each change, so that a node that remembers it notices an older list.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The key epoch that new sessions are sealed in.
    pub fn epoch(&self) -> KeyEpoch {
        self.epoch
    }

    /// All entries, sorted by id.
    pub fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    /// The entry of `id`.
    pub fn find(&self, id: KeyId) -> Option<&KeyEntry> {
        self.position(id).ok().map(|at| &self.entries[at])
    }

    /// The entry of `id`, if the key signs or did: a read-only key has no key that verifies signatures.
    pub fn signer(&self, id: KeyId) -> Option<&KeyEntry> {
        self.find(id).filter(|entry| entry.role.writes())
    }

    /// Whether `id` is in use.
    pub fn is_live(&self, id: KeyId) -> bool {
        self.find(id).is_some_and(KeyEntry::is_live)
    }

    fn position(&self, id: KeyId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    /// The next list: this one with `entries` added or replaced.
    ///
    /// # Errors
    /// [`Error::TooManyKeys`].
    pub fn with_entries(
        mut self,
        entries: impl IntoIterator<Item = KeyEntry>,
        made_secs: i64,
    ) -> Result<Self, Error> {
        for entry in entries {
            match self.position(entry.id) {
                Ok(at) => self.entries[at] = entry,
                Err(at) => self.entries.insert(at, entry),
            }
        }
        match self.entries.len() {
            0..=KEYS_MAX => Ok(self.next(made_secs)),
            count => Err(Error::TooManyKeys { count }),
        }
    }

    /// The next list: this one with `ids` removed after the snapshot number `last`. A key that was removed before keeps
    /// its number. When one of the keys can read, a key epoch begins, unless this is the last one.
    pub fn without_keys(mut self, ids: &[KeyId], last: u64, made_secs: i64) -> Self {
        let mut reads = false;
        for entry in self.entries.iter_mut().filter(|entry| ids.contains(&entry.id)) {
            reads |= entry.is_live() && entry.role.reads();
            entry.valid_up_to.get_or_insert(last);
        }
        if reads {
            self.epoch = KeyEpoch(self.epoch.0.saturating_add(1)).min(LAST_KEY_EPOCH);
        }
        self.next(made_secs)
    }

    fn next(self, made_secs: i64) -> Self {
        Self { version: self.version.saturating_add(1), made_secs, ..self }
    }

    /// The bytes of the file, signed by the root key. The secret of its epoch is delivered to each key that is in
    /// use, can read, cannot compute the secret, was made in an earlier epoch, and whose certified slot is among
    /// `slots`. A forged slot, or that of a removed key, gets nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a certified delivery key is not a valid public key.
    pub fn sign(
        &self,
        material: &KeyMaterial,
        slots: &[(KeyId, Vec<u8>)],
        random: Random<'_>,
    ) -> Result<Vec<u8>, Error> {
        let ephemeral = RecipientSecret::from_bytes(draw(random));
        let secret = material.epochs.secret(self.epoch).ok_or(wrong())?;
        let root = material.root_verify_key();
        let mut deliveries = BTreeMap::new();
        for (id, slot) in slots {
            let Ok(info) = verify_slot_certificate(slot, &root) else { continue };
            if info.id != *id || !self.delivers_to(&info) {
                continue;
            }
            let purpose = Purpose { repository: self.repository, epoch: self.epoch, key: *id };
            deliveries.insert(*id, delivery::seal(&secret, &ephemeral, &info.delivery, purpose)?);
        }
        let recipient = secret.recipient().public();
        let ephemeral = if deliveries.is_empty() { NOBODY } else { ephemeral.public() };
        let signed = SignedKeyList { list: self.clone(), recipient, ephemeral, deliveries };
        Ok(signed.encode(material))
    }

    /// The keys to which the secret of its epoch is delivered: their slots are needed to sign it.
    pub fn pending_deliveries(&self) -> impl Iterator<Item = KeyId> {
        self.entries.iter().filter(|entry| self.is_due(entry)).map(|entry| entry.id)
    }

    fn delivers_to(&self, slot: &SlotInfo) -> bool {
        let entry = self.find(slot.id).filter(|entry| self.is_due(entry));
        let is_alike = |entry: &KeyEntry| (entry.role, entry.epoch) == (slot.role, slot.epoch);
        slot.repository == self.repository && entry.is_some_and(is_alike)
    }

    /// Whether the holder of `entry` reads what is stored now by a delivery alone.
    fn is_due(&self, entry: &KeyEntry) -> bool {
        entry.is_live() && entry.role.needs_deliveries() && entry.epoch < self.epoch
    }
}

/// Stands where nothing was delivered.
const NOBODY: RecipientPublic = RecipientPublic::from_bytes([0; 32]);

/// A key list as the root key signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedKeyList {
    list: KeyList,
    recipient: RecipientPublic,
    ephemeral: RecipientPublic,
    deliveries: BTreeMap<KeyId, Delivery>,
}

impl Deref for SignedKeyList {
    type Target = KeyList;

    fn deref(&self) -> &KeyList {
        &self.list
    }
}

impl SignedKeyList {
    /// The recipient of new sessions.
    pub fn recipient(&self) -> Recipient {
        Recipient { epoch: self.list.epoch, public: self.recipient }
    }

    /// The keys in use that read, were made in an earlier epoch, and got no secret of this one: their slots
    /// were not there when the list was made.
    pub fn undelivered(&self) -> impl Iterator<Item = &KeyEntry> {
        let is_due =
            |entry: &&KeyEntry| self.list.is_due(entry) && !self.deliveries.contains_key(&entry.id);
        self.list.entries.iter().filter(is_due)
    }

    pub(crate) fn ephemeral(&self) -> &RecipientPublic {
        &self.ephemeral
    }

    pub(crate) fn delivery(&self, id: KeyId) -> Option<Delivery> {
        self.deliveries.get(&id).copied()
    }

    /// The list in `bytes`, if it was signed with the secret of `root` for `repository`.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are not a list of this repository, [`Error::BadSignature`] when another key
    /// signed it.
    pub fn verify(
        bytes: &[u8],
        root: &RootVerifyKey,
        repository: RepositoryId,
    ) -> Result<Self, Error> {
        let list = Self::decode(bytes, root)?;
        if list.repository == repository { Ok(list) } else { Err(wrong()) }
    }
}

const fn wrong() -> Error {
    damaged("the key list")
}
