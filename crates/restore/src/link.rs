//! Hard links: further names of an object that is already restored.

use crate::directory::Directory;
use crate::flags;
use crate::names;
use crate::problem::{RestoreCause, RestoreOperation, RestoreOutcome, RestoreProblem};
use crate::refused;
use crate::replace::{Existing, Staged};
use crate::system;
use crate::target::Target;
use format::entry::Entry;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::cell::Cell;

/// Errors after which the content is copied instead: too many links, another file system, no links
/// at all (FAT), a locked or foreign file (protected hard links), first name missing.
const COPY_INSTEAD: [Errno; 9] = [
    Errno::MLINK,
    Errno::XDEV,
    Errno::OPNOTSUPP,
    Errno::NOSYS,
    Errno::PERM,
    Errno::NOENT,
    Errno::ACCESS,
    Errno::NOTDIR,
    // A link that was not replaced is on the way to the first name.
    Errno::LOOP,
];

/// The existing name: a directory and a name in it.
struct Source<'a> {
    directory: OwnedFd,
    name: &'a [u8],
}

impl Target {
    /// Links the name of the entry to the object at `existing` (a path of the snapshot). A symlink
    /// there is linked itself, never followed.
    pub fn hard_link(
        &self,
        parent: &Directory,
        entry: &Entry,
        existing: &[u8],
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let (directory, name) = names::split(existing, RestoreOperation::Link)?;
        let source = match self.existing(directory, RestoreOperation::Link) {
            Ok(directory) => Source { directory, name },
            Err(_) if self.0.options.dry_run => {
                return self.dry_run_outcome(parent, entry, Existing::MustGo);
            }
            Err(problem) if wants_copy(&problem) => return Ok(RestoreOutcome::NeedsCopy),
            Err(mut problem) => {
                problem.path.clone_from(&entry.path);
                return Err(problem);
            }
        };
        if let Some(fd) = parent.fd().filter(|fd| source.is_at(*fd, entry.name())) {
            self.refuse_other_spelling(parent, fd, entry.name(), &entry.path)?;
            return Ok(RestoreOutcome::Unchanged);
        }
        let is_unlocked = Cell::new(false);
        let linked = self.link_staged(parent, entry, &source, &is_unlocked);
        if is_unlocked.get() {
            flags::set_at(self, source.directory.as_fd(), source.name, entry);
        }
        linked
    }

    /// Whether `path` and `other` are names of one object.
    pub fn are_one(&self, path: &[u8], other: &[u8]) -> bool {
        let look = |path: &[u8]| self.look(path).ok();
        look(path).zip(look(other)).is_some_and(|(one, two)| system::same_inode(&one, &two))
    }

    fn link_staged(
        &self,
        parent: &Directory,
        entry: &Entry,
        source: &Source<'_>,
        is_unlocked: &Cell<bool>,
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let make = |fd: BorrowedFd<'_>, name: &[u8]| source.link_to(fd, name, entry, is_unlocked);
        match self.stage(parent, entry, Existing::MustGo, make) {
            Ok(Staged::New((), staged)) => {
                let committed = self.commit_or_abandon(parent, entry, &staged);
                committed.map_err(|problem| self.place(parent, problem))?;
                Ok(staged.outcome())
            }
            Ok(Staged::Settled(outcome)) => Ok(outcome),
            Err(problem) if wants_copy(&problem) => Ok(RestoreOutcome::NeedsCopy),
            Err(problem) => {
                let problem = refused::explain(parent.fd(), entry.kind(), problem);
                Err(self.place(parent, problem))
            }
        }
    }
}

impl Source<'_> {
    /// Links an immutable file after its flag is cleared: nor could the new name be changed or removed with the flag.
    fn link_to(
        &self,
        fd: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        is_unlocked: &Cell<bool>,
    ) -> Result<(), Errno> {
        match self.link(fd, name) {
            Err(Errno::PERM) if entry.attributes.inode_flags != 0 => {
                let directory = self.directory.as_fd();
                flags::unlock(directory, self.name, &system::stat_at(directory, self.name)?);
                is_unlocked.set(true);
                self.link(fd, name)
            }
            result => result,
        }
    }

    fn link(&self, fd: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        rustix::fs::linkat(&self.directory, self.name, fd, name, AtFlags::empty())
    }

    fn is_at(&self, fd: BorrowedFd<'_>, name: &[u8]) -> bool {
        let Ok(there) = system::stat_at(fd, name) else {
            return false;
        };
        let here = system::stat_at(self.directory.as_fd(), self.name);
        here.is_ok_and(|here| system::same_inode(&here, &there))
    }
}

fn wants_copy(problem: &RestoreProblem) -> bool {
    matches!(problem.error, RestoreCause::System(error) if COPY_INSTEAD.contains(&error))
}
