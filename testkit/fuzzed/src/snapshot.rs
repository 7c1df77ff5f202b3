//! Snapshot files: what is read is what its name says.

use format::manifest::{self, Head};
use format::record;
use crate::memory::Memory;
use repository::snapshots::{SnapshotRef, read};

/// The name that fits the manifest in `bytes`, if there is one.
fn name(bytes: &[u8]) -> Option<SnapshotRef> {
    let session = record::Header::decode(bytes).ok()?;
    let manifest = record::split(bytes.get(session.record_bytes()..)?).ok()?;
    let (head, _) = Head::decode(manifest.clear).ok()?;
    Some(SnapshotRef { sequence: head.sequence, id: manifest::snapshot_id(manifest.clear) })
}

/// Both records with good sums.
fn summed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = bytes;
    for _ in 0..2 {
        let length = record::Header::decode(rest).ok()?.record_bytes();
        let (record, tail) = rest.split_at_checked(length)?;
        out.extend(crate::summed(&record[..length - 16]));
        rest = tail;
    }
    Some(out)
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    for bytes in [Some(bytes.to_vec()), summed(bytes)].into_iter().flatten() {
        let other = SnapshotRef { sequence: 0, id: ids::SnapshotId([0; 16]) };
        let name = name(&bytes).unwrap_or(other);
        let file = format!("snapshots/{:010x}-{}", name.sequence, name.id);
        let storage = Memory::with(&[(&file, &bytes)]);
        if let Ok(stored) = read(&*storage, name) {
            assert_eq!((stored.name, stored.head.sequence), (name, name.sequence));
        }
    }
}
