//! Snapshots as they are stored: a file with the session record, the manifest record and the receipt of the server, if
//! any.

use format::manifest::{self, Head, SIGNATURE_BYTES};
use format::record::{self, Header, RecordKind};
use ids::SnapshotId;

/// Name of a snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotRef {
    /// Its number.
    pub sequence: u64,
    /// Its id.
    pub id: SnapshotId,
}

impl SnapshotRef {
    /// The directory of all snapshot files.
    pub const DIRECTORY: &str = "snapshots";

    /// Path of its file in the repository.
    pub fn path(self) -> String {
        format!("{}/{}", Self::DIRECTORY, self.file_name())
    }

    fn file_name(self) -> String {
        format!("{:010x}-{}", self.sequence, self.id)
    }

    /// The snapshot whose file in [`SnapshotRef::DIRECTORY`] is called `name`; `None` for other files.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (sequence, id) = name.split_once('-')?;
        let sequence = u64::from_str_radix(sequence, 16).ok()?;
        let named = Self { sequence, id: SnapshotId::from_hex(id)? };
        // Its only spelling: a second one would be listed as another snapshot.
        (named.file_name() == name).then_some(named)
    }
}

/// A snapshot that a session published.
#[derive(Clone, Copy, Debug)]
pub struct CommittedSnapshot {
    /// The snapshot.
    pub snapshot: SnapshotRef,
    /// Bytes that were appended to containers.
    pub stored_bytes: u64,
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
    /// The snapshot `name` in the bytes of its file.
    ///
    /// # Errors
    /// When they are damaged or belong to another name. The caller names the file: [`SnapshotRef::path`].
    pub fn decode(name: SnapshotRef, bytes: &[u8]) -> format::Result<Self> {
        let session = record::verify(bytes)?;
        let rest = bytes.get(session.header.record_bytes()..).unwrap_or_default();
        let manifest = record::verify(rest)?;
        let kinds = (session.header.kind, manifest.header.kind);
        let (head, signature) = Head::decode(manifest.clear)?;
        let same =
            manifest::snapshot_id(manifest.clear) == name.id && head.sequence == name.sequence;
        if kinds != (RecordKind::Session, RecordKind::Manifest) || !same {
            return Err(format::Error::Invalid { what: "snapshot" });
        }
        let (record, receipt_record) = rest.split_at(manifest.header.record_bytes());
        let (record, receipt_record) = (record.to_vec(), receipt_record.to_vec());
        let receipt = receipt(&receipt_record, &manifest.header)?;
        let session_record = bytes[..bytes.len() - rest.len()].to_vec();
        let session = session.clear.to_vec();
        Ok(Self { name, head, signature, session, record, receipt, session_record, receipt_record })
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.session_record[..], &self.record, &self.receipt_record].concat()
    }

    /// The whole session record.
    pub fn session_record(&self) -> &[u8] {
        &self.session_record
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_file_has_one_name() {
        for sequence in [1, 0xff_ffff_ffff, 0x100_0000_0000] {
            let named = SnapshotRef { sequence, id: SnapshotId([0xab; 16]) };
            let name = named.file_name();
            assert_eq!(SnapshotRef::from_file_name(&name), Some(named));
            let others = [format!("0{name}"), format!("+{}", &name[1..]), name.to_uppercase()];
            for other in others {
                assert_eq!(SnapshotRef::from_file_name(&other), None, "{other}");
            }
        }
    }
}
