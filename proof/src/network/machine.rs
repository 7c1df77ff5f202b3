//! A machine that has mounted what the server exports, with the habits of network file systems:
//! folders cannot be synced, a name can be replaced only as a whole, and lists and small files may be of the past.

use super::conditions::{Fate, NetworkConditions};
use super::locked;
use super::memory::Memory;
use super::server::{Server, errno};
use crate::mounted::run;
use fuser::{
    BackgroundSession, Config, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Nothing but lists is believed longer than it is looked at.
const NOW: Duration = Duration::ZERO;
/// How old a list may be.
pub(super) const LIST_AGE: Duration = Duration::from_secs(2);
/// Handles from here on are of the machine, and below of the server.
const OF_MACHINE: u64 = 1 << 32;
/// `F_UNLCK` of `fcntl(2)`.
const UNLOCK: i32 = 2;

/// Whether there are locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    OfTheServer,
    None,
    /// Everybody gets them.
    ForAll,
}

type List = Arc<Vec<(u64, FileType, OsString)>>;

/// One machine.
pub(super) struct Machine {
    number: usize,
    server: Arc<Server>,
    conditions: Arc<NetworkConditions>,
    locks: Locks,
    lists: Mutex<HashMap<PathBuf, (Instant, List)>>,
    open_lists: Mutex<HashMap<u64, List>>,
    memory: Memory,
    next_list: AtomicU64,
}

/// What a machine has mounted, until this is dropped.
pub(super) struct Mounted {
    at: PathBuf,
    _session: BackgroundSession,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a process that was forked a moment ago may still hold our files.
        let _ = run("umount", ["--lazy".as_ref(), self.at.as_os_str()]);
    }
}

/// Mounts what `server` has at `at`.
pub(super) fn mount(
    number: usize,
    server: &Arc<Server>,
    conditions: &Arc<NetworkConditions>,
    locks: Locks,
    at: &Path,
) -> Result<Mounted, String> {
    let machine = Machine {
        number,
        server: server.clone(),
        conditions: conditions.clone(),
        locks,
        lists: Mutex::default(),
        open_lists: Mutex::default(),
        memory: Memory::default(),
        next_list: AtomicU64::new(OF_MACHINE),
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("icecore-proof-network".to_owned())];
    let session = fuser::spawn_mount(machine, at, &config)
        .map_err(|error| format!("cannot mount the network: {error}"))?;
    Ok(Mounted { at: at.to_path_buf(), _session: session })
}

impl Machine {
    /// Asks the server for something, in this weather.
    fn ask<T>(&self, work: impl FnOnce() -> io::Result<T>) -> Result<T, Errno> {
        match self.conditions.fate() {
            Fate::Answered => work().map_err(errno),
            Fate::Lost(error) => Err(error),
            Fate::Unanswered(error) => {
                let _ = work();
                Err(error)
            }
        }
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.server.path(parent)?.join(name))
    }

    /// The machine lists a directory again after its own changes, and knows them.
    fn changes(&self, path: &Path) {
        self.memory.forget_name(path);
        if let Some(folder) = path.parent() {
            locked(&self.lists).remove(folder);
        }
    }

    /// What lies at `path`, or did so a moment ago.
    fn find(&self, path: PathBuf) -> io::Result<fuser::FileAttr> {
        if let Some(attributes) = self.memory.name(&path) {
            return Ok(attributes);
        }
        let attributes = self.server.learn(path.clone())?;
        if attributes.kind == FileType::RegularFile {
            self.memory.keep(&path, attributes);
        }
        Ok(attributes)
    }

    fn list(&self, folder: PathBuf) -> io::Result<List> {
        if let Some((made, list)) = locked(&self.lists).get(&folder)
            && made.elapsed() < LIST_AGE
        {
            return Ok(list.clone());
        }
        let mut list = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            list.push((std::os::unix::fs::DirEntryExt::ino(&entry), kind, entry.file_name()));
        }
        let list = Arc::new(list);
        locked(&self.lists).insert(folder, (Instant::now(), list.clone()));
        Ok(list)
    }

    fn make_file(
        &self,
        path: PathBuf,
        mode: u32,
        is_new: bool,
    ) -> io::Result<(fuser::FileAttr, u64)> {
        self.changes(&path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).create_new(is_new).mode(mode);
        let handle = self.server.add(self.number, options.open(&path)?)?;
        Ok((self.server.learn(path)?, handle))
    }
}

fn reply_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn reply_attributes(reply: ReplyAttr, found: Result<fuser::FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.attr(&NOW, &attributes),
        Err(error) => reply.error(error),
    }
}

fn reply_entry(reply: ReplyEntry, found: Result<fuser::FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&NOW, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Machine {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config
            .add_capabilities(InitFlags::FUSE_FLOCK_LOCKS)
            .map_err(|_| io::Error::other("the kernel sends no lock requests"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(reply, self.ask(|| self.find(self.child(parent, name)?)));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(
            reply,
            match self.memory.inode(inode.0) {
                Some(attributes) => Ok(attributes),
                None => self.ask(|| self.server.attributes(inode)),
            },
        );
    }

    /// Only the server can change something: it knows whether the file is still there.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.memory.forget_inode(inode.0);
        reply_attributes(reply, self.ask(|| self.server.change(inode, mode, size)));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        reply_entry(
            reply,
            self.ask(|| {
                let path = self.child(parent, name)?;
                self.changes(&path);
                std::fs::DirBuilder::new().mode(mode).create(&path)?;
                self.server.learn(path)
            }),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(
            reply,
            self.ask(|| {
                let path = self.child(parent, name)?;
                self.changes(&path);
                self.server.remove(self.number, &path)
            }),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        reply_empty(
            reply,
            self.ask(|| {
                let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
                self.changes(&from);
                self.changes(&to);
                self.server.rename(self.number, &from, &to)
            }),
        );
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.ask(|| {
            let writes = flags.0 & 3 != 0;
            if let Some(content) = self.memory.content(inode.0).filter(|_| !writes) {
                let handle = self.next_list.fetch_add(1, Ordering::Relaxed);
                self.memory.open(handle, content);
                return Ok(handle);
            }
            let path = self.server.path(inode)?;
            let file = OpenOptions::new().read(true).write(writes).open(path)?;
            self.server.add(self.number, file)
        });
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        // `O_EXCL` of `open(2)`.
        let is_new = flags & 0o200 != 0;
        match self.ask(|| self.make_file(self.child(parent, name)?, mode, is_new)) {
            Ok((attributes, handle)) => reply.created(
                &NOW,
                &attributes,
                Generation(0),
                FileHandle(handle),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.ask(|| match self.memory.read(handle.0, offset, size as usize) {
            Some(bytes) => Ok(bytes),
            None => read_at(&*self.server.file(handle.0)?, offset, size as usize),
        });
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.memory.forget_inode(inode.0);
        match self.ask(|| self.server.file(handle.0)?.write_all_at(data, offset)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if !self.memory.close(handle.0) {
            self.server.close(handle.0);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.ask(|| self.server.file(handle.0).map(drop)));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::EINVAL);
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.ask(|| self.list(self.server.path(inode)?)) {
            Ok(list) => {
                let handle = self.next_list.fetch_add(1, Ordering::Relaxed);
                locked(&self.open_lists).insert(handle, list);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let list = locked(&self.open_lists).get(&handle.0).cloned().unwrap_or_default();
        for (at, (inode, kind, name)) in list.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        locked(&self.open_lists).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 30, 1 << 29, 1 << 29, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn setlk(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        _: u64,
        _: u64,
        kind: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        match self.locks {
            Locks::None => return reply.error(Errno::ENOLCK),
            Locks::ForAll => return reply.ok(),
            Locks::OfTheServer => {}
        }
        reply_empty(reply, self.ask(|| self.server.lock(inode.0, handle.0, kind != UNLOCK)));
    }
}

fn read_at(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}
