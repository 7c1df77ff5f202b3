//! A writing session: appends sealed records and publishes them as one snapshot.
//!
//! Many threads append records. Another thread syncs finished containers, so that appending does not wait for the disk.

use crate::container::write::ContainerWriter;
use crate::guard::{Guard, guarded};
use crate::index::run::{Prefix, Row, RunReader, RunWriter};
use crate::index::{merge_runs, prefix_of, run_name};
use crate::lease::Lease;
use crate::pins::SessionNo;
use crate::snapshots::{self, SnapshotRef};
use crate::storage::Storage;
use crate::syncer::{Renumbered, Syncer, UNFINISHED_MAX};
use crate::{Error, Repository, Result};
use format::manifest::Head;
use format::record::{RecordKind, SealedRecord, head_only, object_ids, verify};
use ids::{ContainerNo, ObjectId, RecordLocation};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
pub use store::CommittedSnapshot;

/// Ids kept in memory before they are written as a run: about 16 MB.
const IDS_IN_MEMORY_MAX: usize = 1 << 18;

/// A session. Without a commit it publishes nothing, and the next session finds and uses what it stored.
pub struct Session {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    number: SessionNo,
    session_record: SealedRecord,
    objects: Mutex<SessionObjects>,
    seen: Mutex<FxHashSet<ContainerNo>>,
    current: Mutex<Option<ContainerWriter>>,
    syncer: Mutex<Option<Syncer>>,
    /// The latest containers; one of them may be unfinished.
    recent_containers: Mutex<VecDeque<ContainerNo>>,
    stored_bytes: std::sync::atomic::AtomicU64,
    committed: std::sync::atomic::AtomicBool,
    /// The disk took no more.
    is_full: std::sync::atomic::AtomicBool,
}

/// The objects of this session.
#[derive(Default)]
struct SessionObjects {
    /// Claimed by a caller and not appended yet.
    claimed: FxHashSet<Prefix>,
    placed: FxHashMap<Prefix, RecordLocation>,
    /// Sorted runs that did not fit the memory.
    spilled: Vec<(String, Arc<RunReader>)>,
}

impl Session {
    pub(crate) fn new(
        repository: Arc<Repository>,
        lease: Arc<Lease>,
        number: SessionNo,
        session_record: SealedRecord,
    ) -> Self {
        Self {
            repository,
            lease,
            number,
            session_record,
            objects: Mutex::default(),
            seen: Mutex::default(),
            current: Mutex::new(None),
            syncer: Mutex::new(None),
            recent_containers: Mutex::default(),
            stored_bytes: Default::default(),
            committed: Default::default(),
            is_full: Default::default(),
        }
    }

    /// Claims `id`: `true` when it must be stored. Then the caller must append it: no other thread will.
    pub fn claim(&self, id: &ObjectId) -> Result<bool> {
        let prefix = prefix_of(id);
        let mut objects = self.objects.lock();
        if objects.placed.contains_key(&prefix) || objects.claimed.contains(&prefix) {
            return Ok(false);
        }
        for (_, run) in &objects.spilled {
            if run.may_contain(&prefix)? && run.find(&prefix)?.is_some() {
                return Ok(false);
            }
        }
        if self.is_stored(id)? {
            return Ok(false);
        }
        objects.claimed.insert(prefix);
        Ok(true)
    }

    /// Appends a record; each of its ids was claimed.
    ///
    /// # Errors
    /// [`Error::NotClaimed`].
    pub fn append(&self, record: &SealedRecord) -> Result<()> {
        let objects = self.objects.lock();
        if let Some(id) = record.ids.iter().find(|id| !objects.claimed.contains(&prefix_of(id))) {
            return Err(Error::NotClaimed(*id));
        }
        drop(objects);
        let sum = record.checksum();
        self.store(record.kind, &record.ids, &[&record.associated, &record.sealed, &sum])
    }

    /// Appends the bytes of a record that a node sent. It must be whole, belong to this session and hold objects. Ids
    /// that were not claimed are claimed now. An object that is stored already keeps its location, so a node cannot
    /// replace it by another.
    pub fn append_bytes(&self, bytes: &[u8]) -> Result<()> {
        let foreign = |reason| Error::damaged("a record that was sent", reason);
        let record = verify(bytes).map_err(foreign)?;
        let holds_objects = matches!(record.header.kind, RecordKind::Data | RecordKind::Pages);
        let mine = head_only(&self.session_record.associated).map_err(foreign)?.header.session;
        if !holds_objects
            || record.header.session != mine
            || record.header.record_bytes() != bytes.len()
        {
            return Err(foreign(format::Error::Invalid { what: "record of this session" }));
        }
        let mut ids = object_ids(&record).map_err(foreign)?;
        let mut failed = None;
        ids.retain(|id| {
            let is_ours = self.objects.lock().claimed.contains(&prefix_of(id));
            is_ours || self.claim(id).unwrap_or_else(|error| failed.replace(error).is_none())
        });
        match failed {
            Some(error) => Err(error),
            None => self.store(record.header.kind, &ids, &[bytes]),
        }
    }

    fn store(&self, kind: RecordKind, ids: &[ObjectId], parts: &[&[u8]]) -> Result<()> {
        let location = self.write(kind, parts)?;
        let mut objects = self.objects.lock();
        for id in ids {
            let prefix = prefix_of(id);
            objects.claimed.remove(&prefix);
            objects.placed.insert(prefix, location);
        }
        if objects.placed.len() >= IDS_IN_MEMORY_MAX {
            self.spill(&mut objects)?;
        }
        Ok(())
    }

    /// The number for the snapshot of this session.
    pub fn next_snapshot(&self) -> u64 {
        self.repository.next_snapshot.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes appended to containers so far.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    /// Publishes everything that was appended as the snapshot of `manifest`.
    ///
    /// # Errors
    /// [`Error::NotStored`], [`Error::RootMissing`], [`Error::LeaseLost`]: nothing was published.
    pub fn commit(self, manifest: &SealedRecord) -> Result<CommittedSnapshot> {
        self.commit_received(manifest, None)
    }

    /// Like [`Session::commit`], with the clear part of the receipt of a server.
    pub fn commit_received(
        self,
        manifest: &SealedRecord,
        receipt: Option<&[u8]>,
    ) -> Result<CommittedSnapshot> {
        let receipt = receipt.map(|clear| self.receipt(clear)).transpose()?;
        if let Some(count) = self.missing_objects() {
            return Err(Error::NotStored(count));
        }
        self.check_root(manifest)?;
        let sum = manifest.checksum();
        self.write(manifest.kind, &[&manifest.associated, &manifest.sealed, &sum])?;
        if let Some(receipt) = &receipt {
            // Behind its manifest, in the same container: reclaim and rebuild know it by that.
            self.write(receipt.kind, &[&receipt.associated, &receipt.checksum()])?;
        }
        let renumbered = self.finish_containers()?;
        let run = self.write_run(&renumbered)?;
        let snapshot = self.publish(run, manifest, receipt.as_ref())?;
        // The backup is done, whatever comes of this: the next writer removes and merges what is left.
        let _ = self.remove_spilled();
        let _ = self.repository.compact_index(&self.lease, Some(self.number));
        Ok(CommittedSnapshot { snapshot, stored_bytes: self.stored_bytes() })
    }

    /// Lets the index name `run`, and the snapshot of `manifest` exist.
    fn publish(
        &self,
        run: Option<u64>,
        manifest: &SealedRecord,
        receipt: Option<&SealedRecord>,
    ) -> Result<SnapshotRef> {
        let repository = &self.repository;
        let _commit = repository.commit.lock();
        let mut state = repository.next_state(Some(self.number));
        state.runs.extend(run);
        repository.publish_index(&self.lease, state)?;
        let storage = &*repository.storage;
        // The last look before the one step that makes it visible.
        self.lease.verify()?;
        let snapshot = snapshots::write(storage, &self.session_record, manifest, receipt)?;
        self.committed.store(true, Ordering::Relaxed);
        Ok(snapshot)
    }

    /// Refuses a manifest whose root page is not stored: its snapshot could be neither read nor marked.
    fn check_root(&self, manifest: &SealedRecord) -> Result<()> {
        let foreign = |reason| Error::damaged("the manifest that was sent", reason);
        let record = head_only(&manifest.associated).map_err(foreign)?;
        if record.header.kind != RecordKind::Manifest {
            return Err(foreign(format::Error::Invalid { what: "manifest" }));
        }
        let root = Head::decode(record.clear).map_err(foreign)?.0.root;
        if root.is_page() && self.has_stored(&root)? {
            return Ok(());
        }
        Err(Error::RootMissing(root))
    }

    /// Whether this session or one before it stored `id`.
    fn has_stored(&self, id: &ObjectId) -> Result<bool> {
        let prefix = prefix_of(id);
        let objects = self.objects.lock();
        if objects.placed.contains_key(&prefix) {
            return Ok(true);
        }
        for (_, run) in &objects.spilled {
            if run.may_contain(&prefix)? && run.find(&prefix)?.is_some() {
                return Ok(true);
            }
        }
        drop(objects);
        self.is_stored(id)
    }

    fn receipt(&self, clear: &[u8]) -> Result<SealedRecord> {
        let damaged = |reason| Error::damaged("session record", reason);
        let session = head_only(&self.session_record.associated).map_err(damaged)?;
        format::receipt::record(session.header.session, clear).map_err(damaged)
    }

    /// Objects that were claimed and not appended yet.
    pub fn promised_objects(&self) -> usize {
        self.objects.lock().claimed.len()
    }

    /// The number of objects that were claimed and never appended, unless it is 0: the snapshot may refer to them.
    fn missing_objects(&self) -> Option<usize> {
        let count = self.objects.lock().claimed.len();
        (count > 0).then_some(count)
    }

    /// Whether a published container holds `id`. It stays there while this session runs, so that the
    /// session may cite it without storing it.
    pub fn is_stored(&self, id: &ObjectId) -> Result<bool> {
        let Some(location) = self.repository.index().find(id)? else { return Ok(false) };
        let was_seen =
            self.seen.lock().contains(&location.container) || !guarded(Guard::ContainerExists);
        if !was_seen && !self.exists(location)? {
            return Ok(false);
        }
        Ok(self.repository.pins.lock().pin(self.number, location.container))
    }

    /// An index may be older than the containers: nothing is promised before its container was
    /// looked at once.
    fn exists(&self, location: RecordLocation) -> Result<bool> {
        let reader = match self.repository.container(location.container) {
            Err(Error::ContainerMissing(_)) => return Ok(false),
            result => result?,
        };
        let end = u64::from(location.offset) + u64::from(location.length);
        let whole =
            reader.header(self.repository.config.repository).is_ok() && reader.length()? >= end;
        if whole {
            self.seen.lock().insert(location.container);
        }
        Ok(whole)
    }

    fn write(&self, kind: RecordKind, parts: &[&[u8]]) -> Result<RecordLocation> {
        let written = self.try_write(kind, parts);
        self.note_full(&written);
        written
    }

    fn note_full<T>(&self, result: &Result<T>) {
        if matches!(result, Err(error) if error.is_full()) {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    fn try_write(&self, kind: RecordKind, parts: &[&[u8]]) -> Result<RecordLocation> {
        let mut current = self.current.lock();
        let writer = match &mut *current {
            Some(writer) => writer,
            none => none.insert(self.start_container()?),
        };
        let location = writer.append(kind, parts)?;
        self.stored_bytes.fetch_add(location.length.into(), Ordering::Relaxed);
        // Behind a manifest comes its receipt, or nothing: the commit finishes the container.
        let is_full = writer.length() >= self.repository.container_bytes();
        if is_full
            && kind != RecordKind::Manifest
            && let Some(full) = current.take()
        {
            self.send_to_sync(full)?;
        }
        Ok(location)
    }

    fn start_container(&self) -> Result<ContainerWriter> {
        let next = || self.note_begun(self.repository.allocate_for(self.number));
        let mut writer = self.repository.new_container(&self.lease, next)?;
        let record = &self.session_record;
        writer.append(record.kind, &[&record.associated, &record.sealed, &record.checksum()])?;
        Ok(writer)
    }

    /// Before its file is made: that may be what fails.
    fn note_begun(&self, number: ContainerNo) -> ContainerNo {
        let mut recent_containers = self.recent_containers.lock();
        recent_containers.push_back(number);
        if recent_containers.len() > UNFINISHED_MAX {
            recent_containers.pop_front();
        }
        number
    }

    /// Removes what is unfinished of a session that found the disk full: else it is this that keeps
    /// it full, and nobody can give space back any more. What it took is stored again by the next.
    fn remove_unfinished(&self) {
        drop(self.current.lock().take());
        if self.lease.verify().is_err() {
            return;
        }
        for number in self.recent_containers.lock().iter() {
            let _ = self.repository.storage.remove(&crate::container::part_name(*number));
        }
    }

    fn send_to_sync(&self, full: ContainerWriter) -> Result<()> {
        let mut syncer = self.syncer.lock();
        let syncer = syncer.get_or_insert_with(|| {
            Syncer::start(self.repository.clone(), self.lease.clone(), self.number)
        });
        syncer.send(full)
    }

    /// Waits until every container is durable. Returns those that had to be written again.
    fn finish_containers(&self) -> Result<Renumbered> {
        if let Some(last) = self.current.lock().take() {
            self.send_to_sync(last)?;
        }
        match self.syncer.lock().take() {
            Some(syncer) => {
                let synced = syncer.finish();
                self.note_full(&synced);
                synced
            }
            None => Ok(Renumbered::default()),
        }
    }

    /// Writes what is in memory as a run of this session's own. It stays in memory until it can be
    /// read there: a commit must not publish what no index knows.
    fn spill(&self, objects: &mut SessionObjects) -> Result<()> {
        let (generation, number) = (self.lease.generation(), objects.spilled.len());
        let name = format!("index/spill-{generation:x}-{:x}-{number:x}", self.number);
        write_spill(&*self.repository.storage, &name, &objects.placed)?;
        let run = Arc::new(RunReader::open(&*self.repository.storage, &name)?);
        objects.spilled.push((name, run));
        objects.placed.clear();
        Ok(())
    }

    /// Durably writes what this session stored as a run, of which no state knows yet.
    fn write_run(&self, renumbered: &Renumbered) -> Result<Option<u64>> {
        let (repository, storage) = (&self.repository, &*self.repository.storage);
        let mut objects = self.objects.lock();
        let renumber = |location: RecordLocation| {
            let container = *renumbered.get(&location.container).unwrap_or(&location.container);
            RecordLocation { container, ..location }
        };
        if objects.placed.is_empty() && objects.spilled.is_empty() {
            return Ok(None);
        }
        let number = repository.allocate_run();
        if objects.spilled.is_empty() {
            objects.placed.values_mut().for_each(|location| *location = renumber(*location));
            write_run(storage, &run_name(number), &objects.placed)?;
            return Ok(Some(number));
        }
        if !objects.placed.is_empty() {
            self.spill(&mut objects)?;
        }
        let mine: Vec<_> = objects.spilled.iter().map(|(_, run)| run.clone()).collect();
        let location = |location| Some(renumber(location));
        let is_written = merge_runs(storage, &run_name(number), &mine, location)?;
        Ok(is_written.then_some(number))
    }

    /// Removes the runs that it wrote for want of memory: the index has what they say.
    fn remove_spilled(&self) -> Result<()> {
        let mut spilled = std::mem::take(&mut self.objects.lock().spilled).into_iter();
        spilled.try_for_each(|(name, _)| Ok(self.repository.storage.remove(&name)?))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Not committed: the syncer still finishes what it was given, for the next session.
        if let Some(syncer) = self.syncer.lock().take() {
            let synced = syncer.finish();
            self.note_full(&synced);
        }
        if self.is_full.load(Ordering::Relaxed) && !self.committed.load(Ordering::Relaxed) {
            self.remove_unfinished();
        }
        self.repository.pins.lock().end(self.number, self.committed.load(Ordering::Relaxed));
    }
}

/// Writes `placed` as the run `name` for a time; what an earlier one left of that name goes.
pub(crate) fn write_spill(
    storage: &dyn Storage,
    name: &str,
    placed: &FxHashMap<Prefix, RecordLocation>,
) -> Result<()> {
    storage.remove(name)?;
    write_run(storage, name, placed)
}

/// Writes `placed` as the run `name`, which nobody has used.
pub(crate) fn write_run(
    storage: &dyn Storage,
    name: &str,
    placed: &FxHashMap<Prefix, RecordLocation>,
) -> Result<()> {
    let row = |(prefix, location): (&Prefix, &RecordLocation)| Row {
        prefix: *prefix,
        location: *location,
    };
    let mut rows: Vec<Row> = placed.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| row.prefix);
    let total = rows.len() as u64;
    let push = |writer: &mut RunWriter| rows.into_iter().try_for_each(|row| writer.push(row));
    RunWriter::write(storage, name, total, push).map(|_| ())
}
