//! A copy follows its first place: what expired there goes from the copy, too, later. Who says that it expired is the
//! server of the first place, with its signature; what only is missing there stays in the copy.

use super::opened;
use crate::keyless::{orphans, reclaim_beside};
use crate::unlocked::holder;
use crate::{Error, Result};
use format::expiry;
use ids::SnapshotId;
use repository::Repository;
use repository::expiries::SeenExpiries;
use repository::lease::Lease;
use repository::reclaim::{ReclaimOptions, ReclaimOutcome};
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::watch::Watch;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What went from a copy.
#[derive(Clone, Debug, Default)]
pub struct FollowReport {
    /// Snapshots that were removed.
    pub snapshots: u64,
    /// What the reclaim behind it did, if any were.
    pub reclaimed: Option<ReclaimOutcome>,
}

/// The snapshots of a copy that it keeps, although they expired.
pub type Keeps<'a> = dyn Fn(&Repository) -> repository::Result<BTreeSet<SnapshotId>> + 'a;

/// Removes from the copy in `target` what expired in `source` before a time, in seconds since 1970, and is not there any
/// more; then reclaims the space. What is locked, or what it `keeps`, stays.
///
/// # Errors
/// [`Error::Usage`] when `target` is no copy of `source`, or may have lost snapshots; those of both storages.
pub fn remove_expired(
    source: &Repository,
    target: &Arc<dyn Storage>,
    (before_secs, options): (i64, ReclaimOptions),
    keeps: &Keeps<'_>,
    watch: &dyn Watch,
) -> Result<FollowReport> {
    source.verify_with(crypto::is_signed);
    let target = opened(source, target)?;
    target.verify_with(crypto::is_signed);
    let lease = target.lease(&holder("copy"))?;
    let left = removable(source, &target, keeps)?;
    let snapshots = remove(source, &target, &lease, left, before_secs)?;
    if snapshots == 0 {
        return Ok(FollowReport::default());
    }
    let reclaimed = Some(reclaim_beside(&target, &lease, options, watch)?);
    Ok(FollowReport { snapshots, reclaimed })
}

fn remove(
    source: &Repository,
    target: &Repository,
    lease: &Lease,
    mut left: Vec<SnapshotRef>,
    before: i64,
) -> Result<u64> {
    if left.is_empty() {
        return Ok(0); // to look for expiries costs a read of each container
    }
    let mut removed = 0;
    for clear in source.expiries(&mut SeenExpiries::default())? {
        if left.is_empty() {
            break;
        }
        let signed = source.expired(std::slice::from_ref(&clear))?;
        let goes = |name: &SnapshotRef| signed.get(&name.id).is_some_and(|secs| *secs < before);
        let (names, others): (Vec<_>, Vec<_>) = left.into_iter().partition(goes);
        left = others;
        if !names.is_empty() {
            target.expire(lease, &names, &expiry::record(&clear).map_err(Error::from)?)?;
            removed += names.len() as u64;
        }
    }
    Ok(removed)
}

/// Takes from copies what they know of snapshots that seem lost here, since nothing here says that they expired: what
/// said so was lost. How many there were.
///
/// # Errors
/// Those of the storages.
pub(crate) fn take_expiries(
    repository: &Repository,
    lease: &Lease,
    copies: &[Arc<Repository>],
) -> Result<u64> {
    let mut lost: BTreeSet<SnapshotId> = orphans(repository)?.into_iter().collect();
    let before = lost.len();
    for copy in copies {
        if lost.is_empty() {
            break;
        }
        for clear in copy.expiries(&mut SeenExpiries::default())? {
            let signed = repository.expired(std::slice::from_ref(&clear))?;
            if lost.iter().any(|id| signed.contains_key(id)) {
                repository.expire(lease, &[], &expiry::record(&clear).map_err(Error::from)?)?;
                lost.retain(|id| !signed.contains_key(id));
            }
        }
    }
    Ok((before - lost.len()) as u64)
}

/// What the copy has and the first place has not, without what is locked or is to be kept.
fn removable(
    source: &Repository,
    target: &Repository,
    keeps: &Keeps<'_>,
) -> Result<Vec<SnapshotRef>> {
    let there = target.current_snapshots()?;
    let in_source: BTreeSet<SnapshotId> =
        source.current_snapshots()?.iter().map(|name| name.id).collect();
    let gone = there.into_iter().filter(|name| !in_source.contains(&name.id));
    let mut gone: Vec<_> = gone.collect();
    if gone.is_empty() {
        return Ok(gone);
    }
    let kept = keeps(target)?;
    gone.retain(|name| !kept.contains(&name.id));
    let locked = target.locked(&gone)?;
    let is_locked = |name: &SnapshotRef| locked.iter().any(|(held, _)| held == name);
    Ok(gone.into_iter().filter(|name| !is_locked(name)).collect())
}
