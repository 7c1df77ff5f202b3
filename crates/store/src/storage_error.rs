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
        write!(f, "cannot {} {}: ", self.operation, self.name)?;
        match in_its_place(&self.source) {
            Some(what) => write!(f, "{what} is in its place"),
            None => self.source.fmt(f),
        }
    }
}

/// What is no file, where the system says so only in its own way ("Illegal seek").
fn in_its_place(reason: &io::Error) -> Option<&'static str> {
    use rustix::io::Errno;
    match Errno::from_io_error(reason)? {
        Errno::SPIPE => Some("a pipe"),
        Errno::ISDIR => Some("a directory"),
        Errno::LOOP => Some("a link"),
        _ => None,
    }
}

/// The reason of the system where an object lies in a storage class from which it has to be brought back before anybody
/// can read it: a reason of its own, for nothing is lost, and nobody was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The class, as the storage calls it; empty if it did not say.
    pub class: String,
}

impl fmt::Display for Archived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.class.is_empty() { "an archive" } else { &self.class };
        write!(f, "it is archived ({class}) and has to be brought back before it can be read")
    }
}

impl std::error::Error for Archived {}

impl From<Archived> for io::Error {
    /// Whoever reads it would wait: like a storage that does not answer, it says nothing about the data.
    fn from(archived: Archived) -> Self {
        Self::new(io::ErrorKind::WouldBlock, archived)
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
        let source = match (self.source.raw_os_error(), self.archived()) {
            (Some(code), _) => io::Error::from_raw_os_error(code),
            (None, Some(archived)) => archived.clone().into(),
            (None, None) => io::Error::new(self.source.kind(), self.source.to_string()),
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

    /// Whether the storage has the file and does not give its bytes: a bad sector, a checksum of the file system that
    /// does not match, something in its place that is no file. It is damaged, as one with other bytes is.
    pub fn is_unreadable(&self) -> bool {
        use rustix::io::Errno;
        const REFUSED: [Errno; 9] = [
            Errno::IO,
            Errno::UCLEAN,
            Errno::BADMSG,
            Errno::NODATA,
            Errno::ILSEQ,
            Errno::ISDIR,
            Errno::LOOP,
            Errno::NXIO,
            Errno::SPIPE,
        ];
        Errno::from_io_error(&self.source).is_some_and(|errno| REFUSED.contains(&errno))
    }

    /// In which class it lies, if that is why it cannot be read.
    pub fn archived(&self) -> Option<&Archived> {
        self.source.get_ref()?.downcast_ref()
    }

    /// Whether it has to be brought back before it can be read. It is [`StorageError::is_unreachable`], too.
    pub fn is_archived(&self) -> bool {
        self.archived().is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_does_not_give_is_told_from_what_nobody_may_read_or_reach() {
        use rustix::io::Errno;
        let told = |code: Errno| {
            let error = StorageError::new("read", "lease", code);
            (
                error.is_unreadable(),
                error.is_unreachable() || error.is_full() || error.is_not_found(),
            )
        };
        for code in [
            Errno::IO,
            Errno::UCLEAN,
            Errno::BADMSG,
            Errno::NODATA,
            Errno::ISDIR,
            Errno::LOOP,
            Errno::NXIO,
            Errno::SPIPE,
        ] {
            assert_eq!(told(code), (true, false), "{code}");
        }
        for code in
            [Errno::ACCESS, Errno::TIMEDOUT, Errno::STALE, Errno::MFILE, Errno::NOSPC, Errno::NOENT]
        {
            assert_eq!(told(code), (false, true), "{code}");
        }
        let of_a_bucket = StorageError::new("read", "lease", io::Error::other("it said 418"));
        assert!(!of_a_bucket.is_unreadable());
    }

    #[test]
    fn what_is_archived_is_neither_damaged_nor_refused_whoever_is_told() {
        let archived = Archived { class: "DEEP_ARCHIVE".into() };
        let error = StorageError::new("read", "containers/1", archived);
        for error in [error.again(), error] {
            assert!(error.is_archived() && error.is_unreachable() && !error.is_not_found());
            assert!(!error.is_full() && error.to_string().contains("(DEEP_ARCHIVE)"), "{error}");
            let error = crate::Error::from(error);
            assert!(error.is_archived() && !error.is_damage());
        }
        let busy = StorageError::new("read", "containers/1", io::ErrorKind::WouldBlock);
        assert!(!busy.is_archived());
    }
}
