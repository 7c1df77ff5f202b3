//! What the targets have in common.

pub mod memory;

use ids::ObjectId;
use repository::storage::{FileReader, StorageError, StorageResult};

/// A page as the golden files hold it: its head, its references, its payload.
pub fn page(bytes: &[u8]) -> Option<(Vec<ObjectId>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(29)?;
    let count = u32::from_le_bytes(*head.last_chunk()?) as usize;
    let (refs, payload) = rest.split_at_checked(count.checked_mul(ObjectId::LEN)?)?;
    let refs = refs.chunks_exact(ObjectId::LEN).filter_map(ObjectId::from_slice);
    Some((refs.collect(), payload))
}

/// A file in memory.
pub struct Memory(pub Vec<u8>);

impl FileReader for Memory {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let end = || StorageError::new("read", "memory", std::io::ErrorKind::UnexpectedEof);
        let start = usize::try_from(offset).map_err(|_| end())?;
        let bytes = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or_else(end)?);
        Ok(())
    }
}

/// `body` with its checksum made good behind it: what that guards against is chance, not an
/// attacker.
pub fn summed(body: &[u8]) -> Vec<u8> {
    [body, &format::wire::checksum(&[body])].concat()
}
