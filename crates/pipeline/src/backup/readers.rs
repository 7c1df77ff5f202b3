//! The number of reading threads: more for solid-state disks and networks, fewer for spinning
//! disks.

use super::options::BackupOptions;
use rustix::fs::{major, minor, stat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// For solid-state disks, networks and unknown devices: concurrent reads hide the latency.
const READERS: usize = 6;
/// For a spinning disk: more readers only cause more seeks.
const READERS_OF_SPINNING: usize = 2;

/// The number of threads for the sources of `options`.
pub(super) fn count(options: &BackupOptions) -> usize {
    if options.threads > 0 {
        return options.threads;
    }
    let spins = options.roots.iter().any(|root| spins(Path::new(OsStr::from_bytes(&root.source))));
    if spins { READERS_OF_SPINNING } else { READERS }
}

/// Whether `path` is on a spinning disk. Virtual disks always claim to be one.
fn spins(path: &Path) -> bool {
    let Ok(status) = stat(path) else { return false };
    let device = format!("/sys/dev/block/{}:{}", major(status.st_dev), minor(status.st_dev));
    let Ok(place) = std::fs::canonicalize(&device) else { return false };
    if place.to_string_lossy().contains("/virtio") {
        return false;
    }
    // A partition has its queue in the directory above.
    let queues = ["queue/rotational", "../queue/rotational"];
    queues.iter().any(|queue| {
        std::fs::read_to_string(Path::new(&device).join(queue)).is_ok_and(|text| text.trim() == "1")
    })
}
