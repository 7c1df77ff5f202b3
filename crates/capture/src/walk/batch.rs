//! A unit of work and its result: up to [`BATCH_ROWS_MAX`] rows of one directory.

use super::directory::Directory;
use super::missing::ListedAgain;
use super::names::{NamePosition, Names};
use super::plan::PlanNode;
use super::row::{NO_UNIT, Row};
use super::units::UnitId;
use crate::excludes::GitignoreStack;
use crate::problem::CaptureProblem;
use parking_lot::Mutex;
use std::sync::Arc;

/// The most names of one directory in a batch: few enough to share a large directory among the
/// workers, enough that sharing costs nothing.
pub(super) const BATCH_ROWS_MAX: usize = 1024;

/// A job for a worker.
#[derive(Debug)]
pub(super) enum Job {
    /// Inspect one child of a directory that is only passed through.
    Pass {
        /// The directory.
        node: Arc<PlanNode>,
        /// Which child.
        index: usize,
    },
    /// List a directory, inspect its first names.
    List {
        /// The directory.
        directory: Arc<Directory>,
        /// Its context.
        context: DirectoryContext,
        /// The user named it: a tag does not exclude it.
        is_root: bool,
    },
    /// Inspect more names of a listed directory.
    More {
        /// The directory and its names.
        listing: Arc<Listing>,
        /// The first name to inspect.
        from: usize,
    },
}

/// What applies to a directory because of its location.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryContext {
    /// The mount that it is on.
    pub(super) mount: u64,
    /// The device that it is on.
    pub(super) device: u64,
    /// The `.gitignore` files above it.
    pub(super) gitignores: Option<Arc<GitignoreStack>>,
    /// Roots below it.
    pub(super) plan: Option<Arc<PlanNode>>,
}

/// A directory whose names are known.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) directory: Arc<Directory>,
    pub(super) names: Names,
    pub(super) context: DirectoryContext,
    /// Its path on this machine, if patterns need it.
    pub(super) path: Vec<u8>,
    /// A file in it excludes the others.
    pub(super) is_tagged: bool,
    /// The name in the snapshot of the only name, if it differs (`--as`).
    pub(super) shown: Option<Vec<u8>>,
    /// What the directory lists again, for names that it listed and does not find.
    pub(super) listed_again: Mutex<ListedAgain>,
}

impl Listing {
    pub(super) fn of(directory: Arc<Directory>, names: Names) -> Self {
        Listing {
            directory,
            names,
            context: DirectoryContext::default(),
            path: Vec::new(),
            is_tagged: false,
            shown: None,
            listed_again: Mutex::default(),
        }
    }
}

/// A problem, the row before which it is reported, and the name that it concerns (`None` for the
/// directory itself).
#[derive(Debug)]
pub(super) struct RowProblem {
    pub(super) before_row: usize,
    pub(super) position: Option<NamePosition>,
    pub(super) problem: CaptureProblem,
}

/// Objects that were excluded or skipped, by reason.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct SkippedCounts {
    /// Excluded by a pattern.
    pub by_pattern: u64,
    /// Larger than the limit.
    pub by_size: u64,
    /// Older or younger than the limits.
    pub by_age: u64,
    /// Marked `nodump`.
    pub by_nodump: u64,
    /// Directories whose content is excluded by a tag in them.
    pub tagged_directories: u64,
    /// Directories not entered: other file systems, pseudo file systems, cycles.
    pub not_entered: u64,
}

impl std::ops::AddAssign for SkippedCounts {
    fn add_assign(&mut self, more: Self) {
        self.by_pattern += more.by_pattern;
        self.by_size += more.by_size;
        self.by_age += more.by_age;
        self.by_nodump += more.by_nodump;
        self.tagged_directories += more.tagged_directories;
        self.not_entered += more.not_entered;
    }
}

/// Rows of one directory.
#[derive(Debug)]
pub(super) struct RowBatch {
    pub(super) listing: Arc<Listing>,
    pub(super) rows: Vec<Row>,
    pub(super) problems: Vec<RowProblem>,
    pub(super) skipped: SkippedCounts,
    /// The unit with the next names of this directory.
    pub(super) next: UnitId,
}

impl RowBatch {
    pub(super) fn of(listing: Arc<Listing>) -> Self {
        let (rows, problems) = (Vec::new(), Vec::new());
        RowBatch { listing, rows, problems, skipped: SkippedCounts::default(), next: NO_UNIT }
    }

    /// Its weight in the look-ahead; an empty batch counts, too.
    pub(super) fn weight(&self) -> usize {
        1 + self.rows.len() + self.problems.len()
    }
}
