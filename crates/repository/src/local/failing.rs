//! The directory of a storage, and whether all of its file system fails or only what was asked for.

use super::aligned::{ALIGNMENT, AlignedBuffer};
use crate::storage::StorageError;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Both copies of what each repository has.
const ALWAYS_THERE: [&str; 2] = ["config", "config.copy"];

/// An open directory.
pub(super) struct Root {
    pub(super) handle: OwnedFd,
    pub(super) path: PathBuf,
}

impl Root {
    /// The error of `operation` on `name`. A block that the disk cannot read is damage. Where nothing can be read any
    /// more, nobody knows what is damaged.
    pub(super) fn error(&self, operation: &'static str, name: &str, error: Errno) -> StorageError {
        let fails = |name: &str| self.read(name) == Err(Errno::IO);
        match error == Errno::IO && ALWAYS_THERE.iter().all(|name| fails(name)) {
            true => failed(&self.path),
            false => StorageError::new(operation, name, error),
        }
    }

    /// Reads the beginning of `name` from the disk, past the page cache where the file system can do that.
    fn read(&self, name: &str) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = |flags| fs::openat(&self.handle, name, flags, Mode::empty());
        let file = match open(flags | OFlags::DIRECT) {
            Err(Errno::INVAL) => open(flags),
            file => file,
        }?;
        let mut buffer = AlignedBuffer::new(ALIGNMENT);
        rustix::io::pread(&file, buffer.room(), 0).map(drop)
    }
}

/// Of the kind that is no damage.
fn failed(path: &Path) -> StorageError {
    let why = "nothing can be read from it any more: its disk or its file system has failed (see: dmesg); mount it again, then try again";
    StorageError::new("use", &path.to_string_lossy(), Error::new(ErrorKind::NotConnected, why))
}
