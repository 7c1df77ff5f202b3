//! Key slots: small files, each of which one password or recovery key opens.
//!
//! The clear part (role, label, costs, verify key) can be read without a password and is signed by
//! the domain's root key; it is also bound into the sealed part. The cheap checks come first: the password hash never
//! runs with the parameters of a slot that was tampered with.

mod kdf;
mod layout;
mod payload;
#[cfg(test)]
mod tests;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ids::{KeyEpoch, KeyId, RepositoryId};
use zeroize::Zeroizing;

use crate::context::{self, derive};
use crate::delivery::DeliveryKey;
use crate::domain::draw;
use crate::recipient::SingleUseKey;
use crate::{
    Error, KeyEntry, KeyMaterial, KeyRing, Privacy, Random, RootVerifyKey, VerifyKey,
    error::damaged,
};
use kdf::Kdf;
pub use kdf::KdfParams;
pub(crate) use layout::is_label;
use layout::{Certified, Clear, Label, Slot};
pub use layout::{MAX_LABEL_LEN, SLOT_LEN};

/// What a slot's holder may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// Write, read, and create further slots.
    Full = 1,
    /// Write only: back up, and read nothing back.
    WriteOnly = 2,
    /// Read only: restore, and sign nothing.
    Reader = 3,
    /// Write and read, and create no slots.
    ReadWrite = 4,
}

impl Role {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Full, Self::WriteOnly, Self::Reader, Self::ReadWrite];
        all.into_iter().find(|role| *role as u8 == byte)
    }

    /// Whether its holder can read what is stored.
    pub fn reads(self) -> bool {
        self != Self::WriteOnly
    }

    /// Whether its holder can back up: what it signs counts.
    pub fn writes(self) -> bool {
        self != Self::Reader
    }

    /// Whether the secrets of later key epochs have to be delivered to its holder: it reads, and
    /// cannot compute them.
    pub fn needs_deliveries(self) -> bool {
        self.reads() && !self.certifies()
    }

    /// Whether its holder can make and remove keys.
    pub fn certifies(self) -> bool {
        self == Self::Full
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::WriteOnly => "write-only",
            Self::Reader => "read-only",
            Self::ReadWrite => "read-write",
        }
    }
}

/// What opens a slot.
#[derive(Clone, Copy)]
pub enum SlotSecret<'a> {
    /// A password; Argon2id makes guessing expensive.
    Password(&'a [u8]),
    /// 32 random bytes: guessing is hopeless, so no expensive hash is needed.
    Recovery([u8; 32]),
}

/// The clear part of a slot. Trust it only after [`verify_slot_certificate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotInfo {
    /// The slot's name.
    pub id: KeyId,
    /// What its holder may do.
    pub role: Role,
    /// A text for people; of a bound slot the name of its node.
    pub label: String,
    /// Whether its holder may sign for no other node than the one that `label` names.
    pub bound: bool,
    /// When it was created, in seconds since 1970, by the clock of its creator.
    pub created_secs: i64,
    /// The cost of a password guess; `None` for a recovery key.
    pub kdf: Option<KdfParams>,
    /// Checks the manifests its holder signs.
    pub verify_key: VerifyKey,
    /// The root that certified it, as the slot claims.
    pub root: RootVerifyKey,
    /// The repository it belongs to.
    pub repository: RepositoryId,
    /// How its repository cuts files.
    pub privacy: Privacy,
    /// The key epoch in which it was made.
    pub epoch: KeyEpoch,
    /// The key that secrets of later epochs are sealed to.
    pub delivery: DeliveryKey,
}

impl SlotInfo {
    /// Its entry in the key list while it is in use.
    pub fn entry(&self) -> KeyEntry {
        let (id, verify_key, role, bound) = (self.id, self.verify_key, self.role, self.bound);
        let (label, epoch, valid_up_to) = (self.label.clone(), self.epoch, None);
        KeyEntry { id, verify_key, role, bound, label, epoch, valid_up_to }
    }
}

/// The clear part of a new slot.
#[derive(Clone, Copy, Debug)]
pub struct NewSlot<'a> {
    /// What its holder may do.
    pub role: Role,
    /// A text for people, or the name of its node.
    pub label: &'a str,
    /// Whether its holder signs for the node `label` alone.
    pub bound: bool,
    /// The current time, in seconds since 1970.
    pub created_secs: i64,
    /// The current key epoch.
    pub epoch: KeyEpoch,
    /// The slot that it replaces: the key stays, and another secret opens it. `None` for a new key.
    pub replaces: Option<KeyId>,
}

impl<'a> NewSlot<'a> {
    /// A slot that is bound to no node.
    pub fn new(role: Role, label: &'a str, created_secs: i64, epoch: KeyEpoch) -> Self {
        Self { role, label, bound: false, created_secs, epoch, replaces: None }
    }

    /// The same slot, which replaces `slot`, if there is one.
    pub fn replacing(self, slot: Option<KeyId>) -> Self {
        Self { replaces: slot, ..self }
    }

    /// The same slot, bound to the node that the label names.
    pub fn bound(self) -> Self {
        Self { bound: true, ..self }
    }
}

/// A new slot of [`SLOT_LEN`] bytes, with a signing key of its own.
///
/// # Errors
/// [`Error::EmptyPassword`], [`Error::BadLabel`], [`Error::KdfLimits`], [`Error::OutOfMemory`];
/// [`Error::LaterEpoch`] for an epoch beyond the last one.
pub fn create_slot(
    material: &KeyMaterial,
    new: &NewSlot<'_>,
    secret: SlotSecret<'_>,
    params: KdfParams,
    random: Random<'_>,
) -> Result<Vec<u8>, Error> {
    let (id, salt) = (new.replaces.unwrap_or(KeyId(draw(random))), draw(random));
    let seed = Zeroizing::new(draw::<32>(random));
    let root = material.domain.root_signer();
    let clear = Clear {
        role: new.role,
        bound: new.bound,
        kdf: Kdf::for_secret(&secret, params)?,
        privacy: material.privacy,
        created_secs: new.created_secs,
        id,
        repository: material.repository,
        salt,
        root: RootVerifyKey(root.public()),
        verify_key: payload::verify_key(new.role, &seed),
        delivery: payload::delivery_key(new.role, &seed),
        epoch: new.epoch,
        label: Label::new(new.label)?,
    };
    if clear.bound && new.label.is_empty() {
        return Err(Error::BadLabel);
    }
    let certified = Certified::sign(clear, &root);
    let kek = certified.clear.kdf.kek(&secret, &salt)?;
    let mut sealed = payload::encode(material, new.role, new.epoch, &seed)?;
    sealing_key(&kek).seal(&certified.encode(), &mut sealed);
    Ok(Slot::join(certified, *commitment(&kek), &sealed).encode())
}

/// What `secret` opens.
///
/// # Errors
/// [`Error::WrongKey`] when the secret does not open it; [`Error::Damaged`] when the slot was changed;
/// [`Error::KdfLimits`] when its parameters cost more than any slot may.
pub fn open_slot(bytes: &[u8], secret: SlotSecret<'_>) -> Result<(SlotInfo, KeyRing), Error> {
    let mut slot = Slot::decode(bytes)?;
    slot.certified.verify(&slot.certified.clear.root)?;
    let kek = slot.certified.clear.kdf.kek(&secret, &slot.certified.clear.salt)?;
    verify_slices_are_equal(&slot.commitment, &commitment(&kek)[..])
        .map_err(|_| Error::WrongKey)?;
    let aad = slot.certified.encode();
    let plain = sealing_key(&kek).open(&aad, &mut slot.sealed[..]);
    let ring = payload::decode(&slot.certified.clear, plain.ok_or(damaged("a slot's secrets"))?)?;
    Ok((slot.certified.clear.info(), ring))
}

/// The clear part of a slot, not verified.
///
/// # Errors
/// [`Error::Damaged`] when the bytes are not a slot.
pub fn slot_info(bytes: &[u8]) -> Result<SlotInfo, Error> {
    Ok(Slot::decode(bytes)?.certified.clear.info())
}

/// The clear part of a slot, if it was certified with the secret of `root`.
///
/// # Errors
/// [`Error::Damaged`] when the bytes are not a slot, [`Error::BadSignature`] when another key
/// certified it.
pub fn verify_slot_certificate(bytes: &[u8], root: &RootVerifyKey) -> Result<SlotInfo, Error> {
    let certified = Slot::decode(bytes)?.certified;
    if certified.clear.root != *root {
        return Err(Error::BadSignature);
    }
    certified.verify(root).map_err(|_| Error::BadSignature)?;
    Ok(certified.clear.info())
}

/// AES-GCM alone does not commit to its key: one could make a slot that two passwords open, and
/// try many passwords with one slot (a partitioning oracle). The tag ties the slot to one key.
fn commitment(kek: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    derive(context::SLOT_COMMITMENT, &[kek])
}

/// A key for one message, since the salt of every slot is fresh.
fn sealing_key(kek: &[u8; 32]) -> SingleUseKey {
    SingleUseKey::new(derive(context::SLOT_SEALING, &[kek]))
}
