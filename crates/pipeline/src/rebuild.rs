//! Rebuild: the index and the list of snapshots from the containers alone. Only what a key of the
//! repository signed is trusted.

use crate::Result;
use crate::orphans::{can_open, is_gone, removed, verified_head};
use crate::signers::SignerCache;
use crate::unlocked::UnlockedRepository;
use crypto::SlotSecret;
use crypto::session::epoch_of;
use ids::{KeyEpoch, SnapshotId};
use repository::check::ContainerDamage;
use repository::lease::Lease;
use repository::rebuild::RebuildOutcome;
use repository::storage::Storage;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// The result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RebuildReport {
    /// Containers read.
    pub containers: u64,
    /// Objects in the index now.
    pub objects: u64,
    /// Snapshots in the list now.
    pub snapshots: u64,
    /// Orphaned snapshots that were restored to the list.
    pub snapshots_restored: u64,
    /// Manifests without a valid signature, which were ignored.
    pub forged: u64,
    /// Snapshots whose data is incomplete, ignored unless requested. A backup that failed in its
    /// last step leaves one, and a reclaim may have removed what it needs.
    pub incomplete: u64,
    /// Whether the key list was lost or old, and rebuilt from the key slots.
    pub key_list_restored: bool,
    /// Damage that was found.
    pub damages: Vec<String>,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// Rebuilds the repository. Orphaned snapshots are restored to the list if all of their data is
/// there; with `incomplete`, also the others.
///
/// # Errors
/// [`crate::Error::WrongKey`] when `secret` opens no key slot.
pub fn run(
    storage: Arc<dyn Storage>,
    secret: SlotSecret<'_>,
    incomplete: bool,
) -> Result<RebuildReport> {
    let begun = Instant::now();
    // The keys are tried first: only who can open the repository may rebuild it.
    UnlockedRepository::unlock(
        &repository::config::read(&*storage)?,
        repository::keys::key_slots(&*storage)?,
        secret,
        || repository::keys::key_list(&*storage).ok().flatten(),
    )?;
    let (repository, lease, found) = repository::rebuild::rebuild(&storage, "rebuild")?;
    let repository = UnlockedRepository::open_local(repository, secret)?;
    let report = repository.with_reserve(|| list_again(&repository, &lease, &found, incomplete))?;
    Ok(RebuildReport { elapsed_secs: begun.elapsed().as_secs_f64(), ..report })
}

/// Writes the key list, if it is lost, and lists the snapshots that were lost.
fn list_again(
    repository: &UnlockedRepository,
    lease: &Lease,
    found: &RebuildOutcome,
    incomplete: bool,
) -> Result<RebuildReport> {
    let key_list_restored = repository.restore_key_list(lease, latest_epoch(repository, found)?)?;
    let signers = SignerCache::new(repository);
    let dead = removed(&signers, &found.tombstones, &found.expiries)?;
    let present = readable(repository)?;
    let mut report = RebuildReport {
        containers: found.containers,
        objects: found.objects,
        key_list_restored,
        ..RebuildReport::default()
    };
    for manifest in &found.manifests {
        if present.contains(&manifest.id) || is_gone(repository.local()?, &dead, manifest)? {
            continue;
        }
        let Some(head) = verified_head(&signers, &manifest.clear)? else {
            report.forged += 1;
            continue;
        };
        let is_whole =
            repository.local()?.is_complete(head.root)? && can_open(repository, head, manifest)?;
        if !incomplete && !is_whole {
            report.incomplete += 1;
            continue;
        }
        repository.local()?.restore_manifest(lease, manifest)?;
        report.snapshots_restored += 1;
    }
    remove_misnamed(repository, lease)?;
    repository.local()?.settle_snapshot_numbers(lease)?;
    report.snapshots = repository.local()?.current_snapshots()?.len() as u64;
    report.damages = found.damages.iter().map(tell).collect();
    report.damages.extend(without_containers(&report));
    Ok(report)
}

/// The latest key epoch in which something was stored, judged by records that can be opened, since
/// anybody could write a number. (A write-only key opens nothing, and changes no keys.)
fn latest_epoch(
    repository: &UnlockedRepository,
    found: &RebuildOutcome,
) -> Result<Option<KeyEpoch>> {
    let Some(blocks) = &repository.blocks else { return Ok(None) };
    let snapshots = repository.local()?.current_snapshots()?.into_iter();
    let stored = snapshots.filter_map(|name| repository.local().ok()?.snapshot(name).ok());
    let mut sessions: Vec<_> = stored.map(|stored| stored.session).collect();
    sessions.extend_from_slice(&found.sessions);
    sessions.sort_by_cached_key(|sealed| Reverse(epoch_of(sealed)));
    let opens = |sealed: &&Vec<u8>| blocks.opener().learn_session(sealed).is_ok();
    Ok(sessions.iter().find(opens).and_then(|sealed| epoch_of(sealed)))
}

/// What is wrong where nothing is left of what the snapshots need: an index of nothing is no success.
fn without_containers(report: &RebuildReport) -> Option<String> {
    let is_empty = report.containers == 0 && report.snapshots > 0;
    is_empty.then(|| {
        format!(
            "containers/ holds no container, so the data of all {} listed snapshots is missing. Bring back what it held, then: icecore rebuild. From a copy: icecore check --repair --copies COPY",
            report.snapshots
        )
    })
}

fn tell(damage: &ContainerDamage) -> String {
    let advice =
        if damage.is_healable { " (parity can heal it: icecore check --repair)" } else { "" };
    format!("container {}: {}{advice}", damage.container, damage.reason)
}

/// Removes what is called by another number than the snapshot in it, which is there under its own, too: somebody has
/// copied or renamed its file. Nothing can be read from it, and a reclaim would wait for it for ever.
fn remove_misnamed(repository: &UnlockedRepository, lease: &Lease) -> Result<()> {
    let local = repository.local()?;
    let mut names = local.current_snapshots()?;
    names.sort_unstable_by_key(|name| name.id);
    // Almost always each has one name, and nothing is read.
    for of_one in names.chunk_by(|one, other| one.id == other.id).filter(|names| names.len() > 1) {
        if !of_one.iter().any(|name| local.snapshot(*name).is_ok()) {
            continue;
        }
        for name in of_one {
            if matches!(local.snapshot(*name), Err(repository::Error::Damaged { .. })) {
                // One that is locked stays, and costs nothing else.
                let _ = local.remove_misnamed(lease, *name);
            }
        }
    }
    Ok(())
}

/// The snapshots whose files are intact. A damaged one is rewritten from its container.
fn readable(repository: &UnlockedRepository) -> Result<HashSet<SnapshotId>> {
    let mut ids = HashSet::new();
    for name in repository.local()?.current_snapshots()? {
        match repository.local()?.snapshot(name) {
            Ok(_) => ids.insert(name.id),
            Err(repository::Error::Damaged { .. }) => false,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(ids)
}
