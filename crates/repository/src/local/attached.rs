//! Whether the directory of a storage is still where it was opened. When its file system was unmounted meanwhile, the
//! path leads to what lies below the mount point. An open handle goes on to reach the file system, which nobody sees
//! any more: what would be acknowledged could not be found.

use crate::storage::{StorageError, StorageResult};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, CWD, Statx, StatxFlags};
use rustix::io::Errno;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The kind of FUSE (`statfs(2)`), whose inode numbers may change while nobody has the object open.
const FUSE: u32 = 0x6573_5546;

/// Which directory it is: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: (u32, u32),
    inode: u64,
    is_inode_stable: bool,
}

impl Identity {
    /// The directory behind `handle`, on a file system of `kind`; `None` when it cannot be asked.
    pub(super) fn of(handle: &OwnedFd, kind: u32) -> Option<Self> {
        let found = fs::statx(handle, c"", AtFlags::EMPTY_PATH, StatxFlags::INO).ok()?;
        Some(Self { is_inode_stable: kind != FUSE, ..Self::from(&found) })
    }

    /// Fails if `path` leads to another directory, or to none. An error of any other kind says nothing here: the
    /// operation itself will meet it.
    pub(super) fn verify(&self, path: &Path) -> StorageResult<()> {
        let is_here = match fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO) {
            Ok(found) => self.is_same(Self::from(&found)),
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(_) => true,
        };
        if is_here { Ok(()) } else { Err(not_mounted(path)) }
    }

    fn is_same(&self, other: Self) -> bool {
        self.device == other.device && (!self.is_inode_stable || self.inode == other.inode)
    }
}

impl From<&Statx> for Identity {
    fn from(found: &Statx) -> Self {
        let device = (found.stx_dev_major, found.stx_dev_minor);
        Self { device, inode: found.stx_ino, is_inode_stable: true }
    }
}

/// Of the kind that is no damage: the data is elsewhere.
fn not_mounted(path: &Path) -> StorageError {
    let why = "it is no longer mounted there; mount its file system (see: findmnt, /etc/fstab), then try again";
    StorageError::new("use", &path.to_string_lossy(), Error::new(ErrorKind::NotConnected, why))
}

#[cfg(test)]
mod tests {
    use super::super::LocalStorage;
    use crate::storage::Storage;
    use std::fs;

    /// As when its file system is unmounted: the path leads to another directory, or to none.
    #[test]
    fn nothing_is_made_visible_in_a_directory_that_is_no_longer_at_its_path() {
        let place = tempfile::tempdir().unwrap();
        let (path, moved) = (place.path().join("pool"), place.path().join("moved"));
        fs::create_dir(&path).unwrap();
        let storage = LocalStorage::open(&path).unwrap();
        let mut file = storage.create("a.part").unwrap();
        file.sync().unwrap();
        fs::rename(&path, &moved).unwrap();
        for is_below in [false, true] {
            if is_below {
                fs::create_dir(&path).unwrap();
            }
            let errors = [
                storage.create("b").err().unwrap(),
                storage.publish("a.part", "a").unwrap_err(),
                storage.replace("a.part", "a").unwrap_err(),
                storage.put("c", b"c").unwrap_err(),
                storage.verify_attached().unwrap_err(),
            ];
            for error in errors {
                assert!(error.is_unreachable() && !error.is_not_found(), "{error}");
                assert!(error.to_string().contains("no longer mounted"), "{error}");
            }
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing lies below the mount point");
        fs::remove_dir(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
        storage.publish("a.part", "a").unwrap();
        assert_eq!(storage.list(".").unwrap(), ["a"], "mounted again, it goes on");
    }
}
