//! Totals of what a repository holds.

use crate::{Result, UnlockedRepository};
use ids::ContainerNo;
use repository::container;
use serde::Serialize;

/// The totals of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepositoryTotals {
    /// Snapshots.
    pub snapshots: u64,
    /// Containers.
    pub containers: u64,
    /// Bytes in containers.
    pub container_bytes: u64,
    /// Chunks and pages in the index.
    pub objects: u64,
    /// Keys that open it.
    pub keys: u64,
    /// Free bytes of the disk; an object storage has none to tell of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// Counts what the repository holds now.
///
/// # Errors
/// When the repository is on a server, or its storage cannot be read.
pub fn repository_totals(repository: &UnlockedRepository) -> Result<RepositoryTotals> {
    let local = &repository.local()?;
    let storage = &**local.storage();
    let mut repository_totals = RepositoryTotals {
        snapshots: local.snapshots()?.len() as u64,
        objects: local.index().entries(),
        keys: local.key_slots()?.len() as u64,
        ..RepositoryTotals::default()
    };
    if storage.has_limited_space() {
        let free_bytes = storage.free_bytes().map_err(repository::Error::from)?;
        repository_totals.free_bytes = Some(free_bytes);
    }
    for file in container::list(storage, ContainerNo(0))?.iter().filter(|file| file.finished) {
        match local.container(file.number).and_then(|reader| reader.length()) {
            Ok(length) => {
                repository_totals.containers += 1;
                repository_totals.container_bytes += length;
            }
            Err(error) if error.is_container_missing() => {} // reclaimed meanwhile
            Err(error) => return Err(error.into()),
        }
    }
    Ok(repository_totals)
}
