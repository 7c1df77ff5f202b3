//! Forgetting on request of a node, which sends the tombstone itself, signed by a full key of the domain. Only that
//! signature is trusted, and only what the tombstone names is removed.

use super::domains::Domain;
use super::faults;
use super::key_list::key_list;
use super::request_handler::session_record;
use crypto::{Role, VerifyKey};
use format::manifest::{SIGNATURE_BYTES, TOMBSTONE_CONTEXT};
use format::receipt::{RECEIPT_CONTEXT, Receipt};
use format::record::{self, RecordKind, SealedRecord};
use ids::{KeyId, SnapshotId};
use protocol::Packet;
use repository::Repository;
use repository::receipts::ReceiptKey;
use repository::snapshots::SnapshotRef;
use rustc_hash::FxHashSet;
use server_contract::access_control::{AccessControl, FORGET_MAX, ForgetQuery, Node};

/// A verified tombstone.
pub(super) struct Tombstone {
    session: SealedRecord,
    record: SealedRecord,
    names: FxHashSet<SnapshotId>,
}

impl Tombstone {
    /// Verifies the tombstone in `bytes`: a full key of the repository that is in use must have signed it.
    pub(super) fn accept(
        repository: &Repository,
        session: &[u8],
        bytes: &[u8],
    ) -> Result<Self, Packet> {
        let session = session_record(session).map_err(|error| faults::of_engine(&error))?;
        let damaged =
            |reason| faults::of_engine(&repository::Error::damaged("the tombstone", reason));
        let invalid = || damaged(format::Error::Invalid { what: "tombstone" });
        let record = record::verify(bytes).map_err(damaged)?;
        let is_whole = record.header.record_bytes() == bytes.len();
        if record.header.kind != RecordKind::Tombstone || !is_whole {
            return Err(invalid());
        }
        let (message, signature) =
            record.clear.split_last_chunk::<SIGNATURE_BYTES>().ok_or_else(invalid)?;
        let (writer, names) = message.split_first_chunk::<{ KeyId::LEN }>().ok_or_else(invalid)?;
        let (names, []) = names.as_chunks::<{ SnapshotId::LEN }>() else { return Err(invalid()) };
        if names.is_empty() || names.len() > FORGET_MAX {
            return Err(invalid());
        }
        let is_signed = is_signed(repository, KeyId(*writer), message, signature);
        if !is_signed.map_err(|error| faults::of_engine(&error))? {
            return Err(faults::forget_unsigned());
        }
        let record = SealedRecord {
            kind: RecordKind::Tombstone,
            ids: Vec::new(),
            associated: record.associated.to_vec(),
            sealed: record.sealed.to_vec(),
        };
        let names = names.iter().map(|id| SnapshotId(*id)).collect();
        Ok(Self { session, record, names })
    }

    /// Forgets the listed snapshots that it names, and returns their number. Those forgotten before are skipped: the
    /// reply to the same request may have been lost.
    pub(super) fn forget(
        &self,
        domain: &Domain,
        node: &Node,
        name: &str,
        (access_control, keys): (&dyn AccessControl, &[ReceiptKey]),
    ) -> Result<usize, Packet> {
        let repository = &*domain.repository;
        let listed = repository.snapshots().map_err(|error| faults::of_engine(&error))?;
        let listed: Vec<_> = listed.into_iter().filter(|it| self.names.contains(&it.id)).collect();
        if listed.is_empty() {
            return Ok(0);
        }
        // A refusal for a lock is no request that was granted.
        repository.refuse_locked(&listed).map_err(|error| faults::of_engine(&error))?;
        // First of all: who has to wait and comes again has done nothing yet that is to be noted.
        let lease = domain.lease_to_free().map_err(|error| faults::of_engine(&error))?;
        let snapshots: Vec<_> = listed.iter().map(|name| name.id).collect();
        let are_own = are_of(repository, &node.name, &listed, keys)
            .map_err(|error| faults::of_engine(&error))?;
        let asked = ForgetQuery { domain: name, snapshots: &snapshots, are_own };
        access_control
            .permit_forget(node, &asked)
            .map_err(|refusal| faults::of_refusal(&refusal))?;
        let forgotten = domain
            .remove(|repository| repository.forget(&lease, &listed, &self.session, &self.record));
        forgotten.map_err(|error| faults::of_engine(&error))?;
        Ok(listed.len())
    }
}

/// Whether a full key in use has signed `message`. Removed keys and other kinds of keys may not forget.
fn is_signed(
    repository: &Repository,
    writer: KeyId,
    message: &[u8],
    signature: &[u8; SIGNATURE_BYTES],
) -> repository::Result<bool> {
    let Some(list) = key_list(repository)? else { return Ok(false) };
    let Some(signer) = list.signer(writer) else { return Ok(false) };
    let message = [TOMBSTONE_CONTEXT, &repository.config().repository.0, message].concat();
    let may = signer.is_live() && signer.role == Role::Full;
    Ok(may && signer.verify_key.verify(&message, signature).is_ok())
}

/// Whether receipts of known servers say that all of these came from `node`.
fn are_of(
    repository: &Repository,
    node: &str,
    names: &[SnapshotRef],
    keys: &[ReceiptKey],
) -> repository::Result<bool> {
    for name in names {
        match is_of(repository, node, *name, keys) {
            Ok(true) => {}
            Err(repository::Error::SnapshotMissing(_)) => {} // forgotten at this moment
            // Whose it was cannot be read any more: only who may forget all may forget that.
            Ok(false) | Err(repository::Error::Damaged { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_of(
    repository: &Repository,
    node: &str,
    name: SnapshotRef,
    keys: &[ReceiptKey],
) -> repository::Result<bool> {
    let stored = repository.snapshot(name)?;
    let Some(clear) = &stored.receipt else { return Ok(false) };
    let Ok((receipt, signature)) = Receipt::decode(clear) else { return Ok(false) };
    let Some((message, _)) = clear.split_last_chunk::<SIGNATURE_BYTES>() else { return Ok(false) };
    let message = [RECEIPT_CONTEXT, &repository.config().repository.0, message].concat();
    let is_signed = keys.contains(&receipt.key)
        && VerifyKey::from_bytes(receipt.key).verify(&message, &signature).is_ok();
    Ok(is_signed && receipt.matches(stored.name.id, &stored.head) && receipt.node == node)
}
