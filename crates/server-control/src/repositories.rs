//! Repositories on this server, as the control plane reads them and writes to them while no data plane has them open.

use ids::KeyId;
use repository::config::Config;
use repository::keys::Keys;
use repository::received::ReceivedSnapshot;
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use repository::{Repository, Result, keys};
use server_contract::Repositories;
use server_contract::repositories::{new_storage, storage};
use std::path::Path;

/// A key slot with its name.
pub(crate) type Slot = (KeyId, Vec<u8>);

/// Takes the lease for each step: for a server whose repositories nobody else has open.
pub(crate) struct Direct;

impl Repositories for Direct {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> Result<()> {
        Repository::init(new_storage(folder)?, config, keys).map(drop)
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

/// The key slots of the repository in `folder`.
pub(crate) fn key_slots(folder: &Path) -> Result<Vec<Slot>> {
    keys::key_slots(&*storage(folder)?)
}

/// The key list of the repository in `folder`.
pub(crate) fn key_list(folder: &Path) -> Result<Option<Vec<u8>>> {
    keys::key_list(&*storage(folder)?)
}

/// Reads the clear parts of snapshots of the repository in `folder`.
pub(crate) fn heads(folder: &Path) -> Result<impl Fn(SnapshotRef) -> Result<StoredSnapshot>> {
    let storage = storage(folder)?;
    Ok(move |name| repository::snapshots::read(&*storage, name))
}
