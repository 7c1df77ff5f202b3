//! Disk space.

use std::path::Path;

/// Free bytes and size of the file system of `path`, as usable without root.
pub(crate) fn room(path: &Path) -> [Option<u64>; 2] {
    let Ok(found) = rustix::fs::statvfs(path) else { return [None, None] };
    let bytes = |blocks: u64| Some(blocks.saturating_mul(found.f_frsize));
    [bytes(found.f_bavail), bytes(found.f_blocks)]
}
