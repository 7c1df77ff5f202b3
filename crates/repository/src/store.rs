//! A repository as pipelines use it: [`Repository`] itself, or one behind a server (the crate `remote`).
//!
//! To write, a pipeline takes a [`WriteLease`] and begins sessions with it. A query to a remote repository has two
//! steps, so that many can be under way: send it, then wait for the [`PendingReply`].

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
    /// Its configuration.
    fn config(&self) -> &Config;

    /// A counter that rises whenever something may have been lost.
    fn damage_epoch(&self) -> u64;

    /// All snapshots, oldest first.
    fn snapshots(&self) -> Result<Vec<SnapshotRef>>;

    /// One snapshot.
    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot>;

    /// Several snapshots; a remote repository requests all of them at once.
    fn read_snapshots(&self, names: &[SnapshotRef]) -> Vec<Result<StoredSnapshot>> {
        names.iter().map(|name| self.snapshot(*name)).collect()
    }

    /// The latest snapshot of `source`, by the unverified heads.
    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>>;

    /// The latest snapshots of several sources; a remote repository requests all of them at once.
    fn latest_snapshots(&self, sources: &[ObjectId]) -> Vec<Result<Option<StoredSnapshot>>> {
        sources.iter().map(|source| self.latest_snapshot(source)).collect()
    }

    /// The key slots.
    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>>;

    /// The key list, if there is one. With `refresh` it is read again and not taken from memory.
    fn key_list(&self, refresh: bool) -> Result<Option<Vec<u8>>>;

    /// Public keys of the servers that signed receipts in this repository.
    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>>;

    /// The locations of the records that hold `ids`; `None` for an unknown id.
    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>>;

    /// Announces that the record at `location` will be read soon, in the order of the calls. A remote repository
    /// requests it now, and blocks when too many requests are under way.
    fn prefetch(&self, _location: RecordLocation) -> Result<()> {
        Ok(())
    }

    /// Whether it lies behind a network, where each query costs a round trip.
    fn is_remote(&self) -> bool {
        false
    }

    /// Reads the record at `location`. The caller verifies it when it opens the seal.
    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()>;

    /// Heals the record at `location` with parity; `false` when that was not possible or not needed.
    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool;

    /// Records that were healed so far.
    fn healed(&self) -> Vec<RecordLocation>;

    /// Finds and reads the record that holds `id`, also while reclaim moves it.
    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation>;

    /// The container `gone` is missing: reads the index again.
    fn refresh_after(&self, gone: ContainerNo) -> Result<()>;

    /// The sealed session keys in a container, as far as they can be read; with `healed`, with the help of parity.
    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>>;

    /// Forgets the snapshots that `tombstone` names, in a remote repository, which takes and releases the lease itself.
    /// Returns how many of them were listed.
    fn forget(&self, _session: &SealedRecord, _tombstone: &SealedRecord) -> Result<u64> {
        Err(Error::LocalOnly)
    }

    /// Takes the right to write. `holder` describes the caller in messages to others.
    fn write_lease(self: Arc<Self>, holder: &str) -> Result<Box<dyn WriteLease>>;
}

/// The right to write to a repository, until it is dropped.
pub trait WriteLease: Send + Sync {
    /// Begins a session that builds on the snapshot `base` and whose key `session_record` holds.
    ///
    /// # Errors
    /// [`Error::SnapshotMissing`] when `base` was forgotten in the meantime: choose another one.
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn WriteSession>>;

    /// Fails when another process took over the right to write.
    fn verify(&self) -> Result<()>;

    /// The work succeeded: prepares the repository for the next one (fills the reserve).
    fn finish(&self);
}

/// What is known about an id without a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Must be stored, by the caller.
    New,
    /// Is stored already, or another thread of this session stores it.
    Duplicate,
    /// It has to be asked for with [`WriteSession::ask`].
    Unknown,
}

/// The reply to a query, which may not be here yet.
pub trait PendingReply: Send {
    /// Whether it is here.
    fn is_ready(&self) -> bool;

    /// Waits for the reply: for each id, whether the caller must store it.
    fn wait(self: Box<Self>) -> Result<Vec<bool>>;
}

/// A session as pipelines use it. Without a commit it publishes nothing.
pub trait WriteSession: Send + Sync {
    /// Claims `id`. After [`Claim::New`] the caller must append it: no other thread will.
    fn claim(&self, id: &ObjectId) -> Result<Claim>;

    /// Asks about ids for which [`WriteSession::claim`] said [`Claim::Unknown`].
    fn query(&self, ids: &[ObjectId]) -> Result<Box<dyn PendingReply>>;

    /// For each id, whether it is stored and stays stored while this session runs.
    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>>;

    /// Appends a record; each of its ids was claimed.
    fn append(&self, record: &SealedRecord) -> Result<()>;

    /// The number for the snapshot of this session.
    fn next_snapshot(&self) -> Result<u64>;

    /// Bytes stored so far.
    fn stored_bytes(&self) -> u64;

    /// Bytes stored, after everything that was appended is acknowledged: the number for a report.
    fn acknowledged_bytes(&self) -> Result<u64> {
        Ok(self.stored_bytes())
    }

    /// Whether it lies behind a network, where bytes may cost more than time.
    fn is_remote(&self) -> bool {
        false
    }

    /// Publishes everything that was appended as the snapshot of `manifest`.
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

/// The clear parts of the session records in a container; an error when there are records and none can be read.
fn keys_in(reader: &crate::container::read::ContainerReader) -> Result<Vec<Vec<u8>>> {
    let rows = match reader.rows() {
        Ok(rows) => rows,
        // The footer is damaged: the records still say what they are.
        Err(_) => reader.walk(|_, _| ())?.rows,
    };
    let (mut keys, mut failed) = (Vec::new(), None);
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Session)) {
        // Each is there twice, so a damaged one does not matter while the other is good.
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

/// The right to write to a repository on this machine.
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
