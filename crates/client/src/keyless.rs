//! What can be done with a repository without any of its keys: say whether all of it is there and as it was written,
//! and give back the space of what was forgotten. For who keeps the repositories of others, and may not read them.

use crate::manifest::MANIFEST_CONTEXT;
use crate::manifest::TOMBSTONE_CONTEXT;
use crate::orphans::{self, SnapshotRecords};
use crate::{Error, Result};
use crypto::{RootVerifyKey, SignedKeyList, VerifyKey};
use format::manifest::{Head, SIGNATURE_BYTES};
use format::record;
use ids::{ContainerNo, KeyId, RecordLocation, SnapshotId};
use repository::Repository;
use repository::check::{ContainerDamage, containers_in_index, open_container};
use repository::lease::LeasePurpose;
use repository::reclaim::{self, ReclaimOptions, ReclaimOutcome};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::collections::BTreeSet;

/// Damages that are told one by one; all are counted.
const TOLD_MAX: usize = 100;
/// Snapshots that are named when reclaim refuses.
const NAMED_MAX: usize = 5;

/// What a check without keys found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScrubReport {
    /// Snapshots that are listed.
    pub snapshots: u64,
    /// Containers that were read.
    pub containers: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What is damaged or missing.
    pub damaged: u64,
    /// The first of these, for people.
    pub damages: Vec<String>,
}

impl ScrubReport {
    fn damage(&mut self, text: String) {
        self.damaged += 1;
        if self.damages.len() < TOLD_MAX {
            self.damages.push(text);
        }
    }
}

/// Reads every record of every container and compares its checksum; looks whether all that each snapshot needs is in
/// the index. Whether what is sealed is what it should be, only who has a key can say.
pub fn scrub(repository: &Repository) -> Result<ScrubReport> {
    let mut report = ScrubReport::default();
    for name in repository.current_snapshots()? {
        report.snapshots += 1;
        match repository.snapshot(name) {
            Ok(stored) if repository.is_complete(stored.head.root)? => {}
            Ok(_) => {
                report.damage(format!("snapshot {}: something that it needs is missing", name.id))
            }
            Err(repository::Error::SnapshotMissing(_)) => {} // forgotten at this moment
            Err(error) if error.is_unreachable() => return Err(error.into()),
            Err(error) => report.damage(format!("snapshot {}: {error}", name.id)),
        }
    }
    let there = repository.current_containers()?;
    let mut all: BTreeSet<ContainerNo> = containers_in_index(repository)?.into_iter().collect();
    all.extend(there.iter().filter(|file| file.finished).map(|file| file.number));
    for number in all {
        container(repository, number, &mut report)?;
    }
    history(repository, &mut report)?;
    Ok(report)
}

/// Snapshots that nobody forgot, that a later one of their source cites, and whose files are gone. One that nothing cites may be
/// of a backup that stopped before it was done.
fn history(repository: &Repository, report: &mut ScrubReport) -> Result<()> {
    let orphans: FxHashSet<_> = match orphans(repository) {
        Ok(orphans) => orphans.into_iter().collect(),
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => {
            report.damage(format!("whether a snapshot was lost cannot be said: {error}"));
            return Ok(());
        }
    };
    for name in repository.snapshots()? {
        let Ok(stored) = repository.snapshot(name) else { continue };
        if orphans.contains(&stored.head.previous) {
            report.damage(format!(
                "snapshot {} is gone and nobody forgot it: icecore rebuild brings it back",
                stored.head.previous
            ));
        }
    }
    Ok(())
}

fn container(repository: &Repository, number: ContainerNo, report: &mut ScrubReport) -> Result<()> {
    let mut damages: Vec<ContainerDamage> = Vec::new();
    let opened = open_container(repository, number, &mut damages)?;
    for damage in damages {
        report.damage(format!("container {}: {}", number.0, damage.reason));
    }
    let Some(opened) = opened else { return Ok(()) };
    report.containers += 1;
    let mut bytes = Vec::new();
    for row in &opened.rows {
        let place = RecordLocation { container: number, offset: row.offset, length: row.length };
        match opened.reader.read(place, &mut bytes) {
            Err(error) if error.is_unreachable() => return Err(error.into()),
            Err(error) => report.damage(format!("container {}: {error}", number.0)),
            Ok(()) => {
                (report.records, report.bytes) =
                    (report.records + 1, report.bytes + bytes.len() as u64);
                if let Err(reason) = record::verify(&bytes) {
                    report.damage(format!("container {}, at {}: {reason}", number.0, row.offset));
                }
            }
        }
    }
    Ok(())
}

/// Gives back the space of what no snapshot needs. What is partly dead is copied record by record. When a snapshot that
/// nobody forgot is in no list, its file was lost, and its data would look dead: then nothing is done, until
/// somebody with a key has brought it back.
///
/// # Errors
/// [`Error::Usage`] in that case; those of the engine.
pub fn reclaim(
    repository: &Repository,
    holder: &str,
    options: ReclaimOptions,
) -> Result<ReclaimOutcome> {
    let lease = repository.lease_for(holder, LeasePurpose::Reclaim)?;
    let orphans = orphans(repository)?;
    if !orphans.is_empty() {
        let names: Vec<_> = orphans.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        return Err(Error::Usage(format!(
            "{} that nobody forgot are in no list ({}): nothing is removed",
            orphans.len(),
            names.join(", ")
        )));
    }
    let mut done = reclaim::run(repository, &lease, options, None);
    if matches!(&done, Err(error) if error.is_full()) && repository.release_reserve()? {
        done = reclaim::run(repository, &lease, options, None);
    }
    repository.fill_reserve();
    Ok(done?)
}

/// Snapshots of known keys that are whole, in no list, and that no known key forgot.
fn orphans(repository: &Repository) -> Result<Vec<SnapshotId>> {
    let records: SnapshotRecords = orphans::scan_containers(repository, false)?;
    let keys = verify_keys(repository)?;
    let dead = forgotten(repository, &keys, &records.tombstones);
    let listed: FxHashSet<_> = repository.current_snapshots()?.iter().map(|name| name.id).collect();
    let mut orphans = Vec::new();
    for manifest in records.manifests {
        if listed.contains(&manifest.id) || dead.contains(&manifest.id) {
            continue;
        }
        let Ok((head, signature)) = Head::decode(&manifest.clear) else { continue };
        let unsigned = &manifest.clear[..manifest.clear.len() - SIGNATURE_BYTES];
        let is_signed = keys.get(&head.writer).is_none_or(|key| {
            key.verify(&signed_message(repository, MANIFEST_CONTEXT, unsigned), &signature).is_ok()
        });
        if is_signed && repository.is_complete(head.root)? {
            orphans.push(manifest.id);
        }
    }
    Ok(orphans)
}

/// What the tombstones name that a key of the key list signed, be it removed since. Of a stranger none is
/// believed, as when a snapshot is brought back with keys.
fn forgotten(
    repository: &Repository,
    keys: &FxHashMap<KeyId, VerifyKey>,
    tombstones: &[Vec<u8>],
) -> FxHashSet<SnapshotId> {
    let mut dead = FxHashSet::default();
    for clear in tombstones {
        let Some((message, signature)) = clear.split_last_chunk::<SIGNATURE_BYTES>() else {
            continue;
        };
        let Some((writer, names)) = message.split_first_chunk::<{ KeyId::LEN }>() else { continue };
        let message = signed_message(repository, TOMBSTONE_CONTEXT, message);
        if keys.get(&KeyId(*writer)).is_some_and(|key| key.verify(&message, signature).is_ok()) {
            dead.extend(
                names.as_chunks::<{ SnapshotId::LEN }>().0.iter().map(|id| SnapshotId(*id)),
            );
        }
    }
    dead
}

/// All who sign or did, by the list that the root key signed. Without it nobody could be told from a stranger.
fn verify_keys(repository: &Repository) -> Result<FxHashMap<KeyId, VerifyKey>> {
    let config = repository.config();
    let root = RootVerifyKey::from_bytes(config.root_key);
    let bytes = repository.key_list()?.ok_or(Error::NoKeyList)?;
    let list =
        SignedKeyList::verify(&bytes, &root, config.repository).map_err(|_| Error::NoKeyList)?;
    let signers = list.entries().iter().filter(|entry| entry.role.writes());
    Ok(signers.map(|entry| (entry.id, entry.verify_key)).collect())
}

fn signed_message(repository: &Repository, context: &[u8], message: &[u8]) -> Vec<u8> {
    [context, &repository.config().repository.0, message].concat()
}
