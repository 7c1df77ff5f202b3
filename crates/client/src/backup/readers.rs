//! How many threads read: many where disks answer many questions at once, few where heads move.

use super::options::BackupOptions;
use rustix::fs::{major, minor, stat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Solid state, network, or unknown: latency is hidden by asking ahead.
const READERS: usize = 6;
/// A disk that seeks: more readers only make it seek more.
const READERS_OF_SPINNING: usize = 2;

/// Threads that read the sources of `options`.
pub(super) fn count(options: &BackupOptions) -> usize {
    if options.threads > 0 {
        return options.threads;
    }
    let spins = options.roots.iter().any(|root| spins(Path::new(OsStr::from_bytes(&root.source))));
    if spins { READERS_OF_SPINNING } else { READERS }
}

/// Whether `path` lies on a disk that says it rotates. Virtual disks say so without knowing.
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
