//! Symlinks, FIFOs, sockets and devices: made by name, then held by an `O_PATH` descriptor that
//! is checked to be what was made. They are never opened.

use crate::directory::Directory;
use crate::handle::Handle;
use crate::metadata::Now;
use crate::problem::{Attribute, Cause, Operation, Outcome, Problem};
use crate::replace::{Existing, Place, Placed};
use crate::system::{self, ONLY_PATH};
use crate::target::Target;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, Mode, Statx};
use rustix::io::Errno;

impl Target {
    /// A symlink with this target, whatever the target is: it is only written down.
    pub fn symlink(
        &self,
        parent: &Directory,
        entry: &Entry,
        target: &[u8],
    ) -> Result<Outcome, Problem> {
        let make = |fd: BorrowedFd<'_>, name: &[u8]| rustix::fs::symlinkat(target, fd, name);
        self.make_node(parent, entry, make)
    }

    /// A FIFO, socket or device.
    pub fn special(&self, parent: &Directory, entry: &Entry) -> Result<Outcome, Problem> {
        let wrong = || Problem::new(&entry.path, Operation::Create, Cause::WrongKind);
        let kind = node_type(entry.kind()).ok_or_else(wrong)?;
        let device = if is_device(entry) { entry.rdev } else { 0 };
        self.make_node(parent, entry, |fd, name| {
            rustix::fs::mknodat(fd, name, kind, Mode::from_raw_mode(0o600), device)
        })
    }

    fn make_node(
        &self,
        parent: &Directory,
        entry: &Entry,
        make: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<(), Errno>,
    ) -> Result<Outcome, Problem> {
        let place = match self.place(parent, entry, Existing::MayStay, make)? {
            Placed::New((), place) => place,
            Placed::Settled(outcome) => return Ok(outcome),
        };
        let Some(fd) = parent.fd() else {
            return Ok(place.outcome());
        };
        if let Err(error) = self.dress(parent, fd, entry, &place) {
            self.abandon(parent, entry, &place);
            return Err(Problem::new(&entry.path, Operation::Create, error));
        }
        self.commit_or_abandon(parent, entry, &place)?;
        Ok(place.outcome())
    }

    fn dress(
        &self,
        parent: &Directory,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        place: &Place,
    ) -> Result<(), Cause> {
        let object = rustix::fs::openat(fd, place.name(entry), ONLY_PATH, Mode::empty())?;
        let stat = system::look_at(object.as_fd())?;
        if !is_what_was_made(&stat, entry) {
            return Err(Cause::WrongKind);
        }
        let handle = Handle::path(object.as_fd());
        if parent.gives_acl && entry.kind() != Kind::Symlink {
            let _ = handle.remove_xattr(b"system.posix_acl_access");
        }
        self.apply(handle, entry, Now::of(&stat, false));
        if entry.attributes.inode_flags != 0 {
            self.degrade(entry, Attribute::InodeFlags, Errno::OPNOTSUPP); // only through an open file
        }
        Ok(())
    }
}

fn is_device(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::CharDevice | Kind::BlockDevice)
}

fn node_type(kind: Kind) -> Option<FileType> {
    Some(match kind {
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharacterDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::File | Kind::Directory | Kind::Symlink => return None,
    })
}

/// Somebody who may rename in the directory could have put a link to another's object under the
/// name, to make us change its owner. What we made has one name and is of its kind.
fn is_what_was_made(stat: &Statx, entry: &Entry) -> bool {
    let device = !is_device(entry) || system::rdev(stat) == entry.rdev;
    system::kind(stat) == Some(entry.kind()) && stat.stx_nlink == 1 && device
}
