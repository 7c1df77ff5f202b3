//! History: whether every snapshot that was made is listed or was forgotten. A file that is gone
//! from a folder leaves no gap to see there; what cites it, and what lies in the containers, does.

use super::data::Seen;
use super::structure::Found;
use super::{Damage, Report};
use crate::manifest::{MANIFEST_CONTEXT, TOMBSTONE_CONTEXT, signed};
use crate::{Archive, Result};
use crypto::SlotInfo;
use format::manifest::{self, Head, SIGNATURE_BYTES, UNSIGNED_BYTES};
use ids::{KeyId, SnapshotId};
use rustc_hash::{FxHashMap, FxHashSet};

const NOBODY: SnapshotId = SnapshotId([0; SnapshotId::LEN]);

pub(super) fn check(
    archive: &Archive,
    found: &Found,
    seen: &Seen,
    report: &mut Report,
) -> Result<()> {
    let slots = archive.slots()?;
    let forgotten = forgotten(archive, &slots, &seen.tombstones);
    let listed: FxHashSet<_> = archive.repository.snapshots()?.iter().map(|name| name.id).collect();
    let is_known = |id: &SnapshotId| listed.contains(id) || forgotten.contains(id);
    let mut stored = stored(archive, &slots, &seen.manifests);
    stored.retain(|id, _| !is_known(id));
    for snapshot in &found.snapshots {
        let before = snapshot.head.previous;
        if before == NOBODY || is_known(&before) {
            continue;
        }
        let way = match stored.remove(&before) {
            Some(_) => "icecore rebuild brings it back",
            None => "its manifest is in no container either",
        };
        let what = format!(
            "snapshot {before} is gone and nobody forgot it ({way}); the next one of its source cites it"
        );
        let snapshots = vec![before.to_string()];
        report.damages.push(Damage { what, snapshots, ..Damage::default() });
    }
    for (id, head) in stored {
        if archive.repository.is_complete(head.root)? {
            let what = format!(
                "snapshot {id} lies in a container and is not listed: its file was lost, or its backup stopped before it was done (icecore rebuild brings it back)"
            );
            let snapshots = vec![id.to_string()];
            report.notes.push(Damage { what, snapshots, ..Damage::default() });
        }
    }
    Ok(())
}

/// The snapshots whose manifests lie in containers, signed by a key of the repository.
fn stored(
    archive: &Archive,
    slots: &[(KeyId, SlotInfo)],
    manifests: &[Vec<u8>],
) -> FxHashMap<SnapshotId, Head> {
    let mut stored = FxHashMap::default();
    for clear in manifests {
        let Ok((head, signature)) = Head::decode(clear) else { continue };
        let message = signed(archive, MANIFEST_CONTEXT, &clear[..UNSIGNED_BYTES]);
        let slot = slots.iter().find(|(id, _)| *id == head.writer);
        if slot.is_some_and(|(_, slot)| slot.verify_key.verify(&message, &signature).is_ok()) {
            stored.insert(manifest::snapshot_id(clear), head);
        }
    }
    stored
}

/// The snapshots that tombstones name. One of a key that was removed since is believed here: a
/// rebuild, which brings snapshots back, does not.
fn forgotten(
    archive: &Archive,
    slots: &[(KeyId, SlotInfo)],
    tombstones: &[Vec<u8>],
) -> FxHashSet<SnapshotId> {
    let mut dead = FxHashSet::default();
    for clear in tombstones {
        let Some((message, signature)) = clear.split_last_chunk::<SIGNATURE_BYTES>() else {
            continue;
        };
        let Some((writer, names)) = message.split_first_chunk::<{ KeyId::LEN }>() else { continue };
        let signed = signed(archive, TOMBSTONE_CONTEXT, message);
        let slot = slots.iter().find(|(id, _)| id.0 == *writer);
        if slot.is_none_or(|(_, slot)| slot.verify_key.verify(&signed, signature).is_ok()) {
            let ids = names.as_chunks::<{ SnapshotId::LEN }>().0;
            dead.extend(ids.iter().map(|id| SnapshotId(*id)));
        }
    }
    dead
}
