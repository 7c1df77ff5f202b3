//! The helper's directory under another name. The owner of the pool cannot enter it, remove it or move it to another
//! directory, but can rename it.

use crate::own_directory::is_roots;
use crate::pool::DIRECTORY;
use crate::{Error, Result, aside, clock_file, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Dir, FileType, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::path::Path;

/// Gives the directory for which `is_own` holds its name back. What has that name meanwhile is set aside: root touches
/// nothing that its owner could not rename as well.
pub(crate) fn back(
    root: &OwnedFd,
    path: &Path,
    is_own: impl Fn(&OwnedFd, &Stat) -> bool,
) -> Result<()> {
    let name = named(root, &is_own).map_err(Error::file("list", path))?;
    match name {
        Some(name) if name != DIRECTORY => rename(root, path, &name),
        _ => Ok(()),
    }
}

/// Whether a directory of a pool is that of a helper: root's, with a clock in it. The owner of the pool can make none.
pub(crate) fn is_of_a_helper(directory: &OwnedFd, status: &Stat) -> bool {
    is_roots(status) && fs::statat(directory, clock_file::NAME, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// The name under which it is; its own, if it has that.
pub(crate) fn named(
    root: &OwnedFd,
    is_own: &impl Fn(&OwnedFd, &Stat) -> bool,
) -> rustix::io::Result<Option<String>> {
    if is_there(root, DIRECTORY, is_own) {
        return Ok(Some(DIRECTORY.to_owned()));
    }
    for found in Dir::read_from(root)? {
        let found = found?;
        let Ok(name) = found.file_name().to_str() else { continue };
        if !matches!(name, "." | "..") && is_there(root, name, is_own) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

fn is_there(root: &OwnedFd, name: &str, is_own: &impl Fn(&OwnedFd, &Stat) -> bool) -> bool {
    let Ok(directory) = tree::open(root, name, OFlags::RDONLY | OFlags::DIRECTORY) else {
        return false;
    };
    fs::fstat(&directory).is_ok_and(|status| {
        FileType::from_raw_mode(status.st_mode) == FileType::Directory
            && is_own(&directory, &status)
    })
}

fn rename(root: &OwnedFd, path: &Path, name: &str) -> Result<()> {
    let at = path.join(name);
    let renamed = || fs::renameat_with(root, name, root, DIRECTORY, RenameFlags::NOREPLACE);
    let done = match renamed() {
        Err(Errno::EXIST) => aside::set(root, DIRECTORY).and_then(|()| renamed()),
        done => done,
    };
    done.map_err(Error::file("rename", &at))?;
    tracing::error!(from = %at.display(), "ALARM: somebody renamed the directory of the lock helper; it has its name back");
    fs::fsync(root).map_err(Error::file("sync", path))
}
