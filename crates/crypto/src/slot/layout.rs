//! The bytes of a slot: fixed places, so that every slot has the same length and decoding has no
//! lengths to be lied to about.
//!
//! ```text
//! ┌───────────── clear, 240 ─────────────┬ certificate, 64 ┬ commitment, 32 ┬ sealed, 144 ┬ checksum, 16 ┐
//! └── signed by the root ────────────────┘                 │                │             │              │
//! └── associated data of the sealed part ──────────────────┘                │             │              │
//! └── covered by the checksum ────────────────────────────────────────────────────────────┘              │
//! ```
//! All numbers are little-endian. The table of the clear part stands in `docs/CRYPTO.md`.

use ids::{KeyEpoch, KeyId, RepositoryId};

use super::kdf::{Kdf, KdfParams, SALT_LEN};
use super::payload::PAYLOAD_LEN;
use super::{Role, SlotInfo};
use crate::context::{self, derive};
use crate::delivery::DeliveryKey;
use crate::epoch::KEY_EPOCHS_MAX;
use crate::error::damaged;
use crate::{Error, Privacy, RootVerifyKey, SIGNATURE_LEN, Signer, TAG_LEN, VerifyKey};

const MAGIC: &[u8; 8] = b"ICEKEYS3";
const VERSION: u8 = 3;
const KDF_ARGON2ID: u8 = 1;
const KDF_RECOVERY: u8 = 2;
/// Longest label in bytes.
pub const MAX_LABEL_LEN: usize = 64;
const RESERVED_LEN: usize = 2;
const CLEAR_LEN: usize =
    8 + 4 + 3 * 4 + 8 + 8 + 16 + SALT_LEN + 3 * 32 + 1 + MAX_LABEL_LEN + 1 + 4 + RESERVED_LEN;
const COMMITMENT_LEN: usize = 32;
const SEALED_LEN: usize = PAYLOAD_LEN + TAG_LEN;
const CHECKSUM_LEN: usize = 16;
const CHECKED_LEN: usize = CLEAR_LEN + SIGNATURE_LEN + COMMITMENT_LEN + SEALED_LEN;
/// Length of every slot in bytes.
pub const SLOT_LEN: usize = CHECKED_LEN + CHECKSUM_LEN;

/// A text for people: at most 64 bytes, nothing a terminal would obey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Label(String);

impl Label {
    pub(super) fn new(text: &str) -> Result<Self, Error> {
        is_label(text).then(|| Self(text.to_owned())).ok_or(Error::BadLabel)
    }
}

/// Whether `text` can be the label of a slot.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_LEN && !text.chars().any(char::is_control)
}

/// What anybody can read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Clear {
    pub(super) role: Role,
    pub(super) bound: bool,
    pub(super) kdf: Kdf,
    pub(super) privacy: Privacy,
    pub(super) created_secs: i64,
    pub(super) id: KeyId,
    pub(super) repository: RepositoryId,
    pub(super) salt: [u8; SALT_LEN],
    pub(super) root: RootVerifyKey,
    pub(super) verify_key: VerifyKey,
    pub(super) delivery: DeliveryKey,
    pub(super) epoch: KeyEpoch,
    pub(super) label: Label,
}

impl Clear {
    pub(super) fn info(&self) -> SlotInfo {
        SlotInfo {
            id: self.id,
            role: self.role,
            label: self.label.0.clone(),
            bound: self.bound,
            created_secs: self.created_secs,
            kdf: self.kdf.params(),
            verify_key: self.verify_key,
            root: self.root,
            repository: self.repository,
            privacy: self.privacy,
            epoch: self.epoch,
            delivery: self.delivery,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (kdf, params) = match self.kdf {
            Kdf::Argon2id(params) => (KDF_ARGON2ID, params),
            Kdf::Recovery => (KDF_RECOVERY, NO_PARAMS),
        };
        let mut out = Vec::with_capacity(SLOT_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.role as u8, kdf, self.privacy as u8]);
        for number in [params.memory_kib, params.passes, params.lanes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.created_secs.to_le_bytes());
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.repository.0);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(self.root.as_bytes());
        out.extend_from_slice(self.verify_key.as_bytes());
        out.extend_from_slice(&self.delivery.0);
        out.push(self.label.0.len() as u8); // at most 64, `Label` sees to it
        out.extend_from_slice(self.label.0.as_bytes());
        out.resize(CLEAR_LEN - RESERVED_LEN - 4 - 1, 0);
        out.push(u8::from(self.bound));
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.resize(CLEAR_LEN, 0);
        out
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.expect(MAGIC, "not a key slot")?;
        reader.expect(&[VERSION], "a slot of an unknown version")?;
        let [role, kdf, privacy] = reader.take()?;
        let clear = Self {
            role: Role::from_byte(role).ok_or(damaged("a slot's role"))?,
            privacy: Privacy::from_byte(privacy).ok_or(damaged("a slot's privacy"))?,
            kdf: decode_kdf(kdf, reader)?,
            created_secs: i64::from_le_bytes(reader.take()?),
            id: KeyId(reader.take()?),
            repository: RepositoryId(reader.take()?),
            salt: reader.take()?,
            root: RootVerifyKey::from_bytes(reader.take()?),
            verify_key: VerifyKey::from_bytes(reader.take()?),
            delivery: DeliveryKey(reader.take()?),
            label: decode_label(reader)?,
            bound: decode_bound(reader)?,
            epoch: decode_epoch(reader)?,
        };
        reader.expect(&[0; RESERVED_LEN], "a slot's reserved bytes")?;
        Ok(clear)
    }
}

const NO_PARAMS: KdfParams = KdfParams { memory_kib: 0, passes: 0, lanes: 0 };

fn decode_kdf(kind: u8, reader: &mut Reader<'_>) -> Result<Kdf, Error> {
    let mut number = || reader.take().map(u32::from_le_bytes);
    let params = KdfParams { memory_kib: number()?, passes: number()?, lanes: number()? };
    match kind {
        KDF_ARGON2ID => Ok(Kdf::Argon2id(params)),
        KDF_RECOVERY if params == NO_PARAMS => Ok(Kdf::Recovery),
        _ => Err(damaged("a slot's key derivation")),
    }
}

fn decode_label(reader: &mut Reader<'_>) -> Result<Label, Error> {
    let wrong = damaged("a slot's label");
    let [len] = reader.take()?;
    let field: [u8; MAX_LABEL_LEN] = reader.take()?;
    let (text, rest) = field.split_at_checked(usize::from(len)).ok_or(wrong.clone())?;
    let text = str::from_utf8(text).map_err(|_| wrong.clone())?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(wrong);
    }
    Label::new(text).map_err(|_| wrong)
}

fn decode_bound(reader: &mut Reader<'_>) -> Result<bool, Error> {
    match reader.take()? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(damaged("a slot's flags")),
    }
}

fn decode_epoch(reader: &mut Reader<'_>) -> Result<KeyEpoch, Error> {
    match u32::from_le_bytes(reader.take()?) {
        epoch @ ..KEY_EPOCHS_MAX => Ok(KeyEpoch(epoch)),
        _ => Err(damaged("a slot's key epoch")),
    }
}

/// The clear part with the signature of the domain's root over it.
pub(super) struct Certified {
    pub(super) clear: Clear,
    certificate: [u8; SIGNATURE_LEN],
}

impl Certified {
    pub(super) fn sign(clear: Clear, root: &Signer) -> Self {
        let certificate = root.sign(&signed_message(&clear));
        Self { clear, certificate }
    }

    pub(super) fn verify(&self, root: &RootVerifyKey) -> Result<(), Error> {
        let message = signed_message(&self.clear);
        root.0.verify(&message, &self.certificate).map_err(|_| damaged("a slot's certificate"))
    }

    /// The associated data of the sealed part.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.clear.encode();
        out.extend_from_slice(&self.certificate);
        out
    }
}

fn signed_message(clear: &Clear) -> Vec<u8> {
    [context::SLOT_CERTIFICATE.as_bytes(), &clear.encode()].concat()
}

/// A slot whose places were checked, and nothing else yet.
pub(super) struct Slot {
    pub(super) certified: Certified,
    pub(super) commitment: [u8; COMMITMENT_LEN],
    pub(super) sealed: [u8; SEALED_LEN],
}

impl Slot {
    pub(super) fn join(certified: Certified, commitment: [u8; 32], ciphertext: &[u8]) -> Self {
        let mut sealed = [0; SEALED_LEN];
        sealed.copy_from_slice(ciphertext);
        Self { certified, commitment, sealed }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.certified.encode();
        out.extend_from_slice(&self.commitment);
        out.extend_from_slice(&self.sealed);
        out.extend_from_slice(&checksum(&out));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != SLOT_LEN {
            return Err(damaged("a slot's length"));
        }
        let (checked, sum) = bytes.split_at(CHECKED_LEN);
        if sum != checksum(checked) {
            return Err(damaged("a slot's checksum"));
        }
        let mut reader = Reader(checked);
        let clear = Clear::decode(&mut reader)?;
        let certified = Certified { clear, certificate: reader.take()? };
        Ok(Self { certified, commitment: reader.take()?, sealed: reader.take()? })
    }
}

/// Tells damage from a wrong password: without it, a flipped commitment would look like one.
pub(super) fn checksum(checked: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&derive(context::SLOT_CHECKSUM, &[checked])[..CHECKSUM_LEN]);
    sum
}

/// Takes fixed lengths from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or(damaged("a slot that is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn expect<const N: usize>(
        &mut self,
        wanted: &[u8; N],
        what: &'static str,
    ) -> Result<(), Error> {
        if self.take::<N>()? == *wanted { Ok(()) } else { Err(damaged(what)) }
    }
}
