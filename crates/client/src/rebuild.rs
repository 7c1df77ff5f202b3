//! Rebuild: index and snapshot list from the containers alone. Nothing is believed that is not
//! signed by a key of the repository.

use crate::Result;
use crate::archive::Archive;
use crate::signers::Signers;
use crate::unlisted::{forgotten, opens, signed_head};
use crypto::SlotSecret;
use ids::SnapshotId;
use repository::check::Damage;
use repository::storage::Storage;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// What a rebuild did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
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
    /// Whether the list of signers was lost, and made anew from the key slots.
    pub signers_restored: bool,
    /// What is damaged.
    pub damages: Vec<String>,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// Rebuilds. Snapshots that are not listed any more come back when all of their data is there; with
/// `incomplete` the others too.
pub fn run(storage: Arc<dyn Storage>, secret: SlotSecret<'_>, incomplete: bool) -> Result<Report> {
    let begun = Instant::now();
    // The keys are tried first: who cannot open the repository shall not rebuild it.
    Archive::unlock(
        &repository::config::Config::read(&*storage)?,
        repository::keys::key_slots(&*storage)?,
        secret,
    )?;
    let (repository, lease, found) = repository::rebuild::rebuild(&storage, "rebuild")?;
    let archive = Archive::with(repository, secret)?;
    let signers_restored = archive.restore_signers(&lease)?;
    let signers = Signers::new(&archive);
    let dead = forgotten(&signers, &found.tombstones)?;
    let present = readable(&archive)?;
    let mut report = Report {
        containers: found.containers,
        objects: found.objects,
        signers_restored,
        ..Report::default()
    };
    for manifest in &found.manifests {
        if present.contains(&manifest.id) || dead.contains(&manifest.id) {
            continue;
        }
        let Some(head) = signed_head(&signers, &manifest.clear)? else {
            report.forged += 1;
            continue;
        };
        let is_whole = archive.local()?.is_complete(head.root)? && opens(&archive, head, manifest)?;
        if !incomplete && !is_whole {
            report.incomplete += 1;
            continue;
        }
        archive.local()?.restore_manifest(&lease, manifest)?;
        report.snapshots_restored += 1;
    }
    archive.local()?.settle_snapshot_numbers(&lease)?;
    report.snapshots = archive.local()?.snapshots_now()?.len() as u64;
    report.damages = found.damages.iter().map(tell).collect();
    report.elapsed_secs = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn tell(damage: &Damage) -> String {
    let way =
        if damage.is_healable { " (its parity makes it good: icecore check --repair)" } else { "" };
    format!("container {}: {}{way}", damage.container, damage.reason)
}

/// The snapshots whose files are whole. One that is damaged is written anew from its container.
fn readable(archive: &Archive) -> Result<HashSet<SnapshotId>> {
    let mut ids = HashSet::new();
    for name in archive.local()?.snapshots_now()? {
        match archive.local()?.snapshot(name) {
            Ok(_) => ids.insert(name.id),
            Err(repository::Error::Damaged { .. }) => false,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(ids)
}
