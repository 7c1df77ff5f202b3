//! How much room a disk has.

use std::path::Path;

/// Free and all bytes of the file system of `path`, as who is not root may use them.
pub(crate) fn room(path: &Path) -> [Option<u64>; 2] {
    let Ok(found) = rustix::fs::statvfs(path) else { return [None, None] };
    let bytes = |blocks: u64| Some(blocks.saturating_mul(found.f_frsize));
    [bytes(found.f_bavail), bytes(found.f_blocks)]
}
