//! What a walk enters, and what it skips.

use super::batch::SkippedCounts;
use super::row::Row;
use crate::excludes::{ExcludeTag, Excludes, Only};
use format::entry::{INODE_NODUMP, Kind, Time};
use std::sync::Arc;

/// The options of a walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Threads that list and inspect, besides the thread of the caller.
    pub threads: usize,
    /// Stay on the file system (mount and device) of each root.
    pub one_file_system: bool,
    /// The patterns of the user.
    pub excludes: Arc<Excludes>,
    /// Take only what these patterns name, and the directories that lead there.
    pub only: Option<Arc<Only>>,
    /// Obey `.gitignore` files.
    pub gitignore: bool,
    /// Exclude directories that contain one of these files.
    pub tags: Vec<ExcludeTag>,
    /// Skip files with more bytes than this.
    pub larger_than: Option<u64>,
    /// Skip files that were modified before this time.
    pub older_than: Option<Time>,
    /// Skip files that were modified after this time.
    pub newer_than: Option<Time>,
    /// Skip what is marked with `chattr +d`.
    pub nodump: bool,
    /// Do not follow links in the paths of roots either: for another party that may read only below
    /// certain folders.
    pub refuse_links_to_roots: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        WalkOptions {
            threads: 2,
            one_file_system: false,
            excludes: Arc::default(),
            only: None,
            gitignore: false,
            tags: Vec::new(),
            larger_than: None,
            older_than: None,
            newer_than: None,
            nodump: false,
            refuse_links_to_roots: false,
        }
    }
}

impl WalkOptions {
    /// Whether anything may be excluded by its path.
    pub(super) fn look_at_paths(&self) -> bool {
        self.gitignore || self.only.is_some() || !self.excludes.is_empty()
    }

    /// Whether this object is skipped because of its attributes; counts it if so.
    pub(super) fn skips(&self, row: &Row, skipped: &mut SkippedCounts) -> bool {
        let counter = if self.nodump && row.inode_flags & INODE_NODUMP != 0 {
            &mut skipped.by_nodump
        } else if row.kind != Kind::File {
            return false;
        } else if self.larger_than.is_some_and(|limit| row.size > limit) {
            &mut skipped.by_size
        } else if self.is_out_of_age(row.mtime) {
            &mut skipped.by_age
        } else {
            return false;
        };
        *counter += 1;
        true
    }

    fn is_out_of_age(&self, mtime: Time) -> bool {
        self.older_than.is_some_and(|limit| mtime < limit)
            || self.newer_than.is_some_and(|limit| mtime > limit)
    }
}
