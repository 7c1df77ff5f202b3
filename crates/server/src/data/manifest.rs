//! Whether a node may publish a manifest: it must be signed by the node's own key, and carry the
//! number that it was given.

use crate::authority::Access;
use crypto::RootVerifyKey;
use format::manifest::{Head, MANIFEST_CONTEXT, UNSIGNED_BYTES};
use format::record::{self, RecordKind, SealedRecord};
use protocol::Packet;
use repository::Repository;

use super::faults;

/// The manifest in `bytes` as a record, if the node may publish it.
pub(super) fn accept(
    repository: &Repository,
    access: &Access,
    number: Option<u64>,
    bytes: &[u8],
) -> Result<SealedRecord, Packet> {
    let damaged = |reason| faults::of_engine(&repository::Error::damaged("the manifest", reason));
    let record = record::verify(bytes).map_err(damaged)?;
    if record.header.kind != RecordKind::Manifest || record.header.record_bytes() != bytes.len() {
        return Err(damaged(format::Error::Invalid { what: "manifest" }));
    }
    let (head, signature) = Head::decode(record.clear).map_err(damaged)?;
    if Some(head.sequence) != number {
        return Err(faults::not_allowed("the snapshot has another number than it was given"));
    }
    if access.key.is_some_and(|key| key != head.writer.0) {
        return Err(faults::not_allowed("the snapshot is signed under the name of another node"));
    }
    let unsigned = record.clear.get(..UNSIGNED_BYTES).unwrap_or_default();
    if !is_signed(repository, &head, unsigned, &signature) {
        return Err(faults::not_allowed("the snapshot is not signed by a key of this domain"));
    }
    Ok(SealedRecord {
        kind: RecordKind::Manifest,
        ids: Vec::new(),
        associated: record.associated.to_vec(),
        sealed: record.sealed.to_vec(),
    })
}

fn is_signed(repository: &Repository, head: &Head, unsigned: &[u8], signature: &[u8; 64]) -> bool {
    let config = repository.config();
    let Ok(Some(slot)) = repository.key_slot(head.writer) else { return false };
    let root = RootVerifyKey::from_bytes(config.root_key);
    let Ok(info) = crypto::verify_slot_certificate(&slot, &root) else { return false };
    let message = [MANIFEST_CONTEXT, &config.repository.0, unsigned].concat();
    info.id == head.writer && info.verify_key.verify(&message, signature).is_ok()
}
