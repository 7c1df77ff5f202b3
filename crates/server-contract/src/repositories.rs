//! Writing to repositories, through the holder of their leases.

use crate::pool;
use clock::Reading;
use ids::{KeyId, RepositoryId, SnapshotId};
use repository::config::{self, Config};
use repository::keys::Keys;
use repository::local::LocalStorage;
use repository::received::ReceivedSnapshot;
use repository::snapshots::SnapshotRef;
use repository::storage::{Storage, StorageResult};
use repository::{Error, Repository, Result};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;

/// What became of snapshots that were to expire. Each is in one of the two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Removed, now or earlier.
    pub removed: Vec<SnapshotId>,
    /// Not removed, and why, for people.
    pub refused: Vec<(SnapshotId, String)>,
}

impl Expired {
    /// All of `ids` were removed but those that are `locked` until a time, in seconds since 1970.
    pub fn of<S: BuildHasher>(ids: &[SnapshotId], locked: &HashMap<SnapshotId, i64, S>) -> Self {
        let why = |until: &i64| format!("locked until {}", clock::civil::utc(*until));
        let (refused, removed): (Vec<_>, Vec<_>) =
            ids.iter().partition(|id| locked.contains_key(*id));
        let with_reason = |id: SnapshotId| Some((id, why(locked.get(&id)?)));
        Self { removed, refused: refused.into_iter().filter_map(with_reason).collect() }
    }
}

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
        open(folder)?.snapshots()
    }

    /// What is known without keys of the snapshots `names`, each by itself: [`Error::SnapshotMissing`] for one that is
    /// gone, [`Error::Damaged`] for one whose file cannot be read.
    ///
    /// # Errors
    /// Those of [`Repository::open`].
    fn received(
        &self,
        folder: &Path,
        names: &[SnapshotRef],
    ) -> Result<Vec<Result<ReceivedSnapshot>>> {
        let repository = open(folder)?;
        Ok(names.iter().map(|name| repository.received(*name)).collect())
    }

    /// Removes snapshots that the rules of retention do not keep, and durably notes in the repository that this server
    /// let them expire. Ids that are not there count as removed. Nothing is removed when `now` is in doubt, and no
    /// snapshot before its lock ends.
    ///
    /// # Errors
    /// [`Error::NoReceiptKey`] where nobody can sign the note; [`Error::InUse`]; those of the storage. Then some may have
    /// been removed: the call can be repeated.
    fn expire(&self, _folder: &Path, _ids: &[SnapshotId], _now: Reading) -> Result<Expired> {
        Err(Error::NoReceiptKey)
    }

    /// The statement of this server, signed, that snapshots of a repository on a storage server expired: the clear part
    /// of its record.
    ///
    /// # Errors
    /// [`Error::NoReceiptKey`] where nobody can sign it.
    fn sign_expiry(
        &self,
        _repository: RepositoryId,
        _ids: &[SnapshotId],
        _now_secs: i64,
    ) -> Result<Vec<u8>> {
        Err(Error::NoReceiptKey)
    }
}

fn open(folder: &Path) -> Result<Repository> {
    Repository::open(storage(folder)?)
}

/// Where the repository of the domain in `folder` lies: there, or in the bucket of its pool.
///
/// # Errors
/// [`repository::storage::StorageError::is_unreachable`] when the pool is not there or belongs to another server; those of the storage.
pub fn storage(folder: &Path) -> StorageResult<Arc<dyn Storage>> {
    // In a pool that is not mounted there is none, and somebody would create it.
    pool::verify(folder)?;
    Ok(match pool::open_in_bucket(folder)? {
        Some(storage) => Arc::new(storage),
        None => Arc::new(LocalStorage::open(folder)?),
    })
}

/// The same for a new repository.
///
/// # Errors
/// As [`storage`].
pub fn new_storage(folder: &Path) -> StorageResult<Arc<dyn Storage>> {
    pool::verify(folder)?;
    Ok(match pool::create_in_bucket(folder)? {
        Some(storage) => Arc::new(storage),
        None => Arc::new(LocalStorage::create(folder)?),
    })
}

/// The settings of the repository in `folder`; `None` if there is none.
///
/// # Errors
/// Those of [`config::read`] and of the storage.
pub fn config(folder: &Path) -> Result<Option<Config>> {
    match storage(folder) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
        Ok(storage) if config::exists(&*storage)? => config::read(&*storage).map(Some),
        Ok(_) => Ok(None),
    }
}
