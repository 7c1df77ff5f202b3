//! Commits whose answer is lost: the server was killed behind them.

use super::Far;
use crate::testkit::TestFolder;
use format::record::SealedRecord;
use ids::ObjectId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{
    Claim, CommittedSnapshot, Error, PendingReply, Result, SnapshotRef, WriteLease, WriteSession,
};

struct Lease(Box<dyn WriteLease>, Arc<AtomicUsize>);

struct Session(Box<dyn WriteSession>, Arc<AtomicUsize>);

/// `near`, of which so many commits lose their answers.
pub(super) fn lease(
    near: Box<dyn WriteLease>,
    loses: &Arc<AtomicUsize>,
) -> Result<Box<dyn WriteLease>> {
    Ok(Box::new(Lease(near, loses.clone())))
}

impl WriteLease for Lease {
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn WriteSession>> {
        Ok(Box::new(Session(self.0.begin(base, session_record)?, self.1.clone())))
    }
    fn verify(&self) -> Result<()> {
        self.0.verify()
    }
    fn finish(&self) {
        self.0.finish();
    }
}

impl WriteSession for Session {
    fn claim(&self, id: &ObjectId) -> Result<Claim> {
        self.0.claim(id)
    }
    fn query(&self, ids: &[ObjectId]) -> Result<Box<dyn PendingReply>> {
        self.0.query(ids)
    }
    fn are_stored(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        self.0.are_stored(ids)
    }
    fn append(&self, record: &SealedRecord) -> Result<()> {
        self.0.append(record)
    }
    fn next_snapshot(&self) -> Result<u64> {
        self.0.next_snapshot()
    }
    fn stored_bytes(&self) -> u64 {
        self.0.stored_bytes()
    }
    fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
    fn commit(self: Box<Self>, manifest: &SealedRecord) -> Result<CommittedSnapshot> {
        let done = self.0.commit(manifest)?;
        let lose = |left: usize| left.checked_sub(1);
        let is_lost = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lose).is_ok();
        if is_lost { Err(Error::SessionLost) } else { Ok(done) }
    }
}

#[test]
fn a_backup_whose_last_answer_is_lost_has_made_one_snapshot() {
    let test_folder = TestFolder::new();
    test_folder.write("letter", b"of today");
    test_folder.init();
    let (far, repository) = Far::of(&test_folder);
    far.loses.store(1, Ordering::Relaxed);
    let done = test_folder.backup(&repository);
    assert_eq!(far.loses.load(Ordering::Relaxed), 0, "the answer was lost");
    assert_eq!(repository.store.snapshots().unwrap(), [done.snapshot]);
    assert_eq!(test_folder.backup(&repository).snapshot.sequence, 2);
}
