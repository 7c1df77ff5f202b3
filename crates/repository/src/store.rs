//! What pipelines ask of a repository, wherever it lies: [`Repository`] itself, or one behind a
//! server (the crate `remote`).
//!
//! Who writes gets a [`Writer`] first (for a local repository, the lease), then begins sessions with
//! it. Questions whose answer is far away come in two steps: ask now, wait later.

use crate::config::Config;
use crate::lease::Lease;
use crate::receipts::ReceiptKey;
use crate::session::{Committed, Session};
use crate::snapshots::{SnapshotRef, Stored};
use crate::{Error, Repository, Result};
use format::record::{RecordKind, SealedRecord};
use ids::{ContainerNo, KeyId, ObjectId, Place};
use std::sync::Arc;

/// A repository as pipelines use it.
pub trait Store: Send + Sync {
    /// What it is.
    fn config(&self) -> &Config;

    /// Rises whenever something may have been lost.
    fn damage_epoch(&self) -> u64;

    /// All snapshots, in the order in which they were made.
    fn snapshots(&self) -> Result<Vec<SnapshotRef>>;

    /// One snapshot.
    fn snapshot(&self, name: SnapshotRef) -> Result<Stored>;

    /// Several snapshots. Who has them far away sends for all at once.
    fn several(&self, names: &[SnapshotRef]) -> Vec<Result<Stored>> {
        names.iter().map(|name| self.snapshot(*name)).collect()
    }

    /// The newest snapshot of `source`, as far as the clear tells.
    fn newest(&self, source: &ObjectId) -> Result<Option<Stored>>;

    /// The same of several sources. Who has them far away asks for all at once.
    fn newest_of(&self, sources: &[ObjectId]) -> Vec<Result<Option<Stored>>> {
        sources.iter().map(|source| self.newest(source)).collect()
    }

    /// The key slots.
    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>>;

    /// The key list, if there is one; `anew` when one that came before does not do.
    fn key_list(&self, anew: bool) -> Result<Option<Vec<u8>>>;

    /// Keys with which servers signed receipts here.
    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>>;

    /// Where the records of `ids` lie.
    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<Place>>>;

    /// Says that the record at `place` will be read soon, in this order: who has it far away sends
    /// for it. Waits when too much is under way.
    fn want(&self, _place: Place) -> Result<()> {
        Ok(())
    }

    /// Whether it lies behind a network, where each question costs a round trip.
    fn is_far(&self) -> bool {
        false
    }

    /// Reads the record at `place`. Whether it is good is for who opens its seal.
    fn read(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()>;

    /// Makes the record at `place` good from parity. Whether that was done.
    fn heal(&self, place: Place, buffer: &mut Vec<u8>) -> bool;

    /// Records that were read from parity so far.
    fn healed(&self) -> Vec<Place>;

    /// Finds and reads the record that holds `id`, even while reclaim moves it.
    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<Place>;

    /// The container `number` is gone: looks again where things lie.
    fn refresh_after(&self, gone: ContainerNo) -> Result<()>;

    /// The sealed session keys in a container, each that can be read; with `healed`, from parity.
    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>>;

    /// Forgets the snapshots that `tombstone` names: for who has the repository far away. How many were listed until now.
    /// The right to write is taken and given back there.
    fn forget(&self, _session: &SealedRecord, _tombstone: &SealedRecord) -> Result<u64> {
        Err(Error::NotHere)
    }

    /// The right to write; `holder` is for people.
    fn writer(self: Arc<Self>, holder: &str) -> Result<Box<dyn Writer>>;
}

/// The right to write.
pub trait Writer: Send + Sync {
    /// Begins a session that builds on the snapshot `base` and whose key `session_record` holds.
    /// [`Error::SnapshotMissing`] when `base` was forgotten meanwhile: look for another one.
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn Sink>>;

    /// Fails when the right was lost.
    fn verify(&self) -> Result<()>;

    /// The work went well.
    fn done(&self);
}

/// What is known of an id at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has to be stored, by who asked.
    New,
    /// It is stored, or somebody else of this session stores it.
    Known,
    /// It has to be asked for with [`Sink::ask`].
    Unsure,
}

/// Answers that are on their way.
pub trait Answers: Send {
    /// Whether they are there.
    fn are_ready(&self) -> bool;

    /// For each id whether it has to be stored, by who asked. Waits.
    fn wait(self: Box<Self>) -> Result<Vec<bool>>;
}

/// A session, as pipelines use it. Dropped without a commit it publishes nothing.
pub trait Sink: Send + Sync {
    /// What is known of `id`. After [`Claim::New`] the caller must append it: nobody else will.
    fn claim(&self, id: &ObjectId) -> Result<Claim>;

    /// Asks for ids that [`Sink::claim`] was unsure of.
    fn ask(&self, ids: &[ObjectId]) -> Result<Box<dyn Answers>>;

    /// For each id whether it is stored already and will go on to be.
    fn holds(&self, ids: &[ObjectId]) -> Result<Vec<bool>>;

    /// Appends a record, each of whose ids was claimed.
    fn append(&self, record: &SealedRecord) -> Result<()>;

    /// The number for the snapshot of this session.
    fn next_snapshot(&self) -> Result<u64>;

    /// Bytes stored so far.
    fn stored_bytes(&self) -> u64;

    /// The same once all that was appended has arrived: what a report may say.
    fn settled_bytes(&self) -> Result<u64> {
        Ok(self.stored_bytes())
    }

    /// Whether it lies behind a network, where bytes may be dearer than time.
    fn is_far(&self) -> bool {
        false
    }

    /// Publishes all that was appended as the snapshot of `manifest`.
    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<Committed>;
}

impl Store for Repository {
    fn config(&self) -> &Config {
        Self::config(self)
    }

    fn damage_epoch(&self) -> u64 {
        Self::damage_epoch(self)
    }

    fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        Self::snapshots(self)
    }

    fn snapshot(&self, name: SnapshotRef) -> Result<Stored> {
        Self::snapshot(self, name)
    }

    fn newest(&self, source: &ObjectId) -> Result<Option<Stored>> {
        self.newest_of_source(source)
    }

    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        Self::key_slots(self)
    }

    fn key_list(&self, _anew: bool) -> Result<Option<Vec<u8>>> {
        Self::key_list(self)
    }

    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        Self::receipt_keys(self)
    }

    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<Place>>> {
        self.index().find_many(ids)
    }

    fn read(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()> {
        Self::read(self, place, buffer)
    }

    fn heal(&self, place: Place, buffer: &mut Vec<u8>) -> bool {
        Self::heal(self, place, buffer)
    }

    fn healed(&self) -> Vec<Place> {
        Self::healed(self)
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<Place> {
        Self::fetch(self, id, buffer)
    }

    fn refresh_after(&self, gone: ContainerNo) -> Result<()> {
        Self::refresh_after(self, gone)
    }

    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        let reader = self.container(container)?;
        if !healed {
            return keys_in(&reader);
        }
        let Some(healed) = reader.healed()? else { return Ok(Vec::new()) };
        let keys = keys_in(&healed)?;
        if let Some(row) = healed.rows()?.iter().find(|row| row.is(RecordKind::Session)) {
            self.note_healed(Place { container, offset: row.offset, length: row.length });
        }
        Ok(keys)
    }

    fn writer(self: Arc<Self>, holder: &str) -> Result<Box<dyn Writer>> {
        let lease = self.lease(holder)?;
        Ok(Box::new(LocalWriter { repository: self, lease }))
    }
}

/// The clear parts of the session records in a container; an error when there are some and none can
/// be read.
fn keys_in(reader: &crate::container::read::ContainerReader) -> Result<Vec<Vec<u8>>> {
    let rows = match reader.rows() {
        Ok(rows) => rows,
        // The footer is damaged: the records still say what they are.
        Err(_) => reader.walk(|_, _| ())?.rows,
    };
    let (mut keys, mut failed) = (Vec::new(), None);
    for row in rows.iter().filter(|row| row.is(RecordKind::Session)) {
        // Each stands twice: one that is damaged costs nothing while the other is not.
        match reader.associated(row).and_then(clear_of) {
            Ok(key) => keys.push(key),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if keys.is_empty() => Err(error),
        _ => Ok(keys),
    }
}

fn clear_of(associated: Vec<u8>) -> Result<Vec<u8>> {
    let record = format::record::head_only(&associated);
    Ok(record.map_err(|reason| Error::damaged("session record", reason))?.clear.to_vec())
}

/// The right to write to a repository in this process.
struct LocalWriter {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
}

impl Writer for LocalWriter {
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn Sink>> {
        Ok(Box::new(self.repository.begin(&self.lease, base, session_record)?))
    }

    fn verify(&self) -> Result<()> {
        self.lease.verify()
    }

    fn done(&self) {
        self.repository.fill_reserve();
    }
}

/// Answers that are there already.
struct Given(Vec<bool>);

impl Answers for Given {
    fn are_ready(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<Vec<bool>> {
        Ok(self.0)
    }
}

impl Sink for Session {
    fn claim(&self, id: &ObjectId) -> Result<Claim> {
        Ok(if Self::claim(self, id)? { Claim::New } else { Claim::Known })
    }

    fn ask(&self, ids: &[ObjectId]) -> Result<Box<dyn Answers>> {
        let answers = ids.iter().map(|id| Self::claim(self, id)).collect::<Result<_>>()?;
        Ok(Box::new(Given(answers)))
    }

    fn holds(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        ids.iter().map(|id| Self::holds(self, id)).collect()
    }

    fn append(&self, record: &SealedRecord) -> Result<()> {
        Self::append(self, record)
    }

    fn next_snapshot(&self) -> Result<u64> {
        Ok(Self::next_snapshot(self))
    }

    fn stored_bytes(&self) -> u64 {
        Self::stored_bytes(self)
    }

    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<Committed> {
        Self::commit(*self, manifest)
    }
}
