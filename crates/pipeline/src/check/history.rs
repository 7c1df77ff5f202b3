//! History: is every snapshot that was created in the list, or forgotten? A missing file leaves no
//! gap in a folder; snapshots that cite it, and the containers, show it.

use super::data::ContainerFindings;
use super::structure::StructureFindings;
use super::{CheckReport, Damage};
use crate::orphans::{forgotten, verified_head};
use crate::signers::SignerCache;
use crate::{Result, UnlockedRepository};
use format::manifest::{self, Head};
use ids::SnapshotId;
use rustc_hash::{FxHashMap, FxHashSet};
use store::SnapshotRef;

const NOBODY: SnapshotId = SnapshotId([0; SnapshotId::LEN]);

pub(super) fn check(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    seen: &ContainerFindings,
    report: &mut CheckReport,
) -> Result<()> {
    let signers = SignerCache::new(repository);
    // Tombstones of keys that were removed since are valid, too.
    let forgotten = forgotten(&signers, &seen.tombstones)?;
    let expired = repository.local()?.expired(&seen.expiries)?;
    let mut stored = stored(&signers, &seen.manifests)?;
    let comes_back =
        |head: &Head| -> Result<bool> { Ok(repository.local()?.is_complete(head.root)?) };
    for head in found.unreadable.iter().filter_map(|id| stored.get(id)) {
        report.needs_rebuild |= comes_back(head)?;
    }
    let listed = listed(repository, &stored)?;
    let is_expired = |id: &SnapshotId| !listed.contains(id) && expired.contains_key(id);
    report.expired = expired.keys().filter(|id| is_expired(id)).count() as u64;
    let is_known =
        |id: &SnapshotId| listed.contains(id) || forgotten.contains(id) || is_expired(id);
    stored.retain(|id, _| !is_known(id));
    // Of a copy, only what was copied can be missing; what was never copied, nobody has lost here.
    let copied = repository.local()?.copied().ok().flatten();
    let was_never_here = |id: &SnapshotId| {
        !stored.contains_key(id) && copied.as_ref().is_some_and(|copied| !copied.contains(id))
    };
    let cited = found.snapshots.iter().map(|snapshot| snapshot.head.previous);
    let elsewhere: FxHashSet<_> = cited.filter(was_never_here).collect();
    for snapshot in &found.snapshots {
        let before = snapshot.head.previous;
        if before == NOBODY || is_known(&before) || elsewhere.contains(&before) {
            continue;
        }
        let advice = match stored.remove(&before) {
            Some(head) if comes_back(&head)? => {
                report.needs_rebuild = true;
                "to restore it to the list: icecore rebuild"
            }
            Some(_) => "its manifest is in a container, but some of its data is missing",
            None => "its manifest is missing from all containers, too",
        };
        let what = format!(
            "snapshot {before} is missing and nobody forgot it ({advice}); the next snapshot of its source cites it"
        );
        let snapshots = vec![before.to_string()];
        report.damages.push(Damage { what, snapshots, ..Damage::default() });
    }
    for (id, head) in stored {
        if comes_back(&head)? {
            let what = format!(
                "snapshot {id} is in a container but not in the list: its file was lost, or its backup did not finish (to restore it to the list: icecore rebuild)"
            );
            let snapshots = vec![id.to_string()];
            report.notes.push(Damage { what, snapshots, ..Damage::default() });
            report.orphans += 1;
        }
    }
    Ok(())
}

/// The snapshots that have files. The listing may be stale, so missing ones are looked up by name.
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

/// The snapshots whose manifests are in containers and signed by a key of the repository.
fn stored(signers: &SignerCache<'_>, manifests: &[Vec<u8>]) -> Result<FxHashMap<SnapshotId, Head>> {
    let mut stored = FxHashMap::default();
    for clear in manifests {
        let head = verified_head(signers, clear)?;
        stored.extend(head.map(|head| (manifest::snapshot_id(clear), head)));
    }
    Ok(stored)
}
