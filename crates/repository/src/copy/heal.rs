//! Healing containers from copies. What is damaged or gone is stored again, from the copy, and so is the rest of the
//! container; then the index points there, and only then the old file goes. The bytes of records are those of before.

use super::GoodRecord;
use super::records::{RecordReader, SessionRecords, keys_in};
use crate::check::{ContainerDamage, containers_in_index, open_container};
use crate::container::place_of;
use crate::container::read::ContainerReader;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::lease::Lease;
use crate::session::Session;
use crate::snapshots::SnapshotRef;
use crate::watch::Watch;
use crate::{Error, Repository, Result, container};
use format::container::Row;
use format::record::{self, RecordKind};
use ids::{ContainerNo, ObjectId, RecordLocation};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was healed.
#[derive(Clone, Debug, Default)]
pub struct HealOutcome {
    /// Containers that were written again, with the number of objects that came from copies.
    pub containers: Vec<(ContainerNo, u64)>,
    /// Snapshots whose files were written again.
    pub snapshots: Vec<SnapshotRef>,
    /// Damaged objects that no copy has.
    pub lost_objects: u64,
}

/// A container that is damaged or gone.
#[derive(Default)]
struct Broken {
    /// What is good in it.
    good: Vec<Row>,
    /// The objects that the index expects elsewhere in it.
    lost: Vec<Prefix>,
}

/// Heals what is damaged or missing in `repository` and whole in one of `copies`. Reads every byte.
///
/// # Errors
/// [`Error::InUse`] while a reclaim runs; those of the storages. What cannot be healed stays as it is.
pub fn heal(
    repository: &Arc<Repository>,
    lease: &Arc<Lease>,
    copies: &[Arc<Repository>],
    watch: &dyn Watch,
) -> Result<HealOutcome> {
    let listed = repository.current_containers()?.into_iter().filter(|file| file.finished);
    let mut numbers: BTreeSet<_> = listed.map(|file| file.number).collect();
    numbers.extend(containers_in_index(repository)?);
    heal_containers(repository, lease, copies, numbers, watch)
}

/// The same of these containers and of all snapshots, beside sessions: of the others nothing is read.
///
/// # Errors
/// As for [`heal`].
pub fn heal_containers(
    repository: &Arc<Repository>,
    lease: &Arc<Lease>,
    copies: &[Arc<Repository>],
    numbers: BTreeSet<ContainerNo>,
    watch: &dyn Watch,
) -> Result<HealOutcome> {
    let alone = repository.reclaiming.try_lock();
    if alone.is_none() {
        return Err(Error::InUse { holder: "a reclaim of this process".into() });
    }
    let mut outcome = HealOutcome::default();
    heal_snapshots(repository, lease, copies, &mut outcome)?;
    let mut broken = find_broken(repository, numbers, watch)?;
    if broken.is_empty() || !watch.goes_on() {
        return Ok(outcome);
    }
    find_lost(repository, &mut broken)?;
    let lost: Vec<_> = broken.values().flat_map(|it| it.lost.iter().copied()).collect();
    let first = repository.next_container.load(Ordering::Relaxed);
    let session = repository.begin_copy(lease);
    let found = take_from_copies(&session, copies, lost)?;
    let is_whole = |it: &Broken| it.lost.iter().all(|prefix| found.contains(prefix));
    let whole: Vec<_> =
        broken.iter().filter(|(_, it)| is_whole(it)).map(|(number, _)| *number).collect();
    for number in &whole {
        move_rest(repository, &session, *number, &broken[number].good)?;
    }
    store_manifests(repository, &session, &broken)?;
    session.commit_copied(&[], 0)?;
    // Sessions that were told of what lay there go on to rely on it; a reclaim would take it for nobody's.
    let written = first..repository.next_container.load(Ordering::Relaxed);
    repository.pins.lock().follow(&whole, &written.map(ContainerNo).collect());
    for number in whole {
        lease.verify()?;
        repository.storage.remove(&container::name(number))?;
        repository.close(&[number]);
        outcome.containers.push((number, broken[&number].lost.len() as u64));
    }
    let lost = broken.values().flat_map(|it| &it.lost);
    outcome.lost_objects = lost.filter(|prefix| !found.contains(*prefix)).count() as u64;
    Ok(outcome)
}

/// Writes the files of damaged snapshots again.
fn heal_snapshots(
    repository: &Repository,
    lease: &Lease,
    copies: &[Arc<Repository>],
    outcome: &mut HealOutcome,
) -> Result<()> {
    for name in repository.current_snapshots()? {
        if !matches!(repository.snapshot(name), Err(Error::Damaged { .. })) {
            continue;
        }
        let Some(stored) = copies.iter().find_map(|copy| copy.snapshot(name).ok()) else {
            continue;
        };
        lease.verify()?;
        replace(repository, name, &stored.to_bytes())?;
        outcome.snapshots.push(name);
    }
    Ok(())
}

/// Durably replaces the file of a snapshot. Nobody would know of one whose name is gone in between, so only a bucket,
/// where what one writer wrote does not replace what another one did, gets it removed before.
fn replace(repository: &Repository, name: SnapshotRef, bytes: &[u8]) -> Result<()> {
    let (storage, path) = (&*repository.storage, name.path());
    let is_replaced = match storage.put(&path, bytes) {
        Err(error) if error.already_exists() => false,
        put => put.map(|()| repository.snapshot(name).is_ok())?,
    };
    if !is_replaced {
        storage.remove(&path)?;
        storage.put(&path, bytes)?;
    }
    Ok(())
}

/// Those of `numbers` in which anything is damaged, or that are gone.
fn find_broken(
    repository: &Repository,
    numbers: BTreeSet<ContainerNo>,
    watch: &dyn Watch,
) -> Result<BTreeMap<ContainerNo, Broken>> {
    let (mut broken, mut records) = (BTreeMap::new(), RecordReader::new(repository));
    for number in numbers {
        if !watch.goes_on() {
            break;
        }
        let (is_damaged, good) = look(repository, &mut records, number, watch)?;
        if is_damaged {
            broken.insert(number, Broken { good, lost: Vec::new() });
        }
    }
    Ok(broken)
}

/// Whether anything is wrong with a container, and its good records.
fn look(
    repository: &Repository,
    records: &mut RecordReader<'_>,
    number: ContainerNo,
    watch: &dyn Watch,
) -> Result<(bool, Vec<Row>)> {
    let mut damages: Vec<ContainerDamage> = Vec::new();
    let Some(opened) = open_container(repository, number, &mut damages)? else {
        return Ok((true, Vec::new()));
    };
    let (mut bytes, mut good) = (Vec::new(), Vec::with_capacity(opened.rows.len()));
    let all = opened.rows.len();
    for row in opened.rows {
        watch.moved(row.length.into());
        let is_good = match holds_objects(&row) {
            true => opens(records, place_of(number, &row))?,
            false => reads(&opened.reader, &row, &mut bytes)?,
        };
        good.extend(is_good.then_some(row));
    }
    Ok((!damages.is_empty() || good.len() < all, good))
}

fn holds_objects(row: &Row) -> bool {
    row.has_kind(RecordKind::Data) || row.has_kind(RecordKind::Pages)
}

/// Whether a record of objects is good and its session record is there. Without it the record is lost: nobody can open
/// it.
fn opens(records: &mut RecordReader<'_>, location: RecordLocation) -> Result<bool> {
    match records.read(location) {
        Err(error) if error.is_unreachable() => Err(error),
        read => Ok(read.is_ok()),
    }
}

fn reads(reader: &ContainerReader, row: &Row, bytes: &mut Vec<u8>) -> Result<bool> {
    let location = place_of(reader.number(), row);
    match reader.read(location, bytes) {
        Err(error) if error.is_unreachable() => Err(error),
        Err(_) => Ok(false),
        Ok(()) => Ok(record::verify(bytes).is_ok() || reader.heal(location, bytes)),
    }
}

/// Finds out what the index expects where nothing good is.
fn find_lost(repository: &Repository, broken: &mut BTreeMap<ContainerNo, Broken>) -> Result<()> {
    let good: FxHashSet<_> = broken
        .iter()
        .flat_map(|(number, it)| it.good.iter().map(|row| (*number, row.offset, row.length)))
        .collect();
    repository.index().visit(|row| {
        let RecordLocation { container, offset, length } = row.location;
        if let Some(it) = broken.get_mut(&container)
            && !good.contains(&(container, offset, length))
        {
            it.lost.push(row.prefix);
        }
        Ok(())
    })
}

/// Stores again those of `lost` that a copy has; returns which.
fn take_from_copies(
    session: &Session,
    copies: &[Arc<Repository>],
    lost: Vec<Prefix>,
) -> Result<FxHashSet<Prefix>> {
    let (mut left, mut found) = (lost, FxHashSet::default());
    for copy in copies {
        let wanted: FxHashSet<_> = left.iter().copied().collect();
        let mut places: BTreeMap<_, FxHashSet<_>> = BTreeMap::new();
        for row in copy.index().find_known(left)? {
            places.entry(row.location).or_default().insert(row.prefix);
        }
        let mut reader = RecordReader::new(copy);
        for (location, prefixes) in places {
            let record = match reader.read(location) {
                Err(error) if error.is_unreachable() => return Err(error),
                Err(_) => continue, // damaged there, too
                Ok(record) => record,
            };
            let is_new = |id: &&ObjectId| {
                let prefix = prefix_of(id);
                prefixes.contains(&prefix) && !found.contains(&prefix)
            };
            let ids: Vec<_> = record.ids.iter().filter(is_new).copied().collect();
            found.extend(ids.iter().map(prefix_of));
            session.append_again(&record, &ids)?;
        }
        left = wanted.into_iter().filter(|prefix| !found.contains(prefix)).collect();
    }
    Ok(found)
}

/// Stores the good records of the container `number` once more elsewhere. Its file goes after that, so one that cannot
/// be read again is an error.
fn move_rest(
    repository: &Repository,
    session: &Session,
    number: ContainerNo,
    rows: &[Row],
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let reader = ContainerReader::open(&*repository.storage, number)?;
    let (keys, mut records) = (keys_in(&reader)?, RecordReader::new(repository));
    let mut bytes = Vec::new();
    for row in rows {
        if holds_objects(row) {
            let place = place_of(number, row);
            let record = records.read(place)?;
            let ids = indexed_at(repository, &record, place)?;
            session.append_again(&record, &ids)?;
        } else if !row.has_kind(RecordKind::Session) {
            if !reads(&reader, row, &mut bytes)? {
                return Err(damaged(number, format::Error::Invalid { what: "record" }));
            }
            move_other(session, &keys, number, &bytes)?;
        }
    }
    Ok(())
}

/// Stores the manifests once more that were or may have been in what is broken: a rebuild needs them, and takes
/// one that is in two containers once.
fn store_manifests(
    repository: &Repository,
    session: &Session,
    broken: &BTreeMap<ContainerNo, Broken>,
) -> Result<()> {
    let mut sessions = FxHashSet::default();
    for number in broken.keys() {
        if let Ok(reader) = ContainerReader::open(&*repository.storage, *number) {
            sessions.extend(keys_in(&reader)?.into_keys());
        }
    }
    for name in repository.current_snapshots()? {
        let Ok(stored) = repository.snapshot(name) else { continue };
        let is_of_it =
            record::verify(&stored.record).is_ok_and(|it| sessions.contains(&it.header.session));
        let root = repository.index().find(&stored.head.root)?;
        if is_of_it || root.is_some_and(|root| broken.contains_key(&root.container)) {
            match session.append_manifest(&stored) {
                Err(Error::RootMissing(_)) => {} // no copy has it
                appended => appended?,
            }
        }
    }
    Ok(())
}

/// The objects of `record` that the index finds in the container `number`.
fn indexed_at(
    repository: &Repository,
    record: &GoodRecord,
    place: RecordLocation,
) -> Result<Vec<ObjectId>> {
    let locations = repository.index().find_many(&record.ids)?;
    let both = record.ids.iter().zip(locations);
    let here = both.filter(|(_, location)| *location == Some(place));
    Ok(here.map(|(id, _)| *id).collect())
}

/// Stores a manifest, receipt, tombstone or expiry once more.
fn move_other(
    session: &Session,
    keys: &SessionRecords,
    number: ContainerNo,
    bytes: &[u8],
) -> Result<()> {
    let record = record::verify(bytes).map_err(|reason| damaged(number, reason))?;
    let key = keys.get(&record.header.session).map(|key| &**key);
    session.append_other(key, record.header.kind, bytes)
}

fn damaged(number: ContainerNo, reason: format::Error) -> Error {
    Error::damaged(&container::name(number), reason)
}
