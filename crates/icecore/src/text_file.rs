//! Files that people write: small, and read as a whole.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The text of the file at `path`, which nobody named: a device or a pipe in its place is refused, so it is not waited
/// for.
///
/// # Errors
/// Those of the kernel; [`ErrorKind::InvalidData`] for more than `bytes_max`, or what is not text.
pub(crate) fn found(path: &Path, bytes_max: u64) -> Result<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        // A socket has nothing to be opened.
        let is_socket = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
        if is_socket { not_a_regular_file() } else { error }
    })?;
    if !file.metadata()?.is_file() {
        return Err(not_a_regular_file());
    }
    limited(file, bytes_max)
}

/// The text of a file, or of a pipe, that somebody named.
///
/// # Errors
/// As [`found`].
pub(crate) fn named(path: &Path, bytes_max: u64) -> Result<String> {
    limited(File::open(path)?, bytes_max)
}

fn limited(file: File, bytes_max: u64) -> Result<String> {
    let mut bytes = Vec::new();
    let length = file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if length as u64 > bytes_max {
        return Err(wrong(format!("it has more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.utf8_error().valid_up_to();
        let lines = error.as_bytes().iter().take(before).filter(|byte| **byte == b'\n').count();
        wrong(format!("it is not text: line {} is not UTF-8", lines + 1))
    })
}

fn not_a_regular_file() -> Error {
    wrong("it is not a regular file".to_owned())
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, "12345678").unwrap();
        assert_eq!(found(&file, 8).unwrap(), "12345678");
        assert!(found(&file, 7).unwrap_err().to_string().contains("more than 7"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            assert!(found(path, 8).unwrap_err().to_string().contains("not a regular file"));
        }
        assert!(named(Path::new("/dev/zero"), 8).is_err());
        assert_eq!(found(&folder.path().join("none"), 8).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
