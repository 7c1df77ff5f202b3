//! Where a repository can be: in a directory or a bucket. What looks like another URL is refused, and no directory of
//! that name is made.

use crate::failure::{Failure, Result, quoted};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Letters of the shortest scheme: a single one is hardly an address.
const SCHEME_MIN: usize = 2;

/// Fails when `location` reads as an address of something that is not supported: `s3:bucket`,
/// `sftp://host/dir`, `host:/dir`.
pub(crate) fn refuse_addresses(location: &Path) -> Result<()> {
    let bytes = location.as_os_str().as_bytes();
    if !is_address(bytes) || bytes.starts_with(b"s3://") {
        return Ok(());
    }
    let shown = location.display().to_string();
    let failure = Failure::usage(format!(
        "'{shown}' looks like a URL, but a repository is a directory, in a bucket (s3://BUCKET/PREFIX) or on an Icecore server: SFTP and HTTP are not supported yet"
    ));
    Err(failure.hint(format!(
        "Mount it and give the directory. If it is the name of a directory: --repo {}",
        quoted(&format!("./{shown}"))
    )))
}

/// `scheme:` in front, or `://` anywhere.
fn is_address(location: &[u8]) -> bool {
    let first = location.split(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(end) = first.iter().position(|byte| *byte == b':') else { return false };
    let scheme = &first[..end];
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-_@".contains(byte);
    scheme.len() >= SCHEME_MIN && scheme[0] != b'.' && scheme.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_as_an_address_is_no_directory() {
        let refused = [
            "s3:foo/bar",
            "s3:https://s3.example.org/bucket",
            "sftp:me@host:/dir",
            "sftp://host/dir",
            "https://host/dir",
            "rest:http://host:8000/",
            "rclone:remote:dir",
            "b2:bucket",
            "host:/dir",
            "me@host:dir",
            "file:///mnt/x",
        ];
        refused.iter().for_each(|location| {
            assert!(refuse_addresses(Path::new(location)).is_err(), "{location}");
        });
        let taken = [
            "s3://bucket/prefix",
            "/mnt/backup",
            "backup",
            "./s3:foo",
            "/mnt/a:b",
            "dir/a:b",
            "../x:y",
            "C:",
            "a b:c",
        ];
        taken.iter().for_each(|location| {
            assert!(refuse_addresses(Path::new(location)).is_ok(), "{location}");
        });
    }
}
