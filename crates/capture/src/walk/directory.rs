//! Directory handles: every call is relative to one, so that paths may have any length and a parent
//! cannot be exchanged meanwhile.
//!
//! A tree may be deeper than there are descriptors: [`DirectoryHandles`] keeps the latest ones
//! open; one that was closed is opened again along its chain of parents.

use crate::file_system_kinds::FileSystemKinds;
use crate::gone;
use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, Result};
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Weak};

/// The most open directories; also never more than half of what the process may open.
const MOST_HANDLES: u64 = 4096;
/// The fewest open directories that the walk needs.
const FEWEST_HANDLES: u64 = 16;

/// A directory of the walk. Cheap to share; closed with its last user.
#[derive(Debug)]
pub struct Directory {
    parent: Option<Arc<Directory>>,
    /// Last name; of a starting point the absolute path.
    name: Box<CStr>,
    /// Device and inode; `None` for a starting point, which is taken as it is.
    identity: Option<(u64, u64)>,
    handle: Mutex<Option<Arc<OwnedFd>>>,
    handles: Arc<DirectoryHandles>,
    /// Of a starting point: links in its path are not followed.
    refuses_links: bool,
}

impl Directory {
    /// A starting point: an absolute path, in which links are followed. A path with a NUL cannot be
    /// opened.
    pub fn starting_at(path: &[u8], handles: &Arc<DirectoryHandles>) -> Arc<Self> {
        Arc::new(Directory {
            parent: None,
            name: CString::new(path).unwrap_or_default().into_boxed_c_str(),
            identity: None,
            handle: Mutex::default(),
            handles: handles.clone(),
            refuses_links: false,
        })
    }

    /// A starting point whose path must not contain links, so that nobody can redirect it by
    /// exchanging a folder for a link.
    pub fn starting_without_links(path: &[u8], handles: &Arc<DirectoryHandles>) -> Arc<Self> {
        Arc::new(Directory {
            parent: None,
            name: CString::new(path).unwrap_or_default().into_boxed_c_str(),
            identity: None,
            handle: Mutex::default(),
            handles: handles.clone(),
            refuses_links: true,
        })
    }

    /// The directory of this name in `parent`.
    pub(crate) fn child(parent: &Arc<Self>, name: &CStr, identity: (u64, u64)) -> Arc<Self> {
        Arc::new(Directory {
            parent: Some(parent.clone()),
            name: name.into(),
            identity: Some(identity),
            handle: Mutex::default(),
            handles: parent.handles.clone(),
            refuses_links: false,
        })
    }

    /// The directory that it is in, and its name there; `None` for a starting point.
    pub(crate) fn place(&self) -> Option<(&Arc<Self>, &CStr)> {
        self.parent.as_ref().map(|parent| (parent, &*self.name))
    }

    /// Its path on this machine, from the names of its parents.
    pub fn path(&self) -> Vec<u8> {
        let mut names = vec![self.name.to_bytes()];
        let mut above = &self.parent;
        while let Some(directory) = above {
            names.push(directory.name.to_bytes());
            above = &directory.parent;
        }
        names.iter().rev().fold(Vec::new(), |path, name| join(path, name))
    }

    /// The path of `name` in it, on this machine.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        join(self.path(), name)
    }

    /// What the walk knows of file systems.
    pub(crate) fn file_system_kinds(&self) -> &FileSystemKinds {
        &self.handles.file_system_kinds
    }

    /// Whether one of its parents is this inode.
    pub(super) fn parent_is_within(&self, identity: (u64, u64)) -> bool {
        let mut here = self.parent.as_deref();
        while let Some(directory) = here {
            if directory.identity == Some(identity) {
                return true;
            }
            here = directory.parent.as_deref();
        }
        false
    }

    /// An open descriptor, valid as long as the caller holds it.
    pub fn handle(self: &Arc<Self>) -> Result<Arc<OwnedFd>> {
        let mut closed = Vec::new();
        let mut here = self;
        let mut open = loop {
            if let Some(handle) = here.handle.lock().clone() {
                break Some(handle);
            }
            closed.push(here);
            match &here.parent {
                Some(parent) => here = parent,
                None => break None,
            }
        };
        while let Some(directory) = closed.pop() {
            open = Some(directory.open_in(open.as_deref())?);
        }
        open.ok_or(Errno::BADF)
    }

    fn open_in(self: &Arc<Self>, parent: Option<&OwnedFd>) -> Result<Arc<OwnedFd>> {
        let handle = Arc::new(self.sparing_descriptors(|| match parent {
            Some(parent) => gone::reopening(parent, &self.name, || {
                open_quietly(parent, &self.name, OFlags::DIRECTORY | OFlags::NOFOLLOW)
            }),
            None if self.refuses_links => open_without_links(&self.name, OFlags::RDONLY),
            None => open_quietly(CWD, &self.name, OFlags::DIRECTORY),
        })?);
        *self.handle.lock() = Some(handle.clone());
        self.handles.opened(self);
        Ok(handle)
    }

    /// Calls `open`. If the process has no descriptor left, the walk closes its own, which can be
    /// reopened, and calls it again.
    pub(crate) fn sparing_descriptors(
        &self,
        open: impl Fn() -> Result<OwnedFd>,
    ) -> Result<OwnedFd> {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                self.handles.close_all();
                open()
            }
            result => result,
        }
    }

    /// A handle that only says where it lies, for the caller. Whether it is a directory is not asked: for that, the
    /// kernel would mount what is to be mounted there on demand, and wait for it.
    pub(super) fn open_place(&self) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |parent: BorrowedFd<'_>| openat(parent, &*self.name, flags, Mode::empty());
        match &self.parent {
            Some(parent) => {
                let parent = parent.handle()?;
                self.sparing_descriptors(|| open(parent.as_fd()))
            }
            None => open(CWD),
        }
    }

    /// Closes it; the next use opens it again.
    pub(super) fn close(&self) {
        let handle = self.handle.lock().take();
        drop(handle);
    }
}

/// A chain of ten thousand parents must not be dropped by ten thousand nested calls.
impl Drop for Directory {
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(directory) = above {
            above = Arc::into_inner(directory).and_then(|mut last| last.parent.take());
        }
    }
}

/// Joins path and name; `.`, by which the root is opened in itself, is dropped.
fn join(mut path: Vec<u8>, name: &[u8]) -> Vec<u8> {
    if name == b"." {
        return path;
    }
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Opens a directory by its absolute path, name by name, and follows no link. (`openat2` could do
/// it at once, where the kernel and the sandbox know it; this is done once for each starting
/// point.)
fn open_without_links(path: &CStr, flags: OFlags) -> Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut open = openat(CWD, c"/", step, Mode::empty())?;
    let Some(path) = path.to_bytes().strip_prefix(b"/") else { return Err(Errno::INVAL) };
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        if name == b".." {
            return Err(Errno::INVAL);
        }
        open = openat(&open, name, step, Mode::empty())?;
    }
    open_quietly(&open, c".", flags | OFlags::DIRECTORY)
}

/// Opens for reading without changing the access time, where that is allowed (to the owner and to
/// root).
pub(crate) fn open_quietly(
    parent: impl rustix::fd::AsFd,
    name: &CStr,
    flags: OFlags,
) -> Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(&parent, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(&parent, name, flags, Mode::empty()),
        result => result,
    }
}

/// The directories that are open, oldest first.
#[derive(Debug)]
pub struct DirectoryHandles {
    most: usize,
    open: Mutex<VecDeque<Weak<Directory>>>,
    file_system_kinds: FileSystemKinds,
}

impl DirectoryHandles {
    /// Chooses the number by the limit of the process.
    pub fn new() -> Arc<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let most = (limit.unwrap_or(u64::MAX) / 2).clamp(FEWEST_HANDLES, MOST_HANDLES);
        Self::with_most(most as usize)
    }

    pub(super) fn with_most(most: usize) -> Arc<Self> {
        let file_system_kinds = FileSystemKinds::default();
        Arc::new(DirectoryHandles { most, open: Mutex::default(), file_system_kinds })
    }

    fn opened(&self, directory: &Arc<Directory>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(directory));
        let oldest = if open.len() > self.most { open.pop_front() } else { None };
        drop(open);
        if let Some(oldest) = oldest.and_then(|weak| weak.upgrade()) {
            oldest.close();
        }
    }

    fn close_all(&self) {
        let all = std::mem::take(&mut *self.open.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|directory| directory.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, StatxFlags, statx};
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_chain_longer_than_the_descriptors_opens_at_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let handles = DirectoryHandles::with_most(16);
        let top = Directory::starting_at(folder.path().as_os_str().as_bytes(), &handles);
        let mut chain = vec![top];
        for _ in 0..3000 {
            let last = chain.last().unwrap();
            let handle = last.handle().unwrap();
            rustix::fs::mkdirat(&*handle, c"d", Mode::RWXU).unwrap();
            let stat = statx(&*handle, c"d", AtFlags::empty(), StatxFlags::INO).unwrap();
            let identity = (0, stat.stx_ino);
            chain.push(Directory::child(last, c"d", identity));
        }
        for directory in chain.iter().rev().step_by(100) {
            let stat =
                statx(&*directory.handle().unwrap(), c"", AtFlags::EMPTY_PATH, StatxFlags::INO)
                    .unwrap();
            assert!(directory.identity.is_none_or(|(_, inode)| inode == stat.stx_ino));
        }
        assert!(handles.open.lock().len() <= 16);
        assert!(chain[3000].path().ends_with(b"/d/d"));
        drop(chain);
        crate::testing::remove_deep(folder.path());
    }

    #[test]
    fn when_descriptors_run_out_the_walk_gives_up_its_own() {
        let handles = DirectoryHandles::with_most(16);
        let top = Directory::starting_at(b"/", &handles);
        drop(top.handle().unwrap());
        let tries = std::cell::Cell::new(0);
        let opened = top.sparing_descriptors(|| {
            tries.set(tries.get() + 1);
            if top.handle.lock().is_some() {
                Err(Errno::MFILE)
            } else {
                open_quietly(CWD, c"/", OFlags::DIRECTORY)
            }
        });
        assert!(opened.is_ok());
        assert_eq!(tries.get(), 2);
    }

    #[test]
    fn a_start_without_links_does_not_open_behind_one() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/inner")).unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        let opens = |name: &str| {
            let path = base.join(name);
            let path = path.as_os_str().as_bytes();
            Directory::starting_without_links(path, &DirectoryHandles::new()).handle().is_ok()
        };
        assert!(opens("real") && opens("real/inner") && opens("real/./inner/"));
        for name in ["link", "link/inner", "real/../real", "none"] {
            assert!(!opens(name), "{name}");
        }
        let followed = base.join("link/inner");
        let followed =
            Directory::starting_at(followed.as_os_str().as_bytes(), &DirectoryHandles::new());
        assert!(followed.handle().is_ok(), "people follow their own links");
    }

    #[test]
    fn paths_are_put_together_as_people_write_them() {
        let handles = DirectoryHandles::new();
        let top = Directory::starting_at(b"/", &handles);
        let root = Directory::child(&top, c".", (0, 0));
        assert_eq!(root.path(), b"/");
        assert_eq!(root.path_of(b"etc"), b"/etc");
        assert_eq!(Directory::child(&root, c"etc", (0, 0)).path_of(b"\xff"), b"/etc/\xff");
    }
}
