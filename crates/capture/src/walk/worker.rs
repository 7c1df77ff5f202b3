//! One worker: takes units, lists and inspects, hands the rows in.

use super::chunk::{Around, Chunk, Job, Listing, ROWS_A_UNIT, Trouble};
use super::directory::{Directory, Handles};
use super::list::Lister;
use super::names::{Listed, Names, Place};
use super::options::Options;
use super::plan::Node;
use super::row::{NotEntered, Row};
use super::schedule::{Finished, Scheduler};
use super::units::UnitId;
use crate::excludes::{self, Verdict};
use crate::problem::{Operation, Problem};
use format::entry::Kind;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;
use std::sync::Arc;

/// Attributes that we ask for. The time of birth lies where the others do; where a file system
/// has none, nobody goes far for it.
pub(super) const WANTED: StatxFlags =
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// What a worker keeps between units.
pub(super) struct Worker {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) options: Arc<Options>,
    pub(super) handles: Arc<Handles>,
    lister: Lister,
    /// Jobs for directories among the rows of the unit in work.
    pub(super) below: Vec<(usize, Job)>,
    path: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        scheduler: Arc<Scheduler>,
        options: Arc<Options>,
        handles: Arc<Handles>,
    ) -> Self {
        let (lister, below, path) = (Lister::default(), Vec::new(), Vec::new());
        Worker { scheduler, options, handles, lister, below, path }
    }

    /// Works until the walk is over.
    pub(super) fn run(mut self) {
        let _guard = StopOnPanic(self.scheduler.clone());
        let mut finished = None;
        while let Some((unit, job)) = self.scheduler.exchange(finished.take()) {
            let chunk = Box::new(self.work(unit, job));
            finished = Some(Finished { unit, chunk, below: std::mem::take(&mut self.below) });
        }
    }

    fn work(&mut self, unit: UnitId, job: Job) -> Chunk {
        match job {
            Job::Pass { node, index } => self.pass(unit, &node, index),
            Job::List { directory, around, is_root } => self.list(unit, directory, around, is_root),
            Job::More { listing, from } => self.inspect_from(unit, Chunk::of(listing), from),
        }
    }

    fn list(
        &mut self,
        unit: UnitId,
        directory: Arc<Directory>,
        around: Around,
        is_root: bool,
    ) -> Chunk {
        let mut listing = Listing::of(directory, Names::default());
        listing.around = around;
        if self.options.look_at_paths() {
            listing.path = listing.directory.path();
        }
        let tags = if is_root { &[][..] } else { &self.options.tags };
        let listed = self.lister.list(&mut listing, tags, self.options.gitignore);
        let mut chunk = Chunk::of(Arc::new(listing));
        match listed {
            Ok(is_tagged) => chunk.left_out.tagged_directories += u64::from(is_tagged),
            Err(error) => trouble(&mut chunk, None, Operation::List, error),
        }
        missing_roots(&mut chunk);
        self.inspect_from(unit, chunk, 0)
    }

    /// Inspects the next names of a directory; the names after them become a unit first, so
    /// that another worker can begin.
    fn inspect_from(&mut self, unit: UnitId, mut chunk: Chunk, from: usize) -> Chunk {
        let listing = chunk.listing.clone();
        let end = listing.names.len().min(from + ROWS_A_UNIT);
        if end < listing.names.len() {
            let more = Job::More { listing: listing.clone(), from: end };
            chunk.next = self.scheduler.add_after(unit, more);
        }
        let handle = match listing.directory.handle() {
            Ok(handle) => handle,
            Err(_) if end == from => return chunk, // listing failed and has told so
            Err(error) => {
                trouble(&mut chunk, None, Operation::List, error);
                return chunk;
            }
        };
        chunk.rows.reserve_exact(end - from);
        for place in &listing.names.places()[from..end] {
            self.inspect(&mut chunk, &listing, &handle, *place);
        }
        if self.below.is_empty() && chunk.next == super::row::NO_UNIT {
            chunk.rows.shrink_to_fit();
        }
        chunk
    }

    fn inspect(&mut self, chunk: &mut Chunk, listing: &Listing, handle: &OwnedFd, place: Place) {
        let planned =
            listing.around.plan.as_ref().and_then(|plan| plan.child(listing.names.name(place)));
        let listed = listing.names.listed(place);
        if planned.is_none()
            && listed != Listed::Unknown
            && self.pattern_excludes(listing, place, listed)
        {
            chunk.left_out.by_pattern += 1;
            return;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match statx(handle, listing.names.c_name(place), flags, WANTED) {
            Ok(stat) => self.add(chunk, listing, place, &stat, planned),
            Err(error) => trouble(chunk, Some(place), Operation::Inspect, error),
        }
    }

    fn pattern_excludes(&mut self, listing: &Listing, place: Place, listed: Listed) -> bool {
        if !self.options.look_at_paths() {
            return false;
        }
        self.path.clear();
        self.path.extend_from_slice(&listing.path);
        if !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(listing.names.name(place));
        let layers = listing.around.layers.as_deref();
        let is_directory = listed == Listed::Directory;
        let decision = excludes::decide(&self.options.excludes, layers, &self.path, is_directory);
        decision.is_some_and(|(verdict, _)| verdict == Verdict::LeaveOut)
    }

    fn add(
        &mut self,
        chunk: &mut Chunk,
        listing: &Listing,
        place: Place,
        stat: &Statx,
        planned: Option<&Arc<Node>>,
    ) {
        if let Some(root) = planned.filter(|node| node.is_root) {
            return self.add_root(chunk, root, place, stat);
        }
        let mut row = Row::from_statx(stat, place);
        if planned.is_none() && self.leaves_out(chunk, listing, &row) {
            return;
        }
        if row.kind == Kind::Directory {
            self.add_directory(chunk, listing, &mut row, stat.stx_mnt_id, planned);
        }
        chunk.rows.push(row);
    }

    fn leaves_out(&mut self, chunk: &mut Chunk, listing: &Listing, row: &Row) -> bool {
        let kind = if row.kind == Kind::Directory { Listed::Directory } else { Listed::Other };
        // Where the listing told another type (or none), the patterns have not seen this one.
        if listing.names.listed(row.place) != kind
            && self.pattern_excludes(listing, row.place, kind)
        {
            chunk.left_out.by_pattern += 1;
            return true;
        }
        self.options.leaves_out(row, &mut chunk.left_out)
    }

    fn add_directory(
        &mut self,
        chunk: &mut Chunk,
        listing: &Listing,
        row: &mut Row,
        mount: u64,
        planned: Option<&Arc<Node>>,
    ) {
        let name = listing.names.c_name(row.place);
        let directory = Directory::child(&listing.directory, name, (row.device, row.inode));
        row.not_entered = self.keeps_out(&listing.around, &directory, row, mount);
        let job = match (row.not_entered, planned) {
            (None, _) => {
                let layers = listing.around.layers.clone();
                let around = Around { mount, device: row.device, layers, plan: planned.cloned() };
                Job::List { directory, around, is_root: false }
            }
            // The way to a root that the user named is open even here.
            (Some(_), Some(node)) => Job::Pass { node: node.clone(), index: 0 },
            (Some(_), None) => {
                chunk.left_out.not_entered += 1;
                return;
            }
        };
        self.below.push((chunk.rows.len(), job));
    }

    /// Only a mount can lead to another file system or back up: the rest is not looked at.
    fn keeps_out(
        &self,
        around: &Around,
        directory: &Arc<Directory>,
        row: &Row,
        mount: u64,
    ) -> Option<NotEntered> {
        if mount == around.mount && row.device == around.device {
            None
        } else if self.options.one_file_system {
            Some(NotEntered::OtherFileSystem)
        } else if directory.parent_is_within((row.device, row.inode)) {
            Some(NotEntered::Cycle)
        } else {
            super::pseudo::is_pseudo(directory).then_some(NotEntered::PseudoFileSystem)
        }
    }
}

/// Roots that should be in this directory and are not.
fn missing_roots(chunk: &mut Chunk) {
    let listing = chunk.listing.clone();
    for node in listing.around.plan.iter().flat_map(|plan| &plan.children) {
        if listing.names.find(&node.name).is_none() {
            let path = listing.directory.path_of(&node.name);
            let problem = Problem { path, operation: Operation::Inspect, error: Errno::NOENT };
            chunk.troubles.push(Trouble { before_row: 0, place: None, problem });
        }
    }
}

pub(super) fn trouble(chunk: &mut Chunk, place: Option<Place>, operation: Operation, error: Errno) {
    let directory = &chunk.listing.directory;
    let path = match place {
        Some(place) => directory.path_of(chunk.listing.names.name(place)),
        None => directory.path(),
    };
    let problem = Problem { path, operation, error };
    chunk.troubles.push(Trouble { before_row: chunk.rows.len(), place, problem });
}

/// A worker that dies must not leave the consumer waiting for ever.
struct StopOnPanic(Arc<Scheduler>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
