//! What is in the way of a file that comes back gets another name beside it: nothing is removed, and nothing that was
//! there gets another owner.
//!
//! Whoever owns a pool renames what is in it at any time, the helper's own directory, too. So by a name there root does
//! only what that owner could do as well, and looks at what it opened before it goes on.

use crate::{Error, Pool, Result, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::time::SystemTime;

/// What the name of something that was in the way ends in.
const REPLACED: &str = "replaced";
/// Names that are numbers. Whoever made them all beforehand does not know the time at which we come.
const NUMBERED_MAX: u128 = 100;
const TIMED_MAX: u128 = 10;
/// What the owner of a directory needs there.
const OWNER_ALL: u32 = 0o700;
/// A directory that is made, in the helper's own. No directory of a pool is kept under a name with a dot before it.
const MADE: &str = ".made";

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

impl Pool {
    /// Opens the directory `parts` of the pool, which its owner can use; what is none of his directories is set aside.
    /// And how many that were.
    pub(crate) fn target(&self, parts: &[&str]) -> Result<(OwnedFd, u64)> {
        let mut path = self.path.clone();
        let mut at = tree::again(&self.root).map_err(Error::file("open", &path))?;
        let mut replaced = 0;
        make_usable(&at).map_err(Error::file("change", &path))?;
        for part in parts {
            path.push(part);
            let entered = self.enter(&at, part, &mut replaced);
            at = entered.map_err(Error::file("make", &path))?;
        }
        Ok((at, replaced))
    }

    fn enter(&self, at: &OwnedFd, name: &str, replaced: &mut u64) -> rustix::io::Result<OwnedFd> {
        match tree::open(at, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => return self.make(at, name),
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Ok(there) if self.is_owners(&there)? => {
                make_usable(&there)?;
                return Ok(there);
            }
            Ok(_) => {} // it may be the helper's own
            Err(error) => return Err(error),
        }
        set(at, name)?;
        *replaced += 1;
        self.make(at, name)
    }

    fn is_owners(&self, directory: &OwnedFd) -> rustix::io::Result<bool> {
        Ok(fs::fstat(directory)?.st_uid == self.owner.0.as_raw())
    }

    /// A new directory of the pool's owner. It is made and given away where only root comes: what has its name in the
    /// pool may be another one than root made there a moment ago.
    fn make(&self, at: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
        let nursery = &self.kept;
        let _ = fs::unlinkat(nursery, MADE, AtFlags::REMOVEDIR); // of one that was killed
        fs::mkdirat(nursery, MADE, Mode::from_raw_mode(OWNER_ALL))?;
        let made = tree::open(nursery, MADE, OFlags::RDONLY | OFlags::DIRECTORY)?;
        fs::fchown(&made, Some(self.owner.0), Some(self.owner.1))?;
        fs::renameat_with(nursery, MADE, at, name, RenameFlags::NOREPLACE)?;
        fs::fsync(at)?;
        Ok(made)
    }
}

fn make_usable(directory: &OwnedFd) -> rustix::io::Result<()> {
    let status = fs::fstat(directory)?;
    if status.st_mode & OWNER_ALL != OWNER_ALL {
        fs::fchmod(directory, Mode::from_raw_mode(status.st_mode | OWNER_ALL))?;
    }
    Ok(())
}
