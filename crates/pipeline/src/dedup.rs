//! Deduplication by batched claims: unknown objects are gathered in blocks, the ids of a block are
//! claimed at once, and known objects are dropped when the reply comes. No claim waits for the
//! reply to another.

use crate::Result;
use format::record::RecordKind;
use seal::Block;
use std::collections::VecDeque;
use store::{PendingReply, WriteSession};

/// Batched claims without a reply. Each keeps its objects in memory until then.
const PENDING_MAX: usize = 4;

/// Gathers objects and claims them in batches. `T` is returned to the caller with each result.
pub(crate) struct DedupBatcher<T> {
    target_bytes: usize,
    gathered: Block,
    tags: Vec<T>,
    pending: VecDeque<PendingBatch<T>>,
}

struct PendingBatch<T> {
    block: Block,
    tags: Vec<T>,
    answers: Box<dyn PendingReply>,
}

/// The result of a batched claim: the objects that must be stored, and for each whether it is new.
pub(crate) struct DedupResult<T> {
    pub(crate) block: Block,
    pub(crate) claims: Vec<(T, bool)>,
}

impl<T> DedupBatcher<T> {
    /// Gathers up to `target_bytes` for one claim.
    pub(crate) fn new(kind: RecordKind, target_bytes: usize) -> Self {
        let (tags, pending) = Default::default();
        Self { target_bytes, gathered: Block::new(kind), tags, pending }
    }

    /// Adds an object of `bytes`, which `push` puts into the block.
    pub(crate) fn push(
        &mut self,
        sink: &dyn WriteSession,
        bytes: usize,
        tag: T,
        push: impl FnOnce(&mut Block),
    ) -> Result<()> {
        if self.gathered.is_full_for(bytes, self.target_bytes) {
            self.send(sink)?;
        }
        push(&mut self.gathered);
        self.tags.push(tag);
        Ok(())
    }

    /// Sends the claim for all gathered objects.
    pub(crate) fn send(&mut self, sink: &dyn WriteSession) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let next = self.gathered.successor();
        let block = std::mem::replace(&mut self.gathered, next);
        let answers = sink.query(block.ids())?;
        self.pending.push_back(PendingBatch {
            block,
            tags: std::mem::take(&mut self.tags),
            answers,
        });
        Ok(())
    }

    /// The result of the oldest claim, if its reply is here; with `wait`, waits for it.
    pub(crate) fn next_result(&mut self, wait: bool) -> Result<Option<DedupResult<T>>> {
        let is_due = |front: &PendingBatch<T>, under_way: usize| {
            wait || under_way > PENDING_MAX || front.answers.is_ready()
        };
        let under_way = self.pending.len();
        let front = self.pending.pop_front_if(|front| is_due(front, under_way));
        let Some(PendingBatch { mut block, tags, answers }) = front else { return Ok(None) };
        let is_new = answers.wait()?;
        if is_new.len() != tags.len() {
            return Err(format::Error::Invalid { what: "number of answers" }.into());
        }
        block.retain(&is_new);
        Ok(Some(DedupResult { block, claims: tags.into_iter().zip(is_new).collect() }))
    }
}

/// Merges a result into the gathered block. Returns the block that is full, if one is.
pub(crate) fn merge_blocks(
    gathered: &mut Block,
    mut result: Block,
    target_bytes: usize,
) -> Option<Block> {
    if result.is_empty() {
        return None;
    }
    if !gathered.is_full_for(result.bytes(), target_bytes) && gathered.has_room_for(&result) {
        gathered.append(&mut result);
        return None;
    }
    Some(std::mem::replace(gathered, result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::ObjectId;
    use store::{Claim, CommittedSnapshot};

    struct Odd;

    struct Said(Vec<bool>);

    impl PendingReply for Said {
        fn is_ready(&self) -> bool {
            false
        }
        fn wait(self: Box<Self>) -> store::Result<Vec<bool>> {
            Ok(self.0)
        }
    }

    /// Wants what has an odd first byte.
    impl WriteSession for Odd {
        fn claim(&self, _: &ObjectId) -> store::Result<Claim> {
            Ok(Claim::Unknown)
        }
        fn query(&self, ids: &[ObjectId]) -> store::Result<Box<dyn PendingReply>> {
            Ok(Box::new(Said(ids.iter().map(|id| id.0[0] & 1 == 1).collect())))
        }
        fn are_stored(&self, ids: &[ObjectId]) -> store::Result<Vec<bool>> {
            Ok(vec![false; ids.len()])
        }
        fn append(&self, _: &format::record::SealedRecord) -> store::Result<()> {
            Ok(())
        }
        fn next_snapshot(&self) -> store::Result<u64> {
            Ok(1)
        }
        fn stored_bytes(&self) -> u64 {
            0
        }
        fn checkpoint(&self) -> store::Result<()> {
            Ok(())
        }
        fn commit(
            self: Box<Self>,
            _: &format::record::SealedRecord,
        ) -> store::Result<CommittedSnapshot> {
            Err(store::Error::LocalOnly)
        }
    }

    #[test]
    fn what_is_wanted_stays_and_what_is_not_goes() {
        let mut batcher = DedupBatcher::new(RecordKind::Data, 200);
        for number in 0..20u8 {
            let id = ObjectId([number; 24]);
            batcher.push(&Odd, 10, number, |block| block.push_chunk(id, &[number; 10])).unwrap();
        }
        assert!(batcher.next_result(false).unwrap().is_none(), "nobody waits without need");
        batcher.send(&Odd).unwrap();
        let mut wanted = Vec::new();
        while let Some(result) = batcher.next_result(true).unwrap() {
            for (number, is_new) in &result.claims {
                assert_eq!(*is_new, number & 1 == 1);
            }
            wanted.extend(result.block.ids().iter().map(|id| id.0[0]));
        }
        assert_eq!(wanted, (0..20).filter(|number| number & 1 == 1).collect::<Vec<_>>());
    }

    #[test]
    fn small_rests_are_joined_and_full_blocks_passed_on() {
        let block = |numbers: std::ops::Range<u8>| {
            let mut block = Block::new(RecordKind::Data);
            numbers.for_each(|n| block.push_chunk(ObjectId([n; 24]), &[n; 10]));
            block
        };
        let mut gathered = block(0..1);
        assert!(merge_blocks(&mut gathered, block(1..2), 100).is_none());
        assert_eq!(gathered.len(), 2);
        let full = merge_blocks(&mut gathered, block(2..4), 100).unwrap();
        assert_eq!((full.len(), gathered.len()), (2, 2));
    }
}
