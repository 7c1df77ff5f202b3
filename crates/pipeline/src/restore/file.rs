//! A file that is written in pieces by several threads.

use super::work::RestoreContext;
use format::entry::Entry;
use parking_lot::Mutex;
use restore::{OpenFile, RestoreOutcome, RestoreProblem, StartedFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A file that is being restored.
pub(super) struct FileJob {
    pub(super) entry: Entry,
    /// It has only one chunk.
    pub(super) is_single: bool,
    state: Mutex<State>,
    /// Pieces not written yet, plus one while the planner still adds some.
    left: AtomicUsize,
    failed: AtomicBool,
}

enum State {
    New,
    Open(Arc<OpenFile>),
    /// Nothing to write, or writing failed.
    Over,
}

impl FileJob {
    pub(super) fn new(entry: Entry, is_single: bool) -> Self {
        let (left, failed) = (AtomicUsize::new(1), AtomicBool::new(false));
        Self { entry, is_single, state: Mutex::new(State::New), left, failed }
    }

    /// Announces another piece.
    pub(super) fn expect_piece(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a piece and counts it as done.
    pub(super) fn write(&self, offset: u64, bytes: &[u8], shared: &RestoreContext<'_>) {
        if self.is_single {
            self.write_whole(bytes, shared);
            return;
        }
        if let Some(file) = self.file(shared)
            && let Err(problem) = file.write_at(offset, bytes)
        {
            self.fail(shared, &problem);
        }
        self.done(shared);
    }

    /// Writes a hole.
    pub(super) fn hole(&self, offset: u64, length: u64, shared: &RestoreContext<'_>) {
        shared.pass(length);
        if let Some(file) = self.file(shared)
            && let Err(problem) = file.hole(offset, length)
        {
            self.fail(shared, &problem);
        }
    }

    /// A piece is lost: the file is not restored.
    pub(super) fn lost(&self, shared: &RestoreContext<'_>, text: &str) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            super::Counters::add(&shared.counters.damaged, 1);
            shared.failed(&self.entry.path, text);
        }
        self.done(shared);
    }

    /// Like [`Self::lost`], if `error` is damage; else returns it.
    pub(super) fn lost_by(
        &self,
        shared: &RestoreContext<'_>,
        error: crate::Error,
    ) -> crate::Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        self.lost(shared, &error.to_string());
        Ok(())
    }

    /// A piece is done. The last one finishes the file.
    pub(super) fn done(&self, shared: &RestoreContext<'_>) {
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 || self.is_single {
            return;
        }
        // A file without any data was never opened.
        let opened = self.file(shared);
        drop(opened);
        let State::Open(file) = std::mem::replace(&mut *self.state.lock(), State::Over) else {
            return;
        };
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let entry = shared.whole(&self.entry);
        match Arc::into_inner(file).map(|file| file.finish(&entry)) {
            Some(Ok(outcome)) => shared.wrote(&self.entry, outcome),
            Some(Err(problem)) => self.fail(shared, &problem),
            None => self.fail_text(shared, "it is still being written; this is a bug"),
        }
    }

    fn write_whole(&self, bytes: &[u8], shared: &RestoreContext<'_>) {
        let entry = shared.whole(&self.entry);
        let written = shared.target.parent_of(&self.entry.path);
        let written = written.and_then(|parent| shared.target.small_file(&parent, &entry, bytes));
        match written {
            Ok(outcome) => shared.wrote(&self.entry, outcome),
            Err(problem) => self.fail(shared, &problem),
        }
    }

    /// The open file; opened on first use.
    fn file(&self, shared: &RestoreContext<'_>) -> Option<Arc<OpenFile>> {
        let mut state = self.state.lock();
        if matches!(*state, State::New) {
            *state = self.open(shared);
        }
        match &*state {
            State::Open(file) => Some(file.clone()),
            State::New | State::Over => None,
        }
    }

    fn open(&self, shared: &RestoreContext<'_>) -> State {
        let parent = shared.target.parent_of(&self.entry.path);
        // An existing file may stay, with its attributes corrected; a new one is closed to others until it has its ACL.
        let entry = shared.whole(&self.entry);
        match parent.and_then(|parent| shared.target.start_file(&parent, &entry)) {
            Ok(StartedFile::Open(file)) => State::Open(Arc::new(file)),
            Ok(StartedFile::Settled(outcome)) => {
                shared.settled(&self.entry, outcome);
                State::Over
            }
            Err(problem) => {
                self.fail(shared, &problem);
                State::Over
            }
        }
    }

    fn fail(&self, shared: &RestoreContext<'_>, problem: &RestoreProblem) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            shared.problem(problem);
        }
    }

    fn fail_text(&self, shared: &RestoreContext<'_>, text: &str) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            shared.failed(&self.entry.path, text);
        }
    }
}

impl RestoreContext<'_> {
    /// Counts a file that was written.
    pub(super) fn wrote(&self, entry: &Entry, outcome: RestoreOutcome) {
        match outcome {
            RestoreOutcome::Created | RestoreOutcome::Replaced => {
                super::Counters::add(&self.counters.files, 1);
                super::Counters::add(&self.counters.bytes, entry.size);
                self.note_to_replace(entry);
            }
            other => self.settled(entry, other),
        }
    }

    /// Counts an object that did not have to be written.
    pub(super) fn settled(&self, entry: &Entry, outcome: RestoreOutcome) {
        match outcome {
            RestoreOutcome::Kept => {
                self.note_kept(entry);
                super::Counters::add(&self.counters.kept, 1);
            }
            RestoreOutcome::Created | RestoreOutcome::Replaced => self.wrote(entry, outcome),
            RestoreOutcome::Unchanged | RestoreOutcome::NeedsCopy => {
                super::Counters::add(&self.counters.unchanged, 1)
            }
        }
    }
}
