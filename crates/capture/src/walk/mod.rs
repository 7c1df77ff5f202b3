//! A walk by several threads whose output is in the order of the snapshot.
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
//! Nothing that the world does ends a walk: troubles come as [`Event::Problem`] in their place.

mod chunk;
mod directory;
mod file_system;
mod list;
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

use crate::problem::Problem;
pub use chunk::LeftOut;
use chunk::{Chunk, Job, Listing};
pub(crate) use directory::open_quietly;
pub use directory::{Directory, Handles};
use file_system::FileSystems;
pub use options::Options;
use plan::Node;
pub use plan::{Root, WalkError};
use row::NO_UNIT;
pub use row::{NotEntered, Row};
use schedule::Scheduler;
use std::ffi::CStr;
use std::sync::Arc;
use std::thread::JoinHandle;

/// One object, lent until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Path in the snapshot. Empty only for a root that is the snapshot's top (`/` itself):
    /// its attributes have no entry, its content does.
    pub path: &'a [u8],
    /// Directory to open it in.
    pub directory: &'a Arc<Directory>,
    /// Name to open it by in `directory` (with `--as` not always the last name of `path`).
    pub name: &'a CStr,
    /// Its attributes.
    pub row: &'a Row,
    /// Identity of its file system: see `file_system`.
    pub file_system: u64,
}

/// What the walk tells.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An object.
    Entry(Found<'a>),
    /// An object, or the content of a directory, that could not be told of.
    Problem {
        /// Path in the snapshot.
        path: &'a [u8],
        /// What happened.
        problem: &'a Problem,
    },
}

/// Where the consumer is in one directory.
struct Frame {
    chunk: Box<Chunk>,
    row: usize,
    trouble: usize,
    /// Length of the directory's own path.
    base: usize,
}

enum Step {
    Entry,
    Trouble,
    End,
}

/// A walk in progress.
pub struct Walk {
    scheduler: Arc<Scheduler>,
    workers: Vec<JoinHandle<()>>,
    frames: Vec<Frame>,
    path: Vec<u8>,
    /// The unit below the row that was told last.
    below: u32,
    file_systems: FileSystems,
    left_out: LeftOut,
}

impl Walk {
    /// Starts to walk.
    pub fn start(roots: &[Root], options: Options) -> Result<Self, WalkError> {
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
            left_out: LeftOut::default(),
        })
    }

    /// The next object or problem, in order; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "lends; Iterator cannot")]
    pub fn next(&mut self) -> Option<Event<'_>> {
        match self.advance() {
            Step::End => None,
            Step::Entry => self.entry(),
            Step::Trouble => {
                let frame = self.frames.last()?;
                let problem = &frame.chunk.troubles[frame.trouble - 1].problem;
                Some(Event::Problem { path: &self.path, problem })
            }
        }
    }

    fn entry(&mut self) -> Option<Event<'_>> {
        let frame = self.frames.last()?;
        let row = &frame.chunk.rows[frame.row - 1];
        let listing = &*frame.chunk.listing;
        let (directory, name) = (&listing.directory, listing.names.c_name(row.place));
        let file_system = self.file_systems.of(row, directory, name, &self.path);
        Some(Event::Entry(Found { path: &self.path, directory, name, row, file_system }))
    }

    fn advance(&mut self) -> Step {
        if self.below != NO_UNIT {
            let unit = std::mem::replace(&mut self.below, NO_UNIT);
            let chunk = self.take(unit);
            self.frames.push(Frame { chunk, row: 0, trouble: 0, base: self.path.len() });
        }
        while let Some(frame) = self.frames.last_mut() {
            let chunk = &*frame.chunk;
            let trouble = chunk.troubles.get(frame.trouble);
            if let Some(trouble) = trouble.filter(|trouble| trouble.before_row <= frame.row) {
                frame.trouble += 1;
                let name =
                    trouble.place.map_or(&b""[..], |place| shown_name(&chunk.listing, place));
                set_path(&mut self.path, frame.base, name);
                return Step::Trouble;
            }
            if let Some(row) = chunk.rows.get(frame.row) {
                frame.row += 1;
                set_path(&mut self.path, frame.base, shown_name(&chunk.listing, row.place));
                self.below = row.child;
                return Step::Entry;
            }
            match chunk.next {
                NO_UNIT => drop(self.frames.pop()),
                next => self.go_on_with(next),
            }
        }
        Step::End
    }

    fn go_on_with(&mut self, unit: u32) {
        let chunk = self.take(unit);
        if let Some(frame) = self.frames.last_mut() {
            (frame.chunk, frame.row, frame.trouble) = (chunk, 0, 0);
        }
    }

    fn take(&mut self, unit: u32) -> Box<Chunk> {
        let chunk = self.scheduler.take(unit).expect("a thread of the walk panicked");
        self.left_out += chunk.left_out;
        chunk
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// The most rows that ever lay unread: what bounds the memory.
    pub fn most_rows_ahead(&self) -> usize {
        self.scheduler.most_ahead()
    }
}

/// Ends the walk early when it is dropped early.
impl Drop for Walk {
    fn drop(&mut self) {
        self.scheduler.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // its panic was told to the consumer already
        }
    }
}

/// As many as asked for, or as the system gives us.
fn start_workers(
    scheduler: &Arc<Scheduler>,
    options: &Arc<Options>,
) -> Result<Vec<JoinHandle<()>>, WalkError> {
    let handles = Handles::new();
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

/// The top of the snapshot is told only when it is a root itself.
fn first_job(top: Arc<Node>) -> Job {
    let node =
        if top.is_root { Arc::new(Node { children: vec![top], ..Node::default() }) } else { top };
    Job::Pass { node, index: 0 }
}

fn shown_name(listing: &Listing, place: names::Place) -> &[u8] {
    listing.shown.as_deref().unwrap_or_else(|| listing.names.name(place))
}

fn set_path(path: &mut Vec<u8>, base: usize, name: &[u8]) {
    path.truncate(base);
    if base > 0 && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
