//! Expiry: removes snapshots that nothing keeps any more, and signs that. It needs no key of the domain.

use super::domains::Domain;
use super::receipts::Receipts;
use clock::Reading;
use format::limits::EXPIRY_NAMES_MAX;
use ids::SnapshotId;
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
    let repository = &*domain.repository;
    let wanted: FxHashSet<_> = ids.iter().copied().collect();
    let listed: Vec<_> = repository
        .current_snapshots()?
        .into_iter()
        .filter(|name| wanted.contains(&name.id))
        .collect();
    let locked: FxHashMap<_, _> =
        repository.locked(&listed)?.into_iter().map(|(name, until)| (name.id, until)).collect();
    let free: Vec<_> = listed.into_iter().filter(|name| !locked.contains_key(&name.id)).collect();
    // Readers believe the keys that the repository names.
    repository.add_receipt_key(&lease, receipts.key())?;
    for some in free.chunks(EXPIRY_NAMES_MAX) {
        let names = some.iter().map(|name| name.id).collect();
        let record = receipts.expiry(repository.config().repository, names, now.secs);
        let record = record.map_err(|reason| Error::damaged("the expiry", reason))?;
        domain.remove(|repository| repository.expire(&lease, some, &record))?;
    }
    let (refused, removed): (Vec<_>, Vec<_>) = ids.iter().partition(|id| locked.contains_key(*id));
    let why = |until: &i64| format!("locked until {}", clock::civil::utc(*until));
    let with_reason = |id: SnapshotId| Some((id, why(locked.get(&id)?)));
    Ok(Expired { removed, refused: refused.into_iter().filter_map(with_reason).collect() })
}

fn refused(ids: &[SnapshotId], why: &str) -> Vec<(SnapshotId, String)> {
    ids.iter().map(|id| (*id, why.to_owned())).collect()
}
