//! The reserve: space kept free for a full disk. To free space, forget and reclaim first need some: for the lease, a
//! tombstone, the new index, and the live objects of the first container that is rewritten. Without an index they can
//! do nothing, so a rebuild uses it, too.
//!
//! Inodes are kept for all repositories of a file system together: sessions begin no container when fewer are free.
//!
//! The files are not durable and nobody reads them. What a crash removes, the next writer creates again.

use crate::storage::{Storage, StorageError, StorageResult};
use crate::{Repository, Result};
use std::io;

pub(crate) const DIRECTORY: &str = "reserve";
const SPACE: &str = "reserve/space";
/// Files without content: a disk can run out of inodes as well.
const EMPTY: u64 = 7;
/// Inodes that sessions leave free: for sixteen repositories at once the files of a commit (4), of a forget (6) and
/// of a stage of reclaim (6).
pub const INODES: u64 = 16 * (4 + 6 + 6);
/// The least that is kept, in bytes.
const BYTES_MIN: u64 = 4 << 20;
/// What is kept for each container there ever was, up to a whole one: 1/256 of its size.
const BYTES_PER_CONTAINER: u64 = crate::container::TARGET_BYTES / 256;
/// A new index is written before the old one is removed. A row of 24 bytes with its part of the filter
/// (2), the fence and the page takes less than this.
const BYTES_PER_ROW: u64 = 28;
const STEP_BYTES: usize = 256 << 10;

impl Repository {
    /// Fills the reserve, as far as there is space. This does not fail: the work that was done does not depend on it.
    pub fn fill_reserve(&self) {
        if !self.storage.has_limited_space() {
            return;
        }
        let _ = fill(&*self.storage, self.reserve_bytes());
    }

    /// Releases the reserve; `false` when there was none.
    pub fn release_reserve(&self) -> Result<bool> {
        Ok(release(&*self.storage)?)
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        let containers = self.index().state.next_container;
        let copies = containers.saturating_mul(BYTES_PER_CONTAINER);
        BYTES_MIN + copies.min(crate::container::TARGET_BYTES) + self.index_room()
    }

    /// Maximum number of bytes to write a new index.
    pub(crate) fn index_room(&self) -> u64 {
        self.index().entries().saturating_mul(BYTES_PER_ROW)
    }
}

/// Does `work`; when the disk is full, once more with the room that was kept.
pub(crate) fn with<T>(storage: &dyn Storage, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    match work() {
        Err(error) if error.is_full() && release(storage)? => work(),
        done => done,
    }
}

/// Refuses new data when only the inodes are free that forget and reclaim need.
pub(crate) fn leaves_inodes(storage: &dyn Storage) -> StorageResult<()> {
    let Some(free) = storage.free_inodes()?.filter(|free| *free < INODES) else { return Ok(()) };
    Err(StorageError::new("store more in", &storage.describe(), too_few(free)))
}

fn too_few(free: u64) -> io::Error {
    let why = format!(
        "no space for files: {free} inodes are free, and {INODES} are kept for forget and reclaim"
    );
    io::Error::new(io::ErrorKind::StorageFull, why)
}

/// Removes all of it; whether there was any.
pub(crate) fn release(storage: &dyn Storage) -> StorageResult<bool> {
    let names = match storage.list(DIRECTORY) {
        Err(error) if error.is_not_found() => Vec::new(),
        names => names?,
    };
    names.iter().try_for_each(|name| storage.remove(&format!("{DIRECTORY}/{name}")))?;
    Ok(!names.is_empty())
}

pub(crate) fn fill(storage: &dyn Storage, bytes: u64) -> StorageResult<()> {
    storage.create_directory(DIRECTORY)?;
    let names = storage.list(DIRECTORY)?;
    let mut missing =
        (0..EMPTY).map(|number| format!("{number}")).filter(|name| !names.contains(name));
    missing.try_for_each(|name| storage.create(&format!("{DIRECTORY}/{name}")).map(drop))?;
    // Half of it is enough: it is not rewritten whenever the index grows.
    if length(storage)? < bytes / 2 {
        storage.remove(SPACE)?;
        write(storage, bytes)?;
    }
    Ok(())
}

fn length(storage: &dyn Storage) -> StorageResult<u64> {
    match storage.open(SPACE) {
        Err(error) if error.is_not_found() => Ok(0),
        file => file?.length(),
    }
}

/// Bytes that no file system makes smaller.
fn write(storage: &dyn Storage, bytes: u64) -> StorageResult<()> {
    let mut file = storage.create(SPACE)?;
    let (mut noise, mut state) = (vec![0; STEP_BYTES], 0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..bytes.div_ceil(STEP_BYTES as u64) {
        for word in noise.as_chunks_mut::<8>().0 {
            *word = next(&mut state).to_le_bytes();
        }
        file.append(&[&noise])?;
    }
    Ok(())
}

/// xorshift64 (Marsaglia 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;

    #[test]
    fn it_is_kept_once_and_given_back_whole() {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path()).unwrap();
        assert!(!release(&storage).unwrap(), "there was none");
        fill(&storage, 1 << 20).unwrap();
        assert_eq!(storage.list(DIRECTORY).unwrap().len() as u64, EMPTY + 1);
        let first = length(&storage).unwrap();
        assert!(first >= 1 << 20);
        fill(&storage, 2 << 20).unwrap();
        assert_eq!(length(&storage).unwrap(), first, "half of it is enough");
        fill(&storage, 3 << 20).unwrap();
        assert!(length(&storage).unwrap() >= 3 << 20);
        assert!(release(&storage).unwrap());
        assert_eq!(storage.list(DIRECTORY).unwrap(), [""; 0]);
    }
}
