//! A writing session: appends sealed records and publishes them as one snapshot.
//!
//! Many threads append records. Another thread syncs finished containers, so that appending does not wait for the disk.

mod checkpoint;
mod cited;
mod copied;
mod current;
mod first_stored;
mod objects;

use crate::container::{self, write::ContainerWriter};
use crate::guard::{Guard, guarded};
use crate::index::pending::PendingSnapshot;
use crate::index::run::Row;
use crate::lease::Lease;
use crate::pins::{Covered, SessionNo};
use crate::reserve;
use crate::snapshots::{self, SnapshotRef};
use crate::syncer::{Synced, Syncer};
use crate::{Error, Repository, Result};
pub use checkpoint::CheckpointLimits;
use checkpoint::Pace;
use cited::OpenReferences;
use current::Current;
use format::manifest::Head;
use format::record::{RecordKind, SealedRecord, head_only, object_ids, verify};
use ids::{ContainerNo, ObjectId, RecordLocation};
use objects::SessionObjects;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub use store::CommittedSnapshot;

/// Containers that a session removes the files of when it finds the disk full. Few can be unfinished, but each thread
/// that comes meanwhile begins one more, in vain, and must not push out of the list what fills the disk.
const RECENT_MAX: usize = 256;

/// Where the index has an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nowhere,
    /// Where it could not be relied on now: the container is gone or going, or could not be read.
    Lost,
    /// In a container that stays while the session runs.
    Kept,
}

/// A session. Without a commit it makes no snapshot, and the next session finds and uses what it stored.
///
/// Locks, in the order in which one thread takes them: `checkpointing`, `current`, `syncer`, `objects`, `synced`.
pub struct Session {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    number: SessionNo,
    /// The runs of the index when it began.
    runs_before: Vec<u64>,
    /// None for a session that copies: each record brings that of its own session.
    session_record: Option<SealedRecord>,
    objects: Mutex<SessionObjects>,
    open_references: Mutex<OpenReferences>,
    /// How long the containers are that it was told to rely on.
    seen: Mutex<FxHashMap<ContainerNo, u64>>,
    current: Mutex<Current>,
    syncer: Mutex<Option<Syncer>>,
    synced: Arc<Mutex<Synced>>,
    /// The latest containers; one of them may be unfinished.
    recent_containers: Mutex<VecDeque<ContainerNo>>,
    /// Held while a checkpoint is made.
    checkpointing: Mutex<()>,
    pace: Mutex<Pace>,
    /// How many reclaims had left alone what checkpoints renewed in the list of interrupted containers.
    renewed: Mutex<BTreeMap<ContainerNo, u64>>,
    stored_bytes: AtomicU64,
    committed: AtomicBool,
    /// The disk took no more.
    is_full: AtomicBool,
}

impl Session {
    pub(crate) fn new(
        repository: Arc<Repository>,
        lease: Arc<Lease>,
        number: SessionNo,
        session_record: Option<SealedRecord>,
    ) -> Self {
        Self {
            runs_before: repository.index().state.runs.clone(),
            repository,
            lease,
            number,
            session_record,
            objects: Mutex::default(),
            open_references: Mutex::default(),
            seen: Mutex::default(),
            current: Mutex::default(),
            syncer: Mutex::new(None),
            synced: Arc::default(),
            recent_containers: Mutex::default(),
            checkpointing: Mutex::default(),
            pace: Mutex::default(),
            renewed: Mutex::default(),
            stored_bytes: Default::default(),
            committed: Default::default(),
            is_full: Default::default(),
        }
    }

    /// Claims `id`: `true` when it must be stored. Then the caller must append it: no other thread will.
    pub fn claim(&self, id: &ObjectId) -> Result<bool> {
        let mut objects = self.objects.lock();
        if objects.has(id) {
            return Ok(false);
        }
        match self.found(id, |location| self.pin(location))? {
            Found::Kept => return Ok(false),
            Found::Lost => objects.distrust(id),
            Found::Nowhere => {}
        }
        objects.claim(id);
        Ok(true)
    }

    /// Appends a record; each of its ids was claimed.
    ///
    /// # Errors
    /// [`Error::NotClaimed`].
    pub fn append(&self, record: &SealedRecord) -> Result<()> {
        let objects = self.objects.lock();
        if let Some(id) = record.ids.iter().find(|id| !objects.is_claimed(id)) {
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
        let mine = head_only(&self.own_record()?.associated).map_err(foreign)?.header.session;
        if !holds_objects
            || record.header.session != mine
            || record.header.record_bytes() != bytes.len()
        {
            return Err(foreign(format::Error::Invalid { what: "record of this session" }));
        }
        let mut ids = object_ids(&record).map_err(foreign)?;
        let mut failed = None;
        ids.retain(|id| {
            let is_ours = self.objects.lock().is_claimed(id);
            is_ours || self.claim(id).unwrap_or_else(|error| failed.replace(error).is_none())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        self.note_references(&record)?;
        self.store(record.header.kind, &ids, &[bytes])
    }

    fn store(&self, kind: RecordKind, ids: &[ObjectId], parts: &[&[u8]]) -> Result<()> {
        self.write(kind, ids, parts)?;
        self.checkpoint_if_due()
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
    /// [`Error::NotStored`], [`Error::RootMissing`], [`Error::NothingBehind`], [`Error::LeaseLost`]: nothing was
    /// published.
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
        self.check_references()?;
        let sum = manifest.checksum();
        let parts: [&[u8]; 3] = [&manifest.associated, &manifest.sealed, &sum];
        let container = self.write(manifest.kind, &[], &parts)?;
        if let Some(receipt) = &receipt {
            // Behind its manifest, in the same container: reclaim and rebuild know it by that.
            self.write(receipt.kind, &[], &[&receipt.associated, &receipt.checksum()])?;
        }
        // Before a state can know that container.
        let name = snapshots::name_of(&manifest.associated)?;
        self.repository.pending.lock().add(PendingSnapshot { name, container });
        self.finish_containers()?;
        let publish = |run| self.publish(run, manifest, receipt.as_ref());
        let snapshot = self.publish_rows(&mut self.rest()?, publish)?;
        // The backup is done, whatever comes of this: the next writer merges what is left.
        let _ = self.repository.compact_index(&self.lease);
        Ok(CommittedSnapshot { snapshot, stored_bytes: self.stored_bytes() })
    }

    /// What no checkpoint knows. A commit must not publish what no index knows.
    fn rest(&self) -> Result<Vec<Row>> {
        let (count, rows) = {
            let (mut objects, synced) = (self.objects.lock(), self.synced.lock());
            (objects.placed(), objects.durable(&synced))
        };
        if rows.len() < count {
            return Err(self.synced.lock().failure().unwrap_or(Error::WriterStopped));
        }
        Ok(rows)
    }

    /// Lets the index name `run`, and the snapshot of `manifest` exist. The commit lock is held.
    fn publish(
        &self,
        run: Option<u64>,
        manifest: &SealedRecord,
        receipt: Option<&SealedRecord>,
    ) -> Result<SnapshotRef> {
        let repository = &self.repository;
        let covered = Covered::AllOf(self.number);
        let mut state = repository.next_state(covered);
        state.runs.extend(run);
        self.leave_list(&mut state.interrupted);
        repository.publish_index(&self.lease, state)?;
        repository.pins.lock().indexed(covered);
        let storage = &*repository.storage;
        // The last look before the one step that makes it visible.
        self.lease.verify()?;
        let snapshot = snapshots::write(storage, self.own_record()?, manifest, receipt)?;
        // Who was overtaken while it wrote that may have written it too late for the next writer to see.
        self.lease.verify()?;
        repository.pending.lock().remove(&snapshot.id);
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
        Ok(self.objects.lock().has_placed(id) || self.is_stored(id)?)
    }

    fn receipt(&self, clear: &[u8]) -> Result<SealedRecord> {
        let damaged = |reason| Error::damaged("session record", reason);
        let session = head_only(&self.own_record()?.associated).map_err(damaged)?;
        format::receipt::record(session.header.session, clear).map_err(damaged)
    }

    /// Objects that were claimed and not appended yet.
    pub fn promised_objects(&self) -> usize {
        self.objects.lock().claimed()
    }

    /// The number of objects that were claimed and never appended, unless it is 0: the snapshot may refer to them.
    fn missing_objects(&self) -> Option<usize> {
        let count = self.objects.lock().claimed();
        (count > 0).then_some(count)
    }

    /// Whether a published container holds `id`. It stays there while this session runs, so that the
    /// session may cite it without storing it.
    pub fn is_stored(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.found(id, |location| self.pin(location))? == Found::Kept)
    }

    /// Whether the index has `id`. Its container stays while this session runs; whether it is there is not looked at,
    /// since what a disk has lost is no fault of who refers to it.
    fn is_listed(&self, id: &ObjectId) -> Result<bool> {
        let pins = &self.repository.pins;
        let pin = |at: RecordLocation| Ok(pins.lock().pin(self.number, at.container));
        Ok(self.found(id, pin)? == Found::Kept)
    }

    /// Whether the index has `id` where it could be pinned.
    fn found(&self, id: &ObjectId, pin: impl Fn(RecordLocation) -> Result<bool>) -> Result<Found> {
        loop {
            let index = self.repository.index();
            let Some(location) = index.find(id)? else { return Ok(Found::Nowhere) };
            if !pin(location)? {
                return Ok(Found::Lost);
            }
            // A merge that began before this pin keeps only the row that was the newest then.
            let now = self.repository.index();
            if Arc::ptr_eq(&index, &now) || now.find(id)? == Some(location) {
                return Ok(Found::Kept);
            }
        }
    }

    /// Pins the container of `location`, if it is there and may be relied on.
    fn pin(&self, location: RecordLocation) -> Result<bool> {
        let length = self.seen.lock().get(&location.container).copied();
        let was_seen = length.is_some_and(|length| end_of(location) <= length);
        if !was_seen && guarded(Guard::ContainerExists) && !self.exists(location)? {
            return Ok(false);
        }
        Ok(self.repository.pins.lock().pin(self.number, location.container))
    }

    /// An index may be older than the containers: nothing is promised before its container was
    /// looked at once.
    fn exists(&self, location: RecordLocation) -> Result<bool> {
        let length = match self.length_of(location.container) {
            Err(Error::ContainerMissing(_)) => return Ok(false),
            result => result?,
        };
        if let Some(length) = length {
            self.seen.lock().insert(location.container, length);
        }
        Ok(length.is_some_and(|length| end_of(location) <= length))
    }

    /// The length of a container; `None` if its beginning is damaged.
    fn length_of(&self, container: ContainerNo) -> Result<Option<u64>> {
        match self.repository.storage.listed_length(&container::name(container)) {
            Err(error) if error.is_not_found() => return Err(Error::ContainerMissing(container)),
            result => {
                if let Some(length) = result? {
                    return Ok(Some(length));
                }
            }
        }
        let reader = self.repository.container(container)?;
        let is_good = reader.header(self.repository.config.repository).is_ok();
        if is_good { reader.length().map(Some) } else { Ok(None) }
    }

    /// The record with its key. A session that copies seals nothing.
    fn own_record(&self) -> Result<&SealedRecord> {
        let none = Error::damaged("session record", format::Error::Invalid { what: "session" });
        self.session_record.as_ref().ok_or(none)
    }

    fn write(&self, kind: RecordKind, ids: &[ObjectId], parts: &[&[u8]]) -> Result<ContainerNo> {
        self.write_with(None, kind, ids, parts)
    }

    /// Appends a record, and before it `key_record`, if that is not in the container yet. Returns the container.
    fn write_with(
        &self,
        key_record: Option<&[u8]>,
        kind: RecordKind,
        ids: &[ObjectId],
        parts: &[&[u8]],
    ) -> Result<ContainerNo> {
        let written = self.try_write(key_record, kind, ids, parts);
        self.note_full(&written);
        written
    }

    fn note_full<T>(&self, result: &Result<T>) {
        if matches!(result, Err(error) if error.is_full()) {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn try_write(
        &self,
        key_record: Option<&[u8]>,
        kind: RecordKind,
        ids: &[ObjectId],
        parts: &[&[u8]],
    ) -> Result<ContainerNo> {
        let mut current = self.current.lock();
        let slot = current.slot(&*self.repository.storage, kind)?;
        let writer = match &mut *slot {
            Some(writer) => writer,
            none => none.insert(self.start_container()?),
        };
        let appended = writer.append_key(key_record).and_then(|()| writer.append(kind, parts));
        writer.note_objects(ids.len());
        let is_full = writer.is_full(self.repository.container_bytes());
        if let Err(error) = &appended
            && guarded(Guard::TornAppend)
        {
            // Part of the record may be there, or a manifest without its receipt. The next lease saves what is whole.
            drop(slot.take());
            self.synced.lock().fail(error);
        }
        let location = appended?;
        self.stored_bytes.fetch_add(location.length.into(), Ordering::Relaxed);
        // Before the container can become durable: a checkpoint takes all that is in it.
        self.objects.lock().place(ids, location);
        // Behind a manifest comes its receipt, or nothing: the commit finishes the container.
        if is_full
            && kind != RecordKind::Manifest
            && let Some(full) = slot.take()
        {
            self.send_to_sync(full)?;
        }
        Ok(location.container)
    }

    fn start_container(&self) -> Result<ContainerWriter> {
        reserve::leaves_inodes(&*self.repository.storage)?;
        let next = || self.note_begun(self.repository.allocate_for(self.number));
        let mut writer = self.repository.new_container(&self.lease, next)?;
        if let Some(record) = &self.session_record {
            writer
                .append(record.kind, &[&record.associated, &record.sealed, &record.checksum()])?;
        }
        Ok(writer)
    }

    /// Before its file is made: that may be what fails.
    fn note_begun(&self, number: ContainerNo) -> ContainerNo {
        let mut recent_containers = self.recent_containers.lock();
        recent_containers.push_back(number);
        if recent_containers.len() > RECENT_MAX {
            recent_containers.pop_front();
        }
        number
    }

    /// Removes what is unfinished of a session that found the disk full: else it is this that keeps
    /// it full, and nobody can give space back any more. What it took is stored again by the next.
    fn remove_unfinished(&self) {
        self.current.lock().take().for_each(drop);
        if self.lease.verify().is_err() {
            return;
        }
        for number in self.recent_containers.lock().iter() {
            let _ = self.repository.storage.remove(&container::part_name(*number));
        }
    }

    fn send_to_sync(&self, full: ContainerWriter) -> Result<()> {
        let mut syncer = self.syncer.lock();
        if let Some(failed) = self.synced.lock().failure() {
            return Err(failed);
        }
        let syncer = syncer.get_or_insert_with(|| {
            let (repository, lease) = (self.repository.clone(), self.lease.clone());
            Syncer::start(repository, lease, self.number, self.synced.clone())
        });
        let sent = syncer.send(full);
        // Nobody takes it any more: why, whoever ended has noted before.
        sent.map_err(|error| self.synced.lock().failure().unwrap_or(error))
    }

    /// Waits until every container is durable that was begun until now. Returns the numbers that the session was given
    /// for them: nothing else becomes of these.
    fn finish_containers(&self) -> Result<BTreeSet<ContainerNo>> {
        let (begun, sent) = {
            let mut current = self.current.lock();
            let begun = self.repository.pins.lock().unindexed(self.number);
            (begun, current.take().try_for_each(|last| self.send_to_sync(last)))
        };
        let syncer = self.syncer.lock().take();
        // What ended the syncer says why nothing could be sent, and whether the disk is full.
        let synced = syncer.map_or(Ok(()), Syncer::finish).and(sent);
        self.note_full(&synced);
        synced?;
        self.synced.lock().failure().map_or(Ok(begun), Err)
    }
}

fn end_of(location: RecordLocation) -> u64 {
    u64::from(location.offset) + u64::from(location.length)
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_committed = self.committed.load(Ordering::Relaxed);
        if !is_committed {
            self.end_without_commit();
        }
        self.repository.pins.lock().end(self.number, is_committed);
    }
}
