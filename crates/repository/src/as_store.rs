//! The engine as pipelines use it: [`Store`] for [`Repository`].

use crate::Repository;
use crate::lease::Lease;
use crate::session::Session;
use format::record::SealedRecord;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use std::sync::Arc;
use store::{
    Claim, CommittedSnapshot, Config, PendingReply, ReceiptKey, Result, SnapshotRef, Store,
    StoredSnapshot, WriteLease, WriteSession,
};

impl Store for Repository {
    fn config(&self) -> &Config {
        Self::config(self)
    }

    fn damage_epoch(&self) -> u64 {
        Self::damage_epoch(self)
    }

    fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        Ok(Self::snapshots(self)?)
    }

    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        Ok(Self::snapshot(self, name)?)
    }

    fn read_snapshots(&self, names: &[SnapshotRef]) -> Vec<Result<StoredSnapshot>> {
        self.each_snapshot(names).map(|(_, stored)| Ok(stored?)).collect()
    }

    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>> {
        Ok(Self::latest_snapshot(self, source)?)
    }

    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        Ok(Self::key_slots(self)?)
    }

    fn key_list(&self, _refresh: bool) -> Result<Option<Vec<u8>>> {
        Ok(Self::key_list(self)?)
    }

    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        Ok(Self::receipt_keys(self)?)
    }

    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        Ok(Self::locate(self, ids)?)
    }

    fn locate_neighbors(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        Ok(Self::locate_neighbors(self, ids)?)
    }

    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        Ok(Self::read(self, location, buffer)?)
    }

    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        Self::heal(self, location, buffer)
    }

    fn healed(&self) -> Vec<RecordLocation> {
        Self::healed(self)
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
        Ok(Self::fetch(self, id, buffer)?)
    }

    fn refresh_after(&self, gone: ContainerNo) -> Result<()> {
        Ok(Self::refresh_after(self, gone)?)
    }

    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        Ok(Self::session_keys(self, container, healed)?)
    }

    fn write_lease(self: Arc<Self>, holder: &str) -> Result<Box<dyn WriteLease>> {
        let lease = self.lease(holder)?;
        Ok(Box::new(LocalWriteLease { repository: self, lease }))
    }
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
        Ok(self.lease.verify()?)
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
        let answers = ids.iter().map(|id| Self::claim(self, id)).collect::<crate::Result<_>>()?;
        Ok(Box::new(Given(answers)))
    }

    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        Ok(ids.iter().map(|id| Self::is_stored(self, id)).collect::<crate::Result<_>>()?)
    }

    fn append(&self, record: &SealedRecord) -> Result<()> {
        Ok(Self::append(self, record)?)
    }

    fn next_snapshot(&self) -> Result<u64> {
        Ok(Self::next_snapshot(self))
    }

    fn stored_bytes(&self) -> u64 {
        Self::stored_bytes(self)
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(Self::checkpoint(self)?)
    }

    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot> {
        Ok(Self::commit(*self, manifest)?)
    }
}
