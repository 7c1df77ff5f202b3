//! From bytes to stored chunks: hash, claim, gather in blocks, seal.

use super::context::BackupContext;
use super::counters::{Counters, timed};
use super::object_dedup::{ObjectDedup, PendingObject};
use super::queue::Queue;
use crate::Result;
use crate::dedup::{DedupBatcher, merge_blocks};
use format::record::RecordKind;
use ids::ObjectId;
use seal::Block;
use std::rc::Rc;
use std::time::Duration;
use store::Claim;

/// Plaintext of one record: large enough that small files compress well together, small enough
/// that restoring one of them costs a millisecond.
pub(super) const BLOCK_BYTES: usize = 2 << 20;

/// Gathers chunks; one for each worker.
pub(super) struct ChunkWriter<'a> {
    shared: &'a BackupContext<'a>,
    queue: &'a Queue,
    block: Block,
    unknown: DedupBatcher<(Rc<PendingObject>, usize)>,
    pub(super) counters: Counters,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(shared: &'a BackupContext<'a>, queue: &'a Queue) -> Self {
        let block = Block::new(RecordKind::Data);
        let unknown = DedupBatcher::new(RecordKind::Data, BLOCK_BYTES);
        Self { shared, queue, block, unknown, counters: Counters::default() }
    }

    pub(super) fn context(&self) -> &'a BackupContext<'a> {
        self.shared
    }

    /// Hashes `bytes` as one chunk, and stores it if it is new.
    pub(super) fn chunk(&mut self, bytes: &[u8], object: &mut ObjectDedup) -> Result<ObjectId> {
        let (session, ids) = (self.shared.session, self.shared.ids);
        let hash_secs = &mut self.counters.report.stages.hash_secs;
        let (id, claim) = timed(hash_secs, || {
            let id = ids.chunk_id(bytes);
            session.claim(&id).map(|claim| (id, claim))
        })?;
        self.counters.report.chunks_total += 1;
        self.counters.report.bytes_before_dedup += bytes.len() as u64;
        match claim {
            Claim::Duplicate => object.known(false),
            Claim::New => {
                object.known(true);
                self.counters.count_new(bytes.len());
                if self.block.is_full_for(bytes.len(), BLOCK_BYTES) {
                    self.pass_on_block()?;
                }
                #[cfg(test)]
                let bytes = &*super::bit_flips::flip_bit_of_chunk(bytes);
                self.block.push_chunk(id, bytes);
            }
            Claim::Unknown => {
                let tag = (object.unknown(), bytes.len());
                let length = bytes.len();
                self.unknown.push(session, length, tag, |block| block.push_chunk(id, bytes))?;
                self.take_results(false)?;
            }
        }
        Ok(id)
    }

    /// Counts an object that is done.
    pub(super) fn count(&mut self, object: &ObjectDedup) {
        object.count(&mut self.counters.report);
    }

    /// Adds the chunks that turned out to be new.
    fn take_results(&mut self, wait: bool) -> Result<()> {
        loop {
            let wait_secs = &mut self.counters.report.stages.reply_wait_secs;
            let Some(result) = timed(wait_secs, || self.unknown.next_result(wait))? else {
                return Ok(());
            };
            for ((pending, bytes), is_new) in &result.claims {
                pending.answer(*is_new, &mut self.counters.report);
                if *is_new {
                    self.counters.count_new(*bytes);
                }
            }
            if let Some(full) = merge_blocks(&mut self.block, result.block, BLOCK_BYTES) {
                let rest = std::mem::replace(&mut self.block, full);
                self.pass_on_block()?;
                self.block = rest;
            }
        }
    }

    /// Waits as the limits require for `bytes` of the source.
    pub(super) fn may_read(&mut self, bytes: u64) -> Result<()> {
        let waited = self.shared.throttle.read(bytes)?;
        self.counters.report.stages.limit_wait_secs += waited;
        Ok(())
    }

    /// Seals and stores `block`, which any worker may have gathered.
    pub(super) fn seal(&mut self, block: &mut Block) -> Result<()> {
        self.seal_now(block)?;
        let store_secs = &mut self.counters.report.stages.store_secs;
        timed(store_secs, || self.shared.checkpoints.make_if_due(0))?;
        let waited = self.shared.throttle.wrote(self.shared.session.stored_bytes())?;
        self.counters.report.stages.limit_wait_secs += waited;
        Ok(())
    }

    fn seal_now(&mut self, block: &mut Block) -> Result<()> {
        let shared = self.shared;
        let stages = &mut self.counters.report.stages;
        let mut compressor = timed(&mut stages.compressor_wait_secs, || shared.compressors.take());
        let before = (stages.compress_secs, stages.store_secs);
        let sealed = timed(&mut stages.compress_secs, || {
            compressor.seal(block, shared.compression.level(), shared.sealer, shared.ids)
        });
        let stored = sealed.and_then(|()| {
            timed(&mut stages.store_secs, || Ok(shared.session.append(&compressor.record)?))
        });
        shared.compressors.give_back(compressor);
        if shared.session.is_remote() {
            let spent = |now: f64, before: f64| Duration::from_secs_f64((now - before).max(0.0));
            let working = spent(stages.compress_secs, before.0);
            shared.compression.note(working, spent(stages.store_secs, before.1));
        }
        stored
    }

    /// Stores everything that was gathered.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.unknown.send(self.shared.session)?;
        self.take_results(true)?;
        if self.block.is_empty() {
            return Ok(());
        }
        let next = self.block.successor();
        let mut block = std::mem::replace(&mut self.block, next);
        let result = self.seal(&mut block);
        self.block = block;
        result
    }

    fn pass_on_block(&mut self) -> Result<()> {
        let next = self.block.successor();
        let full = std::mem::replace(&mut self.block, next);
        match self.queue.offer(full) {
            None => Ok(()),
            Some(mut block) => {
                let result = self.seal(&mut block);
                self.block = block;
                result
            }
        }
    }
}
