//! Problems with single objects. They are data, not errors: the backup of other objects continues.

use crate::gone;
use crate::walk::Directory;
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureOperation {
    /// Reading the attributes of an object.
    Inspect,
    /// Opening a directory or listing its names.
    List,
    /// Opening a file.
    Open,
    /// Reading a file or a link target.
    Read,
    /// Reading extended attributes.
    Xattrs,
    /// Reading a file of patterns.
    Patterns,
    /// Finding what lay in a named directory: another file system is there now, and no files.
    FindFiles,
    /// Storing it, or the part named here: it exceeds the limits of the format.
    Store(&'static str),
}

impl std::fmt::Display for CaptureOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CaptureOperation::Inspect => "inspect",
            CaptureOperation::List => "list",
            CaptureOperation::Open => "open",
            CaptureOperation::Read => "read",
            CaptureOperation::Xattrs => "read the extended attributes of",
            CaptureOperation::Patterns => "read the patterns in",
            CaptureOperation::FindFiles => "find the files of",
            CaptureOperation::Store(_) => "store",
        })
    }
}

/// An object that could not be read, or not completely.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} {}: {}", OsStr::from_bytes(.path).display(), self.reason())]
pub struct CaptureProblem {
    /// Its path on this machine (not in the snapshot).
    pub path: Vec<u8>,
    /// The operation that failed.
    pub operation: CaptureOperation,
    /// The error of the kernel.
    pub error: Errno,
}

/// What stands for an object of another kind in its place. No call on a file fails so.
pub(crate) const REPLACED: Errno = Errno::REMCHG;

/// What stands for an object that was deleted meanwhile. "No such file" does not: that may be said of what is there.
pub(crate) const VANISHED: Errno = Errno::NOTUNIQ;

impl CaptureProblem {
    /// An object with something that a snapshot cannot hold.
    pub fn cannot_store(path: Vec<u8>, what: &'static str) -> Self {
        CaptureProblem { path, operation: CaptureOperation::Store(what), error: Errno::OVERFLOW }
    }

    /// A named directory that had files, in which nothing is mounted any more.
    pub fn not_mounted(path: Vec<u8>) -> Self {
        CaptureProblem { path, operation: CaptureOperation::FindFiles, error: Errno::NODATA }
    }

    /// Why it failed, in words.
    pub fn reason(&self) -> String {
        match self.operation {
            CaptureOperation::Store(what) => format!("{what} exceeds what a snapshot can hold"),
            CaptureOperation::FindFiles => {
                "it is empty, and on another file system than in the last backup; is it mounted?"
                    .to_owned()
            }
            _ if self.error == REPLACED => {
                "something of another kind took its place during the backup".to_owned()
            }
            _ if self.error == VANISHED => "it was deleted during the backup".to_owned(),
            // Without the number of the error.
            _ => self.error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
        }
    }

    /// Whether the object vanished after its directory was listed. That is normal: it is counted,
    /// not reported.
    pub fn vanished(&self) -> bool {
        self.error == VANISHED
    }

    /// This problem with an object whose last name is `name` and that the walk found in `directory`: it may have been
    /// deleted since.
    #[must_use]
    pub fn told_apart(self, directory: &Arc<Directory>, name: &CStr) -> Self {
        Self { error: gone::told_apart(directory, name, self.error), ..self }
    }
}
