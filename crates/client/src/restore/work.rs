//! Workers of a restore: each opens a record once and writes all that it holds.

use super::file::FileJob;
use super::{Counters, RestoreMonitor, RestoreOptions};
use crate::blocks::{BlockCache, Scratch};
use crate::pages::LostPage;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository, xattrs};
use crossbeam_channel::Receiver;
use format::entry::{Content, Entry, Kind};
use ids::{ObjectId, RecordLocation};
use parking_lot::Mutex;
use restore::{RestoreCause, RestoreOutcome, RestoreProblem, Target};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use seal::OpenedBlock;
use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tasks that wait for each thread: two windows of small files and more, so that the next one is
/// planned, with all its questions to a server, while this one comes.
pub(super) const TASKS_PER_THREAD: usize = 256;

/// What all threads share.
pub(super) struct RestoreContext<'a> {
    pub(super) repository: &'a UnlockedRepository,
    pub(super) blocks: &'a BlockCache,
    pub(super) target: &'a Target,
    pub(super) options: &'a RestoreOptions,
    pub(super) counters: &'a Counters,
    pub(super) progress: &'a Progress,
    pub(super) monitor: &'a dyn RestoreMonitor,
    /// The target was empty: nothing can be unchanged in it.
    pub(super) is_new: bool,
    /// The target's path, for errors.
    pub(super) place: &'a str,
    /// The target has no more room.
    pub(super) is_full: AtomicBool,
    /// Something could not be restored: nobody knows all that the snapshot has, and nothing is
    /// removed from the target.
    pub(super) is_incomplete: AtomicBool,
    /// Pages of the snapshot that could not be read: each is told once.
    pub(super) lost_pages: Mutex<FxHashSet<ObjectId>>,
    /// Objects whose names directories have that are not empty: they come when these are removed.
    pub(super) in_the_way: Mutex<FxHashSet<Vec<u8>>>,
    /// What was told to have failed: the pass that compares does not tell it again.
    pub(super) reported: Mutex<FxHashSet<u64>>,
    /// Why all ends, and that it does.
    pub(super) fatal: Mutex<Option<Error>>,
    pub(super) is_over: AtomicBool,
}

/// Objects that may wait for directories to be removed, and paths that are told only once. What is
/// beyond fails, or is told twice.
const REMEMBERED_MAX: usize = 1 << 16;

/// Something for a worker to do.
pub(super) enum Task {
    /// Objects that need no chunk.
    Plain(Vec<Entry>),
    /// A record, and what is in it that is needed.
    Record(RecordLocation, Vec<ChunkUse>),
}

/// A chunk that a file needs.
pub(super) struct ChunkUse {
    pub(super) file: Arc<FileJob>,
    pub(super) id: ObjectId,
    /// Its length, as the file has it.
    pub(super) length: u32,
    /// Where in the file it goes.
    pub(super) offset: u64,
}

/// Works until there is no more.
pub(super) fn run(shared: &RestoreContext<'_>, tasks: &Receiver<Task>) -> Result<()> {
    let mut scratch = Scratch::new()?;
    for task in tasks {
        shared.check()?;
        match task {
            Task::Plain(entries) => entries.iter().for_each(|entry| plain(shared, entry)),
            Task::Record(place, uses) => {
                // The others stop at their next task.
                if let Err(error) = record(shared, place, &uses, &mut scratch) {
                    shared.end(error);
                }
            }
        }
    }
    Ok(())
}

/// An object that needs no chunk.
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
    place: RecordLocation,
    uses: &[ChunkUse],
    scratch: &mut Scratch,
) -> Result<()> {
    match shared.blocks.open_at(place, scratch) {
        Ok(opened) => {
            let at: FxHashMap<_, _> =
                opened.ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
            uses.iter()
                .for_each(|used| write(shared, used, at.get(&used.id).map(|at| (&opened, *at))));
        }
        // Reclaim may have moved it meanwhile, or it is damaged: one by one then.
        Err(error) => {
            if let Error::Repository(error) = &error
                && error.is_container_missing()
            {
                let _ = shared.repository.store.refresh_after(place.container);
            }
            return uses.iter().try_for_each(|used| fetch(shared, used, scratch));
        }
    }
    Ok(())
}

fn fetch(shared: &RestoreContext<'_>, used: &ChunkUse, scratch: &mut Scratch) -> Result<()> {
    match shared.blocks.find_record(&used.id, scratch) {
        Ok(opened) => {
            let at = opened.ids.iter().position(|id| *id == used.id);
            write(shared, used, at.map(|at| (&*opened, at)));
        }
        Err(error) => used.file.lost_by(shared, error)?,
    }
    Ok(())
}

/// Writes a chunk where it goes, its content checked against its name.
fn write(shared: &RestoreContext<'_>, used: &ChunkUse, found: Option<(&OpenedBlock, usize)>) {
    let Some((opened, at)) = found else {
        return used.file.lost(shared, &format!("chunk {} is not where the index says", used.id));
    };
    let bytes = opened.payload(at);
    // Another length would be written over what comes next.
    let is_as_long = bytes.len() == used.length as usize;
    if !is_as_long || shared.repository.keys.writer.ids.chunk_id(bytes) != used.id {
        return used
            .file
            .lost(shared, &format!("the content of chunk {} does not match its id", used.id));
    }
    used.file.write(used.offset, bytes, shared);
    shared.advance(bytes.len() as u64);
}

impl RestoreContext<'_> {
    /// `entry` with its extended attributes; without them, and told so, when they cannot be read.
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

    /// An object could not be restored.
    pub(super) fn failed(&self, path: &[u8], text: &str) {
        self.is_incomplete.store(true, Ordering::Relaxed);
        Counters::add(&self.counters.failed, 1);
        let mut reported = self.reported.lock();
        if reported.len() < REMEMBERED_MAX {
            reported.insert(FxBuildHasher.hash_one(path));
        }
        drop(reported);
        self.monitor.problem(path, text);
    }

    /// Whether it was told that `path` could not be restored.
    pub(super) fn is_reported(&self, path: &[u8]) -> bool {
        self.reported.lock().contains(&FxBuildHasher.hash_one(path))
    }

    /// The target did not take an object.
    pub(super) fn problem(&self, problem: &RestoreProblem) {
        self.note_space(problem);
        if !self.waits_for_removal(problem) {
            self.failed(&problem.path, &problem.reason());
        }
    }

    /// Whether the object comes later, once the directory that has its name is removed.
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

    /// A page of the snapshot cannot be read. Its entries have no names any more; the first path
    /// and their number are known from the page above.
    pub(super) fn lost_page(&self, lost: &LostPage) {
        if self.lost_pages.lock().insert(lost.id) {
            Counters::add(&self.counters.damaged, 1);
            self.failed(&lost.first, &lost.to_string());
        }
    }

    /// A further name could not be linked: it is an object of its own.
    pub(super) fn lacks_link(&self, path: &[u8]) {
        Counters::add(&self.counters.degraded, 1);
        self.monitor.problem(path, "Link not restored: it is a copy of its own");
    }

    /// Notes in the target that a restore begins. Where that cannot be, it is told: an
    /// interruption will not be noticed.
    pub(super) fn write_marker(&self) -> Result<()> {
        match self.target.write_marker() {
            Ok(()) => Ok(()),
            Err(problem) if problem.no_space() => {
                self.note_space(&problem);
                self.check()
            }
            Err(problem) => {
                self.monitor.note(&format!(
                    "{problem}: after a power cut the next restore would take what this one wrote for whole; use --overwrite always then"
                ));
                Ok(())
            }
        }
    }

    /// Ends the restore: what is not damage says nothing of the data, and goes for all of it.
    pub(super) fn end(&self, error: Error) {
        self.fatal.lock().get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::WorkerPanicked);
        }
        if self.is_full.load(Ordering::Relaxed) {
            let full = std::io::ErrorKind::StorageFull;
            return Err(Error::File { path: self.place.into(), source: full.into() });
        }
        self.progress.check()
    }

    /// A full target ends the restore: everything after would fail alike.
    pub(super) fn note_space(&self, problem: &RestoreProblem) {
        self.is_full.fetch_or(problem.no_space(), Ordering::Relaxed);
    }

    /// Counts in a dry run.
    pub(super) fn would_write(&self, used: &ChunkUse) {
        if used.offset == 0 {
            self.pass(used.file.entry.size);
            self.wrote(&used.file.entry, restore::RestoreOutcome::Created);
        }
    }

    /// So many bytes of files are dealt with, and nothing was written.
    pub(super) fn pass(&self, bytes: u64) {
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes of files are written.
    fn advance(&self, bytes: u64) {
        self.pass(bytes);
        self.progress.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Tells what could not be set.
    pub(super) fn report_degraded(&self) {
        let degraded = self.target.take_degraded();
        let others = degraded.list.len() as u64 + degraded.more;
        Counters::add(&self.counters.degraded, others + degraded.owners);
        for one in &degraded.list {
            self.monitor.problem(&one.path, &one.reason());
        }
        if degraded.more > 0 {
            let more = format!("and {} attributes more that could not be restored", degraded.more);
            self.monitor.note(&more);
        }
        if let Some(first) = &degraded.first_owner {
            self.monitor.note(&format!(
                "the owners of {} objects are not restored: {} (only root may give files to others); the first is {}",
                degraded.owners,
                first.error,
                String::from_utf8_lossy(&first.path),
            ));
        }
    }
}
