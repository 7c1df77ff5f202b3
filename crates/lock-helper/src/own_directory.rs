//! The helper's directory in a pool: made once, root's alone, and never where no pool is.

use crate::pool::DIRECTORY;
use crate::{Error, Result, moved, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::Path;

/// The helper's directory in a pool, which nobody but root may enter.
pub(crate) fn open(root: &OwnedFd, path: &Path) -> Result<OwnedFd> {
    let place = path.join(DIRECTORY);
    moved::back(root, path, moved::is_of_a_helper)?;
    if is_empty(root).map_err(Error::file("list", path))? {
        let why = "it is empty: its file system is not mounted, or no server was started there yet";
        return Err(Error::pool(path, why));
    }
    let is_new = match fs::mkdirat(root, DIRECTORY, Mode::from_raw_mode(0o700)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(Error::file("make", &place)(error)),
    };
    fs::fsync(root).map_err(Error::file("sync", path))?;
    let kept = tree::open(root, DIRECTORY, OFlags::RDONLY | OFlags::DIRECTORY);
    let kept = kept.map_err(Error::file("open", &place))?;
    let status = fs::fstat(&kept).map_err(Error::file("look at", &place))?;
    verify(&status, &place, &place, is_new).inspect_err(|_| {
        if is_new {
            let _ = fs::unlinkat(root, DIRECTORY, AtFlags::REMOVEDIR); // it says the same next time
        }
    })?;
    Ok(kept)
}

/// The helper's directory in a pool under whatever name, if there is one. Nothing is changed.
pub(crate) fn find(root: &OwnedFd, path: &Path) -> Result<Option<OwnedFd>> {
    let name = moved::named(root, &moved::is_of_a_helper).map_err(Error::file("list", path))?;
    let name = name.as_deref().unwrap_or(DIRECTORY);
    let place = path.join(name);
    let kept = match tree::open(root, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT) => return Ok(None),
        kept => kept.map_err(Error::file("open", &place))?,
    };
    let status = fs::fstat(&kept).map_err(Error::file("look at", &place))?;
    verify(&status, &place, &place, false)?;
    Ok(Some(kept))
}

/// Whether the directory `at` of a helper, whose own directory is `place`, is root's alone: as are all below it, or
/// whoever owns one removes what is kept there. What `is_new` is as the file system made it.
pub(crate) fn verify(status: &Stat, at: &Path, place: &Path, is_new: bool) -> Result<()> {
    if is_roots(status) {
        return Ok(());
    }
    if is_new {
        let why = "root made it a moment ago, and it is not root's alone: this file system has no owners, so nothing can be \
                   kept there. Move the pool to one that has, as ext4, XFS, Btrfs or ZFS";
        return Err(Error::pool(at, why));
    }
    let place = place.display();
    let why = format!(
        "it is the lock helper's, and has to belong to root alone, with all in it. Somebody else made it or changed its \
         owner. Look into it; then, as root, remove it, or: chown -R root '{place}' && find '{place}' -type d -exec \
         chmod 700 {{}} +"
    );
    Err(Error::pool(at, why))
}

/// A mount point without its mount: what was kept there would fill the disk below, and be kept of nothing.
fn is_empty(root: &OwnedFd) -> rustix::io::Result<bool> {
    for found in fs::Dir::read_from(root)? {
        if !matches!(found?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nobody but root may enter.
pub(crate) fn is_roots(status: &Stat) -> bool {
    status.st_uid == 0 && status.st_mode & 0o077 == 0
}

/// The time at which the last file that is kept came, by the kernel's stamps, which only root's clock sets. `None` when
/// nothing is kept.
pub(crate) fn proven_secs(kept: &OwnedFd, place: &Path) -> Result<Option<i64>> {
    let mut proven = None;
    tree::walk((kept, place), &mut |visited| {
        let stamps = visited.entries.iter().map(|kept| kept.status.st_ctime);
        proven = proven.max(stamps.max());
        Ok(())
    })?;
    Ok(proven)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a file system without owners a new directory of root is somebody else's.
    #[test]
    fn a_file_system_without_owners_is_called_that() {
        let folder = tempfile::tempdir().unwrap();
        let mut status = fs::stat(folder.path()).unwrap();
        (status.st_uid, status.st_mode) = (7, 0o40_777);
        let why = |is_new| {
            let at = Path::new("/p/.locked");
            verify(&status, at, at, is_new).unwrap_err().to_string()
        };
        assert!(why(true).contains("no owners") && !why(true).contains("chown"));
        assert!(why(false).contains("chown -R root '/p/.locked'"));
    }
}
