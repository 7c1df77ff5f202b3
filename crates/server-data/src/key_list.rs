//! The key list of a domain, as the data plane sees it: it has no key, and verifies.

use super::faults;
use crypto::session::epoch_of;
use crypto::{RootVerifyKey, SignedKeyList};
use format::record::{SealedRecord, head_only};
use protocol::Packet;
use repository::Repository;

/// The key list of `repository`; `None` if there is none that its root key signed.
pub(super) fn key_list(repository: &Repository) -> repository::Result<Option<SignedKeyList>> {
    let config = repository.config();
    let Some(list) = repository.key_list()? else { return Ok(None) };
    let root = RootVerifyKey::from_bytes(config.root_key);
    Ok(SignedKeyList::verify(&list, &root, config.repository).ok())
}

/// Checks that `session` is sealed in the current key epoch: otherwise a removed key could read it.
/// Without a list nothing is published anyway.
pub(super) fn accept(repository: &Repository, session: &SealedRecord) -> Result<(), Packet> {
    let list = key_list(repository).map_err(|error| faults::of_engine(&error))?;
    let damaged =
        |reason| faults::of_engine(&repository::Error::damaged("the session record", reason));
    let clear = head_only(&session.associated).map_err(damaged)?.clear;
    let wrong = || damaged(format::Error::Invalid { what: "sealed session" });
    let sealed = epoch_of(clear).ok_or_else(wrong)?;
    match list {
        Some(list) if list.epoch() != sealed => Err(faults::other_epoch(sealed, list.epoch())),
        _ => Ok(()),
    }
}
