//! Rebuild: index and snapshot list from the containers alone. Nothing is believed that is not
//! signed by a key of the repository.

use crate::Result;
use crate::orphans::{can_open, forgotten, verified_head};
use crate::signers::SignerCache;
use crate::unlocked::UnlockedRepository;
use crypto::SlotSecret;
use crypto::session::epoch_of;
use ids::{KeyEpoch, SnapshotId};
use repository::check::ContainerDamage;
use repository::rebuild::RebuildOutcome;
use repository::storage::Storage;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// What a rebuild did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RebuildReport {
    /// Containers read.
    pub containers: u64,
    /// Objects now in the index.
    pub objects: u64,
    /// Snapshots there are now.
    pub snapshots: u64,
    /// Snapshots that were not in the list and are again.
    pub snapshots_restored: u64,
    /// Manifests without a good signature, left alone.
    pub forged: u64,
    /// Manifests of which something is missing, left alone unless asked for. A backup that failed
    /// in its last step leaves one, and a reclaim may have taken what it needs.
    pub incomplete: u64,
    /// Whether the key list was lost or of the past, and made anew with the key slots.
    pub key_list_restored: bool,
    /// What is damaged.
    pub damages: Vec<String>,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// Rebuilds. Snapshots that are not listed any more come back when all of their data is there; with
/// `incomplete` the others too.
pub fn run(
    storage: Arc<dyn Storage>,
    secret: SlotSecret<'_>,
    incomplete: bool,
) -> Result<RebuildReport> {
    let begun = Instant::now();
    // The keys are tried first: who cannot open the repository shall not rebuild it.
    UnlockedRepository::unlock(
        &repository::config::Config::read(&*storage)?,
        repository::keys::key_slots(&*storage)?,
        secret,
    )?;
    let (repository, lease, found) = repository::rebuild::rebuild(&storage, "rebuild")?;
    let repository = UnlockedRepository::open_local(repository, secret)?;
    let key_list_restored =
        repository.restore_key_list(&lease, latest_epoch(&repository, &found)?)?;
    let signers = SignerCache::new(&repository);
    let dead = forgotten(&signers, &found.tombstones)?;
    let present = readable(&repository)?;
    let mut report = RebuildReport {
        containers: found.containers,
        objects: found.objects,
        key_list_restored,
        ..RebuildReport::default()
    };
    for manifest in &found.manifests {
        if present.contains(&manifest.id) || dead.contains(&manifest.id) {
            continue;
        }
        let Some(head) = verified_head(&signers, &manifest.clear)? else {
            report.forged += 1;
            continue;
        };
        let is_whole =
            repository.local()?.is_complete(head.root)? && can_open(&repository, head, manifest)?;
        if !incomplete && !is_whole {
            report.incomplete += 1;
            continue;
        }
        repository.local()?.restore_manifest(&lease, manifest)?;
        report.snapshots_restored += 1;
    }
    repository.local()?.settle_snapshot_numbers(&lease)?;
    report.snapshots = repository.local()?.current_snapshots()?.len() as u64;
    report.damages = found.damages.iter().map(tell).collect();
    report.elapsed_secs = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// The latest key epoch in which something was stored, by what opens: anybody could write a number.
/// (Who may only write opens nothing, and changes no keys.)
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

fn tell(damage: &ContainerDamage) -> String {
    let way =
        if damage.is_healable { " (its parity makes it good: icecore check --repair)" } else { "" };
    format!("container {}: {}{way}", damage.container, damage.reason)
}

/// The snapshots whose files are whole. One that is damaged is written anew from its container.
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
