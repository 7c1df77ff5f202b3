//! Whether what is found under a name is listed under this name.
//!
//! Where a file system takes different spellings for one name (`README` and `readme`), an object that is found may
//! belong to another entry. Few file systems say that they do so: most that are mounted through FUSE have one type,
//! whatever they are. So everywhere but on the usual file systems of Linux the list of the directory decides.

use crate::flags;
use crate::names;
use crate::problem::{RestoreOperation, RestoreProblem};
use crate::snapshot_names::SnapshotNames;
use crate::system::{self, DIRECTORY};
use crate::target::Target;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

const PROBE: OFlags =
    OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is known of spellings.
#[derive(Default)]
pub(crate) struct Spelling {
    /// The directory that was asked last whether it folds names, for existing files that may stay.
    asked: Mutex<Option<(Vec<u8>, bool)>>,
    /// The directory that was listed last, and its names.
    listed: Mutex<Option<(Vec<u8>, SnapshotNames)>>,
    /// File systems that list names otherwise than they were given, with the kind of these names.
    respelling: Mutex<FxHashSet<(u64, bool)>>,
}

impl Target {
    /// Whether the object that a directory has at the end of `path` is listed under another name, so that it is that
    /// of another entry. Costs four calls for each directory.
    pub(crate) fn is_of_another(&self, directory: BorrowedFd<'_>, path: &[u8]) -> bool {
        let Ok((parent, name)) = names::split(path, RestoreOperation::Inspect) else { return true };
        let mut asked = self.0.spelling.asked.lock();
        let folds = match &*asked {
            Some((known, folds)) if known == parent => *folds,
            _ => {
                let folds =
                    readable(directory).map_or(true, |open| flags::folds_names(open.as_fd()));
                *asked = Some((parent.to_vec(), folds));
                folds
            }
        };
        drop(asked);
        // Of what cannot be listed nothing is believed.
        folds && !self.is_spelled_so(directory, path, name).unwrap_or(false)
    }

    /// Whether a directory that may fold names lists `name`, or lists no name as it was spelled. `path` is that of an
    /// object in the directory.
    pub(crate) fn is_spelled_so(
        &self,
        directory: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
    ) -> Result<bool, RestoreProblem> {
        let problem = |error| RestoreProblem::new(path, RestoreOperation::Inspect, error);
        let (parent, _) = names::split(path, RestoreOperation::Inspect)?;
        let mut listed = self.0.spelling.listed.lock();
        let lists = |known: &(Vec<u8>, SnapshotNames)| known.0 == parent && known.1.contains(name);
        if listed.as_ref().is_some_and(lists) {
            return Ok(true);
        }
        let known = (parent.to_vec(), list(directory).map_err(problem)?);
        let is_listed = lists(&known);
        *listed = Some(known);
        drop(listed);
        Ok(is_listed || self.respells(directory, name))
    }

    /// Whether the file system lists a name like this one in another spelling (lowntfs-3g with `ignore_case`), so that
    /// the list says nothing. To find out, an object gets such a name for a moment.
    fn respells(&self, directory: BorrowedFd<'_>, name: &[u8]) -> bool {
        if self.0.options.dry_run {
            return false;
        }
        let Ok(stat) = system::stat_open(directory) else { return false };
        let class = (system::device(&stat), name.is_ascii());
        if self.0.spelling.respelling.lock().contains(&class) {
            return true;
        }
        let probe = self.temporary_name_like(name);
        let respells = is_listed_otherwise(directory, &probe).unwrap_or(false);
        if respells {
            self.0.spelling.respelling.lock().insert(class);
        }
        respells
    }
}

fn is_listed_otherwise(directory: BorrowedFd<'_>, probe: &[u8]) -> Result<bool, Errno> {
    drop(rustix::fs::openat(directory, probe, PROBE, Mode::RUSR | Mode::WUSR)?);
    let found = readable(directory)
        .and_then(|directory| system::list(directory.as_fd(), 1, &|listed| listed != probe));
    rustix::fs::unlinkat(directory, probe, AtFlags::empty())?;
    Ok(found?.is_empty())
}

/// The directory of a handle that may be good for paths only.
fn readable(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())
}

fn list(directory: BorrowedFd<'_>) -> Result<SnapshotNames, Errno> {
    let mut names = SnapshotNames::default();
    for item in Dir::new(readable(directory)?)? {
        names.insert(item?.file_name().to_bytes());
    }
    Ok(names)
}
