//! History: whether every snapshot that was made is listed or was forgotten. A file that is gone
//! from a folder leaves no gap to see there; what cites it, and what lies in the containers, does.

use super::data::ContainerFindings;
use super::structure::StructureFindings;
use super::{CheckReport, Damage};
use crate::orphans::{forgotten, verified_head};
use crate::signers::SignerCache;
use crate::{Result, UnlockedRepository};
use format::manifest::{self, Head};
use ids::SnapshotId;
use repository::snapshots::SnapshotRef;
use rustc_hash::{FxHashMap, FxHashSet};

const NOBODY: SnapshotId = SnapshotId([0; SnapshotId::LEN]);

pub(super) fn check(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    seen: &ContainerFindings,
    report: &mut CheckReport,
) -> Result<()> {
    let signers = SignerCache::new(repository);
    // One of a key that was removed since explains a gap as well as any.
    let forgotten = forgotten(&signers, &seen.tombstones)?;
    let mut stored = stored(&signers, &seen.manifests)?;
    let comes_back =
        |head: &Head| -> Result<bool> { Ok(repository.local()?.is_complete(head.root)?) };
    for head in found.unreadable.iter().filter_map(|id| stored.get(id)) {
        report.needs_rebuild |= comes_back(head)?;
    }
    let listed = listed(repository, &stored)?;
    let is_known = |id: &SnapshotId| listed.contains(id) || forgotten.contains(id);
    stored.retain(|id, _| !is_known(id));
    for snapshot in &found.snapshots {
        let before = snapshot.head.previous;
        if before == NOBODY || is_known(&before) {
            continue;
        }
        let way = match stored.remove(&before) {
            Some(head) if comes_back(&head)? => {
                report.needs_rebuild = true;
                "icecore rebuild brings it back"
            }
            Some(_) => "its manifest lies in a container, but not all of its data does",
            None => "its manifest is in no container either",
        };
        let what = format!(
            "snapshot {before} is gone and nobody forgot it ({way}); the next one of its source cites it"
        );
        let snapshots = vec![before.to_string()];
        report.damages.push(Damage { what, snapshots, ..Damage::default() });
    }
    for (id, head) in stored {
        if comes_back(&head)? {
            let what = format!(
                "snapshot {id} lies in a container and is not listed: its file was lost, or its backup stopped before it was done (icecore rebuild brings it back)"
            );
            let snapshots = vec![id.to_string()];
            report.notes.push(Damage { what, snapshots, ..Damage::default() });
        }
    }
    Ok(())
}

/// The snapshots that have files. The list may be of the past: what it lacks is looked for by name.
fn listed(
    repository: &UnlockedRepository,
    stored: &FxHashMap<SnapshotId, Head>,
) -> Result<FxHashSet<SnapshotId>> {
    let mut listed: FxHashSet<_> =
        repository.local()?.snapshots()?.iter().map(|name| name.id).collect();
    for (id, head) in stored.iter().filter(|(id, _)| !listed.contains(id)).collect::<Vec<_>>() {
        let name = SnapshotRef { sequence: head.sequence, id: *id };
        match repository.local()?.snapshot(name) {
            Err(repository::Error::SnapshotMissing(_)) => {}
            Err(error) if error.is_unreachable() => return Err(error.into()),
            _ => drop(listed.insert(*id)),
        }
    }
    Ok(listed)
}

/// The snapshots whose manifests lie in containers, signed by a key of the repository.
fn stored(signers: &SignerCache<'_>, manifests: &[Vec<u8>]) -> Result<FxHashMap<SnapshotId, Head>> {
    let mut stored = FxHashMap::default();
    for clear in manifests {
        let head = verified_head(signers, clear)?;
        stored.extend(head.map(|head| (manifest::snapshot_id(clear), head)));
    }
    Ok(stored)
}
