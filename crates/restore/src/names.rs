//! Names of single objects. Verified here again, whatever the format has verified, because this is
//! the last step before the kernel.

use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use format::entry::is_clean_path;

/// Splits a path into its parent (empty for the root) and its last name.
pub(crate) fn split(
    path: &[u8],
    operation: RestoreOperation,
) -> Result<(&[u8], &[u8]), RestoreProblem> {
    if !is_clean_path(path) {
        return Err(RestoreProblem::new(path, operation, RestoreCause::UnsafePath));
    }
    Ok(match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    })
}

/// The last name; only its bytes are verified, because the parent was verified when it was opened.
pub(crate) fn last(path: &[u8], operation: RestoreOperation) -> Result<&[u8], RestoreProblem> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..];
    if is_clean_path(name) {
        return Ok(name);
    }
    Err(RestoreProblem::new(path, operation, RestoreCause::UnsafePath))
}

/// Verifies that a path is clean, or the root (empty).
pub(crate) fn check_directory(
    path: &[u8],
    operation: RestoreOperation,
) -> Result<(), RestoreProblem> {
    if path.is_empty() || is_clean_path(path) {
        return Ok(());
    }
    Err(RestoreProblem::new(path, operation, RestoreCause::UnsafePath))
}

pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        return name.to_vec();
    }
    [directory, b"/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_do_not_pass() {
        for path in [&b""[..], b"/", b"/a", b"a/..", b"..", b".", b"a\0b", b"a/"] {
            assert!(split(path, RestoreOperation::Create).is_err(), "{path:?}");
            // `/a` ends in a clean name: the parent's path is what refuses it.
            assert!(last(path, RestoreOperation::Create).is_err() || path == b"/a", "{path:?}");
        }
    }

    #[test]
    fn a_path_falls_into_parent_and_name() {
        assert_eq!(split(b"a/b/c", RestoreOperation::Create), Ok((&b"a/b"[..], &b"c"[..])));
        assert_eq!(split(b"c", RestoreOperation::Create), Ok((&b""[..], &b"c"[..])));
        assert_eq!(join(b"", b"c"), b"c");
        assert_eq!(join(b"a", b"c"), b"a/c");
    }
}
