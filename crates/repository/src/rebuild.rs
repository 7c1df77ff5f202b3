//! Rebuilds the index and the list of snapshots from the containers.

mod places;

use crate::check::{ContainerDamage, IdPrefix};
use crate::config;
use crate::container::ContainerFile;
use crate::container::read::{ContainerReader, ContainerWalk};
use crate::index::run::Prefix;
use crate::index::state::State;
use crate::index::{Index, prefix_of, run_name};
use crate::lease::{Lease, LeasePurpose};
use crate::recover::{after, make_names_durable, remove_strays, settle};
use crate::snapshot_keys::SnapshotKeys;
use crate::storage::Storage;
use crate::{Error, Repository, Result, directories, reserve, snapshots};
use format::manifest::{self, Head};
use format::record::{self, RecordKind};
use ids::{ContainerNo, RecordLocation, SessionId, SnapshotId};
use places::Places;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a rebuild found.
#[derive(Debug, Default)]
pub struct RebuildOutcome {
    /// Containers read.
    pub containers: u64,
    /// Ids now in the index.
    pub objects: u64,
    /// Ranges of containers that hold no good record.
    pub damages: Vec<crate::check::ContainerDamage>,
    /// Manifests found, each with the record of its session.
    pub manifests: Vec<FoundManifest>,
    /// Clear parts of the tombstones found.
    pub tombstones: Vec<Vec<u8>>,
    /// Clear parts of the expiries found.
    pub expiries: Vec<Vec<u8>>,
    /// Clear parts of the session records found: each says its key epoch.
    pub sessions: Vec<Vec<u8>>,
}

/// A manifest that lies in a container.
#[derive(Clone, Debug)]
pub struct FoundManifest {
    /// The snapshot that it makes.
    pub id: SnapshotId,
    /// Its clear part: head and signature.
    pub clear: Vec<u8>,
    /// Its session record, itself and its receipt, as a snapshot file holds them.
    pub file: Vec<u8>,
}

/// Rebuilds the index from all containers. Reads every byte, and leaves out damaged records, so that the next backup
/// stores their objects again.
pub fn rebuild(
    storage: &Arc<dyn Storage>,
    holder: &str,
) -> Result<(Repository, Lease, RebuildOutcome)> {
    rebuild_in_parts(storage, holder, IDS_IN_MEMORY_MAX)
}

/// [`rebuild`] with memory for `ids_max` ids. For tests: little data then makes many runs.
pub fn rebuild_in_parts(
    storage: &Arc<dyn Storage>,
    holder: &str,
    ids_max: usize,
) -> Result<(Repository, Lease, RebuildOutcome)> {
    let lease = Lease::acquire_for(storage, holder, LeasePurpose::Reclaim)?;
    // A full disk whose index is lost is made free by nobody else: forget and reclaim need the index.
    let done = reserve::with(&**storage, || rebuild_under(storage, &lease, ids_max));
    if done.is_err() {
        let _ = places::remove_spills(&**storage, &lease); // what fails has its own error
    }
    let (repository, found) = done?;
    Ok((repository, lease, found))
}

fn rebuild_under(
    storage: &Arc<dyn Storage>,
    lease: &Lease,
    ids_max: usize,
) -> Result<(Repository, RebuildOutcome)> {
    let config = config::read(&**storage)?;
    let mut state = last_state(&**storage);
    let known = state.next_container;
    let mut places = Places::new(&**storage, &state, ids_max);
    directories::make_missing(&**storage)?;
    // Only in memory: until the new index is whole the old one is used, and a kill changes nothing.
    state = State {
        next_container: 0,
        next_run: state.next_run.max(highest_run(&**storage)? + 1).max(lease.first_run()),
        next_snapshot: state.next_snapshot.max(1),
        // The lease's number is above every epoch before, also when the state was lost.
        damage_epoch: lease.generation().max(state.damage_epoch.saturating_add(1)),
        runs: Vec::new(),
        interrupted: state.interrupted,
        ..State::default()
    };
    let index = Index::open(&**storage, state.clone())?;
    let repository = Repository::assemble(storage.clone(), config, index);
    repository.listing_markers.take_over(lease.generation());
    let files = repository.current_containers()?;
    make_names_durable(&**storage, &files)?;
    let last = files.iter().map(|file| file.number.0 + 1).max().unwrap_or(1);
    repository.next_container.fetch_max(known.max(last), Ordering::Relaxed);
    let mut found = RebuildOutcome::default();
    let keys = SnapshotKeys::new(&repository);
    for file in files {
        let placed = read_container(&repository, lease, file, &keys, &mut found)?;
        places.take(&**storage, placed)?;
    }
    state.next_container = repository.next_container.load(Ordering::Relaxed);
    state.next_snapshot = state.next_snapshot.max(after_all(&found.manifests));
    if !found.damages.is_empty() {
        // Manifests that could not be read have numbers too, and may be read another time.
        state.next_snapshot = state.next_snapshot.saturating_add(UNREAD_MANIFESTS);
    }
    let run = repository.allocate_run();
    if places.finish(&**storage, &run_name(run))? {
        state.runs.push(run);
    }
    repository.publish_index(lease, state)?;
    found.objects = repository.index().entries();
    remove_strays(&repository, lease)?;
    Ok((repository, found))
}

/// More manifests than damaged stretches will ever hold.
const UNREAD_MANIFESTS: u64 = 1 << 16;

/// What the state file says, if anything. A disk that fails once is asked again: numbers that it
/// forgets would be given out twice.
fn last_state(storage: &dyn Storage) -> State {
    State::read(storage).or_else(|_| State::read(storage)).unwrap_or_default()
}

/// The number after those of all `manifests`, forgotten ones too: none is used twice.
fn after_all(manifests: &[FoundManifest]) -> u64 {
    let heads = manifests.iter().filter_map(|found| Head::decode(&found.clear).ok());
    heads.map(|(head, _)| after(head.sequence)).max().unwrap_or(0)
}

/// The manifest of `id` in a container, with the records that its snapshot file holds.
pub(crate) fn manifest_in(
    reader: &ContainerReader,
    id: SnapshotId,
) -> Result<Option<FoundManifest>> {
    let mut scan = Scan::default();
    reader.walk(|location, record| scan.record(location, record))?;
    Ok(scan.found_manifests().into_iter().find(|found| found.id == id))
}

impl Repository {
    /// Durably writes the file of a snapshot whose manifest is in a container.
    pub fn restore_manifest(&self, lease: &Lease, found: &FoundManifest) -> Result<()> {
        let session =
            record::verify(&found.file).map_err(|reason| Error::damaged("manifest", reason))?;
        let manifest = &found.file[session.header.record_bytes()..];
        let record =
            record::split(manifest).map_err(|reason| Error::damaged("manifest", reason))?;
        lease.verify()?;
        snapshots::write_bytes(&*self.storage, record.associated, &found.file)?;
        Ok(())
    }

    /// Whether the snapshot of a manifest that was found in a container is locked: then it comes back, whatever a
    /// tombstone or an expiry says.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn is_manifest_locked(&self, found: &FoundManifest) -> Result<bool> {
        let Ok((head, _)) = Head::decode(&found.clear) else { return Ok(false) };
        let name = snapshots::SnapshotRef { sequence: head.sequence, id: found.id };
        match snapshots::decode(name, &found.file) {
            Ok(stored) => self.is_locked(&stored),
            Err(_) => Ok(false),
        }
    }

    /// Durably removes the file `name`, in which no snapshot of that name is. The caller has made sure that its snapshot
    /// is whole under another name.
    pub fn remove_misnamed(&self, lease: &Lease, name: snapshots::SnapshotRef) -> Result<()> {
        lease.verify()?;
        snapshots::remove(&*self.storage, &[name])
    }

    /// Makes sure that no snapshot number is used twice.
    pub fn settle_snapshot_numbers(&self, lease: &Lease) -> Result<()> {
        let last = self.current_snapshots()?.last().map_or(0, |name| name.sequence);
        let mut state = self.index().state.clone();
        state.next_snapshot = state.next_snapshot.max(after(last));
        self.next_snapshot.fetch_max(state.next_snapshot, Ordering::Relaxed);
        self.publish_index(lease, state)
    }
}

/// Ids kept in memory before they are written as a run.
const IDS_IN_MEMORY_MAX: usize = 1 << 18;

fn highest_run(storage: &dyn Storage) -> Result<u64> {
    let names = storage.list("index")?;
    let numbers =
        names.iter().filter_map(|name| u64::from_str_radix(name.strip_prefix("run-")?, 16).ok());
    Ok(numbers.max().unwrap_or(0))
}

/// Reads all of one container: returns its objects; manifests and damage go into `found`.
fn read_container(
    repository: &Repository,
    lease: &Lease,
    file: ContainerFile,
    keys: &SnapshotKeys<'_>,
    found: &mut RebuildOutcome,
) -> Result<Vec<(Prefix, RecordLocation)>> {
    if !file.finished {
        let mut placed = FxHashMap::default();
        settle(repository, lease, file, &mut placed)?;
        return Ok(placed.into_iter().collect());
    }
    found.containers += 1;
    // A read that fails once is repeated: the next backup stores again what is left out here.
    let open = || ContainerReader::open(&*repository.storage, file.number);
    let reader = match open().or_else(|_| open()) {
        Ok(reader) => reader,
        // What is left out here is not in the index any more: only for want of the data.
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => {
            found.damages.push(ContainerDamage::of_container(file.number, error.to_string()));
            return Ok(Vec::new());
        }
    };
    let (scan, damages) = scan(&reader, keys)?;
    found.damages.extend(damages);
    Ok(scan.settle(found))
}

/// What a container holds that is good, and what is wrong with it.
fn scan(reader: &ContainerReader, keys: &SnapshotKeys<'_>) -> Result<(Scan, Vec<ContainerDamage>)> {
    let damage = |range, reason: String| ContainerDamage {
        range,
        ..ContainerDamage::of_container(reader.number(), reason)
    };
    let mut scan = Scan::default();
    let walk = reader.walk(|location, record| scan.record(location, record));
    let mut damages: Vec<_> = match walk {
        Ok(ContainerWalk { damaged, .. }) => {
            damaged.iter().map(|range| damage(Some(*range), "not a good record".into())).collect()
        }
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => vec![damage(None, error.to_string())],
    };
    if !damages.is_empty() {
        let is_healable = scan.again(reader)?;
        damages.iter_mut().for_each(|damage| damage.is_healable = is_healable);
    }
    let left_out = scan.leave_out(keys)?;
    damages.extend(left_out.into_iter().map(|reason| damage(None, reason)));
    Ok((scan, damages))
}

/// Whether a rebuild would take an object that `is_wanted` from the container `number`. Reads it as a rebuild does: a
/// record whose head names an object may be refused for its other bytes.
///
/// # Errors
/// When the storage cannot be reached.
pub fn would_find(
    repository: &Repository,
    number: ContainerNo,
    is_wanted: impl Fn(&IdPrefix) -> bool,
) -> Result<bool> {
    let read = ContainerReader::open(&*repository.storage, number)
        .and_then(|reader| scan(&reader, &SnapshotKeys::new(repository)));
    match read {
        Ok((scan, _)) => Ok(scan.prefixes().any(|prefix| is_wanted(&IdPrefix(prefix)))),
        Err(error) if error.is_unreachable() => Err(error),
        Err(_) => Ok(false),
    }
}

/// What one container holds.
#[derive(Default)]
struct Scan {
    sessions: FxHashMap<SessionId, Vec<u8>>,
    manifests: Vec<(SessionId, Vec<u8>, Vec<u8>)>,
    receipts: FxHashMap<SessionId, Vec<u8>>,
    tombstones: Vec<Vec<u8>>,
    expiries: Vec<Vec<u8>>,
    /// Objects, by the session that sealed them.
    placed: FxHashMap<SessionId, Vec<(Prefix, RecordLocation)>>,
}

impl Scan {
    fn record(&mut self, location: RecordLocation, record: &record::Record<'_>) {
        match record.header.kind {
            RecordKind::Data | RecordKind::Pages => {
                let ids = record::object_ids(record).unwrap_or_default();
                let placed = self.placed.entry(record.header.session).or_default();
                placed.extend(ids.iter().map(|id| (prefix_of(id), location)));
            }
            RecordKind::Session => {
                self.sessions.insert(record.header.session, whole(record));
            }
            RecordKind::Manifest => {
                let session = record.header.session;
                self.manifests.push((session, record.clear.to_vec(), whole(record)));
            }
            RecordKind::Tombstone => self.tombstones.push(record.clear.to_vec()),
            RecordKind::Expiry => self.expiries.push(record.clear.to_vec()),
            RecordKind::Receipt => {
                self.receipts.insert(record.header.session, whole(record));
            }
        }
    }

    /// The objects that a rebuild takes.
    fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.placed.values().flatten().map(|(prefix, _)| *prefix)
    }

    /// Once more over a damaged container, as its parity makes it good: what can be read in this
    /// way need not be stored again. Returns whether that is all of it.
    fn again(&mut self, reader: &ContainerReader) -> Result<bool> {
        let Some(healed) = reader.healed()? else { return Ok(false) };
        let mut scan = Self::default();
        // What nothing makes good and the disk does not give ends it; then the first look counts.
        let Ok(walk) = healed.walk(|location, record| scan.record(location, record)) else {
            return Ok(false);
        };
        *self = scan;
        Ok(walk.damaged.is_empty())
    }

    /// Objects that cannot be opened are left out, so that the next backup stores them again.
    fn leave_out(&mut self, keys: &SnapshotKeys<'_>) -> Result<Vec<String>> {
        let mut reasons = Vec::new();
        let sessions: Vec<_> = self.placed.keys().copied().collect();
        for session in sessions {
            if self.sessions.contains_key(&session) || keys.find(session)?.is_some() {
                continue;
            }
            let objects = self.placed.remove(&session).unwrap_or_default().len();
            reasons.push(format!(
                "both copies of the session record of {session} are lost, so {objects} chunks and pages cannot be opened"
            ));
        }
        Ok(reasons)
    }

    /// The objects, in the order in which their records lie.
    fn settle(self, found: &mut RebuildOutcome) -> Vec<(Prefix, RecordLocation)> {
        found.manifests.extend(self.found_manifests());
        let mut placed: Vec<_> = self.placed.into_values().flatten().collect();
        placed.sort_unstable_by_key(|(_, location)| *location);
        found.tombstones.extend(self.tombstones);
        found.expiries.extend(self.expiries);
        let sealed = |whole: &Vec<u8>| Some(record::split(whole).ok()?.clear.to_vec());
        found.sessions.extend(self.sessions.values().filter_map(sealed));
        placed
    }

    /// The manifests whose session records are here.
    fn found_manifests(&self) -> Vec<FoundManifest> {
        let found = |(session, clear, manifest): &(SessionId, Vec<u8>, Vec<u8>)| {
            let key = self.sessions.get(session)?;
            let receipt = self.receipts.get(session).map_or(&[][..], |receipt| receipt);
            let file = [&key[..], manifest, receipt].concat();
            Some(FoundManifest { id: manifest::snapshot_id(clear), clear: clear.clone(), file })
        };
        self.manifests.iter().filter_map(found).collect()
    }
}

/// The bytes of a record that was verified.
fn whole(record: &record::Record<'_>) -> Vec<u8> {
    let sum = format::wire::checksum(&[record.associated, record.sealed]);
    [record.associated, record.sealed, &sum].concat()
}
