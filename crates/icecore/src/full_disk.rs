//! What helps where the file system of a repository is full: of bytes, or of inodes.

use crate::failure::quoted;

/// So few free inodes are refused to new data: they are kept for `forget` and `reclaim`.
const INODES_FEW: u64 = 256;

/// What to do about the file system that holds the repository at `location`.
pub(crate) fn advice(location: &str) -> String {
    let place = quoted(location);
    let first = match free_inodes(location).is_some_and(|free| free < INODES_FEW) {
        true => format!(
            "Hardly an inode is free there, and each file takes one: df -i {place}. Remove other files there, or use a file system with more; a repository has few files, so forget and reclaim free few"
        ),
        false => format!("Make room on the file system that holds the repository: df -h {place}"),
    };
    format!(
        "{first}. Reclaim frees only what forgotten snapshots needed. To see what goes if only the newest snapshot of each source stays: icecore forget --keep-last 1 --dry-run --repo {place}. To do so, leave out --dry-run, and then: icecore reclaim --repo {place}"
    )
}

/// `None` where it cannot be asked, or has no limit.
fn free_inodes(location: &str) -> Option<u64> {
    let found = rustix::fs::statvfs(location).ok()?;
    (found.f_files > 0).then_some(found.f_favail)
}
