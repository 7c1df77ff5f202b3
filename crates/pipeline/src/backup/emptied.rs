//! Named directories in which nothing is mounted any more. Their backups would be empty, and complete: after some of
//! them retention would let those go that have the files.

use super::failed::FailedObject;
use super::options::BackupOptions;
use crate::select::clean_path;
use capture::CaptureProblem;
use capture::walk::WalkEntry;
use format::entry::{Entry, Kind};
use format::escape::escape;
use rustc_hash::{FxHashMap, FxHashSet};

/// Looks for such directories while walk and previous snapshot are merged: what is in a directory follows it.
pub(super) struct Emptied {
    /// By their paths in the snapshot: a list of files may name many.
    roots: FxHashMap<Vec<u8>, Root>,
    /// The named directory that was met last, until something in it is met.
    last: Option<Last>,
}

struct Root {
    source: Vec<u8>,
    /// It was so in the previous snapshot, which has no files of it either.
    was_so: bool,
}

struct Last {
    /// With a slash at its end.
    below: Vec<u8>,
    source: Vec<u8>,
    had_files: bool,
}

impl Emptied {
    /// Of a backup behind one that could not read `failed`.
    pub(super) fn new(options: &BackupOptions, failed: &[FailedObject]) -> Self {
        let reason = reason();
        let failed: FxHashSet<&str> =
            failed.iter().filter(|it| it.reason == reason).map(|it| it.path.as_str()).collect();
        let root = |source: &[u8], shown: &[u8]| {
            let was_so = failed.contains(escape(source).as_str());
            (clean_path(shown), Root { source: source.to_vec(), was_so })
        };
        let roots = options.roots.iter();
        let roots =
            roots.map(|it| root(&it.source, it.shown_as.as_ref().unwrap_or(&it.source))).collect();
        Self { roots, last: None }
    }

    /// The walk met `found`; what was gone before it has been told. The problem of the directory before it, if that is one.
    pub(super) fn met(
        &mut self,
        found: &WalkEntry<'_>,
        before: Option<&Entry>,
    ) -> Option<CaptureProblem> {
        let problem = match &self.last {
            Some(last) if found.path.starts_with(&last.below) => {
                self.last = None;
                None
            }
            _ => self.ended(),
        };
        if found.row.kind == Kind::Directory
            && let Some(root) = self.roots.get(found.path)
        {
            let is_other = |entry: &Entry| entry.attributes.file_system != found.file_system;
            if root.was_so || before.is_some_and(is_other) {
                let below = [found.path, b"/"].concat();
                let source = root.source.clone();
                self.last = Some(Last { below, source, had_files: root.was_so });
            }
        }
        problem
    }

    /// The previous snapshot has `before`, and the walk does not.
    pub(super) fn gone(&mut self, before: &Entry) {
        if let Some(last) = &mut self.last {
            last.had_files |= before.path.starts_with(&last.below);
        }
    }

    /// Nothing more is in the directory that was met last.
    pub(super) fn ended(&mut self) -> Option<CaptureProblem> {
        let last = self.last.take().filter(|last| last.had_files)?;
        Some(CaptureProblem::not_mounted(last.source))
    }
}

/// As the manifest says it.
fn reason() -> String {
    let problem = CaptureProblem::not_mounted(Vec::new());
    format!("cannot {}: {}", problem.operation, problem.reason())
}
