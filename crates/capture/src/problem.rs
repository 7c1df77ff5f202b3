//! What went wrong with one object. Problems are data: they never cost the neighbours.

use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What was attempted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureOperation {
    /// Asking for the attributes of an object.
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
    /// Keeping it, or what the text names of it: beyond the limits of the format.
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
            CaptureOperation::Store(_) => "store",
        })
    }
}

/// One object that could not be taken, or not wholly.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} {}: {}", OsStr::from_bytes(.path).display(), self.reason())]
pub struct CaptureProblem {
    /// Where it is on this machine (not in the snapshot).
    pub path: Vec<u8>,
    /// What was attempted.
    pub operation: CaptureOperation,
    /// What the kernel said.
    pub error: Errno,
}

impl CaptureProblem {
    /// The object has something that no snapshot can hold.
    pub fn cannot_store(path: Vec<u8>, what: &'static str) -> Self {
        CaptureProblem { path, operation: CaptureOperation::Store(what), error: Errno::OVERFLOW }
    }

    fn reason(&self) -> String {
        match self.operation {
            CaptureOperation::Store(what) => format!("{what} is beyond what a snapshot can hold"),
            _ => self.error.to_string(),
        }
    }

    /// The object was there when its directory was listed and is gone now. No fault of anybody:
    /// counted, not complained about.
    pub fn vanished(&self) -> bool {
        matches!(self.error, Errno::NOENT | Errno::STALE)
    }
}
