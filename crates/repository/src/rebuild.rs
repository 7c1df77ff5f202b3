//! Making the index and the list of snapshots from the containers alone, and settling what an
//! interrupted session left behind.

use crate::check::Damage;
use crate::config::Config;
use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::container::{self, Found, part_name};
use crate::index::run::{Prefix, RunReader};
use crate::index::state::State;
use crate::index::{Index, prefix_of, run_name};
use crate::lease::Lease;
use crate::session::{add_runs, remove_runs, write_run};
use crate::storage::Storage;
use crate::{Error, Repository, Result, snapshots};
use format::container::Row;
use format::manifest;
use format::record::{self, RecordKind};
use ids::{ContainerNo, Place, SessionId, SnapshotId};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Settles what the last writer left: finished containers go into the index, unfinished ones are
/// saved as far as their records are good. So an interrupted backup costs nothing twice.
pub(crate) fn recover(repository: &Repository, lease: &Lease) -> Result<()> {
    let index = repository.index();
    let left = container::list(&*repository.storage, index.state.first_unknown())?;
    if left.is_empty() {
        return remove_strays(repository);
    }
    let last = left.iter().map(|file| file.number.0).max().unwrap_or_default();
    repository.next_container.fetch_max(last + 1, Ordering::Relaxed);
    let mut placed = FxHashMap::default();
    for file in left {
        settle(repository, lease, file, &mut placed)?;
    }
    let mut state = index.state.clone();
    state.next_container = repository.next_container.load(Ordering::Relaxed);
    if !placed.is_empty() {
        let name = format!("index/spill-recovery-{:x}", lease.generation());
        write_run(&*repository.storage, &name, &mut placed)?;
        let run = Arc::new(RunReader::open(&*repository.storage, &name)?);
        add_runs(&*repository.storage, &index, &mut state, vec![run], Some)?;
    }
    let old = index.state.runs.clone();
    repository.publish_index(state.clone())?;
    remove_runs(&*repository.storage, old.iter().filter(|run| !state.runs.contains(run)))?;
    repository.pins.lock().settled();
    remove_strays(repository)
}

/// Removes files in `index` that the state does not name: they are of sessions that died.
fn remove_strays(repository: &Repository) -> Result<()> {
    let index = repository.index();
    let named = |name: &str| {
        index.state.runs.iter().any(|run| crate::index::run_name(*run).ends_with(name))
    };
    for name in repository.storage.list("index")? {
        if (name.starts_with("run-") || name.starts_with("spill-")) && !named(&name) {
            repository.storage.remove(&format!("index/{name}"))?;
        }
    }
    Ok(())
}

/// What a rebuild found.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Containers read.
    pub containers: u64,
    /// Ids now in the index.
    pub objects: u64,
    /// Stretches of containers that are no good record.
    pub damages: Vec<crate::check::Damage>,
    /// Manifests found, each with the key record of its session.
    pub manifests: Vec<FoundManifest>,
    /// Clear parts of the tombstones found.
    pub tombstones: Vec<Vec<u8>>,
}

/// A manifest that lies in a container.
#[derive(Clone, Debug)]
pub struct FoundManifest {
    /// The snapshot that it makes.
    pub id: SnapshotId,
    /// Its clear part: head and signature.
    pub clear: Vec<u8>,
    /// Its session record and itself, as a snapshot file holds them.
    pub file: Vec<u8>,
}

/// Makes the index anew from all containers, reading every byte: what is damaged is left out, so
/// that the next backup stores it again.
pub fn rebuild(storage: &Arc<dyn Storage>, holder: &str) -> Result<(Repository, Lease, Rebuilt)> {
    let config = Config::read(&**storage)?;
    let lease = Lease::acquire(storage, holder)?;
    let mut state = State::read(&**storage).unwrap_or_default();
    let known = state.next_container;
    storage.create_directory("index")?;
    snapshots::create_directory(&**storage)?;
    state.runs.iter().try_for_each(|run| storage.remove(&run_name(*run)))?;
    let files = container::list(&**storage, ContainerNo(0))?;
    let last = files.iter().map(|file| file.number.0 + 1).max().unwrap_or(1);
    state = State {
        // Killed from here on, the next writer finds all containers unknown and indexes them.
        next_container: 0,
        next_run: state.next_run.max(highest_run(&**storage)? + 1),
        next_snapshot: state.next_snapshot.max(1),
        damage_epoch: state.damage_epoch + 1,
        runs: Vec::new(),
    };
    state.write(&**storage)?;
    let index = Index::open(&**storage, state.clone())?;
    let repository = Repository::assemble(storage.clone(), config, index);
    repository.next_container.fetch_max(known.max(last), Ordering::Relaxed);
    let mut found = Rebuilt::default();
    let mut runs = Vec::new();
    let mut placed = FxHashMap::default();
    for file in files {
        read_container(&repository, &lease, file, &mut placed, &mut found)?;
        if placed.len() >= PLACED_MAX {
            runs.push(spill(&repository, &mut placed, runs.len())?);
        }
    }
    if !placed.is_empty() {
        runs.push(spill(&repository, &mut placed, runs.len())?);
    }
    state.next_container = repository.next_container.load(Ordering::Relaxed);
    let index = repository.index();
    add_runs(&**storage, &index, &mut state, runs, Some)?;
    repository.publish_index(state)?;
    found.objects = repository.index().entries();
    remove_strays(&repository)?;
    Ok((repository, lease, found))
}

impl Repository {
    /// Durably brings back a snapshot that lies in a container.
    pub fn restore_manifest(&self, lease: &Lease, found: &FoundManifest) -> Result<()> {
        lease.verify()?;
        let session =
            record::verify(&found.file).map_err(|reason| Error::damaged("manifest", reason))?;
        let manifest = &found.file[session.header.record_bytes()..];
        let record =
            record::split(manifest).map_err(|reason| Error::damaged("manifest", reason))?;
        snapshots::write_bytes(&*self.storage, record.associated, &found.file)?;
        Ok(())
    }

    /// Makes sure that no snapshot number is used twice.
    pub fn settle_snapshot_numbers(&self, lease: &Lease) -> Result<()> {
        lease.verify()?;
        let last = self.snapshots()?.last().map_or(0, |name| name.sequence);
        let mut state = self.index().state.clone();
        state.next_snapshot = state.next_snapshot.max(last + 1);
        self.next_snapshot.fetch_max(state.next_snapshot, Ordering::Relaxed);
        self.publish_index(state)
    }
}

/// Ids kept in memory before they are written as a run.
const PLACED_MAX: usize = 1 << 18;

fn spill(
    repository: &Repository,
    placed: &mut FxHashMap<Prefix, Place>,
    number: usize,
) -> Result<Arc<RunReader>> {
    let name = format!("index/spill-rebuild-{number:x}");
    write_run(&*repository.storage, &name, placed)?;
    Ok(Arc::new(RunReader::open(&*repository.storage, &name)?))
}

fn highest_run(storage: &dyn Storage) -> Result<u64> {
    let names = storage.list("index")?;
    let numbers =
        names.iter().filter_map(|name| u64::from_str_radix(name.strip_prefix("run-")?, 16).ok());
    Ok(numbers.max().unwrap_or(0))
}

/// Reads all of one container: its objects go into `placed`, manifests and damage into `found`.
fn read_container(
    repository: &Repository,
    lease: &Lease,
    file: Found,
    placed: &mut FxHashMap<Prefix, Place>,
    found: &mut Rebuilt,
) -> Result<()> {
    if !file.finished {
        return settle(repository, lease, file, placed);
    }
    found.containers += 1;
    let damage = |range, reason: String| Damage { container: file.number, range, reason };
    let reader = match ContainerReader::open(&*repository.storage, file.number) {
        Ok(reader) => reader,
        Err(error) => {
            found.damages.push(damage(None, error.to_string()));
            return Ok(());
        }
    };
    let mut sessions: FxHashMap<SessionId, Vec<u8>> = FxHashMap::default();
    let mut others = Vec::new();
    let walk = reader.walk(|place, record| match record.header.kind {
        RecordKind::Data | RecordKind::Pages => {
            let ids = record::object_ids(record).unwrap_or_default();
            placed.extend(ids.iter().map(|id| (prefix_of(id), place)));
        }
        RecordKind::Session => {
            sessions.insert(record.header.session, whole(record));
        }
        RecordKind::Manifest => {
            others.push((record.header.session, record.clear.to_vec(), whole(record)))
        }
        RecordKind::Tombstone => found.tombstones.push(record.clear.to_vec()),
    });
    match walk {
        Ok(walk) => {
            let broken = walk.damaged.iter();
            found.damages.extend(broken.map(|range| damage(Some(*range), "no good record".into())));
        }
        Err(error) => found.damages.push(damage(None, error.to_string())),
    }
    for (session, clear, manifest) in others {
        if let Some(key) = sessions.get(&session) {
            let id = manifest::snapshot_id(&clear);
            found.manifests.push(FoundManifest { id, clear, file: [&key[..], &manifest].concat() });
        }
    }
    Ok(())
}

/// The bytes of a record that was verified.
fn whole(record: &record::Record<'_>) -> Vec<u8> {
    let sum = format::wire::checksum(&[record.associated, record.sealed]);
    [record.associated, record.sealed, &sum].concat()
}

fn settle(
    repository: &Repository,
    lease: &Lease,
    file: Found,
    placed: &mut FxHashMap<Prefix, Place>,
) -> Result<()> {
    if file.finished {
        let reader = ContainerReader::open(&*repository.storage, file.number)?;
        return index_container(&reader, placed);
    }
    let reader = ContainerReader::open_part(&*repository.storage, file.number)?;
    let rows = reader.walk(|_, _| ())?.rows;
    if rows.iter().any(|row| row.is(RecordKind::Data) || row.is(RecordKind::Pages)) {
        let number = save(repository, lease, &reader, &rows)?;
        index_container(&ContainerReader::open(&*repository.storage, number)?, placed)?;
    }
    Ok(repository.storage.remove(&part_name(file.number))?)
}

/// Copies the good records of an unfinished container to a finished one.
fn save(
    repository: &Repository,
    lease: &Lease,
    source: &ContainerReader,
    rows: &[Row],
) -> Result<ContainerNo> {
    let number = repository.allocate_container();
    let header = repository.container_header(number, lease);
    let mut writer = ContainerWriter::create(&*repository.storage, header)?;
    let mut buffer = Vec::new();
    for row in rows {
        let place = Place { container: source.number(), offset: row.offset, length: row.length };
        source.read(place, &mut buffer)?;
        let record =
            record::verify(&buffer).map_err(|reason| Error::damaged("container", reason))?;
        // A manifest here was never acknowledged, and what it needs may be lost.
        if record.header.kind != RecordKind::Manifest {
            writer.append(record.header.kind, &[&buffer])?;
        }
    }
    writer.sync()?;
    writer.publish(&*repository.storage)
}

/// Adds every object of a container to `placed`. Falls back to walking it when its footer is
/// damaged.
pub(crate) fn index_container(
    reader: &ContainerReader,
    placed: &mut FxHashMap<Prefix, Place>,
) -> Result<()> {
    let Ok(rows) = reader.rows() else { return index_damaged(reader, placed) };
    for row in rows {
        if !row.is(RecordKind::Data) && !row.is(RecordKind::Pages) {
            continue;
        }
        let Ok(associated) = reader.associated(&row) else { return index_damaged(reader, placed) };
        let place = Place { container: reader.number(), offset: row.offset, length: row.length };
        let ids = record::head_only(&associated).and_then(|record| record::object_ids(&record));
        let Ok(ids) = ids else { return index_damaged(reader, placed) };
        placed.extend(ids.iter().map(|id| (prefix_of(id), place)));
    }
    Ok(())
}

fn index_damaged(reader: &ContainerReader, placed: &mut FxHashMap<Prefix, Place>) -> Result<()> {
    reader.walk(|place, record| {
        let ids = record::object_ids(record).unwrap_or_default();
        placed.extend(ids.iter().map(|id| (prefix_of(id), place)));
    })?;
    Ok(())
}
