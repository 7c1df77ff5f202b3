//! What the machines of a network share: files in a folder of this machine, who has which of them
//! open, and who holds which lock.

use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

pub(super) const ROOT: INodeNo = INodeNo(1);

/// A file that a machine has open.
pub(super) struct Handle {
    pub(super) file: Arc<File>,
    pub(super) inode: u64,
    machine: usize,
    /// Somebody else removed the file: the server does not know it any more.
    is_stale: bool,
}

#[derive(Default)]
struct State {
    paths: HashMap<u64, PathBuf>,
    handles: HashMap<u64, Handle>,
    next: u64,
    /// By inode: the handle that holds it.
    locks: HashMap<u64, u64>,
    /// Files without a name that are still open, under the name that they have until then.
    hidden: HashMap<u64, PathBuf>,
}

/// The server.
pub(super) struct Server {
    root: PathBuf,
    state: Mutex<State>,
}

impl Server {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a file lies.
    pub(super) fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        if inode == ROOT {
            return Ok(self.root.clone());
        }
        self.state().paths.get(&inode.0).cloned().ok_or(stale())
    }

    /// Remembers where a file lies; what is to be told of it.
    pub(super) fn learn(&self, path: PathBuf) -> io::Result<FileAttr> {
        let metadata = path.symlink_metadata()?;
        self.state().paths.insert(metadata.ino(), path);
        Ok(attributes(INodeNo(metadata.ino()), &metadata))
    }

    pub(super) fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let metadata = self.path(inode)?.symlink_metadata()?;
        if inode != ROOT && metadata.ino() != inode.0 {
            return Err(stale());
        }
        Ok(attributes(inode, &metadata))
    }

    /// Changes the mode or the length of a file that is there.
    pub(super) fn change(
        &self,
        inode: INodeNo,
        mode: Option<u32>,
        size: Option<u64>,
    ) -> io::Result<FileAttr> {
        self.attributes(inode)?;
        let path = self.path(inode)?;
        if let Some(mode) = mode {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        }
        if let Some(size) = size {
            File::options().write(true).open(&path)?.set_len(size)?;
        }
        self.attributes(inode)
    }

    /// Opens for a machine; the number of the handle.
    pub(super) fn add(&self, machine: usize, file: File) -> io::Result<u64> {
        let inode = file.metadata()?.ino();
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let file = Arc::new(file);
        state.handles.insert(number, Handle { file, inode, machine, is_stale: false });
        Ok(number)
    }

    pub(super) fn file(&self, handle: u64) -> io::Result<Arc<File>> {
        match self.state().handles.get(&handle) {
            Some(handle) if !handle.is_stale => Ok(handle.file.clone()),
            _ => Err(stale()),
        }
    }

    /// Nobody has the handle any more: its lock goes, and the file, when it has no name.
    pub(super) fn close(&self, handle: u64) {
        let mut state = self.state();
        let Some(closed) = state.handles.remove(&handle) else { return };
        state.locks.retain(|_, holder| *holder != handle);
        if !state.handles.values().any(|other| other.inode == closed.inode)
            && let Some(path) = state.hidden.remove(&closed.inode)
        {
            let _ = std::fs::remove_file(path); // the folder may be gone
        }
    }

    /// Takes the lock of the file, or gives it back.
    pub(super) fn lock(&self, inode: u64, handle: u64, takes: bool) -> io::Result<()> {
        let mut state = self.state();
        match (takes, state.locks.get(&inode).copied()) {
            (true, Some(holder)) if holder != handle => Err(io::ErrorKind::WouldBlock.into()),
            (true, _) => {
                state.locks.insert(inode, handle);
                Ok(())
            }
            (false, holder) => {
                if holder == Some(handle) {
                    state.locks.remove(&inode);
                }
                Ok(())
            }
        }
    }

    /// Removes a file. Who has it open on the same machine keeps it under another name ("silly
    /// rename"); who has it open on another one has lost it.
    pub(super) fn remove(&self, machine: usize, path: &Path) -> io::Result<()> {
        let inode = path.symlink_metadata()?.ino();
        let is_held = self.orphan(machine, inode);
        if !is_held {
            return std::fs::remove_file(path);
        }
        let hidden = path.with_file_name(format!(".nfs{inode:016x}"));
        std::fs::rename(path, &hidden)?;
        let mut state = self.state();
        state.paths.insert(inode, hidden.clone());
        state.hidden.insert(inode, hidden);
        Ok(())
    }

    /// Whether `machine` has the file open; for all others it is gone.
    fn orphan(&self, machine: usize, inode: u64) -> bool {
        let mut state = self.state();
        let mut of_file: Vec<_> =
            state.handles.values_mut().filter(|handle| handle.inode == inode).collect();
        of_file
            .iter_mut()
            .filter(|handle| handle.machine != machine)
            .for_each(|handle| handle.is_stale = true);
        of_file.iter().any(|handle| handle.machine == machine)
    }

    pub(super) fn rename(&self, machine: usize, from: &Path, to: &Path) -> io::Result<()> {
        let inode = from.symlink_metadata()?.ino();
        if let Ok(replaced) = to.symlink_metadata() {
            self.orphan(machine, replaced.ino());
        }
        std::fs::rename(from, to)?;
        self.state().paths.insert(inode, to.to_owned());
        Ok(())
    }
}

fn stale() -> io::Error {
    io::ErrorKind::StaleNetworkFileHandle.into()
}

/// The number that a program is told.
pub(super) fn errno(error: io::Error) -> Errno {
    match error.raw_os_error() {
        Some(number) => Errno::from_i32(number),
        None if error.kind() == io::ErrorKind::WouldBlock => Errno::EAGAIN,
        None => Errno::ESTALE,
    }
}

fn attributes(inode: INodeNo, metadata: &Metadata) -> FileAttr {
    let time =
        |secs: i64, nanos: i64| UNIX_EPOCH + Duration::new(secs.max(0) as u64, nanos.max(0) as u32);
    let kind = metadata.file_type();
    FileAttr {
        ino: inode,
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: match () {
            () if kind.is_dir() => FileType::Directory,
            () if kind.is_fifo() => FileType::NamedPipe,
            () => FileType::RegularFile,
        },
        perm: (metadata.permissions().mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
