//! Workers of a restore: each opens a record once and writes all that it holds.

use super::file::FileJob;
use super::{Counters, Monitor, Options};
use crate::backup::Progress;
use crate::blocks::{BlockCache, Scratch};
use crate::pages::Lost;
use crate::{Archive, Error, Result, xattrs};
use crossbeam_channel::Receiver;
use format::entry::{Content, Entry, Kind};
use ids::{ObjectId, Place};
use restore::{Outcome, Problem, Target};
use rustc_hash::FxHashMap;
use seal::Opened;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tasks that wait for each thread: two windows of small files and more, so that the next one is
/// planned, with all its questions to a server, while this one comes.
pub(super) const TASKS_PER_THREAD: usize = 256;

/// What all threads share.
pub(super) struct Shared<'a> {
    pub(super) archive: &'a Archive,
    pub(super) blocks: &'a BlockCache,
    pub(super) target: &'a Target,
    pub(super) options: &'a Options,
    pub(super) counters: &'a Counters,
    pub(super) progress: &'a Progress,
    pub(super) monitor: &'a dyn Monitor,
    /// The target was empty: nothing can be unchanged in it.
    pub(super) is_new: bool,
    /// The target's path, for errors.
    pub(super) place: &'a str,
    /// The target has no more room.
    pub(super) is_full: AtomicBool,
    /// Pages of the snapshot could not be read: nobody knows all that it has.
    pub(super) has_lost_pages: AtomicBool,
}

/// Something for a worker to do.
pub(super) enum Task {
    /// Objects that need no chunk.
    Plain(Vec<Entry>),
    /// A record, and what is in it that is needed.
    Record(Place, Vec<Use>),
}

/// A chunk that a file needs.
pub(super) struct Use {
    pub(super) file: Arc<FileJob>,
    pub(super) id: ObjectId,
    /// Its length, as the file has it.
    pub(super) length: u32,
    /// Where in the file it goes.
    pub(super) offset: u64,
}

/// Works until there is no more.
pub(super) fn run(shared: &Shared<'_>, tasks: &Receiver<Task>) -> Result<()> {
    let mut scratch = Scratch::new()?;
    for task in tasks {
        shared.check()?;
        match task {
            Task::Plain(entries) => entries.iter().for_each(|entry| plain(shared, entry)),
            Task::Record(place, uses) => record(shared, place, &uses, &mut scratch),
        }
    }
    Ok(())
}

/// An object that needs no chunk.
pub(super) fn plain(shared: &Shared<'_>, entry: &Entry) {
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
        Ok(Some(Outcome::Created | Outcome::Replaced)) => Counters::add(&shared.counters.links, 1),
        Ok(Some(outcome)) => shared.settled(entry, outcome),
        Err(problem) => {
            shared.note_space(&problem);
            shared.failed(&entry.path, &problem.to_string());
        }
    }
}

fn record(shared: &Shared<'_>, place: Place, uses: &[Use], scratch: &mut Scratch) {
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
                && error.is_gone()
            {
                let _ = shared.archive.store.refresh_after(place.container);
            }
            uses.iter().for_each(|used| fetch(shared, used, scratch));
        }
    }
}

fn fetch(shared: &Shared<'_>, used: &Use, scratch: &mut Scratch) {
    match shared.blocks.containing(&used.id, scratch) {
        Ok(opened) => {
            let at = opened.ids.iter().position(|id| *id == used.id);
            write(shared, used, at.map(|at| (&*opened, at)));
        }
        Err(error) => used.file.lost(shared, &error.to_string()),
    }
}

/// Writes a chunk where it goes, its content checked against its name.
fn write(shared: &Shared<'_>, used: &Use, found: Option<(&Opened, usize)>) {
    let Some((opened, at)) = found else {
        return used.file.lost(shared, &format!("chunk {} is not where the index says", used.id));
    };
    let bytes = opened.payload(at);
    // Another length would be written over what comes next.
    let is_as_long = bytes.len() == used.length as usize;
    if !is_as_long || shared.archive.keys.writer.ids.chunk_id(bytes) != used.id {
        return used
            .file
            .lost(shared, &format!("chunk {} has other content than its name says", used.id));
    }
    used.file.write(used.offset, bytes, shared);
}

impl Shared<'_> {
    /// `entry` with its extended attributes; without them, and told so, when they cannot be read.
    pub(super) fn whole<'e>(&self, entry: &'e Entry) -> Cow<'e, Entry> {
        let whole = xattrs::whole(entry, self.blocks, &self.archive.keys.writer.ids);
        whole.unwrap_or_else(|error| {
            self.failed(&entry.path, &format!("Extended attributes not restored: {error}"));
            Cow::Borrowed(entry)
        })
    }

    /// An object could not be restored.
    pub(super) fn failed(&self, path: &[u8], text: &str) {
        Counters::add(&self.counters.failed, 1);
        self.monitor.problem(path, text);
    }

    /// A page of the snapshot cannot be read. Its entries have no names any more; the first path
    /// and their number are known from the page above.
    pub(super) fn lost_page(&self, lost: &Lost) {
        self.has_lost_pages.store(true, Ordering::Relaxed);
        self.failed(&lost.first, &lost.to_string());
    }

    /// Whether what the snapshot does not have is to be removed: never while it is not known what
    /// it has.
    pub(super) fn deletes(&self) -> bool {
        self.options.delete && !self.has_lost_pages.load(Ordering::Relaxed)
    }

    /// A further name could not be linked: it is an object of its own.
    pub(super) fn lacks_link(&self, path: &[u8]) {
        Counters::add(&self.counters.degraded, 1);
        self.monitor.problem(path, "Link not restored: it is a copy of its own");
    }

    /// Whether to go on.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            let full = std::io::ErrorKind::StorageFull;
            return Err(Error::File { path: self.place.into(), source: full.into() });
        }
        self.progress.check()
    }

    /// A full target ends the restore: everything after would fail alike.
    pub(super) fn note_space(&self, problem: &Problem) {
        self.is_full.fetch_or(problem.no_space(), Ordering::Relaxed);
    }

    /// Whether a file is there already, so that nothing need be fetched.
    pub(super) fn is_unchanged(&self, entry: &Entry) -> bool {
        let settles = |entry: &Entry| self.target.settle_unchanged(entry);
        self.options.overwrite == restore::Overwrite::IfChanged
            && xattrs::whole(entry, self.blocks, &self.archive.keys.writer.ids)
                .is_ok_and(|entry| settles(&entry))
    }

    /// Counts in a dry run.
    pub(super) fn would_write(&self, used: &Use) {
        if used.offset == 0 {
            self.wrote(&used.file.entry, restore::Outcome::Created);
        }
    }

    /// Tells what could not be set.
    pub(super) fn report_degraded(&self) {
        let degraded = self.target.take_degraded();
        Counters::add(&self.counters.degraded, degraded.list.len() as u64 + degraded.more);
        for one in &degraded.list {
            self.monitor.problem(&one.path, &one.to_string());
        }
    }
}
