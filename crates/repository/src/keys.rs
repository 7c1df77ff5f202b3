//! Key slots and the key list as files. The engine neither opens nor signs them.

use crate::duplicated_file::DuplicatedFile;
use crate::lease::Lease;
use crate::storage::{Storage, read_checked};
use crate::{Error, Repository, Result};
use format::wire::checksum;
use ids::KeyId;
pub use store::Keys;

pub(crate) const DIRECTORY: &str = "keys";
const BYTES_MAX: usize = 64 << 10;
/// The two names of the key list.
pub const KEY_LIST: [&str; 2] = ["keys/list", "keys/list.copy"];
/// Longest key list in bytes: 65,536 keys, each with a delivery.
pub const KEY_LIST_BYTES_MAX: usize = 12 << 20;
/// Where a list has its version (`docs/CRYPTO.md`).
const VERSION_AT: usize = 24;
const CHECKSUM_BYTES: usize = 16;
/// The context of a slot's checksum, which needs no key.
const SLOT_CHECKSUM: &str = "icecore 2026 slot checksum v1";
const FILES: DuplicatedFile = DuplicatedFile {
    name: KEY_LIST[0],
    copy: KEY_LIST[1],
    bytes_max: KEY_LIST_BYTES_MAX,
    is_good: is_list,
};

/// Durably writes the keys of a new repository. The list comes first: signatures of a slot that no list names are not
/// accepted.
pub(crate) fn write(keys: &Keys, storage: &dyn Storage) -> Result<()> {
    if !keys.key_list.is_empty() {
        FILES.write(storage, &keys.key_list)?;
    }
    let mut slots = keys.slots.iter();
    Ok(slots.try_for_each(|(id, slot)| storage.put(&format!("{DIRECTORY}/{id}"), slot))?)
}

/// Removes the slots of `keys` as far as possible: of an `init` that somebody else was faster with.
pub(crate) fn remove_slots(keys: &Keys, storage: &dyn Storage) {
    for (id, _) in &keys.slots {
        let _ = storage.remove(&format!("{DIRECTORY}/{id}"));
    }
}

impl Repository {
    /// The key slots.
    pub fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        key_slots(&*self.storage)
    }

    /// One key slot, if it exists. The key list need not name it.
    pub fn key_slot(&self, id: KeyId) -> Result<Option<Vec<u8>>> {
        read_slot(&*self.storage, id)
    }

    /// Durably adds or replaces a key slot. Write the key list first when the key signs.
    pub fn put_key_slot(&self, lease: &Lease, id: KeyId, slot: &[u8]) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.put(&format!("{DIRECTORY}/{id}"), slot)?)
    }

    /// Durably removes a key slot. Write the key list first when the key signs.
    pub fn remove_key_slot(&self, lease: &Lease, id: KeyId) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.remove(&format!("{DIRECTORY}/{id}"))?)
    }

    /// The key list, if there is one.
    pub fn key_list(&self) -> Result<Option<Vec<u8>>> {
        key_list(&*self.storage)
    }

    /// Durably replaces the key list by the next one.
    ///
    /// # Errors
    /// [`Error::KeysChanged`] when `list` does not follow the list that is stored.
    pub fn put_key_list(&self, lease: &Lease, list: &[u8]) -> Result<()> {
        let before = self.key_list()?.as_deref().and_then(version).unwrap_or_default();
        if version(list).is_none_or(|version| version != before.saturating_add(1)) {
            return Err(Error::KeysChanged);
        }
        self.replace_key_list(lease, list)
    }

    /// Durably writes a key list without looking at the stored one: to replace a lost list.
    pub fn replace_key_list(&self, lease: &Lease, list: &[u8]) -> Result<()> {
        is_list(list).map_err(|reason| Error::damaged("the new key list", reason))?;
        lease.verify()?;
        Ok(FILES.write(&*self.storage, list)?)
    }

    /// What is wrong with each of the two files of the key list: name and reason.
    pub fn key_list_problems(&self) -> Result<Vec<(&'static str, String)>> {
        FILES.problems(&*self.storage)
    }
}

/// The key list in `storage`; from its copy when it is lost or damaged.
pub fn key_list(storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
    FILES.read(storage)
}

/// Checks that the bytes are as they were written. The engine does not verify the signature.
fn is_list(bytes: &[u8]) -> format::Result<()> {
    let (covered, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(format::Error::Truncated { what: "key list" })?;
    let is_good = *sum == checksum(&[covered]) && version(bytes).is_some();
    if is_good { Ok(()) } else { Err(format::Error::Checksum { what: "key list" }) }
}

fn version(list: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*list.get(VERSION_AT..)?.first_chunk()?))
}

/// The key slots in `storage`.
pub fn key_slots(storage: &dyn Storage) -> Result<Vec<(KeyId, Vec<u8>)>> {
    let ids = storage.list(DIRECTORY)?.into_iter().filter_map(|name| KeyId::from_hex(&name));
    // One that is listed and gone was removed meanwhile.
    ids.filter_map(|id| Some((id, read_slot(storage, id).transpose()?)))
        .map(|(id, slot)| Ok((id, slot?)))
        .collect()
}

fn read_slot(storage: &dyn Storage, id: KeyId) -> Result<Option<Vec<u8>>> {
    let name = format!("{DIRECTORY}/{id}");
    let read = read_checked(storage, &name, BYTES_MAX, |slot| is_slot(&slot).map(|()| slot));
    let read = match read {
        // As it is: whoever opens it says what is wrong with it.
        Err(Error::Damaged { .. }) => read_checked(storage, &name, BYTES_MAX, Ok),
        read => read,
    };
    match read {
        Err(error) if error.is_not_found() => Ok(None),
        // As one that does not decode: the others still open.
        Err(Error::Damaged { .. }) => Ok(Some(Vec::new())),
        slot => slot.map(Some),
    }
}

/// Checks that the bytes of a key slot are as they were written (`docs/CRYPTO.md`).
///
/// # Errors
/// [`format::Error::Checksum`], [`format::Error::Truncated`].
pub fn is_slot(slot: &[u8]) -> format::Result<()> {
    let (covered, sum) = slot
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(format::Error::Truncated { what: "key slot" })?;
    let derived = blake3::derive_key(SLOT_CHECKSUM, covered);
    let is_good = derived.starts_with(sum);
    if is_good { Ok(()) } else { Err(format::Error::Checksum { what: "key slot" }) }
}
