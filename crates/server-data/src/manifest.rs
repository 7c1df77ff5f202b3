//! Whether a node may publish a manifest: it must be signed by the node's own key, carry the number
//! that the server gave, and not continue a source of another node.

use format::manifest::{self, Head, MANIFEST_CONTEXT};
use format::record::{self, RecordKind, SealedRecord};
use ids::KeyId;
use protocol::Packet;
use repository::snapshots::StoredSnapshot;
use repository::{Error, Repository};
use server_contract::access_control::{Access, Signer};

use super::faults;
use super::key_list::key_list;
use std::cmp::Reverse;

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

/// Checks that `head`, a manifest of `node`, does not continue a source of the `others`.
pub(super) fn is_nobody_elses(
    repository: &Repository,
    node: &str,
    others: &[Signer],
    head: &Head,
) -> Result<(), Packet> {
    let owner = owner(repository, node, others, head).map_err(|error| faults::of_engine(&error))?;
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

/// The one of the `others` to which the source of `head`, a manifest of `node`, belongs: the one that made its newest
/// snapshot. Whoever publishes the newest snapshot chooses what the next backup builds on, and could so make the backup
/// of another node leave files out. Snapshots that an administrator makes with the server's key are passed over: they
/// leave the source with its node.
fn owner<'a>(
    repository: &Repository,
    node: &str,
    others: &'a [Signer],
    head: &Head,
) -> repository::Result<Option<&'a Signer>> {
    if others.is_empty() {
        return Ok(None);
    }
    let nodes = Nodes { node, key: head.writer, others };
    let Some(newest) = repository.latest_snapshot(&head.source)? else { return Ok(None) };
    if let Some(maker) = nodes.maker_of(repository, &newest)? {
        return Ok(maker.other());
    }
    let earlier = repository.snapshots()?.into_iter();
    let mut earlier: Vec<_> = earlier.filter(|name| name.sequence < newest.name.sequence).collect();
    earlier.sort_unstable_by_key(|name| Reverse(name.sequence));
    for name in earlier {
        let stored = match repository.snapshot(name) {
            Ok(stored) if stored.head.source == head.source => stored,
            Ok(_) | Err(Error::SnapshotMissing(_) | Error::Damaged { .. }) => continue,
            Err(error) => return Err(error),
        };
        if let Some(maker) = nodes.maker_of(repository, &stored)? {
            return Ok(maker.other());
        }
    }
    Ok(None)
}

/// A node that publishes, and the other nodes of its domain.
struct Nodes<'n, 'a> {
    node: &'n str,
    key: KeyId,
    others: &'a [Signer],
}

/// Who made a snapshot.
enum Maker<'a> {
    /// The node that publishes.
    Itself,
    /// Another node of the domain.
    Other(&'a Signer),
    /// A node that the domain no longer has.
    Gone,
}

impl<'a> Maker<'a> {
    fn other(self) -> Option<&'a Signer> {
        match self {
            Self::Other(signer) => Some(signer),
            Self::Itself | Self::Gone => None,
        }
    }
}

impl<'a> Nodes<'_, 'a> {
    /// Who made `stored`, by its key or by its receipt: other tags change the key, and so does another enrollment.
    /// `None` for what no node made.
    fn maker_of(
        &self,
        repository: &Repository,
        stored: &StoredSnapshot,
    ) -> repository::Result<Option<Maker<'a>>> {
        let other = |is: &dyn Fn(&Signer) -> bool| self.others.iter().find(|other| is(other));
        if stored.head.writer == self.key {
            return Ok(Some(Maker::Itself));
        }
        if let Some(signer) = other(&|other| other.key == stored.head.writer.0) {
            return Ok(Some(Maker::Other(signer)));
        }
        let Some(receipt) = repository.received(stored.name)?.receipt else { return Ok(None) };
        if receipt.node == self.node {
            return Ok(Some(Maker::Itself));
        }
        let signer = other(&|other| other.node == receipt.node);
        Ok(Some(signer.map_or(Maker::Gone, Maker::Other)))
    }
}
