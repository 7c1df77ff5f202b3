//! Symlinks, FIFOs, sockets and devices: created by name, then held by an `O_PATH` descriptor, and
//! verified to be what was created. They are never opened.

use crate::directory::Directory;
use crate::handle::AttributeHandle;
use crate::metadata::CurrentAttributes;
use crate::problem::{RestoreCause, RestoreOperation, RestoreOutcome, RestoreProblem};
use crate::refused;
use crate::replace::{Existing, Staged, StagedName};
use crate::system::{self, ONLY_PATH};
use crate::target::Target;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, Mode, Statx};
use rustix::io::Errno;

impl Target {
    /// Creates a symlink with this target; the target is not resolved.
    pub fn symlink(
        &self,
        parent: &Directory,
        entry: &Entry,
        target: &[u8],
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let make = |fd: BorrowedFd<'_>, name: &[u8]| rustix::fs::symlinkat(target, fd, name);
        let made = self.make_special(parent, entry, make);
        made.map_err(|problem| self.place(parent, problem))
    }

    /// Creates a FIFO, socket or device.
    pub fn special(
        &self,
        parent: &Directory,
        entry: &Entry,
    ) -> Result<RestoreOutcome, RestoreProblem> {
        self.refuse_device(entry)?;
        let wrong =
            || RestoreProblem::new(&entry.path, RestoreOperation::Create, RestoreCause::WrongKind);
        let kind = special_type(entry.kind()).ok_or_else(wrong)?;
        let device = if is_device(entry) { entry.rdev } else { 0 };
        let made = self.make_special(parent, entry, |fd, name| {
            rustix::fs::mknodat(fd, name, kind, Mode::from_raw_mode(0o600), device)
        });
        made.map_err(|problem| self.place(parent, problem))
    }

    fn make_special(
        &self,
        parent: &Directory,
        entry: &Entry,
        make: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<(), Errno>,
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let staged = self.stage(parent, entry, Existing::MayStay, make);
        let staged = staged.map_err(|problem| refused::explain(parent.fd(), entry.kind(), problem));
        let staged = match staged? {
            Staged::New((), staged) => staged,
            Staged::Settled(outcome) => return Ok(outcome),
        };
        let Some(fd) = parent.fd() else {
            return Ok(staged.outcome());
        };
        if let Err(error) = self.set_attributes(parent, fd, entry, &staged) {
            self.abandon(parent, entry, &staged);
            return Err(RestoreProblem::new(&entry.path, RestoreOperation::Create, error));
        }
        self.commit_or_abandon(parent, entry, &staged)?;
        Ok(staged.outcome())
    }

    fn set_attributes(
        &self,
        parent: &Directory,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        staged: &StagedName,
    ) -> Result<(), RestoreCause> {
        let object = rustix::fs::openat(fd, staged.name(entry), ONLY_PATH, Mode::empty())?;
        let stat = system::stat_open(object.as_fd())?;
        if !is_what_was_made(&stat, entry) {
            return Err(RestoreCause::WrongKind);
        }
        let handle = AttributeHandle::path(object.as_fd());
        if parent.gives_acl && entry.kind() != Kind::Symlink {
            let _ = handle.remove_xattr(b"system.posix_acl_access");
        }
        self.apply(handle, entry, CurrentAttributes::of(&stat, false));
        Ok(())
    }
}

fn is_device(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::CharDevice | Kind::BlockDevice)
}

fn special_type(kind: Kind) -> Option<FileType> {
    Some(match kind {
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharacterDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::File | Kind::Directory | Kind::Symlink => return None,
    })
}

/// Somebody who can rename in the directory could have put a link to a foreign object under the
/// name, to make us change its owner. What we created has one name, and the right kind.
fn is_what_was_made(stat: &Statx, entry: &Entry) -> bool {
    let device = !is_device(entry) || system::rdev(stat) == entry.rdev;
    system::kind(stat) == Some(entry.kind()) && stat.stx_nlink == 1 && device
}
