//! Helpers of the tests.

use crate::walk::{
    Directory, DirectoryHandles, Row, SkippedCounts, SourceRoot, Walk, WalkEvent, WalkOptions,
};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Removes a tree that is too deep for `remove_dir_all`, which calls itself.
pub(crate) fn remove_deep(folder: &Path) {
    let _ = std::process::Command::new("rm").arg("-rf").arg(folder).status();
}

/// A folder in memory where there is one: for very many files.
pub(crate) fn fast_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Everything that a walk returned.
#[derive(Default)]
pub(crate) struct WalkResult {
    pub(crate) paths: Vec<Vec<u8>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) objects: Vec<(Arc<Directory>, CString)>,
    pub(crate) problems: Vec<(Vec<u8>, crate::CaptureProblem)>,
    pub(crate) skipped: SkippedCounts,
}

impl WalkResult {
    pub(crate) fn row(&self, path: &[u8]) -> &Row {
        let found = self.paths.iter().position(|other| other == path);
        &self.rows[found.unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(path)))]
    }

    /// Paths below a folder, relative to it, as text.
    pub(crate) fn below(&self, folder: &Path) -> Vec<String> {
        let start = [&bytes(folder)[1..], b"/"].concat();
        let inside = self.paths.iter().filter_map(|path| path.strip_prefix(start.as_slice()));
        inside.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }
}

pub(crate) fn walk(roots: &[SourceRoot], options: WalkOptions) -> WalkResult {
    let mut walk = Walk::start(roots, options).unwrap();
    let mut result = WalkResult::default();
    while let Some(event) = walk.next() {
        match event {
            WalkEvent::Entry(found) => {
                result.paths.push(found.path.to_vec());
                result.rows.push(found.row.clone());
                result.objects.push((found.directory.clone(), found.name.into()));
            }
            WalkEvent::Problem { path, problem } => {
                result.problems.push((path.to_vec(), problem.clone()))
            }
        }
    }
    result.skipped = walk.skipped();
    result
}

pub(crate) fn walk_folder(folder: &Path, options: WalkOptions) -> WalkResult {
    walk(&[SourceRoot::at(bytes(folder))], options)
}

/// A file as the walk met it: where, and its row.
pub(crate) fn met(folder: &Path, name: &CStr) -> (Arc<Directory>, Row) {
    let result = walk_folder(folder, WalkOptions::default());
    let path = [&bytes(folder)[1..], b"/", name.to_bytes()].concat();
    let row = result.row(&path).clone();
    (Directory::starting_at(bytes(folder), &DirectoryHandles::new()), row)
}
