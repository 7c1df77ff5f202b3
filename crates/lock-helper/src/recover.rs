//! After the server's names were removed or replaced: what is kept gets its names back.

use crate::entry::{Entry, Kept};
use crate::{Error, Pool, Result, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// What the place of another file is called afterwards.
const REPLACED: &str = "replaced";
/// So many of them in one place.
const REPLACED_MAX: u32 = 1000;

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were in their places.
    pub present: u64,
    /// Files that got their names back.
    pub recovered: u64,
    /// Files of others that were in their places, and have another name now.
    pub replaced: u64,
}

impl Pool {
    /// Gives each file that is kept its name back. A file that was put in its place gets another name beside it. Nobody
    /// should use the pool meanwhile.
    ///
    /// # Errors
    /// Those of the system; it can be repeated.
    pub fn recover(&self) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        let place = self.place();
        tree::walk((&self.kept, &place), &mut |visited| {
            if visited.entries.is_empty() {
                return Ok(());
            }
            let at = self.path.join(visited.path);
            let parts: Vec<_> = visited.path.split('/').filter(|part| !part.is_empty()).collect();
            let (uid, gid) = self.owner;
            let made = |new: &OwnedFd| fs::fchown(new, Some(uid), Some(gid));
            let target = tree::make(&self.root, &parts, made).map_err(Error::file("make", &at))?;
            for (file, entries) in by_file(&visited.entries) {
                let one = self::one(visited.directory, &target, file, &entries, &mut recovered);
                one.map_err(Error::file("recover", at.join(file)))?;
            }
            fs::fsync(&target).map_err(Error::file("sync", &at))
        })?;
        Ok(recovered)
    }
}

fn by_file(entries: &[Kept]) -> BTreeMap<&str, Vec<&Entry>> {
    let mut by_file: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for Kept { entry, .. } in entries {
        by_file.entry(&entry.file).or_default().push(entry);
    }
    by_file
}

/// The file of one name, of which several may be kept: what a repair replaced, too. The last one to be written counts.
fn one(
    kept: &OwnedFd,
    target: &OwnedFd,
    file: &str,
    entries: &[&Entry],
    recovered: &mut Recovered,
) -> rustix::io::Result<()> {
    match fs::statat(target, file, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if entries.iter().any(|entry| entry.inode == there.st_ino) => {
            recovered.present += 1;
            return Ok(());
        }
        Ok(_) => {
            set_aside(target, file)?;
            recovered.replaced += 1;
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let mut latest = None;
    for entry in entries {
        let status = fs::statat(kept, entry.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        let written = (status.st_mtime, status.st_mtime_nsec);
        latest = latest.max(Some((written, entry.name())));
    }
    let Some((_, name)) = latest else { return Ok(()) };
    fs::linkat(kept, &name, target, file, AtFlags::empty())?;
    recovered.recovered += 1;
    Ok(())
}

fn set_aside(target: &OwnedFd, file: &str) -> rustix::io::Result<()> {
    for number in 1..=REPLACED_MAX {
        let aside = format!("{file}.{REPLACED}-{number}");
        match fs::renameat_with(target, file, target, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
    Err(Errno::EXIST)
}
