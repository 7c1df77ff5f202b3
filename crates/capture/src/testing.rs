//! Helpers of the tests.

use std::path::Path;

/// Removes a tree that is too deep for `remove_dir_all`, which calls itself.
pub(crate) fn remove_deep(folder: &Path) {
    let _ = std::process::Command::new("rm").arg("-rf").arg(folder).status();
}
