//! An object whose attributes are set: open, or held by a path descriptor.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags};
use rustix::io::Result;

/// Symlinks, FIFOs and devices are never opened: `O_PATH` holds them, and calls that need a real
/// descriptor go through `/proc/self/fd`, which leads to the held object whatever its name is now.
#[derive(Clone, Copy)]
pub(crate) struct AttributeHandle<'a> {
    fd: BorrowedFd<'a>,
    only_path: bool,
}

impl<'a> AttributeHandle<'a> {
    pub(crate) fn open(fd: BorrowedFd<'a>) -> Self {
        AttributeHandle { fd, only_path: false }
    }

    pub(crate) fn path(fd: BorrowedFd<'a>) -> Self {
        AttributeHandle { fd, only_path: true }
    }

    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    pub(crate) fn set_owner(&self, uid: u32, gid: u32) -> Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        if self.only_path {
            return rustix::fs::chownat(self.fd, "", uid, gid, AtFlags::EMPTY_PATH);
        }
        rustix::fs::fchown(self.fd, uid, gid)
    }

    pub(crate) fn set_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode);
        if self.only_path {
            return rustix::fs::chmod(self.name(), mode);
        }
        rustix::fs::fchmod(self.fd, mode)
    }

    pub(crate) fn set_mtime(&self, mtime: format::entry::Time) -> Result<()> {
        let times = Timestamps {
            // Not left as it is: file systems on libfuse 2 (encfs, bindfs) set neither time then, and say nothing.
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: mtime.secs, tv_nsec: i64::from(mtime.nanos) },
        };
        if self.only_path {
            return rustix::fs::utimensat(self.fd, "", &times, AtFlags::EMPTY_PATH);
        }
        rustix::fs::futimens(self.fd, &times)
    }

    pub(crate) fn stat(&self) -> Result<rustix::fs::Statx> {
        crate::system::stat_open(self.fd)
    }

    pub(crate) fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        if self.only_path {
            return rustix::fs::setxattr(self.name(), name, value, XattrFlags::empty());
        }
        rustix::fs::fsetxattr(self.fd, name, value, XattrFlags::empty())
    }

    pub(crate) fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        if self.only_path {
            return rustix::fs::removexattr(self.name(), name);
        }
        rustix::fs::fremovexattr(self.fd, name)
    }

    pub(crate) fn xattr(&self, name: &[u8], buffer: &mut [u8]) -> Result<usize> {
        if self.only_path {
            return rustix::fs::getxattr(self.name(), name, buffer);
        }
        rustix::fs::fgetxattr(self.fd, name, buffer)
    }

    pub(crate) fn xattr_names(&self, buffer: &mut [u8]) -> Result<usize> {
        if self.only_path {
            return rustix::fs::listxattr(self.name(), buffer);
        }
        rustix::fs::flistxattr(self.fd, buffer)
    }
}
