//! The file `receipts`: public keys of the servers that signed receipts in this repository.

use crate::lease::Lease;
use crate::storage::read_small;
use crate::{Error, Repository, Result};
use format::wire::checksum;

pub(crate) const NAME: &str = "receipts";
const MAGIC: &[u8; 8] = b"ICERECP1";
/// Maximum number of keys: a server has one, and another one only after it was set up again.
const KEYS_MAX: usize = 64;
const KEY_BYTES: usize = 32;
const SUM_BYTES: usize = 16;
const BYTES_MAX: usize = MAGIC.len() + KEYS_MAX * KEY_BYTES + SUM_BYTES;

/// A public key for receipts.
pub type ReceiptKey = [u8; KEY_BYTES];

impl Repository {
    /// The known receipt keys; none where no server ever wrote.
    pub fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        match read_small(&*self.storage, NAME, BYTES_MAX) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            bytes => decode(&bytes?).ok_or_else(|| {
                Error::damaged(NAME, format::Error::Invalid { what: "keys for receipts" })
            }),
        }
    }

    /// Durably adds a receipt key, if it is not known. Replaces a damaged file.
    pub fn add_receipt_key(&self, lease: &Lease, key: ReceiptKey) -> Result<()> {
        let mut keys = match self.receipt_keys() {
            Err(Error::Damaged { .. }) => Vec::new(),
            keys => keys?,
        };
        if keys.contains(&key) {
            return Ok(());
        }
        keys.truncate(KEYS_MAX - 1);
        keys.insert(0, key);
        lease.verify()?;
        Ok(self.storage.put(NAME, &encode(&keys))?)
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
