//! The directories of a repository, for whoever makes again what was in one that is lost.

use crate::storage::{Storage, StorageError, StorageResult};
use crate::{Result, container, keys, snapshots};
use std::io::ErrorKind;

/// How the loss of both the data and the list of what was there is named.
pub const DATA_AND_LIST: &str = "containers and snapshots";

/// Makes those that are missing. Not for who only wants to write: a directory that is missing may have been moved away,
/// or nothing is mounted there, and says so by an error.
///
/// # Errors
/// Those of the storage. Without containers and list nobody knows what was there: an empty repository is not made of
/// what is left, and [`DATA_AND_LIST`] is not found.
pub fn make_missing(storage: &dyn Storage) -> Result<()> {
    if is_missing(storage, container::DIRECTORY)? && is_missing(storage, snapshots::DIRECTORY)? {
        return Err(StorageError::new("list", DATA_AND_LIST, ErrorKind::NotFound).into());
    }
    let all = [container::DIRECTORY, "index", keys::DIRECTORY, snapshots::DIRECTORY];
    all.iter().try_for_each(|name| Ok(storage.create_directory(name)?))
}

fn is_missing(storage: &dyn Storage, directory: &str) -> StorageResult<bool> {
    match storage.list(directory) {
        Err(error) if error.is_not_found() => Ok(true),
        listed => listed.map(|_| false),
    }
}
