//! Writing to repositories, through the holder of their leases.

use ids::KeyId;
use repository::config::Config;
use repository::keys::Keys;
use repository::local::LocalStorage;
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use repository::storage::Storage;
use repository::{Repository, Result, keys};
use std::path::Path;
use std::sync::Arc;

/// A key slot with its name.
pub type Slot = (KeyId, Vec<u8>);

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
        Repository::open(storage(folder)?)?.snapshots()
    }
}

/// Takes the lease for each step: for a server whose repositories nobody else has open.
pub struct Direct;

impl Repositories for Direct {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> Result<()> {
        let storage = Arc::new(LocalStorage::create(folder)?);
        Repository::init(storage, config, keys).map(drop)
    }

    fn put_key_list(&self, folder: &Path, list: &[u8]) -> Result<()> {
        let repository = Repository::open(storage(folder)?)?;
        let lease = repository.lease(HOLDER)?;
        repository.put_key_list(&lease, list)
    }

    fn put_key_slot(&self, folder: &Path, id: KeyId, slot: &[u8]) -> Result<()> {
        let repository = Repository::open(storage(folder)?)?;
        let lease = repository.lease(HOLDER)?;
        repository.put_key_slot(&lease, id, slot)
    }

    fn remove_key_slot(&self, folder: &Path, id: KeyId) -> Result<()> {
        let repository = Repository::open(storage(folder)?)?;
        let lease = repository.lease(HOLDER)?;
        repository.remove_key_slot(&lease, id)
    }
}

const HOLDER: &str = "the server, for a key";

fn storage(folder: &Path) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(LocalStorage::open(folder)?))
}

/// The settings of the repository in `folder`; `None` if there is none.
pub(crate) fn config(folder: &Path) -> Result<Option<Config>> {
    match LocalStorage::open(folder) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
        Ok(storage) if Config::exists(&storage)? => Config::read(&storage).map(Some),
        Ok(_) => Ok(None),
    }
}

/// The key slots of the repository in `folder`.
pub(crate) fn key_slots(folder: &Path) -> Result<Vec<Slot>> {
    keys::key_slots(&*storage(folder)?)
}

/// The key list of the repository in `folder`.
pub(crate) fn key_list(folder: &Path) -> Result<Option<Vec<u8>>> {
    keys::key_list(&*storage(folder)?)
}

/// The clear part of a snapshot.
pub(crate) fn head(folder: &Path, name: SnapshotRef) -> Result<StoredSnapshot> {
    repository::snapshots::read(&*storage(folder)?, name)
}
