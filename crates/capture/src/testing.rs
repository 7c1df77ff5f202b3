//! Helpers of the tests.

use crate::walk::{Directory, Event, Handles, LeftOut, Options, Root, Row, Walk};
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

/// All that a walk told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) paths: Vec<Vec<u8>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) places: Vec<(Arc<Directory>, CString)>,
    pub(crate) problems: Vec<(Vec<u8>, crate::Problem)>,
    pub(crate) left_out: LeftOut,
}

impl Told {
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

pub(crate) fn walk(roots: &[Root], options: Options) -> Told {
    let mut walk = Walk::start(roots, options).unwrap();
    let mut told = Told::default();
    while let Some(event) = walk.next() {
        match event {
            Event::Entry(found) => {
                told.paths.push(found.path.to_vec());
                told.rows.push(found.row.clone());
                told.places.push((found.directory.clone(), found.name.into()));
            }
            Event::Problem { path, problem } => {
                told.problems.push((path.to_vec(), problem.clone()))
            }
        }
    }
    told.left_out = walk.left_out();
    told
}

pub(crate) fn walk_folder(folder: &Path, options: Options) -> Told {
    walk(&[Root::at(bytes(folder))], options)
}

/// A file as the walk met it: where, and its row.
pub(crate) fn met(folder: &Path, name: &CStr) -> (Arc<Directory>, Row) {
    let told = walk_folder(folder, Options::default());
    let path = [&bytes(folder)[1..], b"/", name.to_bytes()].concat();
    let row = told.row(&path).clone();
    (Directory::starting_at(bytes(folder), &Handles::new()), row)
}
