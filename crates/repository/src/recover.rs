//! Settling what the last writer left behind: it may have died at any step, or have failed and
//! given up.

use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::container::{self, ContainerFile, part_name};
use crate::guard::{Guard, guarded};
use crate::index::pending::PendingSnapshot;
use crate::index::run::{Prefix, rows_of, write_rows};
use crate::index::{prefix_of, run_name};
use crate::lease::Lease;
use crate::pending::list_pending;
use crate::pins::Covered;
use crate::snapshots::SnapshotRef;
use crate::storage::{PUT_SUFFIX, Storage};
use crate::{Error, Repository, Result, config, keys, lock_file, readme, receipts, snapshots};
use format::container::Row;
use format::record::{self, Header, RecordKind};
use ids::{ContainerNo, RecordLocation, SessionId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Settles what the last writer left: finished containers go into the index, unfinished ones are
/// saved as far as their records are good. So an interrupted backup costs nothing twice.
pub(crate) fn recover(repository: &Repository, lease: &Lease) -> Result<()> {
    let first = repository.index().state.first_unknown();
    *repository.pending.lock() = repository.index().state.pending.clone();
    let left = match guarded(Guard::LeftoverListing) {
        true => container::list_current(repository, first)?,
        false => container::list(&*repository.storage, first)?,
    };
    if guarded(Guard::LeftoverNames) {
        make_names_durable(&*repository.storage, &left)?;
    }
    let last = left.iter().map(|file| file.number.0).max();
    if let Some(last) = last {
        repository.next_container.fetch_max(last + 1, Ordering::Relaxed);
        repository.pins.lock().abandon(left.iter().map(|file| file.number));
        Recovery::new(repository, lease).settle_all(left)?;
    }
    repository.pins.lock().settled();
    if last.is_some() {
        repository.compact_index(lease)?;
    }
    let listed = remove_strays(repository, lease)?;
    list_pending(repository, lease, &listed)
}

/// Brings what was left into the index, in parts of bounded size: each is a checkpoint of its own, so that a recovery
/// that is interrupted goes on where it was.
struct Recovery<'a> {
    repository: &'a Repository,
    lease: &'a Lease,
    /// Objects that no run has yet.
    placed: FxHashMap<Prefix, RecordLocation>,
    /// The containers that were settled since the last checkpoint, and where their objects lie now.
    done: BTreeSet<ContainerNo>,
    holders: BTreeSet<ContainerNo>,
    /// Whether the containers are there that the index names.
    there: FxHashMap<ContainerNo, bool>,
}

impl<'a> Recovery<'a> {
    fn new(repository: &'a Repository, lease: &'a Lease) -> Self {
        let (placed, done, holders, there) = Default::default();
        Self { repository, lease, placed, done, holders, there }
    }

    fn settle_all(mut self, left: Vec<ContainerFile>) -> Result<()> {
        let ids_max = self.repository.checkpoint_limits().ids;
        let known = self.repository.next_snapshot.load(Ordering::Relaxed);
        for file in left {
            match self.settle(file, known) {
                Err(error) if error.is_archived() && self.is_given_up(file)? => {}
                holder => self.holders.extend(holder?),
            }
            self.done.insert(file.number);
            if self.placed.len() >= ids_max {
                self.checkpoint()?;
                self.repository.compact_index(self.lease)?;
            }
        }
        self.checkpoint()
    }

    fn settle(&mut self, file: ContainerFile, known: u64) -> Result<Option<ContainerNo>> {
        note_manifests(self.repository, file, known)?;
        settle(self.repository, self.lease, file, &mut self.placed)
    }

    /// Whether `file`, which is archived, is left out of the index: it has content of files that no snapshot names yet,
    /// which the next backup stores again. To wait for it would keep everybody from writing.
    fn is_given_up(&self, file: ContainerFile) -> Result<bool> {
        self.repository.is_archived_content(file.number)
    }

    /// Lets the index know what was settled since the last one.
    fn checkpoint(&mut self) -> Result<()> {
        self.leave_out_what_is_known()?;
        let (repository, storage) = (self.repository, &*self.repository.storage);
        let mut run = None;
        if !self.placed.is_empty() {
            let number = *run.insert(repository.allocate_run());
            write_rows(storage, &run_name(number), &mut rows_of(&self.placed))?;
        }
        let _commit = repository.commit.lock();
        let covered = Covered::Abandoned(&self.done);
        let mut state = repository.next_state(covered);
        state.runs.extend(run);
        state.interrupted.keep(&self.holders);
        repository.publish_index(self.lease, state)?;
        repository.pins.lock().indexed(covered);
        self.placed.clear();
        self.done.clear();
        self.holders.clear();
        Ok(())
    }

    /// What the index knows stays where it is, as long as that container is there. A reclaim that was
    /// killed has copied it as well, but nobody has looked at the copy since.
    fn leave_out_what_is_known(&mut self) -> Result<()> {
        if self.placed.is_empty() || !guarded(Guard::KnownLocations) {
            return Ok(());
        }
        let known = self.repository.index().find_known(self.placed.keys().copied().collect())?;
        for row in known {
            if is_there(self.repository, &mut self.there, row.location)? {
                self.placed.remove(&row.prefix);
            }
        }
        Ok(())
    }
}

/// Whether the container of `location` is there; each is looked for once.
fn is_there(
    repository: &Repository,
    known: &mut FxHashMap<ContainerNo, bool>,
    location: RecordLocation,
) -> Result<bool> {
    if let Some(is_there) = known.get(&location.container) {
        return Ok(*is_there);
    }
    let opened = ContainerReader::open(&*repository.storage, location.container);
    let is_there = match opened.and_then(|reader| reader.length()) {
        Err(Error::ContainerMissing(_)) => false,
        length => length.map(|_| true)?,
    };
    known.insert(location.container, is_there);
    Ok(is_there)
}

/// A writer that was killed may have given or taken names that are seen and not yet durable: what
/// builds on them now must not outlive them.
pub(crate) fn make_names_durable(storage: &dyn Storage, left: &[ContainerFile]) -> Result<()> {
    let mut directories = vec![snapshots::DIRECTORY.to_owned()];
    directories.extend(left.iter().map(|file| container::shard(file.number)));
    directories.dedup();
    directories.iter().try_for_each(|name| Ok(storage.sync_directory(name)?))
}

/// Notes the manifests in `file`: their numbers are used up, and those that no state knew of are pending. A backup
/// that failed between its containers and the index leaves such a manifest. Those with numbers below `known` are
/// copies that a reclaim made: their snapshots have files, or were forgotten since.
fn note_manifests(repository: &Repository, file: ContainerFile, known: u64) -> Result<()> {
    if !file.finished {
        // Manifests in there are not saved.
        return Ok(());
    }
    let reader = ContainerReader::open(&*repository.storage, file.number)?;
    let rows = match reader.rows() {
        Ok(rows) => rows,
        Err(error) if error.is_archived() => return Err(error),
        Err(_) => reader.walk(|_, _| ())?.rows,
    };
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Manifest)) {
        let Some(name) = snapshot_of(&reader, row)? else { continue };
        repository.next_snapshot.fetch_max(after(name.sequence), Ordering::Relaxed);
        if name.sequence >= known {
            repository.pending.lock().add(PendingSnapshot { name, container: file.number });
        }
    }
    Ok(())
}

/// The snapshot that the manifest at `row` makes, unless it is damaged.
fn snapshot_of(reader: &ContainerReader, row: &Row) -> Result<Option<SnapshotRef>> {
    let associated = match reader.associated(row) {
        Err(Error::Damaged { .. }) => return Ok(None),
        associated => associated?,
    };
    Ok(record::head_only(&associated).ok().and_then(|_| snapshots::name_of(&associated).ok()))
}

/// The snapshot number after `sequence`, which anybody may have written there.
pub(crate) fn after(sequence: u64) -> u64 {
    sequence.saturating_add(1)
}

/// Removes what no reader looks at: it is of writers that died or failed. Returns the names of the snapshots.
pub(crate) fn remove_strays(repository: &Repository, lease: &Lease) -> Result<Vec<String>> {
    remove_strays_in(repository, lease, "index")?;
    remove_strays_in(repository, lease, keys::DIRECTORY)?;
    let listed = remove_strays_in(repository, lease, snapshots::DIRECTORY)?;
    remove_half_of_an_init(repository, lease)?;
    Ok(listed)
}

/// The same in one directory; the names in it.
fn remove_strays_in(
    repository: &Repository,
    lease: &Lease,
    directory: &str,
) -> Result<Vec<String>> {
    let names = repository.storage.list(directory)?;
    let paths = names.iter().map(|name| format!("{directory}/{name}"));
    let is_stray = |path: &String| path.ends_with(PUT_SUFFIX) || is_stray_run(repository, path);
    let strays: Vec<_> = paths.filter(is_stray).collect();
    // The state that does not name them may be of a dead writer, and be seen but not durable:
    // the one before it names them.
    if !strays.is_empty() && guarded(Guard::LeftoverState) {
        repository.storage.sync_directory(directory)?;
    }
    for path in strays {
        // To who was robbed of the lease, all that the next one wrote looks like this.
        lease.verify()?;
        repository.storage.remove(&path)?;
    }
    Ok(names)
}

/// The files of the top folder that are put as a whole. What was left of one there is of an `init` that was
/// killed when the repository could be opened already, or of a repair.
fn remove_half_of_an_init(repository: &Repository, lease: &Lease) -> Result<()> {
    for name in config::NAMES.into_iter().chain([readme::NAME, receipts::NAME, lock_file::NAME]) {
        let path = format!("{name}{PUT_SUFFIX}");
        // Mostly none is there: opening costs less than the look at the lease before a removal.
        match repository.storage.open(&path) {
            Err(error) if error.is_not_found() => {}
            opened => {
                opened?;
                lease.verify()?;
                repository.storage.remove(&path)?;
            }
        }
    }
    Ok(())
}

/// Whether this is a run that the state does not name.
fn is_stray_run(repository: &Repository, path: &str) -> bool {
    let is_run = ["index/run-", "index/spill-"].iter().any(|start| path.starts_with(start));
    is_run && !repository.index().state.runs.iter().any(|run| run_name(*run) == path)
}

/// Adds the objects of one container to `placed`; what is unfinished is saved first. Returns the container that holds
/// them then.
pub(crate) fn settle(
    repository: &Repository,
    lease: &Lease,
    file: ContainerFile,
    placed: &mut FxHashMap<Prefix, RecordLocation>,
) -> Result<Option<ContainerNo>> {
    if file.finished {
        let reader = ContainerReader::open(&*repository.storage, file.number)?;
        index_container(&reader, placed)?;
        return Ok(Some(file.number));
    }
    let reader = ContainerReader::open_part(&*repository.storage, file.number)?;
    let rows = openable(&reader)?;
    let mut holder = None;
    if rows.iter().any(|row| row.has_kind(RecordKind::Data) || row.has_kind(RecordKind::Pages)) {
        match save(repository, lease, &reader, &rows) {
            // Nobody was told that it is stored, and it keeps the room that all others need.
            Err(error) if error.is_full() => {}
            saved => {
                let saved = *holder.insert(saved?);
                index_container(&ContainerReader::open(&*repository.storage, saved)?, placed)?;
            }
        }
    }
    lease.verify()?;
    repository.storage.remove(&part_name(file.number))?;
    Ok(holder)
}

/// The good records whose key is there too, keys first. Sectors reach the disk in any order: the
/// key at the beginning may be lost and what it sealed be there, of no use to anybody, unless the
/// key at the end is there as well.
fn openable(reader: &ContainerReader) -> Result<Vec<Row>> {
    let (mut known, mut keys, mut rest) = (FxHashSet::default(), Vec::new(), Vec::new());
    reader.walk(|location, record| {
        let Header { kind, session, .. } = record.header;
        let row = Row { kind: kind as u8, offset: location.offset, length: location.length };
        if kind != RecordKind::Session {
            rest.push((session, row));
        } else if known.insert(session) {
            keys.push(row);
        }
    })?;
    let is_known = |session: &SessionId| known.contains(session) || !guarded(Guard::TornKey);
    keys.extend(rest.into_iter().filter(|(session, _)| is_known(session)).map(|(_, row)| row));
    Ok(keys)
}

/// Copies the good records of an unfinished container to a finished one.
fn save(
    repository: &Repository,
    lease: &Lease,
    source: &ContainerReader,
    rows: &[Row],
) -> Result<ContainerNo> {
    let next = || repository.allocate_container();
    repository.write_container(lease, next, |writer| {
        copy_good(source, rows, writer).inspect_err(|_| {
            // Half of a copy is of no use beside the whole.
            if lease.verify().is_ok() {
                let _ = repository.storage.remove(&part_name(writer.number()));
            }
        })
    })
}

fn copy_good(source: &ContainerReader, rows: &[Row], writer: &mut ContainerWriter) -> Result<()> {
    let mut buffer = Vec::new();
    for row in rows {
        let location =
            RecordLocation { container: source.number(), offset: row.offset, length: row.length };
        source.read(location, &mut buffer)?;
        let record =
            record::verify(&buffer).map_err(|reason| Error::damaged("container", reason))?;
        // A manifest here was never acknowledged, and what it needs may be lost.
        if record.header.kind != RecordKind::Manifest || !guarded(Guard::UnfinishedManifest) {
            writer.append(record.header.kind, &[&buffer])?;
        }
    }
    writer.sync()
}

/// Adds every object of a container to `placed`. Falls back to walking it when its footer is
/// damaged.
pub(crate) fn index_container(
    reader: &ContainerReader,
    placed: &mut FxHashMap<Prefix, RecordLocation>,
) -> Result<()> {
    let Ok(rows) = reader.rows() else { return index_damaged(reader, placed) };
    for row in rows {
        if !row.has_kind(RecordKind::Data) && !row.has_kind(RecordKind::Pages) {
            continue;
        }
        let Ok(associated) = reader.associated(&row) else { return index_damaged(reader, placed) };
        let location =
            RecordLocation { container: reader.number(), offset: row.offset, length: row.length };
        let ids = record::head_only(&associated).and_then(|record| record::object_ids(&record));
        let Ok(ids) = ids else { return index_damaged(reader, placed) };
        placed.extend(ids.iter().map(|id| (prefix_of(id), location)));
    }
    Ok(())
}

fn index_damaged(
    reader: &ContainerReader,
    placed: &mut FxHashMap<Prefix, RecordLocation>,
) -> Result<()> {
    let healed = reader.healed()?;
    healed.as_ref().unwrap_or(reader).walk(|location, record| {
        let ids = record::object_ids(record).unwrap_or_default();
        placed.extend(ids.iter().map(|id| (prefix_of(id), location)));
    })?;
    Ok(())
}
