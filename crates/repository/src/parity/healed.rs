//! A container as it was written, for readers: healed group by group.

use super::group::Shards;
use crate::storage::{FileReader, StorageError, StorageResult};
use format::parity::{GROUP_SHARDS, Geometry, SHARD_BYTES};
use parking_lot::Mutex;
use std::sync::Arc;

/// The protected part of a container; what its parity can make good is good in it.
pub struct HealedFile {
    file: Arc<dyn FileReader>,
    geometry: Geometry,
    /// The latest group: neighbors are read next.
    latest: Mutex<Option<(u64, Arc<[u8]>)>>,
}

impl HealedFile {
    /// The container in `file`, whose parity section says `geometry`.
    pub fn new(file: Arc<dyn FileReader>, geometry: Geometry) -> Self {
        Self { file, geometry, latest: Mutex::new(None) }
    }

    /// The bytes of a group; `None` when they cannot be made good.
    fn group(&self, number: u64) -> Option<Arc<[u8]>> {
        let mut latest = self.latest.lock();
        if let Some((_, bytes)) = latest.as_ref().filter(|(other, _)| *other == number) {
            return Some(bytes.clone());
        }
        let group = self.geometry.group(number)?;
        let bytes: Arc<[u8]> = Shards::read(&*self.file, group).heal().ok()??.into();
        *latest = Some((number, bytes.clone()));
        Some(bytes)
    }
}

impl FileReader for HealedFile {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.geometry.protected())
    }

    /// Where nothing can be made good this reads what there is: the checksums of records tell.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        const GROUP_BYTES: u64 = GROUP_SHARDS * SHARD_BYTES as u64;
        if offset.saturating_add(buffer.len() as u64) > self.geometry.protected() {
            let end = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(StorageError::new("read", "what the parity protects", end));
        }
        let (mut rest, mut offset) = (buffer, offset);
        while !rest.is_empty() {
            let (number, within) = (offset / GROUP_BYTES, offset % GROUP_BYTES);
            let length = (GROUP_BYTES - within).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(length);
            let within = within as usize;
            match self.group(number).as_deref().and_then(|bytes| bytes.get(within..within + length))
            {
                Some(bytes) => now.copy_from_slice(bytes),
                None => self.file.read_exact_at(now, offset)?,
            }
            (rest, offset) = (later, offset + length as u64);
        }
        Ok(())
    }
}
