//! From bytes to chunks in blocks: cut, name, ask, gather, seal.

use super::BackupOptions;
use super::counters::{Counters, timed};
use super::object_dedup::{ObjectDedup, PendingObject};
use super::queue::Queue;
use super::worker::BackupContext;
use crate::Result;
use crate::dedup::{DedupBatcher, merge_blocks};
use format::entry::{Content, Segment};
use format::limits::PAGE_REFS_MAX;
use format::list;
use format::record::{RecordKind, SealedRecord};
use ids::ObjectId;
use parking_lot::{Condvar, Mutex};
use repository::store::Claim;
use seal::{Block, BlockCompressor, Sealer};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Plaintext of one record: large enough that small files compress well together, small enough
/// that restoring one of them costs a millisecond.
pub(super) const BLOCK_BYTES: usize = 2 << 20;
/// Runs listed in an entry itself; more go into list pages of about this many.
const RUNS_INLINE_MAX: usize = 1024;
/// After so many lists (of some 400 GB of file) the next ones become twice as long, up to
/// [`LIST_RUNS_MAX`]: an entry holds no more than [`PAGE_REFS_MAX`] of them, which is some 370 TB.
const LISTS_A_STEP: usize = 4096;
const LIST_STEPS_MAX: usize = 5;
/// Runs of a list page at most: half of what a reader believes.
const LIST_RUNS_MAX: usize = PAGE_REFS_MAX / 2;

/// Gathers chunks; one for each worker.
pub(super) struct ChunkWriter<'a> {
    shared: &'a BackupContext<'a>,
    queue: &'a Queue,
    block: Block,
    unknown: DedupBatcher<(Rc<PendingObject>, usize)>,
    pub(super) counters: Counters,
}

/// What compressing and sealing needs. There are as many as cores, however many threads read: so
/// memory stays small, and readers that wait for disks never crowd out those that compute.
pub(super) struct Compressor {
    record: SealedRecord,
    packer: BlockCompressor,
    verifier: Option<zstd::bulk::Decompressor<'static>>,
}

/// The presses that are free.
pub(super) struct CompressorPool {
    free: Mutex<Vec<Compressor>>,
    returned: Condvar,
}

impl CompressorPool {
    pub(super) fn new(options: &BackupOptions, count: usize) -> Result<Self> {
        let free = (0..count.max(1)).map(|_| Compressor::new(options)).collect::<Result<_>>()?;
        Ok(Self { free: Mutex::new(free), returned: Condvar::new() })
    }

    fn take(&self) -> Compressor {
        let mut free = self.free.lock();
        loop {
            if let Some(compressor) = free.pop() {
                return compressor;
            }
            self.returned.wait(&mut free);
        }
    }

    fn give_back(&self, compressor: Compressor) {
        self.free.lock().push(compressor);
        self.returned.notify_one();
    }
}

impl Compressor {
    fn new(options: &BackupOptions) -> Result<Self> {
        let verifier = match options.verify_blocks {
            true => Some(zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?),
            false => None,
        };
        Ok(Self {
            record: Sealer::empty_record(),
            packer: BlockCompressor::new(options.level)?,
            verifier,
        })
    }

    /// Compresses and seals `block`, and checks the result if wanted.
    fn seal(&mut self, block: &mut Block, shared: &BackupContext<'_>) -> Result<()> {
        self.packer.set_auto_step(shared.compression.level())?;
        shared.sealer.seal_block(block, &mut self.packer, &mut self.record)?;
        if let Some(unpacker) = &mut self.verifier {
            shared.sealer.verify(&self.record, unpacker, |bytes| shared.ids.chunk_id(bytes))?;
        }
        Ok(())
    }
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(shared: &'a BackupContext<'a>, queue: &'a Queue) -> Self {
        let block = Block::new(RecordKind::Data);
        let unknown = DedupBatcher::new(RecordKind::Data, BLOCK_BYTES);
        Self { shared, queue, block, unknown, counters: Counters::default() }
    }

    /// Names `bytes` as one chunk, and keeps them if they are new.
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

    /// An object is done.
    pub(super) fn count(&mut self, object: &ObjectDedup) {
        object.count(&mut self.counters.report);
    }

    /// Keeps the chunks that turned out to be new.
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

    /// Waits as long as the caps ask for so many bytes of the source.
    pub(super) fn may_read(&mut self, bytes: u64) -> Result<()> {
        let waited = self.shared.throttle.read(bytes)?;
        self.counters.report.stages.limit_wait_secs += waited;
        Ok(())
    }

    /// Seals and stores `block`, whoever gathered it.
    pub(super) fn seal(&mut self, block: &mut Block) -> Result<()> {
        self.seal_now(block)?;
        let waited = self.shared.throttle.wrote(self.shared.session.stored_bytes())?;
        self.counters.report.stages.limit_wait_secs += waited;
        Ok(())
    }

    fn seal_now(&mut self, block: &mut Block) -> Result<()> {
        let shared = self.shared;
        let stages = &mut self.counters.report.stages;
        let mut compressor = timed(&mut stages.compressor_wait_secs, || shared.compressors.take());
        let before = (stages.compress_secs, stages.store_secs);
        let sealed = timed(&mut stages.compress_secs, || compressor.seal(block, shared));
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

    /// Stores what was gathered.
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

/// Runs of one file on their way into its entry.
#[derive(Default)]
pub(super) struct RunListBuilder {
    runs: Vec<Segment>,
    lists: Vec<ObjectId>,
    pub(super) bytes: u64,
}

impl RunListBuilder {
    pub(super) fn data(
        &mut self,
        id: ObjectId,
        length: u32,
        shared: &BackupContext<'_>,
    ) -> Result<()> {
        self.push(Segment::Data(id, length), shared)
    }

    /// A hole; joined with one before it.
    pub(super) fn hole(&mut self, length: u64, shared: &BackupContext<'_>) -> Result<()> {
        if let Some(Segment::Hole(before)) = self.runs.last_mut() {
            *before += length;
            self.bytes += length;
            return Ok(());
        }
        if length == 0 { Ok(()) } else { self.push(Segment::Hole(length), shared) }
    }

    fn push(&mut self, run: Segment, shared: &BackupContext<'_>) -> Result<()> {
        self.bytes += run.length();
        self.runs.push(run);
        // Lists end where a chunk's name says so: a file that grew or changed shares most of
        // them with its past.
        let ends = matches!(run, Segment::Data(id, _) if id.0[0] == 0);
        let step = (self.lists.len() / LISTS_A_STEP).min(LIST_STEPS_MAX);
        let most = ((4 * RUNS_INLINE_MAX) << step).min(LIST_RUNS_MAX);
        let enough =
            self.runs.len() >= (RUNS_INLINE_MAX / 2) << step && ends || self.runs.len() >= most;
        let is_long = !self.lists.is_empty() || self.runs.len() > RUNS_INLINE_MAX;
        if enough && is_long { self.cut_list(shared) } else { Ok(()) }
    }

    fn cut_list(&mut self, shared: &BackupContext<'_>) -> Result<()> {
        self.lists.push(shared.pages.put(&list::encode(&self.runs))?);
        self.runs.clear();
        Ok(())
    }

    /// Whether there are more than an entry holds: then what `finish` gives is not stored.
    pub(super) fn are_too_many(&self) -> bool {
        self.lists.len() >= PAGE_REFS_MAX
    }

    /// The content that an entry keeps.
    pub(super) fn finish(mut self, shared: &BackupContext<'_>) -> Result<Content> {
        if self.lists.is_empty() && self.runs.len() <= RUNS_INLINE_MAX {
            let runs: Arc<[Segment]> = self.runs.into();
            return Ok(if runs.is_empty() { Content::None } else { Content::Segments(runs) });
        }
        if !self.runs.is_empty() {
            self.cut_list(shared)?;
        }
        Ok(Content::Lists(self.lists.into()))
    }
}

/// A stream of bytes on its way into chunks: keeps what is not cut yet.
pub(super) struct ChunkBuffer {
    buffer: Vec<u8>,
    /// What is filled and not cut yet.
    filled: Range<usize>,
}

/// Room in which a chunk is looked for, at least twice the largest chunk.
const CHUNK_BUFFER_BYTES: usize = 2 << 20;

impl ChunkBuffer {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::new(), filled: 0..0 }
    }

    /// Nothing is in it any more; its memory is used again.
    pub(super) fn restart(&mut self) {
        self.filled = 0..0;
    }

    /// Room for at least one more piece; what is in it is moved to the front.
    pub(super) fn room(&mut self, shared: &BackupContext<'_>) -> &mut [u8] {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        let most = CHUNK_BUFFER_BYTES.max(2 * shared.chunker.params().max as usize);
        let wanted = most.max(self.filled.end + most / 2);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.filled.end..wanted]
    }

    /// Says how many bytes of [`ChunkBuffer::room`] were filled.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled.end += bytes;
    }

    /// Cuts as far as the bytes tell; all of them when `at_end`.
    pub(super) fn cut(
        &mut self,
        at_end: bool,
        writer: &mut ChunkWriter<'_>,
        runs: &mut RunListBuilder,
        object: &mut ObjectDedup,
    ) -> Result<()> {
        let shared = writer.shared;
        loop {
            let rest = &self.buffer[self.filled.clone()];
            let hash_secs = &mut writer.counters.report.stages.hash_secs;
            let cut = timed(hash_secs, || shared.chunker.next_cut(rest, at_end));
            let Some(length) = cut.filter(|length| *length > 0) else { return Ok(()) };
            let id = writer.chunk(&rest[..length], object)?;
            runs.data(id, length as u32, shared)?;
            self.filled.start += length;
        }
    }
}
