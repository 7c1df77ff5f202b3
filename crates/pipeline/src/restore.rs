//! Restore: entries in the order of the tree, chunks in the order of the containers, files by many
//! threads.
//!
//! ```text
//!  entries ──▶ windows: which records hold what they need ──▶ queue ──▶ workers: open a record
//!     │                                                                 once, write all it holds
//!     └──▶ second pass: hard links, then directories from the leaves upward; extraneous objects
//!          are noted, and removed at the very end, if nothing was lost
//! ```
//! Memory depends neither on the number of objects nor on the size of files. Read [`run`], then
//! `plan`, `work`, `finish`, `removal`.

mod budget;
mod entries;
mod file;
mod finish;
mod needs;
mod open_records;
mod patterns;
mod plan;
mod removal;
mod roots;
mod verify;
mod work;

use crate::cache::ChunkCache;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository};
use entries::{Entries, Selection};
use finish::FinishPass;
pub use needs::{RestoreNeeds, needs};
use open_records::OpenRecords;
use parking_lot::Mutex;
use plan::Planner;
pub use removal::ConfirmedRemovals;
use removal::Removals;
use restore::{Overwrite, RestoreScope, Target};
use rustc_hash::{FxBuildHasher, FxHashSet};
use serde::Serialize;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use work::RestoreContext;

/// What is said of a restore before this one, with the name of its marker.
const IS_UNFINISHED: &str = "An interrupted restore was not finished, and files that it wrote may be incomplete. Run it again, or remove its file if nobody needs them";
const UNFINISHED_TOLD_MAX: usize = 3;

/// What is said of an object that waited until a directory of its name is removed.
const STILL_IN_THE_WAY: &str =
    "a directory has this name, and stays: something in it is kept, or could not be deleted";

/// What is said where another restore writes to the same target.
const IS_SHARED: &str =
    "Another restore is writing to this target. What both of them restore is reported as failed.";

/// The options of a restore.
#[derive(Clone, Default)]
pub struct RestoreOptions {
    /// What happens to existing objects.
    pub overwrite: Overwrite,
    /// Remove extraneous objects below the paths that were backed up, after everything is restored,
    /// and only if nothing of the snapshot is lost.
    pub delete: bool,
    /// With `delete`: remove nothing if it would be anything but this. `None`: whatever there is.
    pub confirmed: Option<Arc<ConfirmedRemovals>>,
    /// Read everything again and compare it with the snapshot.
    pub verify: bool,
    /// Change nothing; count what would be done.
    pub dry_run: bool,
    /// Restore only what these patterns match (as in a `.gitignore`).
    pub include: Vec<String>,
    /// Do not restore what these patterns match.
    pub exclude: Vec<String>,
    /// Threads that fetch and write; 0 for one per core.
    pub threads: usize,
    /// Restore owners by number instead of by name.
    pub numeric_owners: bool,
    /// Ignore the recorded owners: everything belongs to the user who restores.
    pub no_owner: bool,
    /// Give no setuid, setgid or capabilities, and make no devices: for snapshots that another party chose.
    pub is_unprivileged: bool,
    /// Do not wait until everything is on the disk.
    pub no_sync: bool,
    /// The chunk cache of this node: each page is fetched once, though the tree is read twice. What
    /// a restore adds is dropped when it ends.
    pub cache: Option<Arc<ChunkCache>>,
    /// The target must be below this folder, and no link may lead out of it: for targets that
    /// another party chose.
    pub target_below: Option<PathBuf>,
    /// Restore only these literal paths of the snapshot and everything below them; all if empty.
    pub paths: Vec<Vec<u8>>,
}

/// The report of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RestoreReport {
    /// Regular files written.
    pub files: u64,
    /// Directories restored.
    pub directories: u64,
    /// Symbolic links, hard links, FIFOs, sockets and devices restored.
    pub links: u64,
    /// Bytes of the files written.
    pub bytes: u64,
    /// Existing objects that were equal.
    pub unchanged: u64,
    /// Existing objects that were kept, as requested.
    pub kept: u64,
    /// Extraneous objects that were removed.
    pub deleted: u64,
    /// Lengths of the files among them. One with several names counts for each of them.
    pub deleted_bytes: u64,
    /// Objects that could not be restored.
    pub failed: u64,
    /// How many of these because of damage: objects, and pages with many objects each.
    pub damaged: u64,
    /// Attributes that could not be set.
    pub degraded: u64,
    /// Objects that were verified.
    pub verified: u64,
    /// Objects that differ from the snapshot.
    pub differing: u64,
    /// Damaged records that were healed from parity.
    pub healed_records: u64,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// Receives the messages of a restore while it runs. Called by many threads.
pub trait RestoreMonitor: Sync {
    /// An object could not be restored, or not completely; `path` is relative to the target.
    fn problem(&self, path: &[u8], text: &str);

    /// Extraneous objects were removed at `path`: their number, with itself, and the lengths of the
    /// files among them in bytes. In a dry run: would be removed.
    fn removed(&self, path: &[u8], objects: u64, bytes: u64) {
        let _ = (path, objects, bytes);
    }

    /// A message for people that concerns the whole restore.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

impl RestoreReport {
    /// Whether anything of the snapshot is in the target now.
    pub fn restored_anything(&self) -> bool {
        let brought = [self.files, self.directories, self.links, self.unchanged, self.kept];
        brought.iter().any(|count| *count > 0)
    }
}

/// Counters that the threads share.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) links: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) deleted_bytes: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) degraded: AtomicU64,
    pub(crate) verified: AtomicU64,
    pub(crate) differing: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Whether anything of the snapshot was there to be restored, whatever became of it.
    fn has_met_any(&self) -> bool {
        let brought = [&self.files, &self.directories, &self.links, &self.unchanged, &self.kept];
        brought.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    fn report(&self, elapsed_secs: f64) -> RestoreReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RestoreReport {
            files: get(&self.files),
            directories: get(&self.directories),
            links: get(&self.links),
            bytes: get(&self.bytes),
            unchanged: get(&self.unchanged),
            kept: get(&self.kept),
            deleted: get(&self.deleted),
            deleted_bytes: get(&self.deleted_bytes),
            failed: get(&self.failed),
            damaged: get(&self.damaged),
            degraded: get(&self.degraded),
            verified: get(&self.verified),
            differing: get(&self.differing),
            healed_records: 0,
            elapsed_secs,
        }
    }
}

/// Restores `subpath` of `snapshot` (everything if empty) into `target`. The content of a directory
/// goes into `target` itself.
///
/// # Errors
/// [`Error::PathNotFound`]; [`Error::Cancelled`]; errors of the storage and of the target. Objects
/// that cannot be restored are no error: they go to `monitor`.
pub fn run(
    repository: &UnlockedRepository,
    snapshot: &Snapshot,
    subpath: &[u8],
    target: &Path,
    options: &RestoreOptions,
    progress: &Progress,
    monitor: &dyn RestoreMonitor,
) -> Result<RestoreReport> {
    let begun = Instant::now();
    if options.delete {
        removal::refuse(snapshot, target)?;
    }
    let healed_before = repository.store.healed().len();
    let blocks = repository.blocks()?;
    let pages = PageReader::cached(repository, options.cache.as_deref())?;
    let selection = Selection::new(&pages, snapshot, subpath, options)?;
    // A path that another party chose is resolved only once, below.
    let is_new = options.target_below.is_none()
        && std::fs::read_dir(target).map_or(true, |mut names| names.next().is_none());
    let sources = selection.sources();
    let target_options = target_options(options, scope(snapshot, subpath, options), sources);
    let opened = open_target(target, options, target_options);
    let opened = opened.map_err(|problem| target_error(target, &problem))?;
    let counters = Counters::default();
    let shared = RestoreContext {
        repository,
        blocks,
        target: &opened,
        options,
        counters: &counters,
        progress,
        monitor,
        is_new,
        target_path: &target.to_string_lossy(),
        open_records: OpenRecords::default(),
        is_full: AtomicBool::new(false),
        is_read_only: AtomicBool::new(false),
        is_incomplete: AtomicBool::new(false),
        lost_pages: Mutex::default(),
        in_the_way: Mutex::default(),
        reported: Mutex::default(),
        kept: Mutex::default(),
        to_replace: Mutex::default(),
        fatal: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    if opened.is_shared() {
        monitor.note(IS_SHARED);
    }
    shared.write_marker()?;
    let tree = Tree { pages: &pages, snapshot, selection: &selection };
    tree.restore(&shared)?;
    let root = shared.unless_ended(Ok(selection.root.as_ref().map(|root| shared.whole(root))))?;
    opened.sync_as(root.as_deref()).map_err(|problem| target_error(target, &problem))?;
    shared.report_degraded();
    shared.report_idle(&selection);
    if options.verify && !options.dry_run {
        let verified = verify::run(&shared, &mut tree.entries()?);
        shared.unless_ended(verified)?;
    }
    opened.close_as(root.as_deref()).map_err(|problem| target_error(target, &problem))?;
    for left in opened.still_unfinished().iter().take(UNFINISHED_TOLD_MAX) {
        monitor.note(&format!("{IS_UNFINISHED}: {left}"));
    }
    let report = counters.report(begun.elapsed().as_secs_f64());
    let healed_records = (repository.store.healed().len() - healed_before) as u64;
    Ok(RestoreReport { healed_records, ..report })
}

/// The tree to restore.
struct Tree<'a> {
    pages: &'a PageReader<'a>,
    snapshot: &'a Snapshot,
    selection: &'a Selection,
}

impl Tree<'_> {
    fn entries(&self) -> Result<Entries<'_>> {
        Entries::new(self.pages, self.snapshot, self.selection)
    }

    fn restore(&self, shared: &RestoreContext<'_>) -> Result<()> {
        self.write(shared, None)?;
        let mut removals = Removals::default();
        self.finish(shared, FinishPass::All, &mut removals)?;
        if shared.options.delete {
            let has_removed = removal::run(shared, self.selection, removals)?;
            self.restore_late(shared, has_removed)?;
        }
        Ok(())
    }

    /// Restores objects whose names were taken by directories that are removed now.
    fn restore_late(&self, shared: &RestoreContext<'_>, has_removed: bool) -> Result<()> {
        let paths = std::mem::take(&mut *shared.in_the_way.lock());
        if paths.is_empty() {
            return Ok(());
        }
        if !has_removed {
            paths.iter().for_each(|path| {
                shared.failed(path, "a directory has this name, and nothing was removed")
            });
            return Ok(());
        }
        self.write(shared, Some(&free_of_directories(shared, &paths)))?;
        self.finish(shared, FinishPass::Late(&paths), &mut Removals::default())?;
        // Nothing comes for those any more that wait now.
        let waiting = std::mem::take(&mut *shared.in_the_way.lock());
        waiting.iter().for_each(|path| shared.failed(path, STILL_IN_THE_WAY));
        Ok(())
    }

    /// Second pass: further names, and the attributes of directories.
    fn finish(
        &self,
        shared: &RestoreContext<'_>,
        part: FinishPass<'_>,
        removals: &mut Removals,
    ) -> Result<()> {
        let done = finish::run(shared, self.selection, &mut self.entries()?, part, removals);
        shared.unless_ended(done)
    }

    /// First pass: everything except further names and the attributes of directories; or `only`
    /// some.
    fn write(&self, shared: &RestoreContext<'_>, only: Option<&FxHashSet<Vec<u8>>>) -> Result<()> {
        let threads = threads(shared.options);
        let (queue, tasks) = crossbeam_channel::bounded(threads * work::TASKS_PER_THREAD);
        std::thread::scope(|scope| {
            let workers = crate::threads::start(scope, threads, move || work::run(shared, &tasks))?;
            let mut planner = Planner::new(shared, self.pages, queue, only);
            let planned = planner.all(&mut self.entries()?);
            drop(planner);
            let mut done = Ok(());
            for worker in workers {
                done = done.and(worker.join().unwrap_or(Err(Error::WorkerPanicked)));
            }
            // An error that ends one thread ends all of them.
            shared.unless_ended(done.and(planned))
        })
    }
}

/// Those of `paths` whose directories are gone. The others are reported: what was removed in those directories made them
/// newer, so that nobody may ask again what the options say of them.
fn free_of_directories(
    shared: &RestoreContext<'_>,
    paths: &FxHashSet<Vec<u8>>,
) -> FxHashSet<Vec<u8>> {
    let is_free = |path: &&Vec<u8>| {
        let is_free = !shared.target.is_full_directory(path);
        if !is_free {
            shared.failed(path, STILL_IN_THE_WAY);
        }
        is_free
    };
    paths.iter().filter(is_free).cloned().collect()
}

pub(crate) fn threads(options: &RestoreOptions) -> usize {
    match options.threads {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        threads => threads,
    }
}

fn open_target(
    target: &Path,
    options: &RestoreOptions,
    target_options: restore::TargetOptions,
) -> std::result::Result<Target, restore::RestoreProblem> {
    match &options.target_below {
        Some(folder) => Target::open_below(folder, target, target_options),
        None => Target::open(target, target_options),
    }
}

/// What is restored, for a restore that finds this one cut short.
fn scope(snapshot: &Snapshot, subpath: &[u8], options: &RestoreOptions) -> RestoreScope {
    let chosen = (&options.include, &options.exclude, &options.paths);
    let is_part = !(chosen.0.is_empty() && chosen.1.is_empty() && chosen.2.is_empty());
    RestoreScope {
        what: format!("{}:{}", snapshot.id(), subpath.escape_ascii()),
        part: is_part.then(|| FxBuildHasher.hash_one(chosen)),
    }
}

fn target_options(
    options: &RestoreOptions,
    scope: RestoreScope,
    sources: BTreeSet<Vec<u8>>,
) -> restore::TargetOptions {
    restore::TargetOptions {
        overwrite: options.overwrite,
        dry_run: options.dry_run,
        owners: match (options.no_owner, options.numeric_owners) {
            (true, _) => restore::OwnerMapping::Caller,
            (false, true) => restore::OwnerMapping::ById,
            (false, false) => restore::OwnerMapping::default(),
        },
        is_unprivileged: options.is_unprivileged,
        sparse: true,
        sync: !options.no_sync,
        scope: Some(scope),
        sources,
    }
}

fn target_error(target: &Path, problem: &restore::RestoreProblem) -> Error {
    let kind = match (problem.is_read_only(), problem.no_space(), problem.is_denied()) {
        (true, ..) => std::io::ErrorKind::ReadOnlyFilesystem,
        (_, true, _) => std::io::ErrorKind::StorageFull,
        (.., true) => std::io::ErrorKind::PermissionDenied,
        _ => std::io::ErrorKind::Other,
    };
    Error::File {
        path: target.display().to_string(),
        source: std::io::Error::new(kind, problem.to_string()),
    }
}
