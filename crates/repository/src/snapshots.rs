//! The directory `snapshots`: a file per snapshot. It is written last: the snapshot exists when this file does.

use crate::storage::{Storage, read_checked};
use crate::{Error, Result};
use format::manifest::{self, Head};
use format::record::{self, SealedRecord};
pub use store::{SnapshotRef, StoredSnapshot};

pub(crate) const DIRECTORY: &str = SnapshotRef::DIRECTORY;
const BYTES_MAX: usize = 2 << 20;

/// Makes the directory.
pub(crate) fn create_directory(storage: &dyn Storage) -> Result<()> {
    Ok(storage.create_directory(DIRECTORY)?)
}

/// The snapshots among the `names` of the directory, in the order in which they were made.
pub(crate) fn parse_all(names: &[String]) -> Vec<SnapshotRef> {
    let mut found: Vec<_> =
        names.iter().filter_map(|name| SnapshotRef::from_file_name(name)).collect();
    found.sort_unstable();
    found
}

/// Reads one snapshot.
///
/// # Errors
/// [`Error::SnapshotMissing`]; [`Error::Damaged`], also when the content belongs to another name.
pub fn read(storage: &dyn Storage, name: SnapshotRef) -> Result<StoredSnapshot> {
    let decode = |bytes: Vec<u8>| StoredSnapshot::decode(name, &bytes);
    read_checked(storage, &name.path(), BYTES_MAX, decode)
        .map_err(|error| if error.is_not_found() { Error::SnapshotMissing(name.id) } else { error })
}

/// The snapshot `name` in the bytes of its file.
pub fn decode(name: SnapshotRef, bytes: &[u8]) -> Result<StoredSnapshot> {
    StoredSnapshot::decode(name, bytes).map_err(|reason| Error::damaged(&name.path(), reason))
}

/// Durably writes a snapshot.
pub(crate) fn write(
    storage: &dyn Storage,
    session: &SealedRecord,
    manifest: &SealedRecord,
    receipt: Option<&SealedRecord>,
) -> Result<SnapshotRef> {
    let receipt = receipt.map(SealedRecord::to_bytes).unwrap_or_default();
    let bytes = [session.to_bytes(), manifest.to_bytes(), receipt].concat();
    write_bytes(storage, &manifest.associated, &bytes)
}

/// Durably writes a snapshot from the bytes of its two records.
pub(crate) fn write_bytes(
    storage: &dyn Storage,
    manifest_associated: &[u8],
    bytes: &[u8],
) -> Result<SnapshotRef> {
    let name = name_of(manifest_associated)?;
    storage.put(&name.path(), bytes)?;
    Ok(name)
}

/// The name of the snapshot that the record of a manifest makes, of which this is the clear part with its header.
pub(crate) fn name_of(manifest_associated: &[u8]) -> Result<SnapshotRef> {
    let clear = &manifest_associated[record::HEADER_BYTES..];
    let (head, _) = Head::decode(clear).map_err(|reason| Error::damaged("manifest", reason))?;
    Ok(SnapshotRef { sequence: head.sequence, id: manifest::snapshot_id(clear) })
}

/// Durably removes the files of snapshots.
pub(crate) fn remove(storage: &dyn Storage, names: &[SnapshotRef]) -> Result<()> {
    Ok(storage.remove_all(&paths(names))?)
}

/// These snapshots are read next.
pub(crate) fn expect(storage: &dyn Storage, names: &[SnapshotRef]) {
    storage.expect(&paths(names));
}

fn paths(names: &[SnapshotRef]) -> Vec<String> {
    names.iter().map(|name| name.path()).collect()
}
