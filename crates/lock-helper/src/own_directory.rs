//! The helper's directory in a pool: made once, root's alone, and never where no pool is.

use crate::pool::DIRECTORY;
use crate::{Error, Result, aside, clock_file, moved, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::Path;

/// The helper's directory, in which all directories are root's.
pub(crate) struct Own {
    pub(crate) kept: OwnedFd,
    /// The time at which the last file that is kept came, by the kernel's stamps, which only root's clock sets. `None`
    /// when nothing is kept.
    pub(crate) proven_secs: Option<i64>,
}

impl Own {
    fn of(kept: OwnedFd, place: &Path, is_new: bool) -> Result<Self> {
        let status = fs::fstat(&kept).map_err(Error::file("look at", place))?;
        verify(&status, place, is_new)?;
        let mut proven_secs = None;
        tree::walk((&kept, place), &mut |visited| {
            let stamps = visited.entries.iter().map(|kept| kept.status.st_ctime);
            proven_secs = proven_secs.max(stamps.max());
            Ok(())
        })?;
        Ok(Self { kept, proven_secs })
    }
}

/// The helper's directory in a pool, which nobody but root may enter. One that somebody else may have changed is set
/// aside with all in it, its clock and its names: to make it root's again would be to believe them.
pub(crate) fn open(root: &OwnedFd, path: &Path) -> Result<Own> {
    match open_or_make(root, path) {
        Err(Error::Foreign { path: foreign }) => {
            aside::set(root, DIRECTORY).map_err(Error::file("give another name to", &foreign))?;
            tracing::error!(
                foreign = %foreign.display(),
                "ALARM: the directory of the lock helper was not root's alone; it is set aside, and all locks begin anew"
            );
            open_or_make(root, path)
        }
        opened => opened,
    }
}

fn open_or_make(root: &OwnedFd, path: &Path) -> Result<Own> {
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
    let kept = opened(root, DIRECTORY).map_err(Error::file("open", &place))?;
    let kept = kept.ok_or_else(|| Error::Foreign { path: place.clone() })?;
    let same = tree::again(&kept).map_err(Error::file("open", &place))?;
    Own::of(kept, &place, is_new).inspect_err(|error| {
        if is_new {
            let _ = fs::unlinkat(root, DIRECTORY, AtFlags::REMOVEDIR); // it says the same next time
        } else if matches!(error, Error::Foreign { .. }) {
            // By its clock it would be taken for the helper's, and get its name back.
            let _ = fs::unlinkat(&same, clock_file::NAME, AtFlags::empty());
        }
    })
}

/// The helper's directory in a pool under whatever name, if there is one. Nothing is changed.
pub(crate) fn find(root: &OwnedFd, path: &Path) -> Result<Option<Own>> {
    let name = moved::named(root, &moved::is_of_a_helper).map_err(Error::file("list", path))?;
    let name = name.as_deref().unwrap_or(DIRECTORY);
    let place = path.join(name);
    match opened(root, name) {
        Err(Errno::NOENT) => Ok(None),
        Ok(None) => Err(Error::Foreign { path: place }),
        Ok(Some(kept)) => Own::of(kept, &place, false).map(Some),
        Err(error) => Err(Error::file("open", &place)(error)),
    }
}

/// `None` if it is no directory.
fn opened(root: &OwnedFd, name: &str) -> rustix::io::Result<Option<OwnedFd>> {
    match tree::open(root, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether the directory `at` of a helper is root's alone: as are all below it, or whoever owns one replaces what is
/// kept there. What `is_new` is as the file system made it.
pub(crate) fn verify(status: &Stat, at: &Path, is_new: bool) -> Result<()> {
    if is_roots(status) {
        return Ok(());
    }
    if is_new {
        let why = "root made it a moment ago, and it is not root's alone: this file system has no owners, so nothing can be \
                   kept there. Move the pool to one that has, as ext4, XFS, Btrfs or ZFS";
        return Err(Error::pool(at, why));
    }
    Err(Error::Foreign { path: at.to_owned() })
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

/// Whether nobody but root may change what is in it. Who only looks takes nothing.
pub(crate) fn is_roots(status: &Stat) -> bool {
    status.st_uid == 0 && status.st_mode & 0o022 == 0
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
        let why =
            |is_new| verify(&status, Path::new("/p/.locked"), is_new).unwrap_err().to_string();
        assert!(why(true).contains("no owners") && !why(true).contains("restart"));
        assert!(why(false).contains("restart") && !why(false).contains("chown"));
    }
}
