//! The file `copied`: the ids of the snapshots that were ever copied to this place. A repository that has it is a copy.
//!
//! So a later copy does not bring back what was forgotten here, and a check tells what was never copied from what is
//! lost.

use crate::lease::Lease;
use crate::storage::read_checked;
use crate::{Repository, Result};
use format::wire::checksum;
use ids::SnapshotId;
use std::collections::BTreeSet;

/// Its name.
pub const NAME: &str = "copied";
const MAGIC: &[u8; 8] = b"ICECOPY1";
const SUM_BYTES: usize = 16;
/// Ids in it: 2^22.
const IDS_MAX: usize = 1 << 22;
const BYTES_MAX: usize = MAGIC.len() + IDS_MAX * SnapshotId::LEN + SUM_BYTES;

impl Repository {
    /// The snapshots that were ever copied here; `None` where none was.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn copied(&self) -> Result<Option<BTreeSet<SnapshotId>>> {
        let damaged = format::Error::Invalid { what: "list of copied snapshots" };
        let decode = |bytes: Vec<u8>| decode(&bytes).ok_or_else(|| damaged.clone());
        match read_checked(&*self.storage, NAME, BYTES_MAX, decode) {
            Err(error) if error.is_not_found() => Ok(None),
            ids => ids.map(Some),
        }
    }

    /// Durably replaces the list.
    ///
    /// # Errors
    /// [`Error::LeaseLost`].
    pub fn note_copied(&self, lease: &Lease, ids: &BTreeSet<SnapshotId>) -> Result<()> {
        lease.verify()?;
        // What is longer nobody would read: then those are forgotten that were noted last.
        let ids = ids.iter().take(IDS_MAX);
        Ok(self.storage.put(NAME, &encode(ids))?)
    }
}

fn encode<'a>(ids: impl Iterator<Item = &'a SnapshotId>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    ids.for_each(|id| out.extend_from_slice(&id.0));
    let sum = checksum(&[&out]);
    out.extend_from_slice(&sum);
    out
}

/// The ids in the bytes of the list; `None` when nobody wrote them so.
pub fn decode(bytes: &[u8]) -> Option<BTreeSet<SnapshotId>> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let (ids, rest) = body.strip_prefix(MAGIC)?.as_chunks::<{ SnapshotId::LEN }>();
    let is_good = rest.is_empty() && *sum == checksum(&[body]);
    is_good.then(|| ids.iter().map(|id| SnapshotId(*id)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_back_and_damage_is_seen() {
        let ids = [1, 2].map(|byte| SnapshotId([byte; SnapshotId::LEN]));
        let bytes = encode(ids.iter());
        assert_eq!(decode(&bytes), Some(ids.into_iter().collect()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "length {at}");
        }
    }
}
