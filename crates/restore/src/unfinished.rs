//! Detection of restores into this target that did not finish.
//!
//! After a power failure, a file may have its length and times, but zeros instead of data. While a
//! restore runs, a marker is in the target: a small file with the time since when files may be
//! affected. It is durable before the first file is written, and removed when everything is. If a
//! restore finds one, it does not trust the size and mtime of files that changed since. This costs
//! two syncs per restore, and nothing per file.
//!
//! A restore that was killed also leaves temporary names, with its number in them: the next one
//! removes them in each directory that it opens.

use crate::problem::{RestoreOperation, RestoreProblem};
use crate::system::{self, READ};
use crate::target::Target;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Statx};
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

/// The prefix of the names of markers; behind it is the number of the restore.
const PREFIX: &[u8] = b".icecore-restore-";
/// Temporary names begin and end so; between them are the number of the restore and that of the name.
const TEMPORARY: &[u8] = b".icecore-";
const PART: &[u8] = b".part";
/// So many names that are left are removed at once.
const LEFT_AT_ONCE: usize = 1024;
const TEXT: &str =
    "An icecore restore into this folder is under way or was cut short. Files changed since ";
/// No file has its name before it is complete.
const WHOLE: &str = "Files have their names only when they are complete.";
/// The root of the target was missing.
const MADE: &str = "The restore made this folder.";
const BYTES_MAX: usize = 512;
/// Clocks may be set back: files that changed this long before a restore started are untrusted
/// either.
const MARGIN_SECS: i64 = 86_400;
/// The most markers that are read.
const MARKERS_MAX: usize = 64;

/// Whether `name` in the root of a target is a marker. Somebody else's file may have a name that begins like one.
pub(crate) fn is_marker(root: BorrowedFd<'_>, name: &[u8]) -> bool {
    read(root, name).is_some()
}

/// Whether a marker can have this name: [`Target::own_number`].
fn is_name_of_marker(name: &[u8]) -> bool {
    let is_number =
        |part: &[u8], is_digit: fn(&u8) -> bool| !part.is_empty() && part.iter().all(is_digit);
    let number = name.strip_prefix(PREFIX).unwrap_or_default();
    let dash = number.iter().position(|byte| *byte == b'-');
    dash.and_then(|at| number.split_at_checked(at)).is_some_and(|(process, time)| {
        is_number(process, u8::is_ascii_digit) && is_number(&time[1..], u8::is_ascii_hexdigit)
    })
}

/// The markers of earlier restores.
#[derive(Default)]
pub(crate) struct UnfinishedRestores {
    found: Vec<Vec<u8>>,
    /// Files that changed since this time are untrusted.
    since_secs: Option<i64>,
    /// Files that changed since this time may be incomplete under their names.
    partial_since_secs: Option<i64>,
    /// One of them made the root.
    has_made_root: bool,
    /// Those of them that do not run any more.
    ended: Vec<Vec<u8>>,
}

/// What a marker says.
struct Marker {
    since_secs: i64,
    is_whole: bool,
    has_made_root: bool,
}

/// Our own marker; locked, so that no other restore removes it.
pub(crate) struct RestoreMarker {
    name: Vec<u8>,
    _file: OwnedFd,
}

impl UnfinishedRestores {
    /// Finds markers in the root of a target.
    pub(crate) fn find(root: BorrowedFd<'_>) -> Result<Self, Errno> {
        let found = system::list(root, MARKERS_MAX, &|name| !is_marker(root, name))?;
        let markers: Vec<_> = found.iter().filter_map(|name| read(root, name)).collect();
        let partial = markers.iter().filter(|marker| !marker.is_whole);
        let ended = found.iter().filter(|name| !is_held(root, name)).cloned().collect();
        Ok(Self {
            since_secs: markers.iter().map(|marker| marker.since_secs).min(),
            partial_since_secs: partial.map(|marker| marker.since_secs).min(),
            has_made_root: markers.iter().any(|marker| marker.has_made_root),
            ended,
            found,
        })
    }

    /// Whether one of them runs still.
    fn is_any_running(&self) -> bool {
        self.ended.len() < self.found.len()
    }

    /// Whether one of them made the root of the target.
    pub(crate) fn has_made_root(&self) -> bool {
        self.has_made_root
    }

    /// Whether `name` is a temporary name of one that ended.
    fn is_left(&self, name: &[u8]) -> bool {
        self.ended.iter().filter_map(|marker| marker.strip_prefix(PREFIX)).any(|number| {
            let rest = name.strip_prefix(TEMPORARY).and_then(|rest| rest.strip_prefix(number));
            let rest = rest.and_then(|rest| rest.strip_prefix(b"-"));
            let digits = rest.and_then(|rest| rest.strip_suffix(PART)).unwrap_or_default();
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        })
    }
}

/// What the marker `name` says; `None` if it is none. What a power failure left of one doubts everything.
fn read(root: BorrowedFd<'_>, name: &[u8]) -> Option<Marker> {
    if !is_name_of_marker(name) {
        return None;
    }
    let file = rustix::fs::openat(root, name, READ, Mode::empty()).ok()?;
    let stat = system::stat_open(file.as_fd()).ok()?;
    if system::file_type(&stat) != FileType::RegularFile {
        return None;
    }
    let mut bytes = [0; BYTES_MAX + 1];
    let length = rustix::io::read(&file, &mut bytes).ok()?;
    let bytes = bytes.get(..length).filter(|bytes| bytes.len() <= BYTES_MAX)?;
    let says = |words: &str| bytes.windows(words.len()).any(|at| at == words.as_bytes());
    let since_secs = match bytes.strip_prefix(TEXT.as_bytes()) {
        Some(text) => time_of(text).unwrap_or(i64::MIN),
        None => is_torn(bytes).then_some(i64::MIN)?,
    };
    Some(Marker { since_secs, is_whole: says(WHOLE), has_made_root: says(MADE) })
}

/// The time in the text of a marker.
fn time_of(text: &[u8]) -> Option<i64> {
    let secs = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    secs.parse::<i64>().ok().map(|secs| secs.saturating_sub(MARGIN_SECS))
}

/// Whether a power failure can have made this of the text of a marker: cut short, or zeros from somewhere on.
fn is_torn(bytes: &[u8]) -> bool {
    let kept = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    TEXT.as_bytes().starts_with(&bytes[..kept])
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
        *self.0.marker.lock() = Some(RestoreMarker { name, _file: file });
        Ok(())
    }

    /// Whether another restore is writing to this target.
    pub fn is_shared(&self) -> bool {
        self.0.unfinished.is_any_running()
    }

    /// Removes what restores that ended in the middle have left in a directory under temporary names. What cannot be
    /// removed stays, as it was.
    pub(crate) fn remove_left(&self, directory: BorrowedFd<'_>) {
        let unfinished = &self.0.unfinished;
        if unfinished.ended.is_empty() {
            return;
        }
        loop {
            let left = system::list(directory, LEFT_AT_ONCE, &|name| !unfinished.is_left(name));
            let left = left.unwrap_or_default();
            let remove = |name: &Vec<u8>| {
                rustix::fs::unlinkat(directory, &name[..], AtFlags::empty()).is_ok()
            };
            let removed = left.iter().filter(|name| remove(name)).count();
            if removed < LEFT_AT_ONCE {
                return;
            }
        }
    }

    /// A temporary name for an object that gets its own later. It remains only after a crash, until the next restore.
    pub(crate) fn temporary_name(&self) -> Vec<u8> {
        let count = self.0.temporaries.fetch_add(1, Ordering::Relaxed);
        let own = format!("{}-{count}", self.own_number());
        [TEMPORARY, own.as_bytes(), PART].concat()
    }

    fn own_number(&self) -> String {
        format!("{}-{:x}{:08x}", std::process::id(), self.0.started.secs, self.0.started.nanos)
    }

    /// Makes a marker that has its text before it has its name: whoever is killed leaves a whole one or none.
    fn make_unnamed(&self, root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, c".", flags, Mode::RUSR | Mode::WUSR)?;
        self.fill(file.as_fd())?;
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, open, root, name, AtFlags::SYMLINK_FOLLOW)?;
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
        // By the clock of the file system, which may be another machine's.
        let now_secs = system::stat_open(file)?.stx_ctime.tv_sec;
        let mut text = format!(
            "{TEXT}{now_secs} (seconds since 1970) may be incomplete; the next \nrestore into it that finishes repairs them and removes this file.\n"
        );
        let whole = self.0.options.overwrite.keeps_existing().then_some(WHOLE);
        let made = self.has_made_root().then_some(MADE);
        for words in whole.into_iter().chain(made) {
            text.extend([words, "\n"]);
        }
        system::write_all(file, text.as_bytes())?;
        let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        if self.0.options.sync { rustix::fs::fsync(file) } else { Ok(()) }
    }

    /// Removes the markers: everything that this restore wrote and compared is as durable as
    /// requested. Markers of other restores are kept while they run, if this restore did not sync,
    /// and if it left a file that may be incomplete.
    pub(crate) fn remove_marker(&self) {
        let Some(root) = self.0.writable(&self.0.root) else { return };
        if let Some(marker) = self.0.marker.lock().take() {
            let _ = rustix::fs::unlinkat(root, &marker.name[..], AtFlags::empty());
        }
        let is_settled = self.0.options.sync && !self.0.has_left_doubt.load(Ordering::Relaxed);
        let left = if is_settled { &self.0.unfinished.found[..] } else { &[] };
        for name in left.iter().filter(|name| !is_held(root, name)) {
            let _ = rustix::fs::unlinkat(root, &name[..], AtFlags::empty());
        }
    }

    /// Whether the content of an existing file has to be compared, because a restore that did not
    /// finish set its size and times.
    pub(crate) fn is_uncertain(&self, stat: &Statx, entry: &Entry) -> bool {
        changed_since(self.0.unfinished.since_secs, stat, entry)
    }

    /// Whether an existing file with other times than in the snapshot may be one that a restore began.
    pub(crate) fn is_maybe_partial(&self, stat: &Statx, entry: &Entry) -> bool {
        changed_since(self.0.unfinished.partial_since_secs, stat, entry)
    }
}

fn changed_since(since_secs: Option<i64>, stat: &Statx, entry: &Entry) -> bool {
    entry.kind() == Kind::File
        && entry.size > 0
        && since_secs.is_some_and(|since| stat.stx_ctime.tv_sec >= since)
}

fn create(root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(root, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Whether the restore that wrote a marker is running.
fn is_held(root: BorrowedFd<'_>, name: &[u8]) -> bool {
    let Ok(file) = rustix::fs::openat(root, name, READ, Mode::empty()) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}
