//! The bytes of a key list. All numbers are little-endian; the tables stand in `docs/CRYPTO.md`.

use std::collections::BTreeMap;

use ids::{KeyEpoch, KeyId, RepositoryId};

use super::{KeyEntry, KeyList, NOBODY, SignedKeyList, wrong};
use crate::context;
use crate::delivery::{DELIVERY_LEN, Delivery};
use crate::epoch::KEY_EPOCHS_MAX;
use crate::slot::{MAX_LABEL_LEN, is_label};
use crate::{Error, KeyMaterial, RecipientPublic, Role, RootVerifyKey, SIGNATURE_LEN, VerifyKey};

const MAGIC: &[u8; 8] = b"ICEKLST1";
pub(super) const HEAD_LEN: usize = 8 + 16 + 8 + 8 + 4 + 32 + 32 + 4;
pub(super) const ENTRY_LEN: usize = 8 + 32 + 1 + 1 + 8 + 4 + 1 + MAX_LABEL_LEN;
pub(super) const CHECKSUM_LEN: usize = 16;
pub(super) const TAIL_LEN: usize = SIGNATURE_LEN + CHECKSUM_LEN;
/// Most keys of a repository, removed ones included: at ten changes a day enough for eighteen years.
pub const KEYS_MAX: usize = 1 << 16;
/// Longest list in bytes.
pub const KEY_LIST_MAX: usize = HEAD_LEN + KEYS_MAX * (ENTRY_LEN + DELIVERY_LEN) + TAIL_LEN;
const FLAG_BOUND: u8 = 1;
const FLAG_REMOVED: u8 = 2;
/// A delivery to it stands behind the entries.
const FLAG_DELIVERED: u8 = 4;

/// The version of the list in `bytes`. Needs no key, and does not verify the signature.
///
/// # Errors
/// [`Error::Damaged`] when the bytes are no list.
pub fn version_of(bytes: &[u8]) -> Result<u64, Error> {
    Ok(decode(split(bytes)?.0)?.list.version)
}

/// Its key epoch, in the same way.
///
/// # Errors
/// [`Error::Damaged`] when the bytes are no list.
pub fn epoch_of(bytes: &[u8]) -> Result<KeyEpoch, Error> {
    Ok(decode(split(bytes)?.0)?.list.epoch)
}

impl SignedKeyList {
    /// The file, signed by the root key of `material`.
    pub(super) fn encode(&self, material: &KeyMaterial) -> Vec<u8> {
        let mut out = self.to_sign();
        let signature = material.sign_as_root(&message(&out));
        out.extend_from_slice(&signature);
        out.extend_from_slice(&checksum(&out));
        out
    }

    fn to_sign(&self) -> Vec<u8> {
        let (list, entries) = (&self.list, &self.list.entries);
        let length = HEAD_LEN + entries.len() * ENTRY_LEN + self.deliveries.len() * DELIVERY_LEN;
        let mut out = Vec::with_capacity(length + TAIL_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&list.repository.0);
        out.extend_from_slice(&list.version.to_le_bytes());
        out.extend_from_slice(&list.made_secs.to_le_bytes());
        out.extend_from_slice(&list.epoch.0.to_le_bytes());
        out.extend_from_slice(self.recipient.as_bytes());
        out.extend_from_slice(self.ephemeral.as_bytes());
        out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        for entry in entries {
            encode_entry(entry, self.deliveries.contains_key(&entry.id), &mut out);
        }
        self.deliveries.values().for_each(|sealed| out.extend_from_slice(sealed));
        out
    }

    /// The list in `bytes`, which the holder of `root`'s secret signed.
    pub(super) fn decode(bytes: &[u8], root: &RootVerifyKey) -> Result<Self, Error> {
        let (signed, tail) = split(bytes)?;
        let (signature, _) = tail.split_at(SIGNATURE_LEN);
        root.0.verify(&message(signed), signature)?;
        decode(signed)
    }
}

fn decode(signed: &[u8]) -> Result<SignedKeyList, Error> {
    let mut reader = Reader(signed);
    if reader.take()? != *MAGIC {
        return Err(wrong());
    }
    let repository = RepositoryId(reader.take()?);
    let version = u64::from_le_bytes(reader.take()?);
    let made_secs = i64::from_le_bytes(reader.take()?);
    let epoch = take_epoch(&mut reader)?;
    let recipient = RecipientPublic::from_bytes(reader.take()?);
    let ephemeral = RecipientPublic::from_bytes(reader.take()?);
    let count = u32::from_le_bytes(reader.take()?) as usize;
    if count > KEYS_MAX || reader.0.len() < count * ENTRY_LEN {
        return Err(wrong());
    }
    let (mut entries, mut delivered) = (Vec::with_capacity(count), Vec::new());
    for _ in 0..count {
        let (entry, is_delivered) = take_entry(&mut reader)?;
        delivered.extend(is_delivered.then_some(entry.id));
        entries.push(entry);
    }
    let list = KeyList { repository, version, made_secs, epoch, entries };
    let deliveries = take_deliveries(&mut reader, &delivered)?;
    let signed = SignedKeyList { list, recipient, ephemeral, deliveries };
    if makes_sense(&signed) && reader.0.is_empty() { Ok(signed) } else { Err(wrong()) }
}

/// A value has one spelling, and deliveries are where there is somebody to take them.
fn makes_sense(signed: &SignedKeyList) -> bool {
    let list = &signed.list;
    let is_due = |id: &KeyId| list.find(*id).is_some_and(|entry| list.is_due(entry));
    list.entries.is_sorted_by(|one, next| one.id < next.id)
        && list.entries.iter().all(|entry| entry.epoch <= list.epoch)
        && signed.deliveries.keys().all(is_due)
        && signed.deliveries.is_empty() == (signed.ephemeral == NOBODY)
}

fn take_deliveries(
    reader: &mut Reader<'_>,
    to: &[KeyId],
) -> Result<BTreeMap<KeyId, Delivery>, Error> {
    to.iter().map(|id| Ok((*id, reader.take()?))).collect()
}

/// What is signed, and signature and checksum, when the checksum fits.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let at = bytes.len().checked_sub(TAIL_LEN).filter(|_| bytes.len() <= KEY_LIST_MAX);
    let (signed, tail) = bytes.split_at(at.ok_or(wrong())?);
    let (checked, sum) = bytes.split_at(bytes.len() - CHECKSUM_LEN);
    if sum == checksum(checked) { Ok((signed, tail)) } else { Err(wrong()) }
}

fn message(signed: &[u8]) -> Vec<u8> {
    [context::KEY_LIST.as_bytes(), signed].concat()
}

/// The checksum that the engine uses: it detects a damaged list without a key.
pub(super) fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_LEN]);
    sum
}

fn encode_entry(entry: &KeyEntry, is_delivered: bool, out: &mut Vec<u8>) {
    let end = out.len() + ENTRY_LEN;
    let flags = u8::from(entry.bound) * FLAG_BOUND
        + u8::from(!entry.is_live()) * FLAG_REMOVED
        + u8::from(is_delivered) * FLAG_DELIVERED;
    out.extend_from_slice(&entry.id.0);
    out.extend_from_slice(entry.verify_key.as_bytes());
    out.extend_from_slice(&[entry.role as u8, flags]);
    out.extend_from_slice(&entry.valid_up_to.unwrap_or_default().to_le_bytes());
    out.extend_from_slice(&entry.epoch.0.to_le_bytes());
    out.push(entry.label.len() as u8); // at most 64: it is the label of a slot
    out.extend_from_slice(entry.label.as_bytes());
    out.resize(end, 0);
}

/// An entry, and whether there is a delivery to it.
fn take_entry(reader: &mut Reader<'_>) -> Result<(KeyEntry, bool), Error> {
    let (id, verify_key) = (KeyId(reader.take()?), VerifyKey::from_bytes(reader.take()?));
    let [role, flags] = reader.take()?;
    let role = Role::from_byte(role).ok_or(wrong())?;
    let last = u64::from_le_bytes(reader.take()?);
    let is_removed = flags & FLAG_REMOVED != 0;
    let is_known = flags & !(FLAG_BOUND | FLAG_REMOVED | FLAG_DELIVERED) == 0;
    let has_key = verify_key != VerifyKey::from_bytes([0; 32]);
    if !is_known || (!is_removed && last != 0) || has_key != role.writes() {
        return Err(wrong());
    }
    let (valid_up_to, bound) = (is_removed.then_some(last), flags & FLAG_BOUND != 0);
    let (epoch, label) = (take_epoch(reader)?, take_label(reader)?);
    let entry = KeyEntry { id, verify_key, role, bound, label, epoch, valid_up_to };
    Ok((entry, flags & FLAG_DELIVERED != 0))
}

fn take_epoch(reader: &mut Reader<'_>) -> Result<KeyEpoch, Error> {
    match u32::from_le_bytes(reader.take()?) {
        epoch @ ..KEY_EPOCHS_MAX => Ok(KeyEpoch(epoch)),
        _ => Err(wrong()),
    }
}

fn take_label(reader: &mut Reader<'_>) -> Result<String, Error> {
    let [length] = reader.take()?;
    let field: [u8; MAX_LABEL_LEN] = reader.take()?;
    let (text, rest) = field.split_at_checked(length.into()).ok_or(wrong())?;
    let text = str::from_utf8(text).map_err(|_| wrong())?;
    let is_good = is_label(text) && rest.iter().all(|byte| *byte == 0);
    is_good.then(|| text.to_owned()).ok_or(wrong())
}

/// Takes fixed lengths from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(wrong())?;
        self.0 = rest;
        Ok(*taken)
    }
}
