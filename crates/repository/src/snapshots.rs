//! The directory `snapshots`: a file per snapshot with the session record, the manifest record and the receipt of the
//! server, if any. It is written last: the snapshot exists when this file does.

use crate::storage::{Storage, read_small};
use crate::{Error, Result};
use format::manifest::{self, Head, SIGNATURE_BYTES};
use format::record::{self, Header, RecordKind, SealedRecord};
use ids::SnapshotId;

pub(crate) const DIRECTORY: &str = "snapshots";
const BYTES_MAX: usize = 2 << 20;

/// Name of a snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotRef {
    /// Its number.
    pub sequence: u64,
    /// Its id.
    pub id: SnapshotId,
}

/// A snapshot as it is stored: its clear parts and the sealed manifest.
#[derive(Clone, Debug)]
pub struct StoredSnapshot {
    /// Its name.
    pub name: SnapshotRef,
    /// Its head; the signature is not verified here.
    pub head: Head,
    /// Signature over the head.
    pub signature: [u8; SIGNATURE_BYTES],
    /// Clear part of the session record.
    pub session: Vec<u8>,
    /// The manifest record.
    pub record: Vec<u8>,
    /// Clear part of the receipt, if there is one; not verified here.
    pub receipt: Option<Vec<u8>>,
    /// The session record.
    session_record: Vec<u8>,
    /// The receipt record, or nothing.
    receipt_record: Vec<u8>,
}

impl StoredSnapshot {
    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.session_record[..], &self.record, &self.receipt_record].concat()
    }

    /// The whole session record.
    pub(crate) fn session_record(&self) -> &[u8] {
        &self.session_record
    }
}

/// Makes the directory.
pub(crate) fn create_directory(storage: &dyn Storage) -> Result<()> {
    Ok(storage.create_directory(DIRECTORY)?)
}

/// The snapshots among the `names` of the directory, in the order in which they were made.
pub(crate) fn parse_all(names: &[String]) -> Vec<SnapshotRef> {
    let mut found: Vec<_> = names.iter().filter_map(|name| parse(name)).collect();
    found.sort_unstable();
    found
}

/// Reads one snapshot.
///
/// # Errors
/// [`Error::SnapshotMissing`]; [`Error::Damaged`], also when the content belongs to another name.
pub fn read(storage: &dyn Storage, name: SnapshotRef) -> Result<StoredSnapshot> {
    let bytes = read_small(storage, &file_name(name), BYTES_MAX).map_err(|error| {
        if error.is_not_found() { Error::SnapshotMissing(name.id) } else { error.into() }
    })?;
    decode(name, &bytes)
}

/// The snapshot `name` in the bytes of its file.
pub fn decode(name: SnapshotRef, bytes: &[u8]) -> Result<StoredSnapshot> {
    stored(name, bytes).map_err(|reason| Error::damaged(&file_name(name), reason))
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
    let clear = &manifest_associated[record::HEADER_BYTES..];
    let (head, _) = Head::decode(clear).map_err(|reason| Error::damaged("manifest", reason))?;
    let name = SnapshotRef { sequence: head.sequence, id: manifest::snapshot_id(clear) };
    storage.put(&file_name(name), bytes)?;
    Ok(name)
}

/// Durably removes a snapshot's file.
pub(crate) fn remove(storage: &dyn Storage, name: SnapshotRef) -> Result<()> {
    Ok(storage.remove(&file_name(name))?)
}

fn file_name(name: SnapshotRef) -> String {
    format!("{DIRECTORY}/{:010x}-{}", name.sequence, name.id)
}

fn parse(name: &str) -> Option<SnapshotRef> {
    let (sequence, id) = name.split_once('-')?;
    let sequence = u64::from_str_radix(sequence, 16).ok()?;
    Some(SnapshotRef { sequence, id: SnapshotId::from_hex(id)? })
}

fn stored(name: SnapshotRef, bytes: &[u8]) -> format::Result<StoredSnapshot> {
    let session = record::verify(bytes)?;
    let rest = bytes.get(session.header.record_bytes()..).unwrap_or_default();
    let manifest = record::verify(rest)?;
    let kinds = (session.header.kind, manifest.header.kind);
    let (head, signature) = Head::decode(manifest.clear)?;
    let same = manifest::snapshot_id(manifest.clear) == name.id && head.sequence == name.sequence;
    if kinds != (RecordKind::Session, RecordKind::Manifest) || !same {
        return Err(format::Error::Invalid { what: "snapshot" });
    }
    let (record, receipt_record) = rest.split_at(manifest.header.record_bytes());
    let (record, receipt_record) = (record.to_vec(), receipt_record.to_vec());
    let receipt = receipt(&receipt_record, &manifest.header)?;
    let session_record = bytes[..bytes.len() - rest.len()].to_vec();
    let session = session.clear.to_vec();
    Ok(StoredSnapshot {
        name,
        head,
        signature,
        session,
        record,
        receipt,
        session_record,
        receipt_record,
    })
}

/// The clear part of the receipt behind a manifest. Nothing else may follow.
fn receipt(bytes: &[u8], manifest: &Header) -> format::Result<Option<Vec<u8>>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let record = record::verify(bytes)?;
    let is_its_own = record.header.session == manifest.session;
    let is_alone = record.header.record_bytes() == bytes.len();
    if record.header.kind != RecordKind::Receipt || !is_its_own || !is_alone {
        return Err(format::Error::Invalid { what: "snapshot" });
    }
    Ok(Some(record.clear.to_vec()))
}
