//! What pipelines ask of a repository, wherever it lies: [`Repository`] itself, or one behind a
//! server (the crate `remote`).
//!
//! Who writes gets a [`WriteLease`] first (for a local repository, the lease), then begins sessions with
//! it. Questions whose answer is far away come in two steps: ask now, wait later.

use crate::config::Config;
use crate::lease::Lease;
use crate::receipts::ReceiptKey;
use crate::session::{CommittedSnapshot, Session};
use crate::snapshots::{SnapshotRef, StoredSnapshot};
use crate::{Error, Repository, Result};
use format::record::{RecordKind, SealedRecord};
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
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
    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot>;

    /// Several snapshots. Who has them far away sends for all at once.
    fn read_snapshots(&self, names: &[SnapshotRef]) -> Vec<Result<StoredSnapshot>> {
        names.iter().map(|name| self.snapshot(*name)).collect()
    }

    /// The newest snapshot of `source`, as far as the clear tells.
    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>>;

    /// The same of several sources. Who has them far away asks for all at once.
    fn latest_snapshots(&self, sources: &[ObjectId]) -> Vec<Result<Option<StoredSnapshot>>> {
        sources.iter().map(|source| self.latest_snapshot(source)).collect()
    }

    /// The key slots.
    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>>;

    /// The key list, if there is one; `refresh` when one that came before does not do.
    fn key_list(&self, refresh: bool) -> Result<Option<Vec<u8>>>;

    /// Keys with which servers signed receipts here.
    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>>;

    /// Where the records of `ids` lie.
    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>>;

    /// Says that the record at `location` will be read soon, in this order: who has it far away sends
    /// for it. Waits when too much is under way.
    fn prefetch(&self, _place: RecordLocation) -> Result<()> {
        Ok(())
    }

    /// Whether it lies behind a network, where each question costs a round trip.
    fn is_remote(&self) -> bool {
        false
    }

    /// Reads the record at `location`. Whether it is good is for who opens its seal.
    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()>;

    /// Makes the record at `location` good from parity. Whether that was done.
    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool;

    /// Records that were read from parity so far.
    fn healed(&self) -> Vec<RecordLocation>;

    /// Finds and reads the record that holds `id`, even while reclaim moves it.
    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation>;

    /// The container `number` is gone: looks again where things lie.
    fn refresh_after(&self, gone: ContainerNo) -> Result<()>;

    /// The sealed session keys in a container, each that can be read; with `healed`, from parity.
    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>>;

    /// Forgets the snapshots that `tombstone` names: for who has the repository far away. How many were listed until now.
    /// The right to write is taken and given back there.
    fn forget(&self, _session: &SealedRecord, _tombstone: &SealedRecord) -> Result<u64> {
        Err(Error::LocalOnly)
    }

    /// The right to write; `holder` is for people.
    fn write_lease(self: Arc<Self>, holder: &str) -> Result<Box<dyn WriteLease>>;
}

/// The right to write.
pub trait WriteLease: Send + Sync {
    /// Begins a session that builds on the snapshot `base` and whose key `session_record` holds.
    /// [`Error::SnapshotMissing`] when `base` was forgotten meanwhile: look for another one.
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn WriteSession>>;

    /// Fails when the right was lost.
    fn verify(&self) -> Result<()>;

    /// The work went well.
    fn finish(&self);
}

/// What is known of an id at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has to be stored, by who asked.
    New,
    /// It is stored, or somebody else of this session stores it.
    Duplicate,
    /// It has to be asked for with [`WriteSession::ask`].
    Unknown,
}

/// Answers that are on their way.
pub trait PendingReply: Send {
    /// Whether they are there.
    fn is_ready(&self) -> bool;

    /// For each id whether it has to be stored, by who asked. Waits.
    fn wait(self: Box<Self>) -> Result<Vec<bool>>;
}

/// A session, as pipelines use it. Dropped without a commit it publishes nothing.
pub trait WriteSession: Send + Sync {
    /// What is known of `id`. After [`Claim::New`] the caller must append it: nobody else will.
    fn claim(&self, id: &ObjectId) -> Result<Claim>;

    /// Asks for ids that [`WriteSession::claim`] was unsure of.
    fn query(&self, ids: &[ObjectId]) -> Result<Box<dyn PendingReply>>;

    /// For each id whether it is stored already and will go on to be.
    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>>;

    /// Appends a record, each of whose ids was claimed.
    fn append(&self, record: &SealedRecord) -> Result<()>;

    /// The number for the snapshot of this session.
    fn next_snapshot(&self) -> Result<u64>;

    /// Bytes stored so far.
    fn stored_bytes(&self) -> u64;

    /// The same once all that was appended has arrived: what a report may say.
    fn acknowledged_bytes(&self) -> Result<u64> {
        Ok(self.stored_bytes())
    }

    /// Whether it lies behind a network, where bytes may be dearer than time.
    fn is_remote(&self) -> bool {
        false
    }

    /// Publishes all that was appended as the snapshot of `manifest`.
    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot>;
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

    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        Self::snapshot(self, name)
    }

    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>> {
        self.latest_of_source(source)
    }

    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        Self::key_slots(self)
    }

    fn key_list(&self, _refresh: bool) -> Result<Option<Vec<u8>>> {
        Self::key_list(self)
    }

    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        Self::receipt_keys(self)
    }

    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        self.index().find_many(ids)
    }

    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        Self::read(self, location, buffer)
    }

    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        Self::heal(self, location, buffer)
    }

    fn healed(&self) -> Vec<RecordLocation> {
        Self::healed(self)
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
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
        if let Some(row) = healed.rows()?.iter().find(|row| row.has_kind(RecordKind::Session)) {
            self.note_healed(RecordLocation { container, offset: row.offset, length: row.length });
        }
        Ok(keys)
    }

    fn write_lease(self: Arc<Self>, holder: &str) -> Result<Box<dyn WriteLease>> {
        let lease = self.lease(holder)?;
        Ok(Box::new(LocalWriteLease { repository: self, lease }))
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
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Session)) {
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
struct LocalWriteLease {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
}

impl WriteLease for LocalWriteLease {
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn WriteSession>> {
        Ok(Box::new(self.repository.begin(&self.lease, base, session_record)?))
    }

    fn verify(&self) -> Result<()> {
        self.lease.verify()
    }

    fn finish(&self) {
        self.repository.fill_reserve();
    }
}

/// Answers that are there already.
struct Given(Vec<bool>);

impl PendingReply for Given {
    fn is_ready(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<Vec<bool>> {
        Ok(self.0)
    }
}

impl WriteSession for Session {
    fn claim(&self, id: &ObjectId) -> Result<Claim> {
        Ok(if Self::claim(self, id)? { Claim::New } else { Claim::Duplicate })
    }

    fn query(&self, ids: &[ObjectId]) -> Result<Box<dyn PendingReply>> {
        let answers = ids.iter().map(|id| Self::claim(self, id)).collect::<Result<_>>()?;
        Ok(Box::new(Given(answers)))
    }

    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        ids.iter().map(|id| Self::is_stored(self, id)).collect()
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

    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot> {
        Self::commit(*self, manifest)
    }
}
