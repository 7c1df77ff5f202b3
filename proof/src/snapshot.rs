//! Snapshots that were acknowledged: whether they are there, and restore as they were.

use crate::icecore::Icecore;
use crate::{failed, tree};
use std::path::Path;

/// Restores the snapshot `id` to `target`, compares it with the tree that it was made of, and
/// removes `target`.
pub(crate) fn restores_as_it_was(
    icecore: &Icecore,
    id: &str,
    was: &tree::Copy,
    target: &Path,
) -> Result<(), String> {
    std::fs::create_dir_all(target).map_err(failed("make the target"))?;
    icecore.restore(id, target)?;
    let root =
        tree::find_root(target).ok_or(format!("snapshot {id} restored without its top folder"))?;
    let found = tree::copy(&root).map_err(failed("read what was restored"))?;
    let differences = tree::differences(was, &found);
    if !differences.is_empty() {
        return Err(format!(
            "snapshot {id} is not restored as it was:\n{}",
            differences.join("\n")
        ));
    }
    std::fs::remove_dir_all(target).map_err(failed("remove what was restored"))
}

/// Whether two spellings of an id, one perhaps shortened, are the same.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
