//! The repositories of a pool in which nothing may be written.

use clock::Reading;
use ids::{KeyId, SnapshotId};
use repository::config::Config;
use repository::keys::Keys;
use repository::received::ReceivedSnapshot;
use repository::snapshots::SnapshotRef;
use repository::storage::StorageError;
use repository::{Error, Result};
use server_contract::access_control::Refusal;
use server_contract::{Expired, Repositories};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// Reads through the other one, and writes nothing.
pub(crate) struct ReadOnly {
    pub(crate) here: Arc<dyn Repositories>,
    pub(crate) why: Refusal,
}

impl ReadOnly {
    fn refused<T>(&self, folder: &Path) -> Result<T> {
        let why = format!("{}. {}", self.why.message, self.why.hint);
        let source = io::Error::new(ErrorKind::ReadOnlyFilesystem, why);
        Err(Error::Storage(StorageError::new("write to", &folder.to_string_lossy(), source)))
    }
}

impl Repositories for ReadOnly {
    fn init(&self, folder: &Path, _: Config, _: &Keys) -> Result<()> {
        self.refused(folder)
    }

    fn put_key_list(&self, folder: &Path, _: &[u8]) -> Result<()> {
        self.refused(folder)
    }

    fn put_key_slot(&self, folder: &Path, _: KeyId, _: &[u8]) -> Result<()> {
        self.refused(folder)
    }

    fn remove_key_slot(&self, folder: &Path, _: KeyId) -> Result<()> {
        self.refused(folder)
    }

    fn snapshots(&self, folder: &Path) -> Result<Vec<SnapshotRef>> {
        self.here.snapshots(folder)
    }

    fn received(
        &self,
        folder: &Path,
        names: &[SnapshotRef],
    ) -> Result<Vec<Result<ReceivedSnapshot>>> {
        self.here.received(folder, names)
    }

    fn expire(&self, folder: &Path, _: &[SnapshotId], _: Reading) -> Result<Expired> {
        self.refused(folder)
    }
}
