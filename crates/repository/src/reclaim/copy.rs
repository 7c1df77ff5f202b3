//! Copying what lives out of condemned containers, as it is: sealed records need no key to be
//! moved. Each is checked on the way.

use super::Repacker;
use super::batch::Batch;
use super::copied::Copied;
use super::live::LiveSet;
use super::scan::good_rows;
use crate::check::can_be_repaired;
use crate::container::place_of;
use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::container_numbers::ContainerNumbers;
use crate::guard::{Guard, guarded};
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::lease::Lease;
use crate::parity::inspect;
use crate::snapshot_keys::SnapshotKeys;
use crate::watch::{Unwatched, Watch};
use crate::{Error, Repository, Result};
use format::container::Row;
use format::manifest;
use format::record::{self, Record, RecordKind, SealedRecord};
use ids::{ContainerNo, ObjectId, RecordLocation, SessionId, SnapshotId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A record is repacked when less of it than this lives, in per cent of its objects.
const REPACK_BELOW_PERCENT: usize = 80;
/// Ids kept in memory before they are written as a run.
const IDS_IN_MEMORY_MAX: usize = 1 << 18;

/// Copies records.
pub(super) struct Copier<'a, 'r> {
    repository: &'a Repository,
    lease: &'a Lease,
    live: &'a LiveSet,
    numbers: &'a ContainerNumbers<'a>,
    repacker: Option<&'r mut dyn Repacker>,
    /// For content of files, and for the rest: one output, unless the storage keeps them apart.
    outputs: [Output; 2],
    pub(super) separates: bool,
    /// Key records of the container that is copied.
    session_records: FxHashMap<SessionId, Vec<u8>>,
    /// Those of the snapshot files, where a container has lost its own.
    keys: SnapshotKeys<'a>,
    snapshots: Option<FxHashSet<SnapshotId>>,
    /// Session of the manifest that was copied last.
    kept: Option<SessionId>,
    placed: FxHashMap<Prefix, RecordLocation>,
    copied: &'a mut Copied,
    pub(super) watch: &'a dyn Watch,
}

/// A container that is written.
#[derive(Default)]
struct Output {
    writer: Option<ContainerWriter>,
    /// Sessions whose key record is in it.
    sessions: FxHashSet<SessionId>,
}

impl<'a, 'r> Copier<'a, 'r> {
    pub(super) fn new(
        repository: &'a Repository,
        lease: &'a Lease,
        live: &'a LiveSet,
        numbers: &'a ContainerNumbers<'a>,
        repacker: Option<&'r mut dyn Repacker>,
        copied: &'a mut Copied,
    ) -> Self {
        Self {
            repository,
            lease,
            live,
            numbers,
            repacker,
            outputs: Default::default(),
            separates: false,
            session_records: FxHashMap::default(),
            keys: SnapshotKeys::new(repository),
            snapshots: None,
            kept: None,
            placed: FxHashMap::default(),
            copied,
            watch: &Unwatched,
        }
    }

    /// Copies what lives in the container `number`.
    pub(super) fn container(&mut self, number: ContainerNo) -> Result<()> {
        let reader = ContainerReader::open(&*self.repository.storage, number)?;
        self.refuse_what_can_be_repaired(&reader)?;
        reader.header(self.repository.config.repository)?;
        let rows = reader.rows()?;
        self.rows(&reader, &rows)
    }

    /// The same of a container that may be damaged: only its good records.
    pub(super) fn good_records(&mut self, number: ContainerNo) -> Result<()> {
        let rows = good_rows(self.repository, number)?;
        if rows.is_empty() {
            return Ok(());
        }
        let reader = ContainerReader::open(&*self.repository.storage, number)?;
        self.refuse_what_can_be_repaired(&reader)?;
        self.rows(&reader, &rows)
    }

    fn rows(&mut self, reader: &ContainerReader, rows: &[Row]) -> Result<()> {
        self.session_records.clear();
        rows.iter()
            .filter(|row| row.has_kind(RecordKind::Session))
            .try_for_each(|row| self.key(reader, row))?;
        let mut rows = rows;
        while !rows.is_empty() {
            let batch = Batch::take(reader, &mut rows)?;
            let lives = self.lives(&batch)?;
            for (row, ids, lives) in batch.records(&lives) {
                self.record(reader, row, ids, lives)?;
            }
        }
        Ok(())
    }

    /// What lives is decided by ids in the clear, which only the checksum of the whole record vouches
    /// for: an id that rotted looks dead. While parity could make it good, it must not be lost by
    /// that. So this stops at containers that a repair has to see first.
    fn refuse_what_can_be_repaired(&self, reader: &ContainerReader) -> Result<()> {
        let percent = self.repository.config.parity_percent();
        if percent == 0 {
            return Ok(());
        }
        let damage = inspect(reader, percent)?;
        if damage.is_none() || !can_be_repaired(reader, &damage) {
            return Ok(());
        }
        let number = reader.number();
        Err(Error::UncertainData(format!(
            "container {number} has rotted: first icecore check --repair"
        )))
    }

    /// Learns a key record; each stands twice, and one that is damaged costs nothing.
    fn key(&mut self, reader: &ContainerReader, row: &Row) -> Result<()> {
        let bytes = read_good(reader, row)?;
        let Ok(record) = record::verify(&bytes) else { return Ok(()) };
        if let Some(repacker) = &mut self.repacker {
            repacker.learn(record.clear)?;
        }
        let session = record.header.session;
        self.session_records.insert(session, bytes);
        Ok(())
    }

    /// Makes all copies durable.
    pub(super) fn finish(mut self) -> Result<()> {
        self.take_repacked(true)?;
        (0..self.outputs.len()).try_for_each(|at| self.finish_container(at))?;
        if self.placed.is_empty() { Ok(()) } else { self.spill() }
    }

    fn record(
        &mut self,
        reader: &ContainerReader,
        row: &Row,
        ids: &[ObjectId],
        lives: &[bool],
    ) -> Result<()> {
        if row.has_kind(RecordKind::Data) || row.has_kind(RecordKind::Pages) {
            return self.objects(reader, row, ids, lives);
        }
        if row.has_kind(RecordKind::Session) {
            return Ok(());
        }
        let bytes = read_good(reader, row)?;
        let record = record::verify(&bytes).map_err(|reason| damaged(reader, reason))?;
        match record.header.kind {
            RecordKind::Manifest if self.is_snapshot(&record)? && self.is_openable(&record)? => {
                self.kept = Some(record.header.session);
                self.copy(&record, &bytes, &[])
            }
            // It lies behind its manifest, and is worth as much.
            RecordKind::Receipt if self.kept == Some(record.header.session) => {
                self.copy(&record, &bytes, &[])
            }
            // A tombstone is small, and as long as it is there no rebuild brings back the dead. It lies in the clear:
            // without a key it says as much. So does an expiry, which never had a key.
            RecordKind::Tombstone | RecordKind::Expiry => {
                let key_record = self.session_records.get(&record.header.session).cloned();
                self.append(
                    record.header.session,
                    key_record.as_deref(),
                    record.header.kind,
                    &[&bytes],
                    &[],
                )
            }
            _ => Ok(()),
        }
    }

    fn objects(
        &mut self,
        reader: &ContainerReader,
        row: &Row,
        ids: &[ObjectId],
        lives: &[bool],
    ) -> Result<()> {
        let count = lives.iter().filter(|lives| **lives).count();
        if count == 0 {
            return Ok(());
        }
        let bytes = read_good(reader, row)?;
        let record = record::verify(&bytes).map_err(|reason| damaged(reader, reason))?;
        if !self.is_openable(&record)? {
            return Ok(());
        }
        if count * 100 < ids.len() * REPACK_BELOW_PERCENT
            && let Some(repacker) = &mut self.repacker
            && repacker.add(&bytes, lives)?
        {
            return self.take_repacked(false);
        }
        let ours = self.ours(reader, row, ids, lives)?;
        self.copy(&record, &bytes, &ours)
    }

    /// Those of `ids` that are moved with their record: all that live in it, and what is dead as long as the index has
    /// it nowhere else. A record may also name objects that lie elsewhere; whoever stored it last must not decide where
    /// they are found.
    fn ours(
        &self,
        reader: &ContainerReader,
        row: &Row,
        ids: &[ObjectId],
        lives: &[bool],
    ) -> Result<Vec<ObjectId>> {
        if lives.iter().all(|lives| *lives) {
            return Ok(ids.to_vec());
        }
        let place = place_of(reader.number(), row);
        let locations = self.repository.index().find_many(ids)?;
        let both = ids.iter().zip(locations);
        Ok(both.filter(|(_, found)| *found == Some(place)).map(|(id, _)| *id).collect())
    }

    /// Which of `ids` live here: what a later copy elsewhere holds as well may die here.
    fn lives(&self, batch: &Batch) -> Result<Vec<bool>> {
        let live = batch.ids.iter().map(|id| self.live.contains(id));
        let mut lives = live.collect::<Result<Vec<bool>>>()?;
        // The index is asked only for those: that costs more than a look at the marks.
        let all = batch.ids.iter().zip(&batch.places).zip(&mut lives);
        let marked: Vec<_> = all.filter(|(_, lives)| **lives).collect();
        let wanted: Vec<_> = marked.iter().map(|((id, _), _)| **id).collect();
        let locations = self.repository.index().find_many(&wanted)?;
        for (((id, place), lives), location) in marked.into_iter().zip(locations) {
            *lives = self.is_here(id, location, *place)?;
        }
        Ok(lives)
    }

    /// Whether the index has the live object `id` in the record at `place`. Any other may claim its id.
    fn is_here(
        &self,
        id: &ObjectId,
        location: Option<RecordLocation>,
        place: RecordLocation,
    ) -> Result<bool> {
        match location {
            Some(location) => Ok(location == place),
            None if self.live.accepts_loss || !guarded(Guard::UncertainData) => Ok(false),
            None => Err(Error::UncertainData(format!(
                "object {id} lives, but the index does not have it"
            ))),
        }
    }

    fn is_snapshot(&mut self, record: &Record<'_>) -> Result<bool> {
        if self.snapshots.is_none() {
            let names = self.repository.current_snapshots()?;
            self.snapshots = Some(names.into_iter().map(|name| name.id).collect());
        }
        let id = manifest::snapshot_id(record.clear);
        Ok(self.snapshots.as_ref().is_some_and(|snapshots| snapshots.contains(&id)))
    }

    /// Whether the session record is there that opens a record. Where loss is accepted, that of a snapshot file will
    /// do, and what nobody can open is left out; else it is a doubt, as soon as the record is copied.
    fn is_openable(&mut self, record: &Record<'_>) -> Result<bool> {
        let session = record.header.session;
        if !self.live.accepts_loss || self.session_records.contains_key(&session) {
            return Ok(true);
        }
        let Some(bytes) = self.keys.find(session)? else { return Ok(false) };
        let bytes = bytes.to_vec();
        let key =
            record::verify(&bytes).map_err(|reason| Error::damaged("session record", reason))?;
        if let Some(repacker) = &mut self.repacker {
            repacker.learn(key.clear)?;
        }
        self.session_records.insert(session, bytes);
        Ok(true)
    }

    /// Copies a record as it is, with the key record of its session before it.
    fn copy(&mut self, record: &Record<'_>, bytes: &[u8], ids: &[ObjectId]) -> Result<()> {
        let session = record.header.session;
        let key_record = self.session_records.get(&session).cloned();
        let key_record = key_record.ok_or_else(|| {
            Error::UncertainData(format!("the key of session {session} is not in its container"))
        })?;
        self.append(session, Some(&key_record), record.header.kind, &[bytes], ids)
    }

    fn take_repacked(&mut self, end: bool) -> Result<()> {
        let Some(repacker) = &mut self.repacker else { return Ok(()) };
        let Some(record) = repacker.take(end)? else { return Ok(()) };
        let session = repacker.session_record();
        let header = record::Header::decode(&session.associated);
        let session_id = header.map_err(|reason| Error::damaged("session record", reason))?.session;
        let SealedRecord { kind, ids, associated, sealed } = &record;
        let sum = record.checksum();
        self.append(
            session_id,
            Some(&session.to_bytes()),
            *kind,
            &[associated, sealed, &sum],
            ids,
        )?;
        self.take_repacked(end)
    }

    fn append(
        &mut self,
        session: SessionId,
        key_record: Option<&[u8]>,
        kind: RecordKind,
        parts: &[&[u8]],
        ids: &[ObjectId],
    ) -> Result<()> {
        let at = usize::from(!self.separates || kind != RecordKind::Data);
        // A receipt lies in the container of its manifest: a rebuild knows it by that.
        if self.is_full(at) && kind != RecordKind::Receipt {
            self.finish_container(at)?;
        }
        let output = &mut self.outputs[at];
        let writer = match &mut output.writer {
            Some(writer) => writer,
            none => {
                let number = || self.copied.note(self.numbers.next());
                none.insert(self.repository.new_container(self.lease, number)?)
            }
        };
        if let Some(key_record) = key_record
            && output.sessions.insert(session)
        {
            writer.append(RecordKind::Session, &[key_record])?;
        }
        let location = writer.append(kind, parts)?;
        // Read, and written.
        self.watch.moved(2 * u64::from(location.length));
        self.placed.extend(ids.iter().map(|id| (prefix_of(id), location)));
        if self.placed.len() >= IDS_IN_MEMORY_MAX { self.spill() } else { Ok(()) }
    }

    fn is_full(&self, at: usize) -> bool {
        let bytes = self.repository.container_bytes();
        self.outputs[at].writer.as_ref().is_some_and(|writer| writer.length() >= bytes)
    }

    fn finish_container(&mut self, at: usize) -> Result<()> {
        let Some(mut writer) = std::mem::take(&mut self.outputs[at]).writer else { return Ok(()) };
        writer.sync()?;
        self.lease.verify()?;
        self.copied.bytes += writer.length();
        writer.publish(&*self.repository.storage).map(|_| ())
    }

    fn spill(&mut self) -> Result<()> {
        self.copied.spill(self.repository, self.lease, &mut self.placed)
    }
}

fn read_good(reader: &ContainerReader, row: &Row) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read(place_of(reader.number(), row), &mut bytes)?;
    Ok(bytes)
}

fn damaged(reader: &ContainerReader, reason: format::Error) -> Error {
    Error::damaged(&crate::container::name(reader.number()), reason)
}
