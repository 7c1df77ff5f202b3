//! The traits of a repository as pipelines use it.
//!
//! To write, a pipeline takes a [`WriteLease`] and begins sessions with it. A query to a remote repository has two
//! steps, so that many can be under way: send it, then wait for the [`PendingReply`].

use crate::{CommittedSnapshot, Config, Error, ReceiptKey, Result, SnapshotRef, StoredSnapshot};
use format::record::SealedRecord;
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

    /// What servers signed of snapshots that expired: the clear parts, and the keys that the repository names. Nothing
    /// where that cannot be asked for.
    fn expiries(&self) -> Result<(Vec<ReceiptKey>, Vec<Vec<u8>>)> {
        Ok((Vec::new(), Vec::new()))
    }

    /// The locations of the records that hold `ids`; `None` for an unknown id.
    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>>;

    /// Like [`Store::locate`], for ids in the order of a tree that the caller is about to read: fast, and true as far
    /// as the records themselves are. Whoever does not find an object there asks for it by its id.
    fn locate_neighbors(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        self.locate(ids)
    }

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

    /// Makes everything durable that the repository has taken until now, so that an interruption does not cost it. On a
    /// server of an older version it does nothing.
    fn checkpoint(&self) -> Result<()>;

    /// Whether it lies behind a network, where bytes may cost more than time.
    fn is_remote(&self) -> bool {
        false
    }

    /// Publishes everything that was appended as the snapshot of `manifest`.
    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot>;
}
