//! Errors of operations on a storage or a server.

use std::fmt;
use std::io;

/// An operation on a file or a server failed: which one, on what, and the reason of the system.
#[derive(Debug)]
pub struct StorageError {
    /// The operation: "open", "sync", "reach".
    pub operation: &'static str,
    /// Name of the file in the storage, or of the server.
    pub name: String,
    /// The system's reason.
    pub source: io::Error,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.name, self.source)
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl StorageError {
    /// An error of `operation` on `name`.
    pub fn new(operation: &'static str, name: &str, source: impl Into<io::Error>) -> Self {
        Self { operation, name: name.to_owned(), source: source.into() }
    }

    /// The same for somebody else who has to be told.
    #[must_use]
    pub fn again(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self::new(self.operation, &self.name, source)
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether a file of that name exists already.
    pub fn already_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether the storage could not be reached or used: a network error, a lack of permission, too many open files.
    /// The error says nothing about the data.
    pub fn is_unreachable(&self) -> bool {
        use io::ErrorKind::{Interrupted, OutOfMemory, PermissionDenied, WouldBlock};
        let errno = rustix::io::Errno::from_io_error(&self.source);
        let too_many_files = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
        errno.is_some_and(|errno| too_many_files.contains(&errno))
            || matches!(
                self.source.kind(),
                PermissionDenied | OutOfMemory | Interrupted | WouldBlock
            )
            || is_connection_error(self.source.kind())
    }

    /// Whether the storage is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self.source.kind(), StorageFull | QuotaExceeded)
    }
}

/// Whether errors of this kind say that a connection failed or a network storage does not answer.
pub fn is_connection_error(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::*;
    matches!(
        kind,
        StaleNetworkFileHandle
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
            | NotConnected
            | TimedOut
            | ConnectionRefused
            | ConnectionReset
            | ConnectionAborted
            | BrokenPipe
    )
}
