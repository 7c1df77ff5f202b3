//! What a walk goes into and leaves out.

use super::batch::SkippedCounts;
use super::row::Row;
use crate::excludes::{ExcludeTag, Excludes};
use format::entry::{INODE_NODUMP, Kind, Time};
use std::sync::Arc;

/// How to walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Threads that list and inspect; the caller's own comes on top.
    pub threads: usize,
    /// Stay on the file system (mount and device) of each root.
    pub one_file_system: bool,
    /// Patterns of the user.
    pub excludes: Arc<Excludes>,
    /// Honour `.gitignore` files on the way.
    pub gitignore: bool,
    /// Leave out what lies beside one of these files.
    pub tags: Vec<ExcludeTag>,
    /// Leave out files with more bytes than this.
    pub larger_than: Option<u64>,
    /// Leave out files that were changed before.
    pub older_than: Option<Time>,
    /// Leave out files that were changed after.
    pub newer_than: Option<Time>,
    /// Leave out what is marked `chattr +d`.
    pub nodump: bool,
    /// No link is followed on the way to a root either: the walk was asked for by somebody who may see only
    /// what lies below certain folders.
    pub refuse_links_to_roots: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        WalkOptions {
            threads: 2,
            one_file_system: false,
            excludes: Arc::default(),
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
    /// Whether anything is left out by its path.
    pub(super) fn look_at_paths(&self) -> bool {
        self.gitignore || !self.excludes.is_empty()
    }

    /// Whether this object is left out by its attributes; counts it if so.
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
