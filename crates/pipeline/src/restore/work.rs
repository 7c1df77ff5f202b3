//! The workers of a restore: each opens a record once and writes everything that it holds.

use super::budget::{LeftTasks, Share};
use super::entries::Selection;
use super::file::FileJob;
use super::open_records::OpenRecords;
use super::patterns::idle_text;
use super::plan::has_further_names;
use super::{Counters, RestoreMonitor, RestoreOptions};
use crate::blocks::{BlockCache, Scratch};
use crate::pages::LostPage;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository, xattrs};
use crossbeam_channel::Receiver;
use format::entry::{Content, Entry, Kind, STATUS_PARTIAL};
use ids::{ObjectId, RecordLocation};
use parking_lot::Mutex;
use restore::{Overwrite, RestoreCause, RestoreOutcome, RestoreProblem, Target};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use seal::OpenedBlock;
use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Queued tasks per thread: more than two windows of small files, so that the next window is
/// planned, with all its queries to a server, while this one arrives.
pub(super) const TASKS_PER_THREAD: usize = 256;
/// Objects in all queued tasks: three windows, whatever their size. Some 20 MiB.
pub(super) const QUEUED_OBJECTS_MAX: usize = 3 * super::plan::WINDOW_USES;

/// What the threads of a restore share.
pub(super) struct RestoreContext<'a> {
    pub(super) repository: &'a UnlockedRepository,
    pub(super) blocks: &'a BlockCache,
    pub(super) target: &'a Target,
    pub(super) options: &'a RestoreOptions,
    pub(super) counters: &'a Counters,
    pub(super) progress: &'a Progress,
    pub(super) monitor: &'a dyn RestoreMonitor,
    /// The target was empty: nothing in it can be unchanged.
    pub(super) is_new: bool,
    /// The path of the target, for errors.
    pub(super) target_path: &'a str,
    /// Records that are needed again.
    pub(super) open_records: OpenRecords,
    /// The target is full.
    pub(super) is_full: AtomicBool,
    /// The target takes nothing because it is mounted read-only.
    pub(super) is_read_only: AtomicBool,
    /// Something could not be restored: the content of the snapshot is not completely known, and
    /// nothing is removed from the target.
    pub(super) is_incomplete: AtomicBool,
    /// Pages of the snapshot that could not be read; each is reported once.
    pub(super) lost_pages: Mutex<FxHashSet<ObjectId>>,
    /// Objects whose names are taken by directories that are not empty; restored once these are
    /// removed.
    pub(super) in_the_way: Mutex<FxHashSet<Vec<u8>>>,
    /// Hashes of paths whose failure was reported, so that verification does not report it again,
    /// and of what was told of them.
    pub(super) reported: Mutex<FxHashSet<u64>>,
    /// Hashes of the paths of objects with several names that were kept.
    pub(super) kept: Mutex<FxHashSet<u64>>,
    /// The same of those that a dry run leaves as they are, and a restore replaces.
    pub(super) to_replace: Mutex<FxHashSet<u64>>,
    /// The error that ends the restore.
    pub(super) fatal: Mutex<Option<Error>>,
    pub(super) is_over: AtomicBool,
}

/// What is said of a file that is restored as far as the snapshot has it.
const INCOMPLETE: &str = "it could not be read completely during the backup: zeros are in place of what is missing, or attributes are missing";
/// The same of one that is not.
const LEFT_ALONE: &str = "it could not be read completely during the backup, so what is here is left alone; to replace it: --overwrite always";

/// The most objects that can wait for a removal, and the most paths whose failure is remembered.
/// Beyond that, objects fail, or are reported twice.
const REMEMBERED_MAX: usize = 1 << 16;

fn note(paths: &Mutex<FxHashSet<u64>>, entry: &Entry) {
    let mut paths = paths.lock();
    if has_further_names(entry) && paths.len() < REMEMBERED_MAX {
        paths.insert(FxBuildHasher.hash_one(&entry.path[..]));
    }
}

/// A task for a worker.
pub(super) enum Task {
    /// Objects without chunks.
    Plain(Vec<Entry>, Share),
    /// A record, and the chunks in it that are needed.
    Record(RecordLocation, Vec<ChunkUse>, Share),
}

/// A chunk that a file needs.
pub(super) struct ChunkUse {
    pub(super) file: Arc<FileJob>,
    pub(super) id: ObjectId,
    /// Its length according to the file.
    pub(super) length: u32,
    /// Its offset in the file.
    pub(super) offset: u64,
}

/// Works until the queue is closed, or the restore must stop.
pub(super) fn run(shared: &RestoreContext<'_>, tasks: &Receiver<Task>) -> Result<()> {
    let _left = LeftTasks { tasks, is_over: &shared.is_over };
    let mut scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            shared.end(error);
            return Ok(());
        }
    };
    for task in tasks {
        shared.check()?;
        match task {
            Task::Plain(entries, _share) => entries.iter().for_each(|entry| plain(shared, entry)),
            Task::Record(location, uses, _share) => {
                // The other threads stop at their next task.
                if let Err(error) = record(shared, location, &uses, &mut scratch) {
                    shared.end(error);
                }
            }
        }
    }
    Ok(())
}

/// Restores an object without chunks.
pub(super) fn plain(shared: &RestoreContext<'_>, entry: &Entry) {
    let target = shared.target;
    let whole =
        if entry.kind() == Kind::Directory { Cow::Borrowed(entry) } else { shared.whole(entry) };
    let entry = &*whole;
    let created = match entry.kind() {
        Kind::Directory => target.directory(entry).map(|_| None),
        _ => target.parent_of(&entry.path).and_then(|parent| {
            let outcome = match (&entry.content, entry.kind()) {
                (Content::Inline(bytes), Kind::Symlink) => target.symlink(&parent, entry, bytes),
                (Content::Inline(bytes), _) => target.small_file(&parent, entry, bytes),
                (_, Kind::File) => target.small_file(&parent, entry, b""),
                _ => target.special(&parent, entry),
            };
            outcome.map(Some)
        }),
    };
    match created {
        Ok(None) => Counters::add(&shared.counters.directories, 1),
        Ok(Some(outcome)) if entry.kind() == Kind::File => shared.wrote(entry, outcome),
        Ok(Some(RestoreOutcome::Created | RestoreOutcome::Replaced)) => {
            Counters::add(&shared.counters.links, 1)
        }
        Ok(Some(outcome)) => shared.settled(entry, outcome),
        Err(problem) => shared.problem(&problem),
    }
}

fn record(
    shared: &RestoreContext<'_>,
    location: RecordLocation,
    uses: &[ChunkUse],
    scratch: &mut Scratch,
) -> Result<()> {
    match open(shared, location, uses, scratch) {
        Ok(opened) => {
            let at: FxHashMap<_, _> =
                opened.ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
            uses.iter().try_for_each(|used| {
                let chunk = at.get(&used.id).map(|at| opened.payload(*at));
                match chunk.filter(|chunk| is_right(shared, used, chunk)) {
                    Some(chunk) => write(shared, used, chunk),
                    // Only what lies with it said that it lies here, and anybody may have stored that: the index knows.
                    None => return fetch(shared, used, scratch),
                }
                Ok(())
            })
        }
        // Reclaim may have moved it, or it is damaged: fetch the chunks one by one.
        Err(error) => {
            if let Error::Repository(error) = &error
                && error.is_container_missing()
            {
                let _ = shared.repository.store.refresh_after(location.container);
            }
            uses.iter().try_for_each(|used| fetch(shared, used, scratch))
        }
    }
}

/// Opens the record at `location`, which is kept open if not all of it is needed now. A remote repository sends each
/// record as often as it was requested.
fn open(
    shared: &RestoreContext<'_>,
    location: RecordLocation,
    uses: &[ChunkUse],
    scratch: &mut Scratch,
) -> Result<Arc<OpenedBlock>> {
    let is_remote = shared.blocks.store().is_remote();
    if !is_remote && let Some(opened) = shared.open_records.get(location) {
        return Ok(opened);
    }
    let opened = Arc::new(shared.blocks.open_at(location, scratch)?);
    if !is_remote && uses.len() < opened.ids.len() {
        shared.open_records.keep(location, &opened);
    }
    Ok(opened)
}

/// Writes a chunk from where the index says that it lies.
fn fetch(shared: &RestoreContext<'_>, used: &ChunkUse, scratch: &mut Scratch) -> Result<()> {
    let found = shared.blocks.find_record(&used.id, scratch);
    if let Ok(opened) = &found
        && let Some(chunk) = opened.find(&used.id)
        && is_right(shared, used, chunk)
    {
        write(shared, used, chunk);
        return Ok(());
    }
    // Any record may name a chunk: the one that the index names counts.
    let found = found.and_then(|_| shared.blocks.fetch_record(&used.id, scratch));
    let opened = match found {
        Ok(opened) => opened,
        Err(error) => return used.file.lost_by(shared, error),
    };
    match opened.find(&used.id) {
        Some(chunk) if is_right(shared, used, chunk) => write(shared, used, chunk),
        Some(_) => used
            .file
            .lost(shared, &format!("the content of chunk {} does not match its id", used.id)),
        None => used.file.lost(shared, &format!("chunk {} is not where the index says", used.id)),
    }
    Ok(())
}

/// Whether `chunk` is what the file needs. A wrong length would overwrite what follows.
fn is_right(shared: &RestoreContext<'_>, used: &ChunkUse, chunk: &[u8]) -> bool {
    chunk.len() == used.length as usize
        && shared.repository.keys.writer.ids.is_chunk(&used.id, chunk)
}

/// Writes a chunk that was verified against its id.
fn write(shared: &RestoreContext<'_>, used: &ChunkUse, chunk: &[u8]) {
    used.file.write(used.offset, chunk, shared);
    shared.advance(chunk.len() as u64);
}

impl RestoreContext<'_> {
    /// `entry` with its extended attributes; if they cannot be read, that is reported.
    pub(super) fn whole<'e>(&self, entry: &'e Entry) -> Cow<'e, Entry> {
        let whole = xattrs::whole(entry, self.blocks, &self.repository.keys.writer.ids);
        whole.unwrap_or_else(|error| {
            if error.is_damage() {
                Counters::add(&self.counters.damaged, 1);
                self.failed(&entry.path, &format!("Extended attributes not restored: {error}"));
            } else {
                self.end(error);
            }
            Cow::Borrowed(entry)
        })
    }

    /// Reports an object that could not be restored. What is in the way of all objects of a directory
    /// is counted for each of them, and told once.
    pub(super) fn failed(&self, path: &[u8], text: &str) {
        self.is_incomplete.store(true, Ordering::Relaxed);
        Counters::add(&self.counters.failed, 1);
        let mut reported = self.reported.lock();
        let mut is_told = false;
        if reported.len() < REMEMBERED_MAX {
            reported.insert(FxBuildHasher.hash_one(path));
            is_told = !reported.insert(FxBuildHasher.hash_one((path, text)));
        }
        drop(reported);
        if !is_told {
            self.monitor.problem(path, text);
        }
    }

    /// Remembers an object that was kept, so that its other names are not linked to it.
    pub(super) fn note_kept(&self, entry: &Entry) {
        note(&self.kept, entry);
    }

    /// Remembers what only a dry run leaves in place: its other names will be linked to another object.
    pub(super) fn note_to_replace(&self, entry: &Entry) {
        if self.options.dry_run {
            note(&self.to_replace, entry);
        }
    }

    /// Whether `path` will have another object than a dry run sees there.
    pub(super) fn is_to_be_replaced(&self, path: &[u8]) -> bool {
        self.to_replace.lock().contains(&FxBuildHasher.hash_one(path))
    }

    /// Whether what is at `path` may be another object than that of the snapshot: it was kept, or could not be restored.
    pub(super) fn may_be_another(&self, path: &[u8]) -> bool {
        let is_in = |paths: &Mutex<FxHashSet<u64>>| {
            let paths = paths.lock();
            paths.len() >= REMEMBERED_MAX || paths.contains(&FxBuildHasher.hash_one(path))
        };
        is_in(&self.kept) || is_in(&self.reported)
    }

    /// Whether the failure of `path` was reported.
    pub(super) fn is_reported(&self, path: &[u8]) -> bool {
        self.reported.lock().contains(&FxBuildHasher.hash_one(path))
    }

    /// Handles an object that the target did not accept.
    pub(super) fn problem(&self, problem: &RestoreProblem) {
        self.note_space(problem);
        if !self.waits_for_removal(problem) {
            self.failed(&problem.path, &problem.reason());
        }
    }

    /// Whether the object is restored later, once the directory of its name is removed.
    fn waits_for_removal(&self, problem: &RestoreProblem) -> bool {
        self.options.delete
            && problem.error == RestoreCause::NotEmpty
            && self.put_off(&problem.path)
    }

    /// Puts an object off until the directory of its name is removed.
    pub(super) fn put_off(&self, path: &[u8]) -> bool {
        let mut waiting = self.in_the_way.lock();
        let has_room = waiting.len() < REMEMBERED_MAX;
        if has_room {
            waiting.insert(path.to_vec());
        }
        has_room
    }

    /// Reports a page of the snapshot that cannot be read. The names of its entries are lost; the
    /// first path and their number are known from the page above.
    pub(super) fn lost_page(&self, lost: &LostPage) {
        if self.lost_pages.lock().insert(lost.id) {
            Counters::add(&self.counters.damaged, 1);
            self.failed(&lost.first, &lost.to_string());
        }
    }

    /// Reports an object that the backup could not read completely. Returns whether it is not restored: what the target
    /// has may be better than what the snapshot has.
    pub(super) fn lets_be(&self, entry: &Entry) -> bool {
        if entry.status & STATUS_PARTIAL == 0 {
            return false;
        }
        if !entry.may_lack_content() {
            Counters::add(&self.counters.degraded, 1);
            self.monitor
                .problem(&entry.path, "Some attributes could not be read during the backup");
            return false;
        }
        let is_there = || self.target.is_there(&entry.path);
        // What a restore before this one began is no better.
        let is_better = || is_there() && !self.target.is_begun(entry);
        match self.options.overwrite {
            Overwrite::Never if is_there() => return false,
            Overwrite::IfChanged | Overwrite::IfNewer if is_better() => {
                self.failed(&entry.path, LEFT_ALONE);
                return true;
            }
            _ => self.failed(&entry.path, INCOMPLETE),
        }
        false
    }

    /// Whether what stands at a further name of an object is no name of it, and may be better than what the backup
    /// could read: then it stays, and is reported.
    pub(super) fn spares_better(&self, entry: &Entry, first: &[u8]) -> bool {
        let replaces = matches!(self.options.overwrite, Overwrite::IfChanged | Overwrite::IfNewer);
        if !replaces || !entry.may_lack_content() || !self.target.is_there(&entry.path) {
            return false;
        }
        let is_better = !self.target.are_one(&entry.path, first) && !self.target.is_begun(entry);
        if is_better {
            self.failed(&entry.path, LEFT_ALONE);
        }
        is_better
    }

    /// Reports a further name that could not be linked and became a copy.
    pub(super) fn lacks_link(&self, path: &[u8]) {
        Counters::add(&self.counters.degraded, 1);
        self.monitor.problem(path, "Link not restored: it is a separate copy");
    }

    /// Notes in the target that a restore begins. If that fails, it is reported: an interruption
    /// would not be noticed.
    pub(super) fn write_marker(&self) -> Result<()> {
        match self.target.write_marker() {
            Ok(()) => Ok(()),
            Err(problem) if problem.no_space() => {
                self.note_space(&problem);
                self.check()
            }
            Err(problem) => {
                self.monitor.note(&format!(
                    "{problem}: after a power failure, the next restore would take incomplete files for complete ones; use --overwrite always then"
                ));
                Ok(())
            }
        }
    }

    /// Ends the restore with an error that is not damage, since it would occur everywhere.
    pub(super) fn end(&self, error: Error) {
        self.fatal.lock().get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// `done`, unless an error ended the restore meanwhile: some steps go on behind it, and end well.
    pub(super) fn unless_ended<T>(&self, done: Result<T>) -> Result<T> {
        self.fatal.lock().take().map_or(done, Err)
    }

    /// Returns an error if the restore must stop.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::WorkerPanicked);
        }
        if self.is_full.load(Ordering::Relaxed) {
            let why = match self.is_read_only.load(Ordering::Relaxed) {
                true => std::io::ErrorKind::ReadOnlyFilesystem,
                false => std::io::ErrorKind::StorageFull,
            };
            return Err(Error::File { path: self.target_path.into(), source: why.into() });
        }
        self.progress.check()
    }

    /// A full or read-only target ends the restore: everything else would fail, too.
    pub(super) fn note_space(&self, problem: &RestoreProblem) {
        self.is_read_only.fetch_or(problem.is_read_only(), Ordering::Relaxed);
        self.is_full.fetch_or(problem.no_space(), Ordering::Relaxed);
    }

    /// Adds bytes of files that are done without writing to the progress.
    pub(super) fn pass(&self, bytes: u64) {
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds written bytes to the progress.
    fn advance(&self, bytes: u64) {
        self.pass(bytes);
        self.progress.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reports the attributes that could not be set.
    pub(super) fn report_degraded(&self) {
        let degraded = self.target.take_degraded();
        let others = degraded.list.len() as u64 + degraded.more;
        let several = degraded.owners.count + degraded.modes.count;
        Counters::add(&self.counters.degraded, others + several);
        for one in &degraded.list {
            self.monitor.problem(&one.path, &one.reason());
        }
        if degraded.more > 0 {
            let more = degraded.more;
            self.monitor.note(&format!("further attributes that could not be restored: {more}"));
        }
        self.note_several("owners not restored", &degraded.owners, "only root can change owners, and some file systems keep none; --no-owner leaves them out");
        self.note_several(
            "modes not restored",
            &degraded.modes,
            "the file system does not keep them",
        );
        self.note_several(
            "times of change that differ by less than a second",
            &degraded.times,
            "the file system keeps them less exactly",
        );
    }

    /// Says which patterns matched nothing: often it is a typing error. What lost pages held, nobody knows.
    pub(super) fn report_idle(&self, selection: &Selection) {
        if !self.lost_pages.lock().is_empty() {
            return;
        }
        for (flag, line) in selection.idle_patterns() {
            self.monitor.note(&idle_text(flag, line));
        }
    }

    fn note_several(&self, what: &str, several: &restore::Several, why: &str) {
        if let Some(first) = &several.first {
            let path = String::from_utf8_lossy(&first.path);
            self.monitor.note(&format!("{what}: {}, the first of {path} ({why})", several.count));
        }
    }
}
