//! Key slots, as they lie: the engine opens none.

use crate::lease::Lease;
use crate::storage::{Storage, read_small};
use crate::{Repository, Result};
use ids::KeyId;

pub(crate) const DIRECTORY: &str = "keys";
const BYTES_MAX: usize = 64 << 10;

impl Repository {
    /// The key slots.
    pub fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        key_slots(&*self.storage)
    }

    /// One key slot, if it is there. It need not be in any list.
    pub fn key_slot(&self, id: KeyId) -> Result<Option<Vec<u8>>> {
        read_slot(&*self.storage, id)
    }

    /// Durably adds or replaces a key slot.
    pub fn put_key_slot(&self, lease: &Lease, id: KeyId, slot: &[u8]) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.put(&format!("{DIRECTORY}/{id}"), slot)?)
    }

    /// Durably removes a key slot.
    pub fn remove_key_slot(&self, lease: &Lease, id: KeyId) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.remove(&format!("{DIRECTORY}/{id}"))?)
    }
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
    match read_small(storage, &format!("{DIRECTORY}/{id}"), BYTES_MAX) {
        Err(error) if error.is_not_found() => Ok(None),
        slot => Ok(Some(slot?)),
    }
}
