//! The directories of a repository, for whoever makes again what was in one that is lost.

use crate::storage::Storage;
use crate::{Result, container, keys, snapshots};

/// Makes those that are missing. Not for who only wants to write: a directory that is missing may have been moved away,
/// or nothing is mounted there, and says so by an error.
///
/// # Errors
/// Those of the storage.
pub fn make_missing(storage: &dyn Storage) -> Result<()> {
    let all = [container::DIRECTORY, "index", keys::DIRECTORY, snapshots::DIRECTORY];
    all.iter().try_for_each(|name| Ok(storage.create_directory(name)?))
}
