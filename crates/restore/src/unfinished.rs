//! Detection of restores into this target that did not finish.
//!
//! After a power failure, a file may have its length and times, but zeros instead of data. While a
//! restore runs, a marker is in the target: a small file with the time since when files may be
//! affected. It is durable before the first file is written, and removed when everything is. If a
//! restore finds one, it does not trust the size and mtime of files that changed since. This costs
//! two syncs per restore, and nothing per file.

use crate::problem::{RestoreOperation, RestoreProblem};
use crate::system::{self, READ};
use crate::target::Target;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Statx};
use rustix::io::Errno;

/// The prefix of the names of markers.
const PREFIX: &[u8] = b".icecore-restore-";
const TEXT: &str =
    "An icecore restore into this folder is under way or was cut short. Files changed since ";
const BYTES_MAX: usize = 256;
/// Clocks may be set back: files that changed this long before a restore started are untrusted
/// either.
const MARGIN_SECS: i64 = 86_400;
/// The most markers that are read.
const MARKERS_MAX: usize = 64;

/// Whether `name` in the root of a target is a marker. Somebody else's file may have a name that begins like one.
pub(crate) fn is_marker(root: BorrowedFd<'_>, name: &[u8]) -> bool {
    since(root, name).is_some()
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
        let since_secs = found.iter().filter_map(|name| since(root, name)).min();
        Ok(Self { found, since_secs })
    }
}

/// Since when files are untrusted because of the marker `name`; `None` if it is none. What a power failure left of one
/// doubts everything.
fn since(root: BorrowedFd<'_>, name: &[u8]) -> Option<i64> {
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
    match bytes.strip_prefix(TEXT.as_bytes()) {
        Some(text) => Some(time_of(text).unwrap_or(i64::MIN)),
        None => is_torn(bytes).then_some(i64::MIN),
    }
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
        let name = [PREFIX, self.own_number().as_bytes()].concat();
        let problem = |error: Errno| RestoreProblem::new(&name, RestoreOperation::Create, error);
        let file = create(root, &name).map_err(problem)?;
        if let Err(error) = self.fill(root, file.as_fd()) {
            let _ = rustix::fs::unlinkat(root, &name[..], AtFlags::empty());
            return Err(problem(error));
        }
        *self.0.marker.lock() = Some(RestoreMarker { name, _file: file });
        Ok(())
    }

    fn own_number(&self) -> String {
        format!("{}-{:x}{:08x}", std::process::id(), self.0.started.secs, self.0.started.nanos)
    }

    fn fill(&self, root: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<(), Errno> {
        // By the clock of the file system, which may be another machine's.
        let now_secs = system::stat_open(file)?.stx_ctime.tv_sec;
        let text = format!(
            "{TEXT}{now_secs} (seconds since 1970) may be incomplete; the next \nrestore into it that finishes repairs them and removes this file.\n"
        );
        system::write_all(file, text.as_bytes())?;
        let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        if self.0.options.sync {
            rustix::fs::fsync(file)?;
            rustix::fs::fsync(root)?;
        }
        Ok(())
    }

    /// Removes the markers: everything that this restore wrote and compared is as durable as
    /// requested. Markers of other restores are kept while they run, and if this restore did not
    /// sync.
    pub(crate) fn remove_marker(&self) {
        let Some(root) = self.0.writable(&self.0.root) else { return };
        if let Some(marker) = self.0.marker.lock().take() {
            let _ = rustix::fs::unlinkat(root, &marker.name[..], AtFlags::empty());
        }
        let left = if self.0.options.sync { &self.0.unfinished.found[..] } else { &[] };
        for name in left.iter().filter(|name| !is_held(root, name)) {
            let _ = rustix::fs::unlinkat(root, &name[..], AtFlags::empty());
        }
    }

    /// Whether the content of an existing file has to be compared, because a restore that did not
    /// finish set its size and times.
    pub(crate) fn is_uncertain(&self, stat: &Statx, entry: &Entry) -> bool {
        let since = self.0.unfinished.since_secs;
        entry.kind() == Kind::File
            && entry.size > 0
            && since.is_some_and(|since| stat.stx_ctime.tv_sec >= since)
    }
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
