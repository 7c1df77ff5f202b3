//! The helper's directory in a pool: made once, root's alone, and never where no pool is.

use crate::pool::DIRECTORY;
use crate::{Error, Result, moved, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags, Stat};
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
    match fs::mkdirat(root, DIRECTORY, Mode::from_raw_mode(0o700)) {
        Ok(()) => fs::fsync(root).map_err(Error::file("sync", path))?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(Error::file("make", &place)(error)),
    }
    let kept = tree::open(root, DIRECTORY, OFlags::RDONLY | OFlags::DIRECTORY);
    let kept = kept.map_err(Error::file("open", &place))?;
    let status = fs::fstat(&kept).map_err(Error::file("look at", &place))?;
    if !is_roots(&status) {
        let why = "it is the lock helper's, and has to belong to root alone. Somebody else made it: look into it, and \
                   remove it or give it to root (chown root, chmod 700)";
        return Err(Error::pool(&place, why));
    }
    Ok(kept)
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
