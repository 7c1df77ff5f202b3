//! Writing to repositories, through the holder of their leases.

use ids::KeyId;
use repository::config::{self, Config};
use repository::keys::Keys;
use repository::local::LocalStorage;
use repository::snapshots::SnapshotRef;
use repository::{Repository, Result};
use std::path::Path;
use std::sync::Arc;

/// What the control plane needs of repositories.
pub trait Repositories: Send + Sync {
    /// Creates a repository in `folder`, which need not exist.
    ///
    /// # Errors
    /// Those of [`Repository::init`].
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> Result<()>;

    /// Durably replaces the key list by the next one.
    ///
    /// # Errors
    /// Those of [`Repository::put_key_list`].
    fn put_key_list(&self, folder: &Path, list: &[u8]) -> Result<()>;

    /// Durably adds a key slot.
    ///
    /// # Errors
    /// Those of [`Repository::put_key_slot`].
    fn put_key_slot(&self, folder: &Path, id: KeyId, slot: &[u8]) -> Result<()>;

    /// Durably removes a key slot, if it exists.
    ///
    /// # Errors
    /// Those of [`Repository::remove_key_slot`].
    fn remove_key_slot(&self, folder: &Path, id: KeyId) -> Result<()>;

    /// The snapshots, oldest first.
    ///
    /// # Errors
    /// Those of [`Repository::snapshots`].
    fn snapshots(&self, folder: &Path) -> Result<Vec<SnapshotRef>> {
        Repository::open(Arc::new(LocalStorage::open(folder)?))?.snapshots()
    }
}

/// The settings of the repository in `folder`; `None` if there is none.
///
/// # Errors
/// Those of [`config::read`] and of the storage.
pub fn config(folder: &Path) -> Result<Option<Config>> {
    match LocalStorage::open(folder) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
        Ok(storage) if config::exists(&storage)? => config::read(&storage).map(Some),
        Ok(_) => Ok(None),
    }
}
