//! Detection of restores into this target that did not finish.
//!
//! After a power failure, a file may have its length and times, but zeros instead of data; after a
//! kill, a part of one may have its name. While a restore runs, a marker is in the target: a small
//! file with the time since when files may be affected, and what is restored. It is durable before
//! the first file is written, and removed when everything is. If a restore finds one, it does not
//! trust the size and mtime of files that changed since. The time of the marker is when something was
//! last made: what is younger is somebody else's. This costs two syncs per restore, a call each second,
//! a listing of each directory that was there and has something to compare, and nothing per file.
//!
//! Markers are looked for in the target and in the directories above it: a larger restore may have
//! begun there; and in the directories below, where what is in them may stay.
//! Only a restore of the same, or of all of it, removes what another one has left.

use crate::marker::{self, Marker, PREFIX, RestoreScope};
use crate::options::Overwrite;
use crate::problem::{RestoreOperation, RestoreProblem};
use crate::system;
use crate::target::Target;
use format::entry::{Entry, Kind};
use parking_lot::RwLock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, Statx, Timespec, Timestamps, UTIME_NOW,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most markers of a directory that are read.
const MARKERS_MAX: usize = 64;
/// The most directories above the target that are looked into.
const ABOVE_MAX: usize = 256;
/// Of a time since when nothing is in doubt.
const NEVER: i64 = i64::MAX;

/// The markers of earlier restores.
pub(crate) struct UnfinishedRestores {
    /// In the root of the target.
    found: Vec<FoundMarker>,
    /// In other directories, whose restores ended: what they restored.
    elsewhere: RwLock<Vec<String>>,
    /// Names of the markers of restores that do not run any more.
    ended: RwLock<Arc<Vec<Vec<u8>>>>,
    /// Files that changed since this time are untrusted.
    since_secs: AtomicI64,
    /// Files that changed since this time may be incomplete under their names.
    partial_since_secs: AtomicI64,
}

struct FoundMarker {
    name: Vec<u8>,
    says: Marker,
    /// It is of root or of this user, so that nobody else says what is our work.
    is_trusted: bool,
}

impl FoundMarker {
    /// Whether its restore may have made what has this time of birth: while it ran, and a second later, since it may
    /// have died in between. Without one nobody knows, and it counts as somebody's.
    fn may_have_made(&self, object: &Statx) -> bool {
        self.says.begun_secs().is_some_and(|begun_secs| self.ran_since(begun_secs, object))
    }

    /// The same of the root of the target, which is made before the marker.
    fn may_have_made_root(&self, root: &Statx) -> bool {
        let begun_secs = self.says.begun_secs().map(|begun_secs| begun_secs.saturating_sub(1));
        self.says.has_made_root
            && begun_secs.is_some_and(|begun_secs| self.ran_since(begun_secs, root))
    }

    fn ran_since(&self, begun_secs: i64, object: &Statx) -> bool {
        let ran = begun_secs..=self.says.last_secs.saturating_add(1);
        self.is_trusted && system::has_birth_time(object) && ran.contains(&object.stx_btime.tv_sec)
    }
}

/// Our own marker; locked, so that no other restore removes it.
pub(crate) struct RestoreMarker {
    name: Vec<u8>,
    file: OwnedFd,
}

impl Default for UnfinishedRestores {
    fn default() -> Self {
        let (found, elsewhere, ended) = Default::default();
        let [since_secs, partial_since_secs] = [NEVER; 2].map(AtomicI64::new);
        Self { found, elsewhere, ended, since_secs, partial_since_secs }
    }
}

impl UnfinishedRestores {
    /// Finds markers in the root of a target, and above it those of root and of the user `uid`.
    pub(crate) fn find(root: BorrowedFd<'_>, uid: u32) -> Result<Self, Errno> {
        let is_trusted = |owner: u32| owner == uid || owner == 0;
        let mut found = markers(root, &|_| true)?;
        for marker in &mut found {
            marker.is_trusted = marker::read_of(root, &marker.name, &is_trusted).is_some();
        }
        let unfinished = Self { found, ..Self::default() };
        for FoundMarker { name, says, .. } in &unfinished.found {
            unfinished.doubt(root, name, says);
        }
        let mut at = rustix::fs::openat(root, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        for _ in 0..ABOVE_MAX {
            let Some(above) = above(at.as_fd()) else { break };
            unfinished.look_elsewhere(above.as_fd(), &is_trusted);
            at = above;
        }
        Ok(unfinished)
    }

    /// Looks into another directory than the root of the target. Nobody may be kept from restoring by
    /// one that cannot be read.
    fn look_elsewhere(&self, directory: BorrowedFd<'_>, is_trusted: &dyn Fn(u32) -> bool) {
        for FoundMarker { name, says, .. } in markers(directory, is_trusted).unwrap_or_default() {
            if self.doubt(directory, &name, &says) {
                self.elsewhere.write().push(told(directory, &name, &says));
            }
        }
    }

    /// Takes over what a marker says. Whether its restore ended.
    fn doubt(&self, directory: BorrowedFd<'_>, name: &[u8], says: &Marker) -> bool {
        self.since_secs.fetch_min(says.since_secs, Ordering::Relaxed);
        if !says.is_whole {
            self.partial_since_secs.fetch_min(says.since_secs, Ordering::Relaxed);
        }
        let has_ended = !marker::is_held(directory, name);
        if has_ended {
            Arc::make_mut(&mut *self.ended.write()).push(name.to_vec());
        }
        has_ended
    }

    /// Names of the markers of those that do not run any more.
    pub(crate) fn ended(&self) -> Arc<Vec<Vec<u8>>> {
        self.ended.read().clone()
    }

    /// Whether one that restored the same path, from whichever snapshot, made this directory.
    pub(crate) fn has_made(&self, directory: &Statx, scope: Option<&RestoreScope>) -> bool {
        self.found.iter().any(|marker| {
            marker.may_have_made(directory)
                && RestoreScope::is_of_same_path(scope, marker.says.scope.as_ref())
        })
    }

    /// Whether one that restored the same began this file under its name.
    pub(crate) fn has_begun(&self, file: &Statx, scope: Option<&RestoreScope>) -> bool {
        self.found.iter().any(|marker| {
            let other = marker.says.scope.as_ref();
            marker.may_have_made(file)
                && !marker.says.is_whole
                && scope.is_some() == other.is_some()
                && RestoreScope::covers(scope, other)
        })
    }

    /// Whether one that restored the same path made the root of the target.
    pub(crate) fn has_made_root(&self, root: &Statx, scope: Option<&RestoreScope>) -> bool {
        self.found.iter().any(|marker| {
            marker.may_have_made_root(root)
                && RestoreScope::is_of_same_path(scope, marker.says.scope.as_ref())
        })
    }
}

/// The markers in a directory.
fn markers(
    directory: BorrowedFd<'_>,
    is_trusted: &dyn Fn(u32) -> bool,
) -> Result<Vec<FoundMarker>, Errno> {
    let read = |name: &[u8]| marker::read_of(directory, name, is_trusted);
    let names = system::list(directory, MARKERS_MAX, &|name| read(name).is_none())?;
    let found = names.into_iter().filter_map(|name| Some((read(&name)?, name)));
    Ok(found.map(|(says, name)| FoundMarker { name, says, is_trusted: false }).collect())
}

/// The directory above one; `None` for the highest, and where nobody may look.
fn above(directory: BorrowedFd<'_>) -> Option<OwnedFd> {
    let above = rustix::fs::openat(directory, c"..", system::DIRECTORY, Mode::empty()).ok()?;
    let [own, of_above] = [directory, above.as_fd()].map(system::stat_open);
    let is_highest = system::same_inode(&own.ok()?, &of_above.ok()?);
    (!is_highest).then_some(above)
}

/// A marker, for people.
fn told(directory: BorrowedFd<'_>, name: &[u8], says: &Marker) -> String {
    let directory = std::fs::read_link(open_file(directory)).unwrap_or_default();
    let path = directory.join(OsStr::from_bytes(name));
    match &says.scope {
        Some(scope) => format!("{} (of {})", path.display(), scope.what),
        None => path.display().to_string(),
    }
}

/// The name of an open file.
fn open_file(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Target {
    /// Writes a durable marker into the target; call it before the first object is written.
    pub fn write_marker(&self) -> Result<(), RestoreProblem> {
        let Some(root) = self.0.writable(&self.0.root) else { return Ok(()) };
        self.remove_left(root);
        let name = [PREFIX, self.own_number().as_bytes()].concat();
        let problem = |error: Errno| RestoreProblem::new(&name, RestoreOperation::Create, error);
        let file = match self.make_unnamed(root, &name) {
            Ok(file) => file,
            Err(_) => self.make_named(root, &name).map_err(problem)?,
        };
        if self.0.options.sync {
            rustix::fs::fsync(root).map_err(problem)?;
        }
        self.try_abilities(file.as_fd());
        *self.0.marker.lock() = Some(RestoreMarker { name, file });
        Ok(())
    }

    /// Whether another restore is writing to this target.
    pub fn is_shared(&self) -> bool {
        let Some(root) = self.0.root.fd() else { return false };
        self.0.unfinished.found.iter().any(|found| marker::is_held(root, &found.name))
    }

    /// The markers of restores that were interrupted and that this one did not finish, with what they restored. Call it
    /// at the end.
    pub fn still_unfinished(&self) -> Vec<String> {
        let Some(root) = self.0.root.fd() else { return Vec::new() };
        let is_left = |found: &&FoundMarker| {
            marker::is_marker(root, &found.name) && !marker::is_held(root, &found.name)
        };
        let own = self.0.unfinished.found.iter().filter(is_left);
        let own = own.map(|found| told(root, &found.name, &found.says));
        own.chain(self.0.unfinished.elsewhere.read().iter().cloned()).collect()
    }

    /// Looks for markers in a directory below the root, if what is in it may stay as it is. Call it before that is
    /// compared, and before something is restored into it.
    pub fn look_into(&self, path: &[u8]) {
        if self.0.options.overwrite == Overwrite::Always || path.is_empty() {
            return;
        }
        let Ok(Some(directory)) = self.open_listed(path) else { return };
        let uid = self.0.credentials.uid;
        self.0.unfinished.look_elsewhere(directory.as_fd(), &|owner| owner == uid || owner == 0);
    }

    /// Something was made: what is younger than the marker was made by somebody else.
    pub(crate) fn note_activity(&self) {
        let now_secs = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        let is_noted = self.0.active_secs.load(Ordering::Relaxed) == now_secs;
        if is_noted || self.0.active_secs.swap(now_secs, Ordering::Relaxed) == now_secs {
            return;
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        if let Some(marker) = &*self.0.marker.lock() {
            let _ = rustix::fs::futimens(&marker.file, &times);
        }
    }

    /// Makes a marker that has its text before it has its name: whoever is killed leaves a whole one or none.
    fn make_unnamed(&self, root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, c".", flags, Mode::RUSR | Mode::WUSR)?;
        self.fill(file.as_fd())?;
        rustix::fs::linkat(CWD, open_file(file.as_fd()), root, name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    /// The same where the file system cannot do that.
    fn make_named(&self, root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
        let file = create(root, name)?;
        self.fill(file.as_fd()).inspect_err(|_| {
            let _ = rustix::fs::unlinkat(root, name, AtFlags::empty());
        })?;
        Ok(file)
    }

    fn fill(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        let marker = Marker {
            // By the clock of the file system, which may be another machine's.
            since_secs: system::stat_open(file)?.stx_ctime.tv_sec,
            is_whole: self.0.options.overwrite.keeps_existing(),
            has_made_root: self.has_made_root(),
            scope: self.0.options.scope.clone(),
            last_secs: 0,
        };
        system::write_all(file, marker.text().as_bytes())?;
        let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        if self.0.options.sync { rustix::fs::fsync(file) } else { Ok(()) }
    }

    /// Removes the markers: everything that this restore wrote and compared is as durable as
    /// requested. Markers of other restores are kept while they run, if they restored something
    /// else, if this restore did not sync, and if it left a file that may be incomplete.
    pub(crate) fn remove_marker(&self) {
        let Some(root) = self.0.writable(&self.0.root) else { return };
        if let Some(marker) = self.0.marker.lock().take() {
            let _ = rustix::fs::unlinkat(root, &marker.name[..], AtFlags::empty());
        }
        if !self.0.options.sync || self.0.has_left_doubt.load(Ordering::Relaxed) {
            return;
        }
        let own = self.0.options.scope.as_ref();
        let is_done = |found: &&FoundMarker| {
            RestoreScope::covers(own, found.says.scope.as_ref())
                && !marker::is_held(root, &found.name)
        };
        for found in self.0.unfinished.found.iter().filter(is_done) {
            let _ = rustix::fs::unlinkat(root, &found.name[..], AtFlags::empty());
        }
    }

    /// Whether the content of an existing file has to be compared, because a restore that did not
    /// finish set its size and times.
    pub(crate) fn is_uncertain(&self, stat: &Statx, entry: &Entry) -> bool {
        changed_since(&self.0.unfinished.since_secs, stat, entry)
    }

    /// Whether an existing file with other times than in the snapshot may be one that a restore began.
    pub(crate) fn is_maybe_partial(&self, stat: &Statx, entry: &Entry) -> bool {
        changed_since(&self.0.unfinished.partial_since_secs, stat, entry)
    }
}

/// What is no file is no part of one, and whole as soon as it is there.
fn changed_since(since_secs: &AtomicI64, stat: &Statx, entry: &Entry) -> bool {
    let since_secs = since_secs.load(Ordering::Relaxed);
    entry.kind() == Kind::File
        && system::kind(stat) == Some(Kind::File)
        && entry.size > 0
        && since_secs != NEVER
        && stat.stx_ctime.tv_sec >= since_secs
}

fn create(root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(root, name, flags, Mode::RUSR | Mode::WUSR)
}
