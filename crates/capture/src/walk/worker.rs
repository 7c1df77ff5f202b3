//! A worker: takes units, lists and inspects, and delivers the rows.

use super::batch::{BATCH_ROWS_MAX, DirectoryContext, Job, Listing, RowBatch, RowProblem};
use super::directory::{Directory, DirectoryHandles};
use super::list::Lister;
use super::names::{ListedType, NamePosition, Names};
use super::options::WalkOptions;
use super::plan::PlanNode;
use super::row::{NotEntered, Row};
use super::schedule::{Finished, Scheduler};
use super::units::UnitId;
use crate::excludes::{self, PatternVerdict};
use crate::gone;
use crate::problem::{CaptureOperation, CaptureProblem};
use format::entry::Kind;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;
use std::sync::Arc;

/// The attributes that are requested.
pub(super) const STATX_FIELDS: StatxFlags =
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// What a worker keeps between units.
pub(super) struct Worker {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) options: Arc<WalkOptions>,
    pub(super) handles: Arc<DirectoryHandles>,
    lister: Lister,
    /// Jobs for directories among the rows of the unit in work.
    pub(super) below: Vec<(usize, Job)>,
    path: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        scheduler: Arc<Scheduler>,
        options: Arc<WalkOptions>,
        handles: Arc<DirectoryHandles>,
    ) -> Self {
        let (lister, below, path) = (Lister::default(), Vec::new(), Vec::new());
        Worker { scheduler, options, handles, lister, below, path }
    }

    /// Works until the walk is over.
    pub(super) fn run(mut self) {
        let _guard = StopOnPanic(self.scheduler.clone());
        let mut finished = None;
        while let Some((unit, job)) = self.scheduler.exchange(finished.take()) {
            let batch = Box::new(self.work(unit, job));
            finished = Some(Finished { unit, batch, below: std::mem::take(&mut self.below) });
        }
    }

    fn work(&mut self, unit: UnitId, job: Job) -> RowBatch {
        match job {
            Job::Pass { node, index } => self.pass(unit, &node, index),
            Job::List { directory, context, is_root } => {
                self.list(unit, directory, context, is_root)
            }
            Job::More { listing, from } => self.inspect_from(unit, RowBatch::of(listing), from),
        }
    }

    fn list(
        &mut self,
        unit: UnitId,
        directory: Arc<Directory>,
        context: DirectoryContext,
        is_root: bool,
    ) -> RowBatch {
        let mut listing = Listing::of(directory, Names::default());
        listing.context = context;
        if self.options.look_at_paths() {
            listing.path = listing.directory.path();
        }
        let tags = if is_root { &[][..] } else { &self.options.tags };
        let listed = self.lister.list(&mut listing, tags, self.options.gitignore);
        let mut batch = RowBatch::of(Arc::new(listing));
        match listed {
            Ok(is_tagged) => batch.skipped.tagged_directories += u64::from(is_tagged),
            // What the user named is not given up in silence.
            Err(error) if is_root => add_problem(&mut batch, None, CaptureOperation::List, error),
            Err(error) => add_problem_of_listing(&mut batch, error),
        }
        missing_roots(&mut batch);
        self.inspect_from(unit, batch, 0)
    }

    /// Inspects the next names of a directory; first, the names after them become a unit, so that
    /// another worker can start.
    fn inspect_from(&mut self, unit: UnitId, mut batch: RowBatch, from: usize) -> RowBatch {
        let listing = batch.listing.clone();
        let end = listing.names.len().min(from + BATCH_ROWS_MAX);
        if end < listing.names.len() {
            let more = Job::More { listing: listing.clone(), from: end };
            batch.next = self.scheduler.add_after(unit, more);
        }
        let handle = match listing.directory.handle() {
            Ok(handle) => handle,
            Err(_) if end == from => return batch, // the failed listing was reported
            Err(error) => {
                add_problem_of_listing(&mut batch, error);
                return batch;
            }
        };
        batch.rows.reserve_exact(end - from);
        for position in &listing.names.positions()[from..end] {
            self.inspect(&mut batch, &listing, &handle, *position);
        }
        if self.below.is_empty() && batch.next == super::row::NO_UNIT {
            batch.rows.shrink_to_fit();
        }
        batch
    }

    fn inspect(
        &mut self,
        batch: &mut RowBatch,
        listing: &Listing,
        handle: &OwnedFd,
        position: NamePosition,
    ) {
        let planned =
            listing.context.plan.as_ref().and_then(|plan| plan.child(listing.names.name(position)));
        let listed = listing.names.listed(position);
        if planned.is_none()
            && listed != ListedType::Unknown
            && self.pattern_excludes(listing, position, listed)
        {
            batch.skipped.by_pattern += 1;
            return;
        }
        let is_root = planned.is_some_and(|node| node.is_root);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        // Only what the user named is mounted for that.
        let flags = if is_root { flags } else { flags | AtFlags::NO_AUTOMOUNT };
        let look = || statx(handle, listing.names.c_name(position), flags, STATX_FIELDS);
        let found = look().or_else(|error| match planned {
            // What the user named, or what leads there, is not given up in silence.
            Some(_) => Err(error),
            None => listing.look_again(handle, position, error, look),
        });
        match found {
            Ok(stat) => self.add(batch, listing, position, &stat, planned),
            Err(error) => add_problem(batch, Some(position), CaptureOperation::Inspect, error),
        }
    }

    fn pattern_excludes(
        &mut self,
        listing: &Listing,
        position: NamePosition,
        listed: ListedType,
    ) -> bool {
        if !self.options.look_at_paths() {
            return false;
        }
        self.path.clear();
        self.path.extend_from_slice(&listing.path);
        if !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(listing.names.name(position));
        let gitignores = listing.context.gitignores.as_deref();
        let is_directory = listed == ListedType::Directory;
        let decision =
            excludes::decide(&self.options.excludes, gitignores, &self.path, is_directory);
        let is_excluded = decision.is_some_and(|(verdict, _)| verdict == PatternVerdict::Exclude);
        let only = self.options.only.as_deref().filter(|_| !is_excluded);
        is_excluded || only.is_some_and(|only| !only.includes(&self.path, is_directory))
    }

    fn add(
        &mut self,
        batch: &mut RowBatch,
        listing: &Listing,
        position: NamePosition,
        stat: &Statx,
        planned: Option<&Arc<PlanNode>>,
    ) {
        if let Some(root) = planned.filter(|node| node.is_root) {
            return self.add_root(batch, root, position, stat);
        }
        let mut row = Row::from_statx(stat, position);
        match planned {
            None if self.skips(batch, listing, &row) => return,
            Some(node) if row.kind == Kind::Directory && self.passes(batch, listing, &row) => {
                row.is_parent_of_root = true;
                self.below.push((batch.rows.len(), Job::Pass { node: node.clone(), index: 0 }));
            }
            _ if row.kind == Kind::Directory => {
                self.add_directory(batch, listing, &mut row, stat.stx_mnt_id, planned);
            }
            _ => {}
        }
        batch.rows.push(row);
    }

    /// Whether a directory that leads to what the user named is excluded itself: of all else in it nothing is taken.
    fn passes(&mut self, batch: &mut RowBatch, listing: &Listing, row: &Row) -> bool {
        if listing.is_tagged {
            return true; // it was counted with the directory above
        }
        // The patterns have not been asked about what leads to a root.
        if self.pattern_excludes(listing, row.position, ListedType::Directory) {
            batch.skipped.by_pattern += 1;
            return true;
        }
        self.skips(batch, listing, row)
    }

    fn skips(&mut self, batch: &mut RowBatch, listing: &Listing, row: &Row) -> bool {
        let kind =
            if row.kind == Kind::Directory { ListedType::Directory } else { ListedType::Other };
        // If the listing had another type (or none), the patterns have not been applied to this
        // one.
        let is_other_type = listing.names.listed(row.position) != kind;
        if is_other_type && self.pattern_excludes(listing, row.position, kind)
            || kind == ListedType::Directory && self.is_kept_out(listing, row)
        {
            batch.skipped.by_pattern += 1;
            return true;
        }
        self.options.skips(row, &mut batch.skipped)
    }

    /// Whether it is the directory that is excluded wherever it is met, by another path than its own.
    fn is_kept_out(&self, listing: &Listing, row: &Row) -> bool {
        let excludes = &self.options.excludes;
        if !excludes.has_identity((row.device, row.inode)) {
            return false;
        }
        let path = listing.directory.path_of(listing.names.name(row.position));
        let decision = excludes.decide_found(&path, (row.device, row.inode));
        decision.is_some_and(|(verdict, _)| verdict == PatternVerdict::Exclude)
    }

    fn add_directory(
        &mut self,
        batch: &mut RowBatch,
        listing: &Listing,
        row: &mut Row,
        mount: u64,
        planned: Option<&Arc<PlanNode>>,
    ) {
        let name = listing.names.c_name(row.position);
        let directory = Directory::child(&listing.directory, name, (row.device, row.inode));
        row.not_entered = self.keeps_out(&listing.context, &directory, row, mount);
        let job = match (row.not_entered, planned) {
            (None, _) => {
                let gitignores = listing.context.gitignores.clone();
                let context = DirectoryContext {
                    mount,
                    device: row.device,
                    gitignores,
                    plan: planned.cloned(),
                };
                Job::List { directory, context, is_root: false }
            }
            // A root that the user named is reached even here.
            (Some(_), Some(node)) => Job::Pass { node: node.clone(), index: 0 },
            (Some(_), None) => {
                batch.skipped.not_entered += 1;
                return;
            }
        };
        self.below.push((batch.rows.len(), job));
    }

    /// Why a directory is not entered. Only a mount can lead to another file system, or back to a
    /// parent.
    fn keeps_out(
        &self,
        context: &DirectoryContext,
        directory: &Arc<Directory>,
        row: &Row,
        mount: u64,
    ) -> Option<NotEntered> {
        if mount == context.mount && row.device == context.device {
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
fn missing_roots(batch: &mut RowBatch) {
    let listing = batch.listing.clone();
    for node in listing.context.plan.iter().flat_map(|plan| &plan.children) {
        if listing.names.find(&node.name).is_none() {
            let path = listing.directory.path_of(&node.name);
            let problem =
                CaptureProblem { path, operation: CaptureOperation::Inspect, error: Errno::NOENT };
            batch.problems.push(RowProblem { before_row: 0, position: None, problem });
        }
    }
}

/// A directory that cannot be listed and was not named by the user may have been deleted meanwhile.
fn add_problem_of_listing(batch: &mut RowBatch, error: Errno) {
    let error = gone::told_apart_itself(&batch.listing.directory, error);
    add_problem(batch, None, CaptureOperation::List, error);
}

pub(super) fn add_problem(
    batch: &mut RowBatch,
    position: Option<NamePosition>,
    operation: CaptureOperation,
    error: Errno,
) {
    let directory = &batch.listing.directory;
    let path = match position {
        Some(position) => directory.path_of(batch.listing.names.name(position)),
        None => directory.path(),
    };
    let problem = CaptureProblem { path, operation, error };
    batch.problems.push(RowProblem { before_row: batch.rows.len(), position, problem });
}

/// A worker that panics must not leave the consumer waiting forever.
struct StopOnPanic(Arc<Scheduler>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
