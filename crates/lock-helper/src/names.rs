//! Which names a request may have.

use crate::clock_file;
use repository::container;
use repository::snapshots::SnapshotRef;

/// Bytes of a name.
const BYTES_MAX: usize = 1024;
/// Directories above a repository: `domains/NAME` at most, and none where a repository is a file system of its own.
const ABOVE_MAX: usize = 2;

/// The parts of `name`, the last of which is the file. Relative and down only; nothing that begins with a dot, as the
/// helper's own directory does, and nothing with the sign that separates the parts of its entries. Only directories
/// that a pool has, and not the name of the helper's clock: each that is kept is one of the helper's, too.
pub(crate) fn parts(name: &str) -> Option<(Vec<&str>, &str)> {
    let mut parts: Vec<&str> = name.split('/').collect();
    let is_good =
        |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '@']);
    if name.len() > BYTES_MAX || !parts.iter().all(is_good) {
        return None;
    }
    let file = parts.pop()?;
    let is_own = parts.first() == Some(&clock_file::NAME);
    (!is_own && above(&parts).len() <= ABOVE_MAX).then_some((parts, file))
}

/// The directories above the repository in which these directories end.
pub(crate) fn above<'a, 'b>(parts: &'a [&'b str]) -> &'a [&'b str] {
    match parts {
        [above @ .., container::DIRECTORY, _] => above,
        [above @ .., "keys" | SnapshotRef::DIRECTORY] => above,
        all => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_down_and_never_to_the_own_directory() {
        assert_eq!(parts("domains/web/config"), Some((vec!["domains", "web"], "config")));
        assert_eq!(parts("superblock"), Some((vec![], "superblock")));
        for good in ["web/containers/00000000/0.ice", "keys/list", "domains/web/snapshots/a"] {
            assert!(parts(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "a//b",
            "a/",
            "..",
            "a/../b",
            ".locked/a",
            "a/.b",
            "a\0b",
            "a/./b",
            "a@1@2/b",
            "clock/config",
            "a/b/c/d",
            "a/b/c/keys/d",
            "a/b/keys/c/d",
            "a/b/c/containers/d/e",
        ] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
        assert_eq!(parts(&"a".repeat(BYTES_MAX + 1)), None);
    }
}
