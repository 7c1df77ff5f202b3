//! Directory handles: creating and opening directories.

use crate::credentials::Credentials;
use crate::flags;
use crate::names;
use crate::options::Overwrite;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use crate::refused;
use crate::system::{self, DIRECTORY, ONLY_PATH};
use crate::target::Target;
use format::entry::{Entry, Kind, Time};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// How often another thread (or an attacker) may change a name meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// An open directory below the root of the target, and the defaults of objects created in it.
pub struct Directory {
    /// `None` only in a dry run, if it would be created.
    pub(crate) fd: Option<OwnedFd>,
    /// Nobody else can reach its content: created by us, mode 0700.
    pub(crate) private: bool,
    /// Group of new objects in it; `None` if the mount options decide.
    pub(crate) group: Option<u32>,
    /// New files inherit the flag, which must be removed.
    pub(crate) gives_nodump: bool,
    /// New objects inherit an ACL, which must be removed.
    pub(crate) gives_acl: bool,
    /// Device number of its file system.
    pub(crate) device: u64,
    /// Whether different spellings are one name; determined when a name is taken.
    pub(crate) folds_names: OnceLock<bool>,
}

/// A shared handle of a directory; it stays open as long as the handle exists.
pub type DirHandle = Arc<Directory>;

impl Directory {
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn missing() -> Self {
        let folds_names = OnceLock::new();
        Directory {
            fd: None,
            private: false,
            group: None,
            gives_acl: false,
            gives_nodump: false,
            device: 0,
            folds_names,
        }
    }

    pub(crate) fn describe(
        fd: OwnedFd,
        credentials: &Credentials,
        started: Time,
    ) -> Result<Self, Errno> {
        let stat = system::stat_open(fd.as_fd())?;
        let is_new = system::is_born_after(&stat, started);
        let private = is_new && stat.stx_uid == credentials.uid && system::mode(&stat) & 0o077 == 0;
        let gives_acl = rustix::fs::fgetxattr_query(&fd, DEFAULT_ACL).is_ok();
        let group = group_of_new(&stat, credentials);
        let device = system::device(&stat);
        let gives_nodump = flags::is_nodump(&stat);
        Ok(Directory {
            fd: Some(fd),
            private,
            group,
            gives_acl,
            gives_nodump,
            device,
            folds_names: OnceLock::new(),
        })
    }
}

/// New objects get the group of the directory if it is setgid or mounted with `grpid`, otherwise
/// that of the process. The mount option cannot be queried: unless both are equal, the group is
/// unknown.
fn group_of_new(stat: &Statx, credentials: &Credentials) -> Option<u32> {
    let inherits = system::mode(stat) & 0o2000 != 0;
    (inherits || stat.stx_gid == credentials.gid).then_some(stat.stx_gid)
}

impl Target {
    /// Creates the directory of this entry (mode 0700 until it is finished), or opens an existing
    /// one. Another kind of object at its name is replaced if the options allow. An empty path is
    /// the root.
    pub fn directory(&self, entry: &Entry) -> Result<DirHandle, RestoreProblem> {
        names::check_directory(&entry.path, RestoreOperation::Create)?;
        self.obtain(&entry.path)
    }

    /// The directory that contains `path`; missing ones are created with mode 0700, which they keep
    /// unless the caller finishes them.
    pub fn parent_of(&self, path: &[u8]) -> Result<DirHandle, RestoreProblem> {
        let (parent, _) = names::split(path, RestoreOperation::Create)?;
        self.obtain(parent)
    }

    /// Walks up to a cached directory, then down again. Not recursive: paths may have thousands of
    /// names.
    fn obtain(&self, path: &[u8]) -> Result<DirHandle, RestoreProblem> {
        let mut ends = Vec::new();
        let mut end = path.len();
        let mut handle = loop {
            match self.known(&path[..end]) {
                Some(handle) => break handle,
                None => ends.push(end),
            }
            end = path[..end].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        };
        while let Some(end) = ends.pop() {
            let made = self.make_or_keep(&handle, &path[..end]);
            let explain = |problem| refused::explain(handle.fd(), Kind::Directory, problem);
            handle = made.map_err(|problem| self.place(&handle, explain(problem)))?;
            self.0.cache.lock().put(&path[..end], &handle);
            self.note_system(&handle);
        }
        Ok(handle)
    }

    fn known(&self, path: &[u8]) -> Option<DirHandle> {
        if path.is_empty() {
            return Some(self.0.root.clone());
        }
        self.0.cache.lock().get(path)
    }

    fn make_or_keep(&self, parent: &DirHandle, path: &[u8]) -> Result<DirHandle, RestoreProblem> {
        let (_, name) = names::split(path, RestoreOperation::Create)?;
        let problem = |error: Errno| RestoreProblem::new(path, RestoreOperation::Create, error);
        let Some(fd) = self.0.writable(parent) else {
            return self.dry_run_directory(parent, name, path);
        };
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::mkdirat(fd, name, Mode::RWXU) {
                Ok(()) => return self.enter_new(parent, fd, (name, path)).map_err(problem),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(problem(error)),
            }
            match self.enter_existing(fd, (name, path)) {
                Ok(directory) => {
                    self.refuse_other_spelling(parent, fd, name, path)?;
                    return Ok(Arc::new(directory));
                }
                Err(Errno::NOTDIR | Errno::LOOP) => self.clear_for_directory(fd, name, path)?,
                Err(Errno::NOENT) => {} // gone meanwhile
                // A file system may be mounted there, and it is that one which refuses.
                Err(error) => {
                    return Err(self.place_at(|| system::stat_at(fd, name).ok(), problem(error)));
                }
            }
        }
        Err(problem(Errno::AGAIN))
    }

    fn enter_new(
        &self,
        parent: &Directory,
        fd: BorrowedFd<'_>,
        (name, path): (&[u8], &[u8]),
    ) -> Result<DirHandle, Errno> {
        let open = rustix::fs::openat(fd, name, DIRECTORY, Mode::empty())?;
        if parent.gives_acl {
            remove_acl(open.as_fd());
        }
        self.note_made(open.as_fd(), path)?;
        Ok(Arc::new(Directory::describe(open, &self.0.credentials, self.0.started)?))
    }

    /// Opens an existing directory and makes it writable; flags and mode are restored when it is
    /// finished.
    fn enter_existing(
        &self,
        fd: BorrowedFd<'_>,
        (name, path): (&[u8], &[u8]),
    ) -> Result<Directory, Errno> {
        let (open, unread) = open_child(fd, name, &self.0.credentials)?;
        let unwritten = make_writable(open.as_fd(), &self.0.credentials)?;
        if let Some(before) = unread.or(unwritten) {
            self.0.opened_up.note(&before, path);
        }
        self.remove_left(open.as_fd());
        Directory::describe(open, &self.0.credentials, self.0.started)
    }

    /// Removes another kind of object that has the name of a directory.
    fn clear_for_directory(
        &self,
        fd: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), RestoreProblem> {
        let problem =
            |cause: RestoreCause| RestoreProblem::new(path, RestoreOperation::Replace, cause);
        let stat = match system::stat_at(fd, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(problem(error.into())),
        };
        self.may_be_cleared(&stat, path).map_err(problem)?;
        let unlocked = flags::unlock(fd, name, &stat);
        self.0.old_links.loses_a_name(&stat);
        let removed = rustix::fs::unlinkat(fd, name, AtFlags::empty());
        unlocked.lock_what_stays();
        match removed {
            // It is a directory now: the next attempt opens it.
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
            Err(error) => Err(problem(error.into())),
        }
    }

    /// Whether an object of another kind may go, so that a directory gets its name. The time of a
    /// directory says nothing of what is newer: where that decides, the object stays.
    fn may_be_cleared(&self, stat: &Statx, path: &[u8]) -> Result<(), RestoreCause> {
        let options = &self.0.options;
        if options.is_above_sources(path) {
            return Err(RestoreCause::AboveSources);
        }
        // Also where nothing is behind it: a disk may be mounted there later.
        let is_link = system::kind(stat) == Some(Kind::Symlink);
        let is_always = options.overwrite == Overwrite::Always;
        if !is_always && is_link && options.sources.contains(path) {
            return Err(RestoreCause::LinkToSource);
        }
        if self.0.is_ours(stat) {
            return Err(RestoreCause::Collision);
        }
        if self.0.options.overwrite.keeps_existing() {
            return Err(RestoreCause::Occupied);
        }
        Ok(())
    }

    fn dry_run_directory(
        &self,
        parent: &Directory,
        name: &[u8],
        path: &[u8],
    ) -> Result<DirHandle, RestoreProblem> {
        let Some(fd) = parent.fd() else {
            return Ok(Arc::new(Directory::missing()));
        };
        let directory = match rustix::fs::openat(fd, name, DIRECTORY, Mode::empty()) {
            Ok(open) => Directory::describe(open, &self.0.credentials, self.0.started),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = system::stat_at(fd, name).map(|stat| self.may_be_cleared(&stat, path));
                let cause = found.unwrap_or(Ok(())).err();
                let problem = |cause| RestoreProblem::new(path, RestoreOperation::Replace, cause);
                cause.map(problem).map_or(Ok(()), Err)?;
                Ok(Directory::missing())
            }
            Err(_) => Ok(Directory::missing()),
        };
        directory.map(Arc::new).map_err(|e| RestoreProblem::new(path, RestoreOperation::Inspect, e))
    }

    /// Opens an existing directory below the root, only to inspect it.
    pub(crate) fn existing(
        &self,
        path: &[u8],
        operation: RestoreOperation,
    ) -> Result<OwnedFd, RestoreProblem> {
        names::check_directory(path, operation)?;
        let problem = |error: Errno| RestoreProblem::new(path, operation, error);
        let root = self.0.root.fd().ok_or(problem(Errno::NOENT))?;
        let path = if path.is_empty() { b"." } else { path };
        system::open_beneath(root, path, OFlags::PATH).map_err(problem)
    }
}

/// Removes an inherited ACL. Errors occur again, and are reported, when the attributes of the entry
/// are set.
pub(crate) fn remove_acl(object: BorrowedFd<'_>) {
    for name in [ACCESS_ACL, DEFAULT_ACL] {
        let _ = rustix::fs::fremovexattr(object, name);
    }
}

/// Opens a directory by name; our own unreadable one is made readable first. Then also returns how it was before.
pub(crate) fn open_child(
    fd: BorrowedFd<'_>,
    name: &[u8],
    credentials: &Credentials,
) -> Result<(OwnedFd, Option<Statx>), Errno> {
    match rustix::fs::openat(fd, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let object =
                rustix::fs::openat(fd, name, ONLY_PATH | OFlags::DIRECTORY, Mode::empty())?;
            let stat = system::stat_open(object.as_fd())?;
            if stat.stx_uid != credentials.uid {
                return Err(Errno::ACCESS);
            }
            crate::handle::AttributeHandle::path(object.as_fd())
                .set_mode(system::mode(&stat) | 0o700)?;
            rustix::fs::openat(fd, name, DIRECTORY, Mode::empty()).map(|open| (open, Some(stat)))
        }
        result => result.map(|open| (open, None)),
    }
}

/// Makes an open directory writable. Returns how it was before, if that changed anything.
pub(crate) fn make_writable(
    open: BorrowedFd<'_>,
    credentials: &Credentials,
) -> Result<Option<Statx>, Errno> {
    let stat = system::stat_open(open)?;
    let is_locked = flags::are_locked(&stat);
    if is_locked {
        let _ = flags::clear_locks(open); // if it fails, creating reports it
    }
    let mode = system::mode(&stat);
    let is_closed =
        !credentials.may_override && stat.stx_uid == credentials.uid && mode & 0o700 != 0o700;
    if is_closed {
        rustix::fs::fchmod(open, Mode::from_raw_mode(mode | 0o700))?;
    }
    Ok((is_locked || is_closed).then_some(stat))
}
