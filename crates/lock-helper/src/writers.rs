//! Whether somebody has a file open for writing: nothing that becomes root's takes that away again.
#![allow(unsafe_code, reason = "F_SETLEASE has no safe wrapper")]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// Fails if anybody may still write `file`, which is open for reading only. A read lease (`fcntl(2)`) is given while
/// nobody has the file open for writing, and given back at once.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if somebody has; others where a file system gives no leases: then nobody knows.
pub(crate) fn nobody_writes(file: BorrowedFd<'_>) -> io::Result<()> {
    set_lease(file, libc::F_RDLCK)?;
    set_lease(file, libc::F_UNLCK)
}

fn set_lease(file: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers only, and the descriptor is borrowed for the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::{File, OpenOptions};
    use std::time::Duration;

    const PAUSE: Duration = Duration::from_millis(50);

    #[test]
    fn a_writer_is_seen_and_readers_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        let (reader, _other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let seen = nobody_writes(reader.as_fd()).unwrap_err();
        assert_eq!(seen.kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        // A process that another test starts just now has it open until it executes its program.
        let is_free = || nobody_writes(reader.as_fd()).is_ok();
        assert!((0..100).any(|_| is_free() || {
            std::thread::sleep(PAUSE);
            false
        }));
        let _again = OpenOptions::new().append(true).open(&path).unwrap();
        assert!(nobody_writes(reader.as_fd()).is_err(), "the lease did not stay");
    }
}
