//! Repositories on this server, as the control plane reads them and writes to them while no data plane has them open.

use ids::KeyId;
use repository::config::Config;
use repository::keys::Keys;
use repository::local::LocalStorage;
use repository::received::ReceivedSnapshot;
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use repository::storage::Storage;
use repository::{Repository, Result, keys};
use server_contract::{Repositories, pool};
use std::path::Path;
use std::sync::Arc;

/// A key slot with its name.
pub(crate) type Slot = (KeyId, Vec<u8>);

/// Takes the lease for each step: for a server whose repositories nobody else has open.
pub(crate) struct Direct;

impl Repositories for Direct {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> Result<()> {
        pool::verify(folder)?;
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

    fn received(
        &self,
        folder: &Path,
        names: &[SnapshotRef],
    ) -> Result<Vec<Result<ReceivedSnapshot>>> {
        let repository = Repository::open(storage(folder)?)?;
        repository.verify_with(crypto::is_signed);
        Ok(names.iter().map(|name| repository.received(*name)).collect())
    }
}

const HOLDER: &str = "the server, for a key";

fn storage(folder: &Path) -> Result<Arc<dyn Storage>> {
    pool::verify(folder)?;
    Ok(Arc::new(LocalStorage::open(folder)?))
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
