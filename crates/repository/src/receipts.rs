//! The file `receipts`: public keys of the servers that signed receipts in this repository.

use crate::lease::Lease;
use crate::storage::read_checked;
use crate::{Error, Repository, Result};
use format::wire::checksum;
pub use store::ReceiptKey;

pub(crate) const NAME: &str = "receipts";
const MAGIC: &[u8; 8] = b"ICERECP1";
/// Maximum number of keys: a server has one, and another one only after it was set up again.
const KEYS_MAX: usize = 64;
const KEY_BYTES: usize = size_of::<ReceiptKey>();
const SUM_BYTES: usize = 16;
const BYTES_MAX: usize = MAGIC.len() + KEYS_MAX * KEY_BYTES + SUM_BYTES;

impl Repository {
    /// The known receipt keys; none where no server ever wrote.
    pub fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        let damaged = format::Error::Invalid { what: "keys for receipts" };
        let decode = |bytes: Vec<u8>| decode(&bytes).ok_or_else(|| damaged.clone());
        match read_checked(&*self.storage, NAME, BYTES_MAX, decode) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            keys => keys,
        }
    }

    /// Durably adds a receipt key, if it is not known. Replaces a damaged file.
    pub fn add_receipt_key(&self, lease: &Lease, key: ReceiptKey) -> Result<()> {
        if self.readable_keys()?.contains(&key) {
            return Ok(());
        }
        // Sessions of one server share the lease: two that add a key at once would take each other's file away.
        let _one_at_a_time = self.commit.lock();
        let mut keys = self.readable_keys()?;
        if keys.contains(&key) {
            return Ok(());
        }
        keys.truncate(KEYS_MAX - 1);
        keys.insert(0, key);
        lease.verify()?;
        Ok(self.storage.put(NAME, &encode(&keys))?)
    }

    /// The known receipt keys; a damaged list knows none.
    pub(crate) fn readable_keys(&self) -> Result<Vec<ReceiptKey>> {
        match self.receipt_keys() {
            Err(Error::Damaged { .. }) => Ok(Vec::new()),
            keys => keys,
        }
    }
}

fn encode(keys: &[ReceiptKey]) -> Vec<u8> {
    let body = [&MAGIC[..], keys.as_flattened()].concat();
    let sum = checksum(&[&body]);
    [&body[..], &sum].concat()
}

fn decode(bytes: &[u8]) -> Option<Vec<ReceiptKey>> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let keys = body.strip_prefix(MAGIC)?;
    let (keys, rest) = keys.as_chunks::<KEY_BYTES>();
    (rest.is_empty() && *sum == checksum(&[body])).then(|| keys.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_for_receipts_are_read_back_and_damage_is_seen() {
        let keys = [[1; 32], [2; 32]];
        let bytes = encode(&keys);
        assert_eq!(decode(&bytes), Some(keys.to_vec()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "length {at}");
        }
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
    }
}
