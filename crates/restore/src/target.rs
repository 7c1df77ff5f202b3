//! The target: its root, and what its threads share.

use crate::abilities::Abilities;
use crate::above::MadeAbove;
use crate::cache::Cache;
use crate::confined;
use crate::credentials::Credentials;
use crate::directory::{DirHandle, Directory, remove_acl};
use crate::kept::Looks;
use crate::old_links::OldLinks;
use crate::opened_up::OpenedUp;
use crate::options::TargetOptions;
use crate::owners::OwnerIds;
use crate::problem::{
    Attribute, Degradations, Degraded, RestoreOperation, RestoreProblem, Several,
};
use crate::spelling::Spelling;
use crate::system;
use crate::unfinished::{RestoreMarker, UnfinishedRestores};
use format::entry::{Entry, Time};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The directory into which a snapshot is restored. Cheap to clone; can be used from any thread.
#[derive(Clone)]
pub struct Target(pub(crate) Arc<Shared>);

/// What the threads of one restore share.
pub(crate) struct Shared {
    pub(crate) root: DirHandle,
    /// The root was missing.
    has_made_root: bool,
    pub(crate) made_above: MadeAbove,
    pub(crate) options: TargetOptions,
    pub(crate) credentials: Credentials,
    pub(crate) owners: OwnerIds,
    pub(crate) looks: Looks,
    pub(crate) cache: Mutex<Cache>,
    /// Objects created later were created by this restore (or by others meanwhile).
    pub(crate) started: Time,
    /// Restores before this one that did not finish.
    pub(crate) unfinished: UnfinishedRestores,
    pub(crate) marker: Mutex<Option<RestoreMarker>>,
    degraded: Mutex<Degradations>,
    pub(crate) temporaries: AtomicU64,
    pub(crate) spelling: Spelling,
    /// What its file system keeps, once that is known.
    pub(crate) abilities: OnceLock<Abilities>,
    pub(crate) old_links: OldLinks,
    pub(crate) opened_up: OpenedUp,
    /// In a dry run: directories that would be removed.
    pub(crate) foreseen: Mutex<FxHashSet<Vec<u8>>>,
    /// When the marker was last changed, in seconds.
    pub(crate) active_secs: AtomicI64,
    /// A file stays that a restore before this one may have left incomplete.
    pub(crate) has_left_doubt: AtomicBool,
    /// One open directory of each file system, for `sync`.
    systems: Mutex<FxHashMap<u64, DirHandle>>,
}

impl Target {
    /// Opens the root directory, and creates it (mode 0700) if it is missing. Its own path may
    /// contain symlinks; below it none is followed.
    pub fn open(path: &Path, options: TargetOptions) -> Result<Self, RestoreProblem> {
        let problem =
            |e: Errno| RestoreProblem::new(path.as_os_str().as_bytes(), RestoreOperation::Open, e);
        let credentials = Credentials::current();
        let started = start_time().map_err(problem)?;
        let root = open_root(path, &options).map_err(problem)?;
        Self::at(root, options, credentials, started).map_err(problem)
    }

    /// Like [`Self::open`], for a target that another party chose, who may write only below
    /// `folder`: no link is followed up to `folder` or from there to the target, and nobody else
    /// may write to `folder`.
    pub fn open_below(
        folder: &Path,
        path: &Path,
        options: TargetOptions,
    ) -> Result<Self, RestoreProblem> {
        let credentials = Credentials::current();
        let problem =
            |e: Errno| RestoreProblem::new(path.as_os_str().as_bytes(), RestoreOperation::Open, e);
        let started = start_time().map_err(problem)?;
        let root = confined::open(folder, path, &options, &credentials)?;
        Self::at(root, options, credentials, started).map_err(problem)
    }

    fn at(
        root: Option<OpenRoot>,
        options: TargetOptions,
        credentials: Credentials,
        started: Time,
    ) -> Result<Self, Errno> {
        let unfinished = root
            .as_ref()
            .map(|root| UnfinishedRestores::find(root.fd.as_fd(), credentials.uid))
            .transpose()?;
        let unfinished = unfinished.unwrap_or_default();
        let is_made = |root: &OpenRoot| -> Result<bool, Errno> {
            let stat = system::stat_open(root.fd.as_fd())?;
            let is_left = is_as_made(&stat, &credentials)
                && unfinished.has_made_root(&stat, options.scope.as_ref());
            Ok(root.is_made || is_left)
        };
        let has_made_root = root.as_ref().map_or(Ok(false), is_made)?;
        let root = match root {
            Some(root) => root.described(&credentials, started)?,
            None => Directory::missing(),
        };
        let opened_up = OpenedUp::default();
        root.fd().filter(|_| !options.dry_run).map_or(Ok(()), |fd| opened_up.unlock_root(fd))?;
        Ok(Target(Arc::new(Shared {
            root: Arc::new(root),
            has_made_root,
            made_above: MadeAbove::default(),
            owners: OwnerIds::for_option(options.owners),
            looks: Looks::default(),
            options,
            credentials,
            cache: Mutex::default(),
            started,
            unfinished,
            marker: Mutex::default(),
            degraded: Mutex::default(),
            temporaries: AtomicU64::new(0),
            spelling: Spelling::default(),
            abilities: OnceLock::new(),
            old_links: OldLinks::default(),
            opened_up,
            foreseen: Mutex::default(),
            active_secs: AtomicI64::new(0),
            has_left_doubt: AtomicBool::new(false),
            systems: Mutex::default(),
        })))
    }

    /// Takes the degradations since the last call.
    pub fn take_degraded(&self) -> Degradations {
        std::mem::take(&mut self.0.degraded.lock())
    }

    /// Waits until everything restored is on the disks, if the options require it, and returns
    /// errors of write-back that no call has returned. After that, the restore counts as finished.
    pub fn sync(&self) -> Result<(), RestoreProblem> {
        self.sync_as(None)
    }

    /// The same where the content of the directory `root` of a snapshot went into the target. If the target was missing,
    /// it gets the attributes of that directory. One that was there keeps its own: who made it chose who may read it.
    pub fn sync_as(&self, root: Option<&Entry>) -> Result<(), RestoreProblem> {
        if self.0.options.dry_run {
            return Ok(());
        }
        let root = root.filter(|root| self.has_made_root() && self.may_dress_root(root));
        root.map_or(Ok(()), |root| self.dress_root(root)).map_err(of_root)?;
        if self.0.options.sync {
            self.sync_systems()?;
        }
        self.remove_marker();
        self.0.close_root().map_err(of_root)?;
        root.map_or(Ok(()), |root| self.finish_root(root)).map_err(of_root)
    }

    /// Does what [`Self::sync_as`] could not do: where the owner of `root` may not look into it, nothing is compared
    /// there afterwards.
    pub fn close_as(&self, root: Option<&Entry>) -> Result<(), RestoreProblem> {
        let is_left = |root: &&Entry| self.has_made_root() && !self.may_dress_root(root);
        let Some(root) = root.filter(|root| !self.0.options.dry_run && is_left(root)) else {
            return Ok(());
        };
        self.dress_root(root).and_then(|()| self.finish_root(root)).map_err(of_root)
    }

    fn sync_systems(&self) -> Result<(), RestoreProblem> {
        let systems: Vec<DirHandle> = self.0.systems.lock().values().cloned().collect();
        for handle in systems.iter().chain([&self.0.root]) {
            let Some(fd) = handle.fd() else { continue };
            rustix::fs::syncfs(fd).map_err(|e| {
                self.place(handle, RestoreProblem::new(b"", RestoreOperation::Sync, e))
            })?;
        }
        Ok(())
    }

    pub(crate) fn degrade(&self, entry: &Entry, attribute: Attribute, error: Errno) {
        self.0.degraded.lock().push(Degraded { path: entry.path.clone(), attribute, error });
    }

    /// What is so with nearly all objects is counted, and only the first is reported: an ordinary user can set no
    /// owner.
    pub(crate) fn degrade_one_of(
        &self,
        which: impl Fn(&mut Degradations) -> &mut Several,
        entry: &Entry,
        attribute: Attribute,
        error: Errno,
    ) {
        let degraded = || Degraded { path: entry.path.clone(), attribute, error };
        which(&mut self.0.degraded.lock()).push(degraded);
    }

    /// Whether this restore, or an earlier one that did not finish, made the root of the target.
    pub fn has_made_root(&self) -> bool {
        self.0.has_made_root
    }

    /// Remembers a directory of each file system, so that `sync` reaches it.
    pub(crate) fn note_system(&self, handle: &DirHandle) {
        if handle.device != self.0.root.device {
            self.0.systems.lock().entry(handle.device).or_insert_with(|| handle.clone());
        }
    }
}

/// Whether a directory is as a restore leaves one that it made and did not finish.
pub(crate) fn is_as_made(directory: &Statx, credentials: &Credentials) -> bool {
    system::mode(directory) == 0o700 && directory.stx_uid == credentials.uid
}

fn of_root(error: Errno) -> RestoreProblem {
    RestoreProblem::new(b"/", RestoreOperation::Write, error)
}

fn open_root(path: &Path, options: &TargetOptions) -> Result<Option<OpenRoot>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path, flags, Mode::empty());
    match open() {
        Err(Errno::NOENT) if options.dry_run => Ok(None),
        Err(Errno::NOENT) => {
            make_root(path)?;
            open().map(|fd| Some(OpenRoot { fd, is_made: true }))
        }
        found => found.map(|fd| Some(OpenRoot { fd, is_made: false })),
    }
}

/// The root of a target.
pub(crate) struct OpenRoot {
    pub(crate) fd: OwnedFd,
    /// It was missing.
    pub(crate) is_made: bool,
}

impl OpenRoot {
    /// One that was made may have got an ACL from the directory above it, which everything in it would get.
    fn described(self, credentials: &Credentials, started: Time) -> Result<Directory, Errno> {
        if self.is_made {
            remove_acl(self.fd.as_fd());
        }
        let root = Directory::describe(self.fd, credentials, started)?;
        Ok(Directory { private: root.private && self.is_made, ..root })
    }
}

fn make_root(path: &Path) -> Result<(), Errno> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(errno)?;
    }
    std::fs::DirBuilder::new().mode(0o700).create(path).map_err(errno)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The start time: what is created later is ours. Inodes get their times from the coarse clock (up
/// to 10 ms behind) or from the fine one; waiting until the coarse clock has passed this time makes
/// old objects earlier and new ones later.
fn start_time() -> Result<Time, Errno> {
    let started = clock_gettime(ClockId::Realtime);
    loop {
        let coarse = clock_gettime(ClockId::RealtimeCoarse);
        if (coarse.tv_sec, coarse.tv_nsec) > (started.tv_sec, started.tv_nsec) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let nanos = u32::try_from(started.tv_nsec).map_err(|_| Errno::INVAL)?;
    Ok(Time { secs: started.tv_sec, nanos })
}

impl Drop for Shared {
    /// A restore that failed locks again what it opened, too.
    fn drop(&mut self) {
        let _ = self.close_root();
        let Some(root) = self.root.fd() else { return };
        self.opened_up.close_all(root);
    }
}

impl Shared {
    fn close_root(&self) -> Result<(), Errno> {
        let Some(root) = self.root.fd() else { return Ok(()) };
        self.opened_up.close(root, &system::stat_open(root)?)
    }

    /// Whether it was created since the restore started.
    pub(crate) fn is_ours(&self, stat: &Statx) -> bool {
        system::is_born_after(stat, self.started) && !self.old_links.has(stat)
    }

    /// `None` if nothing may be written: in a dry run.
    pub(crate) fn writable<'a>(
        &self,
        directory: &'a Directory,
    ) -> Option<rustix::fd::BorrowedFd<'a>> {
        if self.options.dry_run { None } else { directory.fd.as_ref().map(AsFd::as_fd) }
    }
}
