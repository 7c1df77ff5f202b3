//! Root at work in the repository of somebody else, who must be able to go on afterwards: what root creates there
//! belongs to the owner of the directory.

use super::{DIRECTORY_MODE, FILE_MODE};
use rustix::fd::OwnedFd;
use rustix::fs::{self, Gid, Mode, OFlags, ResolveFlags, Uid};

const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);

/// To whom root gives what it creates.
#[derive(Clone, Copy)]
pub(super) struct Heir {
    uid: Uid,
    gid: Gid,
}

impl Heir {
    /// The owner of `directory`, if that is somebody else than root, and root is at work.
    pub(super) fn of(directory: &OwnedFd) -> Option<Self> {
        let owner = fs::fstat(directory).ok().filter(|status| status.st_uid != 0)?;
        let heir = Self { uid: Uid::from_raw(owner.st_uid), gid: Gid::from_raw(owner.st_gid) };
        rustix::process::geteuid().is_root().then_some(heir)
    }

    /// Creates the file `name` below `root`.
    pub(super) fn create(self, root: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
        let file = open(root, name, NEW, FILE_MODE)?;
        self.give(&file);
        Ok(file)
    }

    /// Creates the directory `name` below `root`, whose parent is there.
    pub(super) fn create_directory(self, root: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        let (parent, last) = name.rsplit_once('/').unwrap_or((".", name));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let parent = open(root, parent, flags, 0)?;
        fs::mkdirat(&parent, last, Mode::from_raw_mode(DIRECTORY_MODE))?;
        self.give(&open(&parent, last, flags, 0)?);
        Ok(())
    }

    /// Fails where a file system has no owners, or its server lets root change none: then nothing is to be given.
    fn give(self, new: &OwnedFd) {
        let _ = fs::fchown(new, Some(self.uid), Some(self.gid));
    }
}

/// Follows no link: the heir could have put one on the way, and would be given what is in somebody else's directory.
fn open(root: &OwnedFd, name: &str, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    fs::openat2(root, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode), resolve)
}

#[cfg(test)]
mod tests {
    use crate::local::LocalStorage;
    use crate::storage::Storage;
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    use std::path::Path;

    const OWNER: (u32, u32) = (12_345, 54_321);

    fn owner(path: &Path) -> (u32, u32) {
        let status = std::fs::symlink_metadata(path).unwrap();
        (status.uid(), status.gid())
    }

    /// Seen: a reclaim by root left a lease that the server could not open, and no backup worked any more.
    #[test]
    fn what_root_creates_belongs_to_the_owner_of_the_directory() {
        if !rustix::process::geteuid().is_root() {
            return testkit::skip("root in a repository of another user: needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        chown(folder.path(), Some(OWNER.0), Some(OWNER.1)).unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        storage.create_directory("containers/00000000").unwrap();
        storage.create("containers/00000000/1").unwrap();
        storage.put("lease", b"x").unwrap();
        assert!(storage.try_lock("lock").unwrap().is_some());
        assert!(storage.try_lock("lock").unwrap().is_some(), "one that is there");
        for name in ["containers", "containers/00000000", "containers/00000000/1", "lease", "lock"]
        {
            assert_eq!(owner(&at(name)), OWNER, "{name}");
        }
        let roots = tempfile::tempdir().unwrap();
        symlink(roots.path(), at("snapshots")).unwrap();
        assert!(storage.create("snapshots/1").is_err(), "a link to a directory of root");
        assert!(storage.create_directory("snapshots/a").is_err());
        assert_eq!(std::fs::read_dir(roots.path()).unwrap().count(), 0);
    }

    #[test]
    fn in_its_own_directory_nobody_gives_anything_away() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        assert!(storage.heir.is_none());
        storage.put("lease", b"x").unwrap();
        assert_eq!(owner(&folder.path().join("lease")).0, rustix::process::geteuid().as_raw());
    }
}
