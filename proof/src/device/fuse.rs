//! The logged disk as a file, in a file system in user space, so that a loop device can lie on it.

use super::log::Log;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyWrite, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// Name of the only file.
pub(super) const NAME: &str = "disk";
const DISK: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(3600);

/// A log that the file system and the rig share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Log>>);

impl Shared {
    pub(super) fn new(log: Log) -> Self {
        Self(Arc::new(Mutex::new(log)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log itself, when the file system is gone.
    pub(super) fn take(self) -> Option<Log> {
        Some(Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Mounts the disk below `folder`.
pub(super) fn mount(log: &Shared, folder: &Path) -> Result<BackgroundSession, String> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("icecore-proof".to_owned())];
    fuser::spawn_mount(Disk(log.clone()), folder, &config)
        .map_err(|error| format!("cannot mount the logged disk: {error}"))
}

struct Disk(Shared);

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK;
        let size = if is_disk { self.0.lock().bytes() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(self.0.lock().read(offset, size as usize));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.lock().write(offset, data);
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The last close of a descriptor: no barrier.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.lock().flush();
        reply.ok();
    }
}
