//! Whether a node may publish a manifest: it must be signed by the node's own key, carry the number
//! that the server gave, and not continue a source of another node.

use format::manifest::{self, Head, MANIFEST_CONTEXT};
use format::record::{self, RecordKind, SealedRecord};
use protocol::Packet;
use repository::Repository;
use server_contract::access_control::{Access, Signer};

use super::faults;
use super::key_list::key_list;

/// The manifest in `bytes` as a record, with its head, if it is valid for this node and number.
pub(super) fn accept(
    repository: &Repository,
    access: &Access,
    number: Option<u64>,
    bytes: &[u8],
) -> Result<(SealedRecord, Head), Packet> {
    let damaged = |reason| faults::of_engine(&repository::Error::damaged("the manifest", reason));
    let record = record::verify(bytes).map_err(damaged)?;
    if record.header.kind != RecordKind::Manifest || record.header.record_bytes() != bytes.len() {
        return Err(damaged(format::Error::Invalid { what: "manifest" }));
    }
    let (head, signature) = Head::decode(record.clear).map_err(damaged)?;
    if Some(head.sequence) != number {
        return Err(faults::not_allowed(
            "the snapshot does not have the number that the server gave",
        ));
    }
    if access.key.is_some_and(|key| key != head.writer.0) {
        return Err(faults::not_allowed("the snapshot is signed under the name of another node"));
    }
    if head.original.is_some() {
        return Err(faults::not_allowed("tags can be changed only on the server"));
    }
    let unsigned = manifest::unsigned(record.clear);
    let is_signed = is_signed(repository, &head, unsigned, &signature);
    if !is_signed.map_err(|error| faults::of_engine(&error))? {
        return Err(faults::not_allowed("the snapshot is not signed by a key of this domain"));
    }
    let record = SealedRecord {
        kind: RecordKind::Manifest,
        ids: Vec::new(),
        associated: record.associated.to_vec(),
        sealed: record.sealed.to_vec(),
    };
    Ok((record, head))
}

/// Checks that `head` does not continue a source of the `others`.
pub(super) fn is_nobody_elses(
    repository: &Repository,
    others: &[Signer],
    head: &Head,
) -> Result<(), Packet> {
    let owner = owner(repository, others, head).map_err(|error| faults::of_engine(&error))?;
    if let Some(owner) = owner {
        return Err(faults::source_of_another(&owner.node));
    }
    Ok(())
}

fn is_signed(
    repository: &Repository,
    head: &Head,
    unsigned: &[u8],
    signature: &[u8; 64],
) -> repository::Result<bool> {
    let Some(list) = key_list(repository)? else { return Ok(false) };
    let Some(signer) = list.signer(head.writer) else { return Ok(false) };
    let message = [MANIFEST_CONTEXT, &repository.config().repository.0, unsigned].concat();
    Ok(signer.is_live() && signer.verify_key.verify(&message, signature).is_ok())
}

/// The one of the `others` to which the source of `head` belongs: the node of its newest snapshot.
/// Whoever publishes the newest snapshot chooses what the next backup builds on, and could so make the
/// backup of another node leave files out.
fn owner<'a>(
    repository: &Repository,
    others: &'a [Signer],
    head: &Head,
) -> repository::Result<Option<&'a Signer>> {
    if others.is_empty() {
        return Ok(None);
    }
    let newest = repository.latest_snapshot(&head.source)?;
    let writer = newest.map(|newest| newest.head.writer).filter(|writer| *writer != head.writer);
    Ok(writer.and_then(|writer| others.iter().find(|other| other.key == writer.0)))
}
