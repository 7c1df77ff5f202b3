//! What is in the way of a file that comes back gets another name beside it: nothing is removed.

use crate::{Error, Result, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Gid, Mode, RenameFlags, Uid};
use rustix::io::Errno;
use std::path::Path;
use std::time::SystemTime;

/// What the name of something that was in the way ends in.
const REPLACED: &str = "replaced";
/// Names that are numbers. Whoever made them all beforehand does not know the time at which we come.
const NUMBERED_MAX: u128 = 100;
const TIMED_MAX: u128 = 10;
/// What the owner of a directory needs there.
const OWNER_ALL: u32 = 0o700;

/// Gives what is called `name` another name.
pub(crate) fn set(directory: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos()).max(NUMBERED_MAX);
    for number in (1..=NUMBERED_MAX).chain(now + 1..=now + TIMED_MAX) {
        let aside = format!("{name}.{REPLACED}-{number}");
        match fs::renameat_with(directory, name, directory, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
    Err(Errno::EXIST)
}

/// Opens the directory `parts` below `root`, which `owner` can use afterwards; what is no directory is set aside. And
/// how many that were.
pub(crate) fn directory(
    (root, path): (&OwnedFd, &Path),
    parts: &[&str],
    owner: (Uid, Gid),
) -> Result<(OwnedFd, u64)> {
    let mut path = path.to_owned();
    let mut at = tree::make(root, &[], |_| Ok(())).map_err(Error::file("open", &path))?;
    let mut replaced = 0;
    make_usable(&at, owner).map_err(Error::file("change", &path))?;
    for part in parts {
        path.push(part);
        if is_in_the_way(&at, part) {
            set(&at, part).map_err(Error::file("give another name to", &path))?;
            replaced += 1;
        }
        at = tree::make(&at, &[part], |_| Ok(())).map_err(Error::file("make", &path))?;
        make_usable(&at, owner).map_err(Error::file("change", &path))?;
    }
    Ok((at, replaced))
}

fn is_in_the_way(directory: &OwnedFd, name: &str) -> bool {
    let status = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_directory = |mode| fs::FileType::from_raw_mode(mode) == fs::FileType::Directory;
    status.is_ok_and(|status| !is_directory(status.st_mode))
}

fn make_usable(directory: &OwnedFd, (uid, gid): (Uid, Gid)) -> rustix::io::Result<()> {
    let status = fs::fstat(directory)?;
    if status.st_uid != uid.as_raw() {
        fs::fchown(directory, Some(uid), Some(gid))?;
    }
    if status.st_mode & OWNER_ALL != OWNER_ALL {
        fs::fchmod(directory, Mode::from_raw_mode(status.st_mode | OWNER_ALL))?;
    }
    Ok(())
}
