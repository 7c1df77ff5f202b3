//! Creating an object under a free name, and what happens if the name is taken.
//!
//! 1. Creation is exclusive: a free name costs no further call, a taken one is noticed.
//! 2. For a taken name, an object created since the restore started belongs to another entry and is
//!    kept (duplicate paths; names that fold together). Birth times cannot be set, and are later
//!    than the start for everything that we created; new files of others are kept, too. If the file
//!    system folds names, the existing name must also be spelled as in the entry: a resumed restore
//!    finds the other spelling with an old birth time.
//!    If existing files may stay, a new one gets its name only when it is complete.
//! 3. What may be replaced is replaced by `renameat` from a temporary name in the same directory:
//!    a crash leaves the old object or the new one.

use crate::abilities::TimeMatch;
use crate::directory::Directory;
use crate::flags::{self, Unlocked};
use crate::names;
use crate::options::Overwrite;
use crate::problem::{RestoreCause, RestoreOperation, RestoreOutcome, RestoreProblem};
use crate::system;
use crate::target::Target;
use format::entry::{Content, Entry, Kind};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags, Statx, StatxAttributes};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

/// How often a name may be freed and taken again meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// Whether an existing object that equals the entry may be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    MayStay,
    /// A hard link is required: a separate equal file is not enough.
    MustGo,
}

/// The name of a new object until it is committed.
pub(crate) enum StagedName {
    /// It has its own.
    Own,
    /// A temporary one, until it takes a name that is free.
    Beside(Vec<u8>),
    /// A temporary one, until it replaces what was there.
    Over(Vec<u8>, Box<Statx>),
}

/// The result of staging an object.
pub(crate) enum Staged<T> {
    New(T, StagedName),
    Settled(RestoreOutcome),
}

/// What to do about a taken name.
enum Action {
    Settled(RestoreOutcome),
    Replace(Box<Statx>),
    Free,
}

impl StagedName {
    /// The current name of the object.
    pub(crate) fn name<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        match self {
            Self::Own => entry.name(),
            Self::Beside(name) | Self::Over(name, _) => name,
        }
    }

    pub(crate) fn outcome(&self) -> RestoreOutcome {
        match self {
            Self::Own | Self::Beside(_) => RestoreOutcome::Created,
            Self::Over(..) => RestoreOutcome::Replaced,
        }
    }
}

impl Target {
    /// Calls `make` with a free name, if the options allow writing.
    pub(crate) fn stage<T>(
        &self,
        parent: &Directory,
        entry: &Entry,
        existing: Existing,
        mut make: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<Staged<T>, RestoreProblem> {
        let name = names::last(&entry.path, RestoreOperation::Create)?;
        let Some(fd) = self.0.writable(parent) else {
            return self.dry_run_outcome(parent, entry, existing).map(Staged::Settled);
        };
        let is_apart = entry.kind() == Kind::File && self.0.options.overwrite.keeps_existing();
        for _ in 0..MAX_ATTEMPTS {
            match if is_apart { Err(Errno::EXIST) } else { make(fd, name) } {
                Ok(new) => {
                    self.note_activity();
                    return Ok(Staged::New(new, StagedName::Own));
                }
                Err(Errno::EXIST) => {}
                Err(error) => {
                    return Err(RestoreProblem::new(&entry.path, RestoreOperation::Create, error));
                }
            }
            let over = match self.decide(parent, fd, entry, existing)? {
                Action::Settled(outcome) => return Ok(Staged::Settled(outcome)),
                Action::Replace(old) => Some(old),
                Action::Free if is_apart => None,
                Action::Free => continue,
            };
            return self.stage_beside(fd, entry, over, make);
        }
        Err(RestoreProblem::new(&entry.path, RestoreOperation::Create, Errno::AGAIN))
    }

    fn stage_beside<T>(
        &self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        over: Option<Box<Statx>>,
        mut make: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<Staged<T>, RestoreProblem> {
        loop {
            let name = self.temporary_name();
            match make(fd, &name) {
                Ok(new) => {
                    self.note_activity();
                    let staged = match over {
                        Some(old) => StagedName::Over(name, old),
                        None => StagedName::Beside(name),
                    };
                    return Ok(Staged::New(new, staged));
                }
                Err(Errno::EXIST) => {} // somebody else's
                Err(error) => {
                    return Err(RestoreProblem::new(&entry.path, RestoreOperation::Create, error));
                }
            }
        }
    }

    fn decide(
        &self,
        parent: &Directory,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        existing: Existing,
    ) -> Result<Action, RestoreProblem> {
        let name = entry.name();
        let may_stay = existing == Existing::MayStay;
        let problem = |cause: RestoreCause| {
            RestoreProblem::new(&entry.path, RestoreOperation::Replace, cause)
        };
        let stat = match system::stat_at(fd, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Action::Free),
            Err(error) => return Err(problem(error.into())),
        };
        if self.0.is_ours(&stat) {
            return Err(problem(RestoreCause::Collision));
        }
        self.refuse_other_spelling(parent, fd, name, &entry.path)?;
        match self.0.options.overwrite {
            Overwrite::Never => self.never(stat, entry).map_err(problem),
            Overwrite::IfNewer => self.if_newer(stat, entry).map_err(problem),
            Overwrite::IfChanged if may_stay && self.settles(fd, name, &stat, entry) => {
                Ok(Action::Settled(RestoreOutcome::Unchanged))
            }
            _ => Ok(Action::Replace(Box::new(stat))),
        }
    }

    /// The existing one is kept. What an interrupted restore has written is written again: its content may not have
    /// reached the disk.
    fn never(&self, stat: Statx, entry: &Entry) -> Result<Action, RestoreCause> {
        let is_written = system::kind(&stat) == Some(Kind::File)
            && system::mtime(&stat) == entry.mtime
            && stat.stx_size == entry.size;
        match is_written {
            true if self.is_uncertain(&stat, entry) => Ok(Action::Replace(Box::new(stat))),
            false if self.is_maybe_partial(&stat, entry) => Err(self.in_doubt()),
            _ => Ok(Action::Settled(RestoreOutcome::Kept)),
        }
    }

    /// It stays as it is, and the next restore must not believe it either.
    fn in_doubt(&self) -> RestoreCause {
        self.0.has_left_doubt.store(true, Relaxed);
        RestoreCause::MaybeIncomplete
    }

    /// The newer one is kept. After an interrupted restore, times are not reliable: a file with the
    /// time of the snapshot is written again, and a newer one may be the work of a user, or
    /// incomplete.
    fn if_newer(&self, stat: Statx, entry: &Entry) -> Result<Action, RestoreCause> {
        match system::mtime(&stat).cmp(&entry.mtime) {
            Ordering::Less => Ok(Action::Replace(Box::new(stat))),
            Ordering::Equal if self.is_uncertain(&stat, entry) => {
                Ok(Action::Replace(Box::new(stat)))
            }
            Ordering::Greater if self.is_maybe_partial(&stat, entry) => Err(self.in_doubt()),
            Ordering::Equal | Ordering::Greater => Ok(Action::Settled(RestoreOutcome::Kept)),
        }
    }

    /// If names fold, the existing object may have another spelling. Costs a listing of a directory
    /// in which names are taken, but only on file systems that may fold names.
    pub(crate) fn refuse_other_spelling(
        &self,
        parent: &Directory,
        fd: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), RestoreProblem> {
        if !*parent.folds_names.get_or_init(|| flags::folds_names(fd)) {
            return Ok(());
        }
        if self.is_spelled_so(fd, path, name)? {
            return Ok(());
        }
        Err(RestoreProblem::new(path, RestoreOperation::Create, RestoreCause::Collision))
    }

    /// The outcome in a dry run.
    pub(crate) fn dry_run_outcome(
        &self,
        parent: &Directory,
        entry: &Entry,
        existing: Existing,
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let Some(fd) = parent.fd() else {
            return Ok(RestoreOutcome::Created);
        };
        Ok(match self.decide(parent, fd, entry, existing)? {
            Action::Settled(outcome) => outcome,
            Action::Replace(old) => {
                let problem =
                    |cause| RestoreProblem::new(&entry.path, RestoreOperation::Replace, cause);
                self.may_be_removed(&old, &entry.path).map_err(problem)?;
                RestoreOutcome::Replaced
            }
            Action::Free => RestoreOutcome::Created,
        })
    }

    /// What the removal of a directory would say.
    pub(crate) fn may_be_removed(&self, old: &Statx, path: &[u8]) -> Result<(), RestoreCause> {
        if system::kind(old) != Some(Kind::Directory) {
            return Ok(());
        }
        flags::refuse_locked(old)?;
        if old.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(RestoreCause::MountPoint);
        }
        if self.is_full_directory(path) { Err(RestoreCause::NotEmpty) } else { Ok(()) }
    }

    /// Whether the existing object equals the entry; then its attributes are corrected.
    fn settles(&self, fd: BorrowedFd<'_>, name: &[u8], stat: &Statx, entry: &Entry) -> bool {
        let is_timed = match self.match_time(stat, entry.mtime) {
            TimeMatch::Equal => true,
            // Of anything but a file there is no more to compare.
            TimeMatch::Rough => entry.kind() != Kind::File,
            TimeMatch::Different => false,
        };
        is_timed
            && is_alike(fd, name, stat, entry)
            && !self.is_uncertain(stat, entry)
            && self.fix_attributes(fd, name, stat, entry)
    }

    /// Gives the new object its final name.
    pub(crate) fn commit(
        &self,
        parent: &Directory,
        entry: &Entry,
        staged: &StagedName,
    ) -> Result<(), RestoreProblem> {
        let Some(fd) = parent.fd() else { return Ok(()) };
        let renamed = match staged {
            StagedName::Own => return Ok(()),
            StagedName::Beside(temporary) => take_free_name(fd, temporary, entry.name()),
            StagedName::Over(temporary, old) => {
                let unlocked = self.clear_way(fd, entry, old)?;
                let renamed = rustix::fs::renameat(fd, &temporary[..], fd, entry.name());
                unlocked.lock_what_stays();
                renamed
            }
        };
        renamed.map_err(|error| RestoreProblem::new(&entry.path, RestoreOperation::Replace, error))
    }

    /// `renameat` replaces everything but directories and locked objects.
    fn clear_way(
        &self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        old: &Statx,
    ) -> Result<Unlocked, RestoreProblem> {
        let name = entry.name();
        self.0.old_links.loses_a_name(old);
        if system::kind(old) != Some(Kind::Directory) {
            return Ok(flags::unlock(fd, name, old));
        }
        let removed = flags::refuse_locked(old).and_then(|()| {
            match rustix::fs::unlinkat(fd, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => Ok(Unlocked::default()),
                Err(Errno::NOTEMPTY) => Err(RestoreCause::NotEmpty),
                Err(Errno::BUSY) => Err(RestoreCause::MountPoint),
                Err(error) => Err(error.into()),
            }
        });
        removed.map_err(|cause| RestoreProblem::new(&entry.path, RestoreOperation::Replace, cause))
    }

    /// Removes an unfinished object, by its name. Errors are ignored: the cause of giving up is
    /// reported.
    pub(crate) fn abandon(&self, parent: &Directory, entry: &Entry, staged: &StagedName) {
        if let Some(fd) = parent.fd() {
            let _ = rustix::fs::unlinkat(fd, staged.name(entry), AtFlags::empty());
        }
    }

    /// Commits the object, or removes it if that fails.
    pub(crate) fn commit_or_abandon(
        &self,
        parent: &Directory,
        entry: &Entry,
        staged: &StagedName,
    ) -> Result<(), RestoreProblem> {
        let result = self.commit(parent, entry, staged);
        if result.is_err() {
            self.abandon(parent, entry, staged);
        }
        result
    }
}

/// Renames to a name that nobody has. A file system that cannot refuse to replace is asked before.
fn take_free_name(fd: BorrowedFd<'_>, temporary: &[u8], name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(fd, temporary, fd, name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match system::stat_at(fd, name) {
            Err(Errno::NOENT) => rustix::fs::renameat(fd, temporary, fd, name),
            found => Err(found.err().unwrap_or(Errno::EXIST)),
        },
        renamed => renamed,
    }
}

/// Whether kind and size are equal; for symlinks also the target, for devices the number.
pub(crate) fn is_alike(fd: BorrowedFd<'_>, name: &[u8], stat: &Statx, entry: &Entry) -> bool {
    system::kind(stat) == Some(entry.kind())
        && match entry.kind() {
            Kind::File => stat.stx_size == entry.size,
            Kind::CharDevice | Kind::BlockDevice => system::rdev(stat) == entry.rdev,
            Kind::Symlink => has_target(fd, name, entry),
            Kind::Directory | Kind::Fifo | Kind::Socket => true,
        }
}

/// Whether the symlink has the target of the entry.
pub(crate) fn has_target(fd: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> bool {
    let Content::Inline(target) = &entry.content else {
        return false;
    };
    rustix::fs::readlinkat(fd, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target)
}
