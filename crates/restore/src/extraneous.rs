//! Extraneous objects, which the snapshot does not have: finding and removing them. Two steps, so
//! that nothing is removed before everything is known.

use crate::options::Overwrite;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use crate::removal::Remover;
use crate::removal_count::RemovalCounter;
use crate::snapshot_names::SnapshotNames;
use crate::target::Target;
use crate::{directory, flags, marker, names, others::Others, system};
use format::entry::{Entry, Time};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, Statx, StatxAttributes};
use rustix::io::Errno;
use std::path::Path;

/// The outcome of a removal, or of its dry run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovalOutcome {
    /// Removed objects, with the named one.
    pub objects: u64,
    /// Lengths of the removed files. One with several names counts for each of them.
    pub bytes: u64,
    /// The named one stays, or something in it.
    pub stays: bool,
    /// The first object that could not be removed; the others are removed.
    pub problem: Option<RestoreProblem>,
    /// Directories that can only be listed once they are opened: in a dry run, what is in them is not counted.
    pub unread: Vec<Vec<u8>>,
    /// Repositories, which are never removed: no snapshot has the one that it lies in.
    pub repositories: Vec<Vec<u8>>,
}

/// Whether to keep the object at a path below the target; the flag says whether it is a directory.
/// A directory is also kept while something in it is.
pub type KeepFilter<'a> = &'a dyn Fn(&[u8], bool) -> bool;

impl Target {
    /// The paths of the objects in `directory` that the snapshot does not have, if it has these
    /// names there. Where names fold, its objects may be listed under other names; they are looked
    /// for only if something else is listed, and some name of the snapshot is not. A further hard
    /// link of such an object cannot be told from it, and stays. Nothing is changed.
    pub fn extraneous_beside<'a>(
        &self,
        directory: &'a [u8],
        of_snapshot: &'a SnapshotNames,
    ) -> Result<impl Iterator<Item = Result<Vec<u8>, RestoreProblem>> + 'a, RestoreProblem> {
        let problem =
            move |error: Errno| RestoreProblem::new(directory, RestoreOperation::Inspect, error);
        let open = self.open_listed(directory)?;
        let others = open.map(|open| Others::list(open, of_snapshot));
        let others = others.transpose().map_err(problem)?;
        let path = move |name: Vec<u8>| names::join(directory, &name);
        Ok(others.into_iter().flatten().map(move |name| name.map(path).map_err(problem)))
    }

    /// Opens a directory to list it; `None` if it is not there.
    pub(crate) fn open_listed(&self, directory: &[u8]) -> Result<Option<OwnedFd>, RestoreProblem> {
        let held = match self.existing(directory, RestoreOperation::Inspect) {
            Err(problem) if problem.error == RestoreCause::System(Errno::NOENT) => return Ok(None),
            // Another kind of object, or a link. If a directory should be there, that was reported before.
            Err(problem) if is_no_directory(&problem) => return Ok(None),
            held => held?,
        };
        // The handle is only a path descriptor; listing needs its own.
        let open = rustix::fs::openat(held, ".", system::DIRECTORY, Mode::empty());
        open.map(Some).map_err(|e| RestoreProblem::new(directory, RestoreOperation::Inspect, e))
    }

    /// Removes the object at `path` with everything below it, except what `keep` keeps. The
    /// directory that contains it does not change otherwise, not even its times. In a dry run, only
    /// counts.
    pub fn remove(&self, path: &[u8], keep: Option<KeepFilter<'_>>) -> RemovalOutcome {
        self.try_remove(path, keep).unwrap_or_else(|problem| RemovalOutcome {
            problem: Some(problem),
            stays: true,
            ..RemovalOutcome::default()
        })
    }

    fn try_remove(
        &self,
        path: &[u8],
        keep: Option<KeepFilter<'_>>,
    ) -> Result<RemovalOutcome, RestoreProblem> {
        let (directory, name) = names::split(path, RestoreOperation::Remove)?;
        let problem = |error: Errno| RestoreProblem::new(path, RestoreOperation::Remove, error);
        let held = self.unlocked(directory, path)?;
        if self.0.options.dry_run {
            return Ok(
                RemovalCounter::new(held.as_fd(), keep, self.0.credentials.uid).count(name, path)
            );
        }
        let open = rustix::fs::openat(&held, ".", system::DIRECTORY, Mode::empty());
        let open: OwnedFd = open.map_err(problem)?;
        let before = system::stat_open(open.as_fd()).map_err(problem)?;
        directory::make_writable(open.as_fd(), &self.0.credentials).map_err(problem)?;
        let removed = Remover::new(self, open.as_fd(), keep).remove(name, path);
        restore_parent(open.as_fd(), &before).map_err(problem)?;
        Ok(removed)
    }

    /// Counts what [`Self::remove`] would remove.
    pub fn count(&self, path: &[u8], keep: Option<KeepFilter<'_>>) -> u64 {
        let counted = names::split(path, RestoreOperation::Remove).and_then(|(directory, name)| {
            let held = self.unlocked(directory, path)?;
            Ok(RemovalCounter::new(held.as_fd(), keep, self.0.credentials.uid)
                .count(name, path)
                .objects)
        });
        counted.unwrap_or(0)
    }

    /// The directory of `path`, unless somebody had locked it.
    fn unlocked(&self, directory: &[u8], path: &[u8]) -> Result<OwnedFd, RestoreProblem> {
        let problem = |cause| RestoreProblem::new(path, RestoreOperation::Remove, cause);
        let held = self.existing(directory, RestoreOperation::Remove)?;
        let stat = system::stat_open(held.as_fd()).map_err(|error| problem(error.into()))?;
        match self.0.opened_up.was_locked(&stat) {
            true => Err(problem(RestoreCause::InLocked)),
            false => Ok(held),
        }
    }

    /// A directory in which something stays, because somebody had locked it, gets its locks back when it is finished:
    /// without them the next restore would delete what is in it. Call it before that.
    pub fn keep_locks(&self, directory: &[u8]) {
        let open = self.existing(directory, RestoreOperation::Inspect).ok();
        if let Some(stat) = open.and_then(|open| system::stat_open(open.as_fd()).ok()) {
            self.0.opened_up.keep_locks(&stat);
        }
    }

    /// Whether the directory `path` is a mount point, or a subvolume of its own as btrfs has them: a backup of one file
    /// system does not enter either. Never true for the target itself.
    pub fn is_mount_point(&self, path: &[u8]) -> bool {
        let Ok((above, _)) = names::split(path, RestoreOperation::Inspect) else { return false };
        let look = |path| {
            system::stat_open(self.existing(path, RestoreOperation::Inspect).ok()?.as_fd()).ok()
        };
        let (Some(above), Some(own)) = (look(above), look(path)) else { return false };
        own.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
            || system::device(&above) != system::device(&own)
    }

    /// In a dry run: the directory `path` would be removed with all that is in it.
    pub fn foresee_removed(&self, path: &[u8]) {
        self.0.foreseen.lock().insert(path.to_vec());
    }

    /// Whether `path` is a directory that is not empty: whatever is in it keeps its name from others.
    pub fn is_full_directory(&self, path: &[u8]) -> bool {
        if self.0.foreseen.lock().contains(path) {
            return false;
        }
        let Ok(Some(open)) = self.open_listed(path) else { return false };
        let is_other = |name: &[u8]| !matches!(name, b"." | b"..");
        let listed = Dir::read_from(&open);
        listed
            .is_ok_and(|listed| listed.flatten().any(|item| is_other(item.file_name().to_bytes())))
    }

    /// Whether a directory that is not empty has the name of `entry`, which is none, and the options let it go.
    pub fn gives_way(&self, entry: &Entry) -> bool {
        let open = self.existing(&entry.path, RestoreOperation::Inspect).ok();
        let Some(stat) = open.and_then(|open| system::stat_open(open.as_fd()).ok()) else {
            return false;
        };
        let may_go = match self.0.options.overwrite {
            Overwrite::Never => false,
            Overwrite::IfNewer => system::mtime(&stat) < entry.mtime,
            Overwrite::IfChanged | Overwrite::Always => true,
        };
        may_go && self.may_be_removed(&stat, &entry.path) == Err(RestoreCause::NotEmpty)
    }
}

/// Whether something else than directories is where a path leads through.
fn is_no_directory(problem: &RestoreProblem) -> bool {
    [Errno::NOTDIR, Errno::LOOP].map(RestoreCause::System).contains(&problem.error)
}

/// Whether a name that `directory` lists is never extraneous: the marker of a restore tells the next one whom not to
/// believe.
pub(crate) fn is_never_extraneous(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || marker::is_marker(directory, name)
}

/// Whether an open directory is a repository, damaged or not: these directories every version has.
pub(crate) fn is_repository(open: BorrowedFd<'_>) -> bool {
    let is_directory = |name: &[u8]| {
        let found = system::stat_at(open, name);
        found.is_ok_and(|stat| system::file_type(&stat) == FileType::Directory)
    };
    [&b"containers"[..], b"keys", b"snapshots"].into_iter().all(is_directory)
}

/// Whether `path` or a directory above it is a repository. What does not exist is in none.
pub fn is_in_repository(path: &Path) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let open = |path: &Path| rustix::fs::open(path, system::DIRECTORY, Mode::empty());
    real.ancestors().any(|above| open(above).is_ok_and(|open| is_repository(open.as_fd())))
}

/// Restores what the removal of a name changed in its directory.
fn restore_parent(open: BorrowedFd<'_>, before: &Statx) -> Result<(), Errno> {
    let mode = system::mode(before);
    if system::mode(&system::stat_open(open)?) != mode {
        rustix::fs::fchmod(open, Mode::from_raw_mode(mode))?;
    }
    let mtime: Time = system::mtime(before);
    crate::handle::AttributeHandle::open(open).set_mtime(mtime)?;
    flags::lock_again(open, before)
}

/// Checks the open directory, so that a later mount does not matter.
pub(crate) fn refuse_mount(top: BorrowedFd<'_>, open: BorrowedFd<'_>) -> Result<(), RestoreCause> {
    let stat = system::stat_open(open)?;
    let other = system::device(&system::stat_open(top)?) != system::device(&stat);
    if other || stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(RestoreCause::MountPoint);
    }
    Ok(())
}
