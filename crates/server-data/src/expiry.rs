//! Expiry: removes snapshots that nothing keeps any more, by a signed record. It needs no key of the domain. At home
//! this server signs it; on a storage server the control server did.

use super::domains::Domain;
use super::faults;
use super::receipts::Receipts;
use clock::Reading;
use format::expiry::{EXPIRY_CONTEXT, Expiry};
use format::limits::EXPIRY_NAMES_MAX;
use format::receipt::SIGNATURE_BYTES;
use ids::SnapshotId;
use protocol::Packet;
use protocol::limits::SNAPSHOTS_MAX;
use protocol::packet::SnapshotLock;
use repository::lease::Lease;
use repository::receipts::ReceiptKey;
use repository::snapshots::SnapshotRef;
use repository::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::Expired;

/// Expires the snapshots `ids` of `domain`: see `server_contract::Repositories::expire`.
pub(super) fn expire(
    domain: &Domain,
    receipts: &Receipts,
    ids: &[SnapshotId],
    now: Reading,
) -> Result<Expired> {
    if let Some(doubt) = now.doubt {
        let why = format!("nothing expires while {doubt}");
        return Ok(Expired { removed: Vec::new(), refused: refused(ids, &why) });
    }
    let lease = domain.lease_to_free()?;
    let (free, locked) = told_apart(domain, ids)?;
    let repository = domain.repository.config().repository;
    for some in free.chunks(EXPIRY_NAMES_MAX) {
        let names = some.iter().map(|name| name.id).collect();
        let clear = receipts.expiry(repository, names, now.secs);
        remove(domain, &lease, some, (receipts.key(), &clear))?;
    }
    Ok(Expired::of(ids, &locked))
}

/// Carries out an expiry that the control server signed: all of it, or nothing if one of its snapshots is locked.
/// Snapshots that are not listed are skipped, so a request whose reply was lost can be repeated.
pub(super) fn carry_out(domain: &Domain, clear: &[u8]) -> std::result::Result<Packet, Packet> {
    let expiry = signed(domain, clear).ok_or_else(faults::expiry_unsigned)?;
    let done = || -> Result<FxHashMap<SnapshotId, i64>> {
        let lease = domain.lease_to_free()?;
        let (free, locked) = told_apart(domain, &expiry.snapshots)?;
        if locked.is_empty() && !free.is_empty() {
            remove(domain, &lease, &free, (expiry.key, clear))?;
        }
        Ok(locked)
    };
    let locked = done().map_err(|error| faults::of_engine(&error))?;
    let lock = |(id, until_secs)| SnapshotLock { id, until_secs };
    Ok(Packet::Expired { locked: locked.into_iter().map(lock).collect() })
}

/// The expiry in `clear`, if it is one of this repository and the key that it names signed it.
fn signed(domain: &Domain, clear: &[u8]) -> Option<Expiry> {
    let (expiry, signature) = Expiry::decode(clear).ok()?;
    let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
    let repository = domain.repository.config().repository;
    let message = [EXPIRY_CONTEXT, &repository.0, message].concat();
    let is_signed = crypto::is_signed(&expiry.key, &message, &signature);
    // A reply names as many.
    (is_signed && expiry.snapshots.len() <= SNAPSHOTS_MAX).then_some(expiry)
}

/// Those of `ids` that are listed and free, and until when the others are locked.
fn told_apart(
    domain: &Domain,
    ids: &[SnapshotId],
) -> Result<(Vec<SnapshotRef>, FxHashMap<SnapshotId, i64>)> {
    let repository = &*domain.repository;
    let wanted: FxHashSet<_> = ids.iter().copied().collect();
    let listed = repository.current_snapshots()?.into_iter();
    let listed: Vec<_> = listed.filter(|name| wanted.contains(&name.id)).collect();
    let locked: FxHashMap<_, _> =
        repository.locked(&listed)?.into_iter().map(|(name, until)| (name.id, until)).collect();
    let free = listed.into_iter().filter(|name| !locked.contains_key(&name.id)).collect();
    Ok((free, locked))
}

/// Removes snapshots by a record that `key` signed.
fn remove(
    domain: &Domain,
    lease: &Lease,
    names: &[SnapshotRef],
    (key, clear): (ReceiptKey, &[u8]),
) -> Result<()> {
    // Readers believe the keys that the repository names.
    domain.repository.add_receipt_key(lease, key)?;
    let record = format::expiry::record(clear);
    let record = record.map_err(|reason| Error::damaged("the expiry", reason))?;
    domain.remove(|repository| repository.expire(lease, names, &record))
}

fn refused(ids: &[SnapshotId], why: &str) -> Vec<(SnapshotId, String)> {
    ids.iter().map(|id| (*id, why.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::Domains;
    use ids::RepositoryId;
    use repository::config::Config;
    use repository::keys::Keys;
    use server_contract::Repositories;

    const REPOSITORY: RepositoryId = RepositoryId([7; 16]);

    fn domain(folder: &std::path::Path) -> std::sync::Arc<Domain> {
        let config = Config::new(REPOSITORY, [1; 32], 5, 1, [1 << 12, 1 << 14, 1 << 16]);
        let keys = Keys { slots: Vec::new(), key_list: b"a list".to_vec() };
        let domains = Domains::default();
        domains.init(folder, config, &keys).unwrap();
        domains.open(folder).unwrap()
    }

    /// P-10.10.
    #[test]
    fn an_expiry_that_nobody_signed_for_this_repository_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let receipts = Receipts::open(&folder.path().join("data")).unwrap();
        let domain = domain(&folder.path().join("web"));
        let names = |count: usize| vec![SnapshotId([3; 16]); count];
        let good = receipts.expiry(REPOSITORY, names(SNAPSHOTS_MAX), 5);
        let nothing = Packet::Expired { locked: Vec::new() };
        assert_eq!(carry_out(&domain, &good), Ok(nothing.clone()), "they are not listed");
        assert_eq!(carry_out(&domain, &good), Ok(nothing), "it can be repeated");
        for at in [0, 2, 34, 50, good.len() - 1] {
            let mut flipped = good.clone();
            flipped[at] ^= 1;
            assert!(carry_out(&domain, &flipped).is_err(), "byte {at}");
        }
        let other = receipts.expiry(RepositoryId([8; 16]), names(1), 5);
        assert!(carry_out(&domain, &other).is_err(), "of another domain");
        let many = receipts.expiry(REPOSITORY, names(SNAPSHOTS_MAX + 1), 5);
        assert!(carry_out(&domain, &many).is_err(), "a reply could not name all");
        assert!(carry_out(&domain, &good[..good.len() - 16]).is_err());
        let keys = domain.repository.receipt_keys().unwrap();
        assert!(keys.is_empty(), "who removes nothing is not named: {keys:?}");
    }
}
