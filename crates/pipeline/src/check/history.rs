//! History: is every snapshot that was created in the list, or forgotten? A missing file leaves no
//! gap in a folder; snapshots that cite it, and the containers, show it.

use super::data::ContainerFindings;
use super::structure::StructureFindings;
use super::{CheckReport, Damage};
use crate::orphans::{forgotten, verified_head};
use crate::signers::SignerCache;
use crate::{Result, UnlockedRepository};
use format::manifest::{self, Head};
use ids::{ContainerNo, SnapshotId};
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
    for stored in found.unreadable.iter().filter_map(|id| stored.get(id)) {
        report.needs_rebuild |= comes_back(&stored.head)?;
    }
    // Before the list: what is pending no more by now is in it.
    let pending = repository.local()?.pending()?;
    let listed = listed(repository, &stored)?;
    let is_expired = |id: &SnapshotId| !listed.contains(id) && expired.contains_key(id);
    report.expired = expired.keys().filter(|id| is_expired(id)).count() as u64;
    let is_known =
        |id: &SnapshotId| listed.contains(id) || forgotten.contains(id) || is_expired(id);
    stored.retain(|id, _| !is_known(id));
    // Of a copy, only what was copied can be missing; what was never copied, nobody has lost here.
    let copied = repository.local()?.copied().ok().flatten();
    let is_not_copied =
        |id: &SnapshotId| copied.as_ref().is_some_and(|copied| !copied.contains(id));
    let was_never_here = |id: &SnapshotId| !stored.contains_key(id) && is_not_copied(id);
    let cited = found.snapshots.iter().map(|snapshot| snapshot.head.previous);
    let elsewhere: FxHashSet<_> = cited.filter(was_never_here).collect();
    for snapshot in &found.snapshots {
        let before = snapshot.head.previous;
        if before == NOBODY || is_known(&before) || elsewhere.contains(&before) {
            continue;
        }
        let advice = match stored.remove(&before) {
            Some(stored) if comes_back(&stored.head)? => {
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
    for (id, one) in stored {
        if comes_back(&one.head)? {
            let is_new = pending.has(&id, one.container) || is_not_copied(&id);
            tell_orphan(id, is_new, report);
        }
    }
    Ok(())
}

/// So many containers that may hold manifests and tombstones are archived.
pub(super) fn tell_unread(containers: u64, report: &mut CheckReport) {
    let what = format!(
        "{containers} containers that are archived may hold records of snapshots: whether one is missing was not checked"
    );
    report.notes.push(Damage { what, ..Damage::default() });
}

/// A snapshot that is whole and not in the list. Nobody was told of it, or else it lost its file.
fn tell_orphan(id: SnapshotId, is_new: bool, report: &mut CheckReport) {
    let what = match is_new {
        true => format!(
            "snapshot {id} is in a container but not in the list: its backup or its copy did not finish, or its file was lost right after (the next backup, or the next copy, lists it)"
        ),
        false => format!(
            "snapshot {id} is missing and nobody forgot it (to restore it to the list: icecore rebuild)"
        ),
    };
    let told = Damage { what, snapshots: vec![id.to_string()], ..Damage::default() };
    if is_new {
        report.orphans += 1;
        report.notes.push(told);
    } else {
        report.needs_rebuild = true;
        report.damages.push(told);
    }
}

/// A snapshot whose manifest is in a container.
struct Stored {
    head: Head,
    container: ContainerNo,
}

/// The snapshots that have files. The listing may be stale, so missing ones are looked up by name.
fn listed(
    repository: &UnlockedRepository,
    stored: &FxHashMap<SnapshotId, Stored>,
) -> Result<FxHashSet<SnapshotId>> {
    let mut listed: FxHashSet<_> =
        repository.local()?.snapshots()?.iter().map(|name| name.id).collect();
    for (id, stored) in stored.iter().filter(|(id, _)| !listed.contains(id)).collect::<Vec<_>>() {
        let name = SnapshotRef { sequence: stored.head.sequence, id: *id };
        match repository.local()?.snapshot(name) {
            Err(repository::Error::SnapshotMissing(_)) => {}
            Err(error) if error.is_unreachable() => return Err(error.into()),
            _ => drop(listed.insert(*id)),
        }
    }
    Ok(listed)
}

/// The snapshots whose manifests are in containers and signed by a key of the repository.
fn stored(
    signers: &SignerCache<'_>,
    manifests: &[(ContainerNo, Vec<u8>)],
) -> Result<FxHashMap<SnapshotId, Stored>> {
    let mut stored = FxHashMap::default();
    for (container, clear) in manifests {
        if let Some(head) = verified_head(signers, clear)? {
            let one = Stored { head, container: *container };
            stored.insert(manifest::snapshot_id(clear), one);
        }
    }
    Ok(stored)
}
