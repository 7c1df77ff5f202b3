//! Backup: walk, merge with the snapshot before, read what changed, store what is new.
//!
//! ```text
//!  walk ──▶ merge (this thread) ──▶ queue ──▶ workers: read, cut, hash, compress, seal ──▶ session
//!                    │ batches in order                        │
//!                    └────────────▶ order ◀────────────────────┘
//!                                     └──▶ tree builder ──▶ pages ──▶ session
//! ```
//! Batches go to the workers and come back in the order of the walk, at most a fixed number of
//! them under way, so memory does not grow with the number of objects. Read [`run`] first, then
//! `merge`, `worker`, `reorder`.

mod batch;
#[cfg(test)]
pub(crate) mod bit_flips;
mod compression;
mod content;
mod counters;
mod memory;
mod merge;
mod object_dedup;
mod queue;
mod readers;
mod reorder;
mod stream;
mod worker;

use crate::cache::ChunkCache;
use crate::manifest::{self, ManifestBody, NewManifest};
use crate::pages::{PageReader, PageWriter};
use crate::report::BackupReport;
use crate::throttle::ResourceLimits;
use crate::{Error, Result, UnlockedRepository};
use batch::{Batch, Item};
use capture::CaptureProblem;
use capture::read::ReadOptions;
use capture::walk::{SourceRoot, Walk, WalkEvent};
use counters::Counters;
use format::entry::{Entry, Time};
use format::limits::MANIFEST_BODY_MAX;
use merge::Merge;
use queue::Queue;
use reorder::ReorderBuffer;
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use repository::store::{WriteLease, WriteSession};
use seal::Sealer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
pub use stream::run_stream;
use worker::BackupContext;

/// What to back up, and how.
#[derive(Clone)]
pub struct BackupOptions {
    /// Trees to back up.
    pub roots: Vec<SourceRoot>,
    /// Name of this machine in the repository.
    pub node: String,
    /// The paths as the user means them; with the node they name the source.
    pub paths: Vec<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// What the walk goes into and leaves out.
    pub walk: capture::walk::WalkOptions,
    /// How files are read.
    pub read: ReadOptions,
    /// Threads that read; 0: as many as the disks of the source like. Compressing takes as many as
    /// there are cores, whatever this is.
    pub threads: usize,
    /// How hard to compress.
    pub level: seal::Level,
    /// Read everything, whatever its times say.
    pub full: bool,
    /// Inode numbers mean nothing on this file system.
    pub ignore_inode: bool,
    /// Open every record again before it is stored.
    pub verify_blocks: bool,
    /// What the run may use at most.
    pub limits: ResourceLimits,
    /// Pages of the last snapshot, kept on this machine.
    pub cache: Option<Arc<ChunkCache>>,
    /// Something that was named is missing: the snapshot is partial, whatever else is read.
    pub is_partial: bool,
    /// The time that the snapshot shall have instead of now.
    pub time: Option<Time>,
    /// Make no snapshot when it would hold the same as the one before.
    pub skip_if_unchanged: bool,
}

/// How a backup ended.
#[derive(Clone, Debug)]
pub struct BackupOutcome {
    /// The snapshot; when it was skipped, the one before.
    pub snapshot: SnapshotRef,
    /// Nothing had changed, and no snapshot was made, as asked.
    pub is_skipped: bool,
    /// Its number in the chain of its source.
    pub source_sequence: u64,
    /// What it did.
    pub report: BackupReport,
    /// Whether parts of the source could not be read.
    pub partial: bool,
}

/// What a backup tells while it runs. Called by many threads.
pub trait BackupMonitor: Sync {
    /// An object could not be read, or not wholly.
    fn problem(&self, problem: &CaptureProblem);
    /// Something that a person should know: why a snapshot could not be built upon, for one.
    fn note(&self, text: &str);
}

/// Where a backup is; read by who shows it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Objects that the walk met.
    pub objects: AtomicU64,
    /// Bytes of objects dealt with.
    pub bytes: AtomicU64,
    /// Bytes read.
    pub bytes_read: AtomicU64,
    /// Objects of the whole source, once the walk has ended; 0 before.
    pub total_objects: AtomicU64,
    /// Bytes of the whole source, once the walk has ended; 0 before.
    pub total_bytes: AtomicU64,
    /// Set to stop: what was stored so far is found by the next backup.
    pub cancel: AtomicBool,
    current: parking_lot::Mutex<Vec<u8>>,
}

impl Progress {
    /// The path that is dealt with.
    pub fn current(&self) -> Vec<u8> {
        self.current.lock().clone()
    }

    /// Nothing is done yet, again.
    fn start_again(&self) {
        let totals = [&self.total_objects, &self.total_bytes];
        for counter in [&self.objects, &self.bytes, &self.bytes_read].into_iter().chain(totals) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The walk has ended: all objects were met, and the source has so many bytes.
    fn walked(&self, bytes: u64) {
        self.total_objects.store(self.objects.load(Ordering::Relaxed), Ordering::Relaxed);
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Sessions that may be lost in one backup: a server that dies each time is to be looked at.
const SESSIONS_MAX: usize = 100;

/// What a manifest holds beside the names: the report, with room.
const MANIFEST_REST_BYTES: usize = 64 << 10;

/// Names that no manifest can hold are told before anything is read, and not at the commit.
fn check_names(options: &BackupOptions) -> Result<()> {
    let names = (&options.node, &options.paths, &options.tags);
    let bytes = serde_json::to_vec(&names).map_or(usize::MAX, |names| names.len());
    if bytes <= MANIFEST_BODY_MAX - MANIFEST_REST_BYTES {
        return Ok(());
    }
    let text = "the paths of the sources are longer than a snapshot can hold: back up the folder in \
                which they lie, and leave out the rest with --exclude";
    Err(Error::Usage(text.into()))
}

/// Backs up, and publishes a snapshot.
pub fn run(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    progress: &Progress,
    monitor: &dyn BackupMonitor,
) -> Result<BackupOutcome> {
    check_names(options)?;
    let mut begun = RunStart::of(repository, options);
    let mut last = repository::Error::SessionLost;
    for _ in 0..SESSIONS_MAX {
        let done = repository.with_write_lease("backup", |writer| {
            write(repository, writer, options, progress, monitor, &begun)
        });
        match done {
            Err(Error::Repository(repository::Error::SessionLost)) => {
                monitor.note(
                    "the server lost the session: it is begun again, and finds what was stored",
                );
                progress.start_again();
                begun = RunStart { clock: begun.clock, ..RunStart::of(repository, options) };
            }
            // A key was removed since the key list was read: what is stored now is sealed in a new epoch.
            Err(Error::Repository(repository::Error::KeysChanged)) => {
                repository.refresh_key_list()?;
                progress.start_again();
                last = repository::Error::KeysChanged;
            }
            done => return done,
        }
    }
    Err(last.into())
}

fn write(
    repository: &UnlockedRepository,
    writer: &dyn WriteLease,
    options: &BackupOptions,
    progress: &Progress,
    monitor: &dyn BackupMonitor,
    begun: &RunStart,
) -> Result<BackupOutcome> {
    let source = manifest::source_id(repository, &options.node, &options.paths);
    let sealer = repository.sealer()?;
    let (previous, session) = begin(repository, writer, options, &sealer, monitor)?;
    let pages = previous_pages(repository, options, previous.as_ref(), monitor)?;
    let ids = &repository.keys.writer.ids;
    let writer = PageWriter::new(&*session, &sealer, ids, options.cache.as_deref())?;
    let shared =
        BackupContext::new(repository, options, progress, monitor, &*session, &sealer, &writer)?;
    let previous_head = previous.as_ref().map(|stored| stored.head);
    let distrust =
        distrusts(repository, options, pages.is_some(), previous.as_ref())?.then_some(&*session);
    let merge = Merge::new(options, pages.as_ref(), previous_head, distrust);
    let reorder = ReorderBuffer::new(&writer, repository.cut_key(), monitor);
    let (root, mut counters) = pipeline(options, &shared, merge, reorder)?;
    drop(shared);
    counters.report.bytes_of_pages = writer.finish()?;
    drop(writer);
    if let Some(previous) = previous.as_ref().filter(|_| options.skip_if_unchanged)
        && !options.is_partial
        && is_same(previous, &root, &counters.report)
    {
        return Ok(skipped(previous, counters, begun));
    }
    let manifest = NewManifest {
        source,
        previous: previous_head,
        previous_id: previous.as_ref().map(|stored| stored.name.id),
        time: begun.time,
        root,
        original: None,
    };
    let done = finish(repository, options, session, &sealer, manifest, counters, begun)?;
    if let Some(cache) = &options.cache
        && let Err(error) = cache.save(repository.store.damage_epoch())
    {
        monitor
            .note(&format!("the chunk cache cannot be saved ({error}): the next run does without"));
    }
    Ok(done)
}

/// The newest snapshot of the source of `options` that may be built upon.
fn newest(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<Option<StoredSnapshot>> {
    let source = manifest::source_id(repository, &options.node, &options.paths);
    manifest::newest_of(repository, &source, &options.node, &mut |text| monitor.note(text))
}

/// Whether a new snapshot would be the `previous` one once more: the same tree, nothing of which had to be stored, and both
/// complete.
fn is_same(previous: &StoredSnapshot, root: &tree::Root, report: &BackupReport) -> bool {
    let is_new = report.chunks_new > 0 || report.bytes_of_pages > 0;
    let is_partial = report.objects_failed > 0 || report.objects_incomplete > 0;
    !is_new && !is_partial && root.id == previous.head.root && !previous.head.is_partial()
}

fn skipped(previous: &StoredSnapshot, counters: Counters, begun: &RunStart) -> BackupOutcome {
    let mut report = counters.report;
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    let source_sequence = previous.head.source_sequence;
    BackupOutcome {
        snapshot: previous.name,
        is_skipped: true,
        source_sequence,
        report,
        partial: false,
    }
}

/// A session on the newest snapshot of the source, if there is one.
fn begin(
    repository: &UnlockedRepository,
    writer: &dyn WriteLease,
    options: &BackupOptions,
    sealer: &Sealer,
    monitor: &dyn BackupMonitor,
) -> Result<(Option<StoredSnapshot>, Box<dyn WriteSession>)> {
    loop {
        let previous = newest(repository, options, monitor)?;
        let base = previous.as_ref().map(|stored| stored.name);
        match writer.begin(base, sealer.session_record()) {
            Err(repository::Error::SnapshotMissing(_)) => {} // forgotten at this moment
            session => return Ok((previous, session?)),
        }
    }
}

/// When a backup began, and what the process had cost until then.
pub(crate) struct RunStart {
    pub(crate) time: Time,
    clock: Instant,
    cost: counters::UsageMeter,
}

impl RunStart {
    pub(crate) fn new(repository: &UnlockedRepository) -> Self {
        let time = repository.environment.now();
        let time = Time { secs: time.as_secs() as i64, nanos: time.subsec_nanos() };
        Self { time, clock: Instant::now(), cost: counters::UsageMeter::start() }
    }

    /// With the time that the options ask for.
    fn of(repository: &UnlockedRepository, options: &BackupOptions) -> Self {
        let begun = Self::new(repository);
        Self { time: options.time.unwrap_or(begun.time), ..begun }
    }
}

/// Completes the report, signs the manifest and publishes.
fn finish(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    session: Box<dyn WriteSession>,
    sealer: &Sealer,
    manifest: NewManifest,
    counters: Counters,
    begun: &RunStart,
) -> Result<BackupOutcome> {
    let mut report = counters.report;
    report.bytes_transferred = session.acknowledged_bytes()?;
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    let is_unread = report.objects_failed > 0 || report.objects_incomplete > 0;
    let partial = options.is_partial || is_unread;
    let body = ManifestBody {
        node: options.node.clone(),
        paths: options.paths.clone(),
        tags: options.tags.clone(),
        partial,
        damage_epoch: repository.store.damage_epoch(),
        program: concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned(),
        report: report.clone(),
    };
    let (before, source_sequence) = (Instant::now(), manifest.source_sequence());
    let committed = manifest::commit(repository, session, sealer, manifest, &body)?;
    // The stored report cannot know how long storing it took; the one that is shown does. Amounts are the
    // same in both: without the snapshot's own record.
    report.stages.commit_secs = before.elapsed().as_secs_f64();
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    Ok(BackupOutcome {
        snapshot: committed.snapshot,
        is_skipped: false,
        source_sequence,
        report,
        partial,
    })
}

fn previous_pages<'a>(
    repository: &'a UnlockedRepository,
    options: &'a BackupOptions,
    previous: Option<&StoredSnapshot>,
    monitor: &dyn BackupMonitor,
) -> Result<Option<PageReader<'a>>> {
    let Some(previous) = previous.filter(|_| !options.full) else { return Ok(None) };
    let cache = options.cache.as_deref();
    let is_cached = cache.is_some_and(|cache| cache.has(&previous.head.root));
    if repository.reader_keys().is_err() && !is_cached {
        monitor.note("this key cannot read: all files are read again, what is stored is not sent");
        return Ok(None);
    }
    Ok(Some(PageReader::cached(repository, cache)?))
}

/// Whether something may have been lost since the snapshot before was made: then what is taken
/// over from it is looked for, and stored again where it is missing.
fn distrusts(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    reads: bool,
    previous: Option<&StoredSnapshot>,
) -> Result<bool> {
    let Some(previous) = previous.filter(|_| reads) else { return Ok(false) };
    if repository.reader_keys().is_err() {
        // The manifest says when it was made; who cannot read it remembers when the cache was.
        let epoch = options.cache.as_ref().map(|cache| cache.epoch());
        return Ok(epoch != Some(repository.store.damage_epoch()));
    }
    let snapshot = manifest::ManifestReader::new(repository)?.open(previous.clone());
    Ok(snapshot
        .map_or(true, |snapshot| snapshot.body.damage_epoch != repository.store.damage_epoch()))
}

/// Runs walk, workers and order until the source is done.
fn pipeline(
    options: &BackupOptions,
    shared: &BackupContext<'_>,
    mut merge: Merge<'_>,
    mut reorder: ReorderBuffer<'_>,
) -> Result<(tree::Root, Counters)> {
    let mut walk = Walk::start(&options.roots, options.walk.clone())?;
    let queue = Queue::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..readers::count(options))
            .map(|_| scope.spawn(|| worker::run(shared, &queue)))
            .collect();
        let fed = feed(&mut walk, &mut merge, &mut reorder, shared, &queue);
        let drained = fed.and_then(|()| reorder.drain(&queue));
        // Closed in any case: workers that wait must not wait for ever.
        queue.close();
        let mut counters = Counters::default();
        let mut failed = None;
        for worker in workers {
            match worker.join().unwrap_or(Err(Error::WorkerPanicked)) {
                Ok(of_worker) => counters.add(&of_worker),
                Err(error) => failed = Some(error),
            }
        }
        // What stopped a worker is the reason; that its batch never came back is the result.
        if let Some(error) = failed {
            return Err(error);
        }
        drained?;
        counters.add(&merge.counters());
        counters.count_skipped(&walk.skipped());
        let (root, of_reorder) = reorder.finish()?;
        counters.add(&of_reorder);
        if counters.report.objects_inspected == 0 {
            return Err(Error::NothingRead(options.paths.join(", ")));
        }
        Ok((root, counters))
    })
}

/// Moves batches from the walk to the workers and on to the tree.
fn feed(
    walk: &mut Walk,
    merge: &mut Merge<'_>,
    reorder: &mut ReorderBuffer<'_>,
    shared: &BackupContext<'_>,
    queue: &Queue,
) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        let before = Instant::now();
        let event = walk.next();
        // Only waits are worth a look at the clock's difference; most calls take nanoseconds.
        merge.waited(before.elapsed());
        match event {
            Some(WalkEvent::Entry(found)) => merge.entry(&found, &mut batch, shared.monitor)?,
            Some(WalkEvent::Problem { path, problem }) => {
                merge.problem(path, problem, shared.monitor)
            }
            None => break,
        }
        if batch.is_full() {
            shared.progress.check()?;
            shared.show(&batch);
            reorder.send(std::mem::take(&mut batch), queue)?;
        }
    }
    merge.end(&mut batch, shared.monitor)?;
    shared.show(&batch);
    shared.progress.walked(merge.counters().report.bytes_inspected);
    reorder.send(batch, queue)
}

/// What a backup would do, without doing it: counts, and what would be read, with its size.
pub fn dry_run(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
    mut would_read: impl FnMut(&Entry),
) -> Result<BackupReport> {
    let previous = newest(repository, options, monitor)?;
    let pages = previous_pages(repository, options, previous.as_ref(), monitor)?;
    let mut merge = Merge::new(options, pages.as_ref(), previous.map(|stored| stored.head), None);
    let mut walk = Walk::start(&options.roots, options.walk.clone())?;
    let mut batch = Batch::default();
    let mut counters = Counters::default();
    while let Some(event) = walk.next() {
        match event {
            WalkEvent::Entry(found) => merge.entry(&found, &mut batch, monitor)?,
            WalkEvent::Problem { path, problem } => merge.problem(path, problem, monitor),
        }
        count_dry(&mut batch, &mut counters, &mut would_read);
    }
    merge.end(&mut batch, monitor)?;
    count_dry(&mut batch, &mut counters, &mut would_read);
    counters.add(&merge.counters());
    counters.count_skipped(&walk.skipped());
    Ok(counters.report)
}

fn count_dry(batch: &mut Batch, counters: &mut Counters, would_read: &mut impl FnMut(&Entry)) {
    for item in batch.take() {
        match item {
            Item::Unchanged(_) => counters.report.objects_unchanged += 1,
            Item::Page(_, entries) => counters.report.objects_unchanged += entries.len() as u64,
            Item::Job(job) => {
                would_read(&job.entry);
                counters.report.objects_backed_up += 1;
                counters.report.objects_new += u64::from(job.previous.is_none());
            }
            Item::Link(job) => {
                // Its content is read under its first name.
                would_read(&Entry { size: 0, ..job.entry.clone() });
                counters.report.objects_backed_up += 1;
                counters.report.objects_new += u64::from(job.previous.is_none());
            }
            Item::Done(_) | Item::Failed | Item::Vanished => {}
        }
    }
}
