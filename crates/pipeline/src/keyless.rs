//! Operations that need no key: scrub (is everything there, as it was written?) and reclaim. For
//! servers that hold repositories that they must not read.

use crate::manifest::MANIFEST_CONTEXT;
use crate::manifest::TOMBSTONE_CONTEXT;
use crate::orphans::{self, SnapshotRecords, is_gone};
use crate::{Error, Result};
use crypto::{RootVerifyKey, SignedKeyList, VerifyKey};
use format::manifest::{Head, SIGNATURE_BYTES};
use format::record;
use ids::{ContainerNo, KeyId, RecordLocation, SnapshotId};
use repository::Repository;
use repository::check::{ContainerDamage, containers_in_index, open_container};
use repository::copy::heal_containers;
use repository::lease::{Lease, LeasePurpose};
use repository::presence::presence_beside_others;
use repository::reclaim::{self, ReclaimOptions, ReclaimOutcome, Repacker};
use repository::watch::{Unwatched, Watch};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Damages that are listed; all are counted.
const TOLD_MAX: usize = 100;
/// Snapshots that are named if reclaim refuses.
const NAMED_MAX: usize = 5;

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScrubReport {
    /// Snapshots in the list.
    pub snapshots: u64,
    /// Containers read.
    pub containers: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Containers in archives, which nobody can read now.
    pub archived: u64,
    /// How many things are damaged or missing.
    pub damaged: u64,
    /// The first of them, for people.
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

/// Reads every record of every container, verifies its checksum, and checks that the index has
/// everything that the snapshots need. Sealed content can only be verified with a key.
///
/// # Errors
/// When the storage is unreachable; damage is reported, not returned.
pub fn scrub(repository: &Repository) -> Result<ScrubReport> {
    let mut report = ScrubReport::default();
    structure(repository, &mut report, &Unwatched)?;
    for number in containers(repository)? {
        container(repository, number, &mut report, &Unwatched)?;
    }
    history(repository, &mut report)?;
    Ok(report)
}

/// What the check of a part found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartReport {
    /// What was read, and what is wrong.
    pub report: ScrubReport,
    /// The last container that was read; 0 after the last of all.
    pub position: u64,
    /// Whether the whole part was read.
    pub is_done: bool,
    /// The containers in which something is damaged, or that are gone.
    pub damaged: BTreeSet<ContainerNo>,
}

/// Which containers a check reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// It begins behind this one; 0 for the first.
    pub after: u64,
    /// How many of all, in percent; those up to the last without it.
    pub percent: Option<f64>,
}

/// A check that reads a part of the containers, in the order of their numbers: whoever goes on at the position that it
/// returns has read all of them after so many parts as make a whole. Snapshots are always looked at, and whether all
/// containers are there. It ends early when `watch` says so.
///
/// # Errors
/// As [`scrub`].
pub fn scrub_part(repository: &Repository, part: Part, watch: &dyn Watch) -> Result<PartReport> {
    let mut report = ScrubReport::default();
    watch.stage("snapshots");
    structure(repository, &mut report, watch)?;
    history(repository, &mut report)?;
    watch.stage("containers");
    let all = containers(repository)?;
    let left: Vec<_> = all.iter().copied().filter(|number| number.0 > part.after).collect();
    let wanted = part.percent.map_or(left.len(), |percent| share(all.len(), percent));
    let (mut position, mut damaged) = (part.after, BTreeSet::new());
    for number in left.iter().take(wanted) {
        if !watch.goes_on() {
            return Ok(PartReport { report, position, is_done: false, damaged });
        }
        let is_damaged = container(repository, *number, &mut report, watch)?;
        damaged.extend(is_damaged.then_some(*number));
        position = number.0;
        // Damage that was found is told at the end, so nobody may begin anew behind it.
        if report.damaged == 0 {
            watch.passed(*number);
        }
    }
    let is_last = wanted >= left.len();
    let position = if is_last { 0 } else { position };
    let mut found = PartReport { report, position, is_done: true, damaged };
    add_missing(repository, &mut found)?;
    Ok(found)
}

/// Adds the containers that are missing outside of the part that was read: a check of a hundredth each day would come
/// to them after a hundred days, and to know their names costs a list.
fn add_missing(repository: &Repository, found: &mut PartReport) -> Result<()> {
    for missing in presence_beside_others(repository, Duration::ZERO)?.damages {
        if found.damaged.insert(missing.container) {
            found.report.damage(format!("container {} is missing", missing.container.0));
        }
    }
    Ok(())
}

/// Heals what a check of a part found damaged from `copies`, beside sessions, and looks at that again: what is damaged
/// afterwards, and how many containers and snapshots were healed. What says that a snapshot expired comes from there
/// as well.
///
/// # Errors
/// As [`heal_containers`].
pub fn heal_part(
    repository: &Arc<Repository>,
    lease: &Arc<Lease>,
    copies: &[Arc<Repository>],
    found: PartReport,
    watch: &dyn Watch,
) -> Result<(PartReport, u64)> {
    copies.iter().for_each(|copy| copy.verify_with(crypto::is_signed));
    let done = heal_containers(repository, lease, copies, found.damaged.clone(), watch)?;
    // What cannot be looked at is told below, beside what was healed.
    let expired = crate::copy::take_expiries(repository, lease, copies).unwrap_or(0);
    let healed = (done.containers.len() + done.snapshots.len()) as u64 + expired;
    let (mut report, mut damaged) = (ScrubReport::default(), BTreeSet::new());
    structure(repository, &mut report, watch)?;
    history(repository, &mut report)?;
    let there = containers(repository)?;
    for number in found.damaged.intersection(&there) {
        let is_damaged = container(repository, *number, &mut report, watch)?;
        damaged.extend(is_damaged.then_some(*number));
    }
    let ScrubReport { damaged: count, damages, .. } = report;
    let report = ScrubReport { damaged: count, damages, ..found.report };
    Ok((PartReport { report, damaged, ..found }, healed))
}

/// So many of `count`, and at least one.
fn share(count: usize, percent: f64) -> usize {
    ((count as f64 * percent / 100.0).ceil() as usize).max(1)
}

/// The containers of the index, and those that are there, in order.
fn containers(repository: &Repository) -> Result<BTreeSet<ContainerNo>> {
    let there = repository.current_containers()?;
    let mut all: BTreeSet<ContainerNo> = containers_in_index(repository)?.into_iter().collect();
    all.extend(there.iter().filter(|file| file.finished).map(|file| file.number));
    Ok(all)
}

/// The snapshots can be read, and the index has what they need.
fn structure(repository: &Repository, report: &mut ScrubReport, watch: &dyn Watch) -> Result<()> {
    // One pass over all of them: looking at each alone reads what they share again and again.
    let are_whole = repository.are_complete(watch)?;
    let names = repository.current_snapshots()?;
    for (name, read) in repository.each_snapshot(&names) {
        report.snapshots += 1;
        match read {
            Ok(stored) if are_whole || repository.is_complete(stored.head.root)? => {}
            Ok(_) => report.damage(format!("snapshot {}: data that it needs is missing", name.id)),
            Err(repository::Error::SnapshotMissing(_)) => {} // forgotten at this moment
            Err(error) if error.is_unreachable() => return Err(error.into()),
            Err(error) => report.damage(format!("snapshot {}: {error}", name.id)),
        }
    }
    Ok(())
}

/// Snapshots that nobody forgot and whose files are missing.
fn history(repository: &Repository, report: &mut ScrubReport) -> Result<()> {
    // Before the list: what is pending no more by now is in it.
    let pending = repository.pending()?;
    let orphans = match orphans(repository) {
        Ok(orphans) => orphans,
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => {
            report.damage(format!("cannot determine whether a snapshot was lost: {error}"));
            return Ok(());
        }
    };
    for id in orphans.iter().filter(|id| !pending.has_id(id)) {
        report.damage(format!(
            "snapshot {id} is missing and nobody forgot it; to restore it to the list: icecore rebuild"
        ));
    }
    Ok(())
}

/// Reads a container; whether anything is wrong with it.
fn container(
    repository: &Repository,
    number: ContainerNo,
    report: &mut ScrubReport,
    watch: &dyn Watch,
) -> Result<bool> {
    let before = report.damaged;
    let mut damages: Vec<ContainerDamage> = Vec::new();
    let opened = match open_container(repository, number, &mut damages) {
        // It is there, and nothing is known of what it holds.
        Err(error) if error.is_archived() => {
            report.archived += 1;
            return Ok(false);
        }
        opened => opened?,
    };
    for damage in damages {
        report.damage(format!("container {}: {}", number.0, damage.reason));
    }
    let Some(opened) = opened else { return Ok(report.damaged > before) };
    report.containers += 1;
    let mut bytes = Vec::new();
    for row in &opened.rows {
        let location = RecordLocation { container: number, offset: row.offset, length: row.length };
        watch.moved(row.length.into());
        match opened.reader.read(location, &mut bytes) {
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
    Ok(report.damaged > before)
}

/// Frees the space that no snapshot needs. Containers that are partly unused are copied record by
/// record. If there is an orphaned snapshot, its data would look unused: then nothing is removed
/// until somebody with a key has restored it to the list.
///
/// # Errors
/// [`Error::Usage`] in that case; errors of the engine.
pub fn reclaim(
    repository: &Repository,
    holder: &str,
    options: ReclaimOptions,
) -> Result<ReclaimOutcome> {
    let lease = repository.lease_for(holder, LeasePurpose::Reclaim)?;
    reclaim_beside(repository, &lease, options, &Unwatched)
}

/// The same with the lease of sessions that run beside it, under the eyes of `watch`.
///
/// # Errors
/// As [`reclaim`].
pub fn reclaim_beside(
    repository: &Repository,
    lease: &Lease,
    options: ReclaimOptions,
    watch: &dyn Watch,
) -> Result<ReclaimOutcome> {
    reclaim_with(repository, lease, options, None, watch)
}

/// The same with somebody who opens records and packs what is used of them anew.
pub(crate) fn reclaim_with(
    repository: &Repository,
    lease: &Lease,
    options: ReclaimOptions,
    mut repacker: Option<&mut dyn Repacker>,
    watch: &dyn Watch,
) -> Result<ReclaimOutcome> {
    let orphans = orphans(repository)?;
    if !orphans.is_empty() {
        let names: Vec<_> = orphans.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        return Err(Error::Usage(format!(
            "{} snapshots that nobody forgot are missing from the list ({}); nothing is removed",
            orphans.len(),
            names.join(", ")
        )));
    }
    let mut run = || {
        let repacker = repacker.as_mut().map(|repacker| &mut **repacker as &mut dyn Repacker);
        reclaim::run_watched(repository, lease, options, repacker, watch)
    };
    let mut done = run();
    if matches!(&done, Err(error) if error.is_full()) && repository.release_reserve()? {
        done = run();
    }
    repository.fill_reserve();
    Ok(done?)
}

/// Orphaned snapshots: complete, signed by a known key, not in the list, and not forgotten by a
/// known key.
pub(crate) fn orphans(repository: &Repository) -> Result<Vec<SnapshotId>> {
    repository.verify_with(crypto::is_signed);
    // In this order: a session that has ended by now has its snapshot in the list, and what one that runs has written
    // is not looked at. Whatever is forgotten later is in the list still.
    let settled = repository.settled();
    let listed: FxHashSet<_> = repository.current_snapshots()?.iter().map(|name| name.id).collect();
    let records: SnapshotRecords =
        orphans::scan_containers(repository, false, |number| settled.has(number))?;
    let keys = verify_keys(repository)?;
    let mut dead = forgotten(repository, &keys, &records.tombstones);
    dead.extend(repository.expired(&records.expiries)?.into_keys());
    let mut orphans = Vec::new();
    for manifest in records.manifests {
        if listed.contains(&manifest.id) || is_gone(repository, &dead, &manifest)? {
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

/// The snapshots named by tombstones that a key of the key list signed, even one removed since.
/// Tombstones of unknown keys are ignored, as they are with keys.
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

/// The keys that sign or did, from the key list that the root key signed.
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
