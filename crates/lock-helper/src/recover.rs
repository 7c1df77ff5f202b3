//! After the server's names were removed or replaced: what is kept gets its names back.
//!
//! Under one name several files may be kept: what a repair replaced, what was written anew, and what somebody put there
//! who took the server over. Nobody but the administrator knows which is which, so all of them come back, the one that
//! came first under its own name.

use crate::entry::Kept;
use crate::tree::Visited;
use crate::{Error, Pool, Result, aside, tree};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the names of further files of one name end in, with their number.
const VERSION: &str = "kept";

/// What was recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were in their places.
    pub present: u64,
    /// Files that got their names back.
    pub recovered: u64,
    /// Files and directories of others that were in their places, and have another name now.
    pub replaced: u64,
    /// Names under which several files are kept.
    pub versions: Vec<Versions>,
    /// What could not be recovered, and why.
    pub problems: Vec<String>,
}

/// The files that are kept under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The name.
    pub path: PathBuf,
    /// When each came, in seconds since 1970; 0 if nobody knows. Number N is called `PATH.kept-N`, from 1 on.
    pub since_secs: Vec<i64>,
    /// The number of the one that is in its place.
    pub in_place: usize,
}

impl Recovered {
    /// Whether nothing is kept.
    pub fn is_nothing(&self) -> bool {
        self.present + self.recovered == 0 && self.problems.is_empty()
    }
}

impl Pool {
    /// Gives each file that is kept its name back. What was put in its place gets another name beside it. Of several
    /// files of one name the first one comes into its place, or the last one that came before `before_secs`; the others
    /// beside it. What fails costs nothing else. Nobody should use the pool meanwhile.
    ///
    /// # Errors
    /// Those of the system, about the helper's directory; it can be repeated.
    pub fn recover(&self, before_secs: Option<i64>) -> Result<Recovered> {
        // Under the name of a directory of the pool it would be in the way of that.
        self.is_in_place()?;
        let mut recovered = Recovered::default();
        tree::walk((&self.kept, &self.place()), &mut |visited| {
            if let Err(error) = self.recover_in_one(&visited, before_secs, &mut recovered) {
                recovered.problems.push(error.to_string());
            }
            Ok(())
        })?;
        if let Err(error) = self.is_in_place() {
            recovered.problems.push(error.to_string()); // somebody renamed it meanwhile
        }
        Ok(recovered)
    }

    /// The files of one directory.
    fn recover_in_one(
        &self,
        visited: &Visited<'_>,
        before_secs: Option<i64>,
        recovered: &mut Recovered,
    ) -> Result<()> {
        if visited.entries.is_empty() {
            return Ok(());
        }
        let parts: Vec<_> = visited.path.split('/').filter(|part| !part.is_empty()).collect();
        let (target, replaced) = self.target(&parts)?;
        recovered.replaced += replaced;
        let at = self.path.join(visited.path);
        for (file, versions) in by_file(&visited.entries) {
            let one = OneName { kept: visited.directory, target: &target, file, versions };
            let done = one.recover(before_secs, recovered);
            match done.map_err(Error::file("recover", at.join(file))) {
                Ok(Some((in_place, since_secs))) => {
                    let path = at.join(file);
                    recovered.versions.push(Versions { path, since_secs, in_place });
                }
                Ok(None) => {}
                Err(error) => recovered.problems.push(error.to_string()),
            }
        }
        fs::fsync(&target).map_err(Error::file("sync", &at))
    }
}

/// Those of each name, in the order in which they came. Of files whose time nobody knows the kernel's stamps say it, as
/// far as those go.
fn by_file(entries: &[Kept]) -> BTreeMap<&str, Vec<&Kept>> {
    let mut by_file: BTreeMap<&str, Vec<&Kept>> = BTreeMap::new();
    for kept in entries {
        by_file.entry(&kept.entry.file).or_default().push(kept);
    }
    for versions in by_file.values_mut() {
        let stamps = |status: &Stat| (status.st_ctime, status.st_ctime_nsec);
        versions.sort_by_key(|kept| (kept.entry.since_secs, stamps(&kept.status)));
    }
    by_file
}

/// What is kept under one name, and where it comes back.
struct OneName<'a> {
    kept: &'a OwnedFd,
    target: &'a OwnedFd,
    file: &'a str,
    versions: Vec<&'a Kept>,
}

impl OneName<'_> {
    /// If there are several: the number of the one in its place, and when each came.
    fn recover(
        &self,
        before_secs: Option<i64>,
        recovered: &mut Recovered,
    ) -> rustix::io::Result<Option<(usize, Vec<i64>)>> {
        let chosen = self.chosen(before_secs);
        for (at, version) in self.versions.iter().enumerate() {
            let aside = format!("{}.{VERSION}-{}", self.file, at + 1);
            if at != chosen {
                self.put(&aside, version, &mut recovered.replaced)?;
                continue;
            }
            match self.put(self.file, version, &mut recovered.replaced)? {
                true => recovered.present += 1,
                false => recovered.recovered += 1,
            }
            self.remove_second_name(&aside, version)?;
        }
        let since_secs: Vec<_> = self.versions.iter().map(|it| it.entry.since_secs).collect();
        Ok((since_secs.len() > 1).then_some((chosen + 1, since_secs)))
    }

    /// Which of the versions comes into its place.
    fn chosen(&self, before_secs: Option<i64>) -> usize {
        let is_before = |it: &&Kept| before_secs.is_some_and(|end| it.entry.since_secs < end);
        self.versions.iter().rposition(is_before).unwrap_or(0)
    }

    /// Gives `version` this name. Whether it had it.
    fn put(&self, name: &str, version: &Kept, replaced: &mut u64) -> rustix::io::Result<bool> {
        match fs::statat(self.target, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if is_same(&there, version) => return Ok(true),
            // It has other names, where it is kept and soon beside this one.
            Ok(there) if self.versions.iter().any(|other| is_same(&there, other)) => {
                fs::unlinkat(self.target, name, AtFlags::empty())?;
            }
            Ok(_) => {
                aside::set(self.target, name)?;
                *replaced += 1;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        fs::linkat(self.kept, version.entry.name(), self.target, name, AtFlags::empty())?;
        Ok(false)
    }

    /// It was beside its place, and is in it now.
    fn remove_second_name(&self, name: &str, version: &Kept) -> rustix::io::Result<()> {
        let there = fs::statat(self.target, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| is_same(&there, version)) {
            fs::unlinkat(self.target, name, AtFlags::empty())?;
        }
        Ok(())
    }
}

fn is_same(there: &Stat, version: &Kept) -> bool {
    (there.st_dev, there.st_ino) == (version.status.st_dev, version.status.st_ino)
}
