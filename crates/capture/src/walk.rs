//! A walk by several threads, with the output in the order of the snapshot.
//!
//! ```text
//!   workers: list a directory, inspect its names ──▶ chunks of rows ──▶ consumer: next()
//!            (units, in the order needed)             (at most LOOKAHEAD rows unread)
//! ```
//!
//! The consumer sees each directory's names sorted by bytes and what is in a directory right
//! after it, which is the order of `format::entry::compare_paths`. A row costs it no
//! allocation: [`Walk::next`] lends path and row until the next call. Memory does not grow
//! with the number of objects; of one directory it holds the names (8 bytes and the name).
//!
//! No problem of an object ends a walk: problems are reported as [`WalkEvent::Problem`], in order.

mod batch;
mod directory;
mod file_system;
mod list;
mod missing;
mod names;
mod options;
mod pass;
mod plan;
mod pseudo;
mod row;
mod schedule;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_limits;
mod units;
mod worker;

use crate::problem::CaptureProblem;
pub use batch::SkippedCounts;
use batch::{Job, Listing, RowBatch};
pub(crate) use directory::open_quietly;
pub use directory::{Directory, DirectoryHandles};
use file_system::FileSystems;
pub(crate) use list::gitignore_in;
pub use options::WalkOptions;
use plan::PlanNode;
pub use plan::{SourceRoot, WalkError};
pub(crate) use pseudo::is_pseudo_kind;
use row::NO_UNIT;
pub use row::{NotEntered, Row};
use schedule::Scheduler;
use std::ffi::CStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// One object, borrowed until the next call.
#[derive(Clone, Copy, Debug)]
pub struct WalkEntry<'a> {
    /// Path in the snapshot. Empty only for a root that is the root of the snapshot (`/` itself),
    /// which has no entry of its own.
    pub path: &'a [u8],
    /// Directory to open it in.
    pub directory: &'a Arc<Directory>,
    /// Name to open it by in `directory` (with `--as` not always the last name of `path`).
    pub name: &'a CStr,
    /// Its attributes.
    pub row: &'a Row,
    /// The identity of its file system: see `file_system`.
    pub file_system: u64,
}

/// An event of the walk.
#[derive(Clone, Copy, Debug)]
pub enum WalkEvent<'a> {
    /// An object.
    Entry(WalkEntry<'a>),
    /// An object, or the content of a directory, that could not be read.
    Problem {
        /// Path in the snapshot.
        path: &'a [u8],
        /// What happened.
        problem: &'a CaptureProblem,
    },
}

/// The position of the consumer in one directory.
struct Frame {
    batch: Box<RowBatch>,
    row: usize,
    problem: usize,
    /// Length of the directory's own path.
    base: usize,
}

enum Step {
    Entry,
    Problem,
    End,
}

/// A walk in progress.
pub struct Walk {
    scheduler: Arc<Scheduler>,
    workers: Vec<JoinHandle<()>>,
    frames: Vec<Frame>,
    path: Vec<u8>,
    /// The unit below the row that was returned last.
    below: u32,
    file_systems: FileSystems,
    skipped: SkippedCounts,
}

impl Walk {
    /// Starts a walk.
    ///
    /// # Errors
    /// When the roots are invalid, or no thread can be started.
    pub fn start(roots: &[SourceRoot], options: WalkOptions) -> Result<Self, WalkError> {
        let top = plan::plan(roots)?;
        let scheduler = Arc::new(Scheduler::starting_with(first_job(top)));
        let workers = start_workers(&scheduler, &Arc::new(options))?;
        Ok(Walk {
            scheduler,
            workers,
            frames: Vec::new(),
            path: Vec::new(),
            below: 0,
            file_systems: FileSystems::default(),
            skipped: SkippedCounts::default(),
        })
    }

    /// The next object or problem, in order; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "lends; Iterator cannot")]
    pub fn next(&mut self) -> Option<WalkEvent<'_>> {
        match self.advance() {
            Step::End => None,
            Step::Entry => self.entry(),
            Step::Problem => {
                let frame = self.frames.last()?;
                let problem = &frame.batch.problems[frame.problem - 1].problem;
                Some(WalkEvent::Problem { path: &self.path, problem })
            }
        }
    }

    fn entry(&mut self) -> Option<WalkEvent<'_>> {
        let frame = self.frames.last()?;
        let row = &frame.batch.rows[frame.row - 1];
        let listing = &*frame.batch.listing;
        let (directory, name) = (&listing.directory, listing.names.c_name(row.position));
        let file_system = self.file_systems.of(row, directory, name, &self.path);
        Some(WalkEvent::Entry(WalkEntry { path: &self.path, directory, name, row, file_system }))
    }

    fn advance(&mut self) -> Step {
        if self.below != NO_UNIT {
            let unit = std::mem::replace(&mut self.below, NO_UNIT);
            let batch = self.take(unit);
            self.frames.push(Frame { batch, row: 0, problem: 0, base: self.path.len() });
        }
        while let Some(frame) = self.frames.last_mut() {
            let batch = &*frame.batch;
            let problem = batch.problems.get(frame.problem);
            if let Some(problem) = problem.filter(|problem| problem.before_row <= frame.row) {
                frame.problem += 1;
                let name = problem
                    .position
                    .map_or(&b""[..], |position| shown_name(&batch.listing, position));
                set_path(&mut self.path, frame.base, name);
                return Step::Problem;
            }
            if let Some(row) = batch.rows.get(frame.row) {
                frame.row += 1;
                set_path(&mut self.path, frame.base, shown_name(&batch.listing, row.position));
                self.below = row.child;
                return Step::Entry;
            }
            match batch.next {
                NO_UNIT => drop(self.frames.pop()),
                next => self.go_on_with(next),
            }
        }
        Step::End
    }

    fn go_on_with(&mut self, unit: u32) {
        let batch = self.take(unit);
        if let Some(frame) = self.frames.last_mut() {
            (frame.batch, frame.row, frame.problem) = (batch, 0, 0);
        }
    }

    fn take(&mut self, unit: u32) -> Box<RowBatch> {
        let batch = self.scheduler.take(unit).expect("a thread of the walk panicked");
        self.skipped += batch.skipped;
        batch
    }

    /// What was excluded and skipped so far.
    pub fn skipped(&self) -> SkippedCounts {
        self.skipped
    }

    /// How long the consumer waited for the workers.
    pub fn waited(&self) -> Duration {
        self.scheduler.waited()
    }

    /// The largest number of unread rows so far; it bounds the memory.
    pub fn most_rows_ahead(&self) -> usize {
        self.scheduler.most_ahead()
    }
}

/// Ends the walk early when it is dropped early.
impl Drop for Walk {
    fn drop(&mut self) {
        self.scheduler.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // its panic was already reported to the consumer
        }
    }
}

/// Starts as many as requested, or as the system allows.
fn start_workers(
    scheduler: &Arc<Scheduler>,
    options: &Arc<WalkOptions>,
) -> Result<Vec<JoinHandle<()>>, WalkError> {
    let handles = DirectoryHandles::new();
    let mut workers = Vec::new();
    for _ in 0..options.threads.max(1) {
        let worker = worker::Worker::new(scheduler.clone(), options.clone(), handles.clone());
        match std::thread::Builder::new().name("walk".into()).spawn(move || worker.run()) {
            Ok(started) => workers.push(started),
            Err(error) if workers.is_empty() => return Err(WalkError::NoThread(error.kind())),
            Err(_) => break,
        }
    }
    Ok(workers)
}

/// The root of the snapshot is returned only if it is a root of the walk itself.
fn first_job(top: Arc<PlanNode>) -> Job {
    let node = if top.is_root {
        Arc::new(PlanNode { children: vec![top], ..PlanNode::default() })
    } else {
        top
    };
    Job::Pass { node, index: 0 }
}

fn shown_name(listing: &Listing, position: names::NamePosition) -> &[u8] {
    listing.shown.as_deref().unwrap_or_else(|| listing.names.name(position))
}

fn set_path(path: &mut Vec<u8>, base: usize, name: &[u8]) {
    path.truncate(base);
    if base > 0 && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
