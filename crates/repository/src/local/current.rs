//! Files that are replaced, on a network file system whose clients remember names and small files for a while
//! (GlusterFS does so for a second): another machine has replaced the file, and this one still opens and reads the old
//! one.
//!
//! Nothing that only reads helps: the client answers it from its memory. So the file is changed first, into what it is:
//! that has to reach the server, which refuses it for a file that has no name any more, and then the kernel looks for
//! the name again.

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;
use std::time::Duration;

/// Files that get their name once, complete, and are never replaced by others. Of `keys`, the list is.
const WRITTEN_ONCE: [&str; 3] = ["containers/", "snapshots/", "index/run-"];
/// How often the server is asked about a name that leads to a file that is gone.
const ASKED_MAX: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Whether files of this name are replaced.
pub(super) fn is_replaced(name: &str) -> bool {
    !WRITTEN_ONCE.iter().any(|start| name.starts_with(start))
}

/// Makes sure that who opens `name` next gets no file that was replaced before this moment, as far as this process may
/// change the file.
pub(super) fn look(root: &OwnedFd, name: &str) {
    for _ in 0..ASKED_MAX {
        match touch(root, name) {
            Err(Errno::STALE) => std::thread::sleep(PAUSE),
            // Who may not write is told by nobody that it is late, and only reads.
            _ => return,
        }
    }
}

fn touch(root: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    let status = fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !fs::FileType::from_raw_mode(status.st_mode).is_file() {
        return Ok(());
    }
    fs::chmodat(root, name, Mode::from_raw_mode(status.st_mode), AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_gets_its_name_once_is_not_asked_for_again() {
        let replaced = ["lease", "index/state", "config", "io", "superblock", "locks", "keys/list"];
        for name in replaced.into_iter().chain(["keys/list.copy", "receipts"]) {
            assert!(is_replaced(name), "{name}");
        }
        for name in ["containers/00000000/0000000001.ice", "snapshots/1", "index/run-1"] {
            assert!(!is_replaced(name), "{name}");
        }
    }

    #[test]
    fn a_look_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
        let path = folder.path().join("lease");
        for mode in [0o600, 0o640, 0o444] {
            std::fs::write(&path, "some").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            look(&root, "lease");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode);
            std::fs::remove_file(&path).unwrap();
        }
        look(&root, "missing");
        assert!(!folder.path().join("missing").exists());
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert_eq!(touch(&root, "lease"), Ok(()), "a link is not followed");
    }
}
