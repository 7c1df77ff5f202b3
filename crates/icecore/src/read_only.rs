//! What helps where a repository lies on a file system that takes no changes.

use crate::failure::quoted;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::path::{Path, PathBuf};

/// How the system says it in a message: EROFS.
const SAID: &str = "(os error 30)";

/// What to do, if `message` is about that, for the place `location`, which need not exist.
pub(crate) fn advice(message: &str, location: &str) -> Option<String> {
    if !message.contains(SAID) {
        return None;
    }
    let mount = quoted(&mount_of(Path::new(location))?.to_string_lossy());
    Some(format!(
        "The file system that is mounted at {mount} is read-only. If nobody mounted it that way, its disk may be failing: see dmesg. Once that is fixed: mount -o remount,rw {mount}. Commands that only read work meanwhile."
    ))
}

/// Where the file system is mounted on which `path` is, or would be.
fn mount_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find_map(|above| above.canonicalize().ok())?;
    let own = mount_id(&there)?;
    let inside = there.ancestors().take_while(|above| mount_id(above) == Some(own));
    inside.last().map(Path::to_owned)
}

/// Its number; another one where something is mounted.
fn mount_id(path: &Path) -> Option<u64> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_for_what_is_there_and_what_is_not() {
        for path in ["/proc/self/status", "/proc", "/proc/none/such"] {
            assert_eq!(mount_of(Path::new(path)), Some("/proc".into()), "{path}");
        }
        assert!(advice("no, Read-only file system (os error 30)", "/proc/x").is_some());
        assert_eq!(advice("Permission denied (os error 13)", "/proc/x"), None);
    }
}
