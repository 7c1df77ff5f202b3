//! The marker of a restore: its name, its text, and who holds it.
//!
//! ```text
//! An icecore restore into this folder is under way or was cut short. Files changed since 1764233333 (seconds since …
//! restore into it that finishes repairs them and removes this file.
//! Files have their names only when they are complete.     if that is so
//! The restore made this folder.                           if that is so
//! Restored: 3f2a…:home/me                                 the snapshot and the path in it
//! Only a part of it: 9f3c0d1e2b4a5968                      a hash of the options that chose the part, if any
//! ```

use crate::system::{self, READ};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, FlockOperation, Mode};
use rustix::io::Errno;

/// The prefix of the names of markers; behind it is the number of the restore.
pub(crate) const PREFIX: &[u8] = b".icecore-restore-";
const TEXT: &str =
    "An icecore restore into this folder is under way or was cut short. Files changed since ";
const WHOLE: &str = "Files have their names only when they are complete.";
const MADE: &str = "The restore made this folder.";
const RESTORED: &str = "Restored: ";
const PART: &str = "Only a part of it: ";
/// More than the longest path takes with each of its bytes escaped.
const BYTES_MAX: usize = 20_000;
/// Clocks may be set back: files that changed this long before a restore started are untrusted
/// either.
const MARGIN_SECS: i64 = 86_400;

/// What a restore brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreScope {
    /// The snapshot and the path in it, as people write them.
    pub what: String,
    /// Differs with the options that chose a part of that; `None` for all of it.
    pub part: Option<u64>,
}

impl RestoreScope {
    /// Whether a restore that ends has brought all that another one, with this scope, began. Of one that is unknown
    /// nobody can tell more than that it was restored into the same target.
    pub(crate) fn covers(own: Option<&Self>, other: Option<&Self>) -> bool {
        match (own, other) {
            (None, other) => other.is_none(),
            (Some(own), None) => own.part.is_none(),
            (Some(own), Some(other)) => {
                own.what == other.what && (own.part.is_none() || own.part == other.part)
            }
        }
    }
}

impl RestoreScope {
    /// Whether both bring back the same path, of whichever snapshots, and this one at least as much of it.
    pub(crate) fn is_of_same_path(own: Option<&Self>, other: Option<&Self>) -> bool {
        let path = |scope: &Self| scope.what.split_once(':').map(|(_, path)| path.to_owned());
        match (own, other) {
            (None, None) => true,
            (Some(own), Some(other)) => {
                path(own) == path(other) && (own.part.is_none() || own.part == other.part)
            }
            _ => false,
        }
    }
}

/// What a marker says.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    /// Files that changed since then may lack what was written.
    pub(crate) since_secs: i64,
    /// No file has its name before it is complete.
    pub(crate) is_whole: bool,
    /// The root of the target was missing.
    pub(crate) has_made_root: bool,
    /// What the restore brings back; `None` if that cannot be read.
    pub(crate) scope: Option<RestoreScope>,
    /// When the restore last made something: the time of the marker.
    pub(crate) last_secs: i64,
}

impl Marker {
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{TEXT}{} (seconds since 1970) may be incomplete; the next \nrestore into it that finishes repairs them and removes this file.\n",
            self.since_secs
        );
        let whole = self.is_whole.then(|| WHOLE.to_owned());
        let made = self.has_made_root.then(|| MADE.to_owned());
        let what = self.scope.as_ref().map(|scope| format!("{RESTORED}{}", scope.what));
        let part = self.scope.as_ref().and_then(|scope| scope.part);
        let part = part.map(|part| format!("{PART}{part:016x}"));
        for line in [whole, made, what, part].into_iter().flatten() {
            text.extend([&line, "\n"]);
        }
        text
    }

    /// When the restore began; `None` if that cannot be read.
    pub(crate) fn begun_secs(&self) -> Option<i64> {
        (self.since_secs != i64::MIN).then(|| self.since_secs.saturating_add(MARGIN_SECS))
    }

    /// It doubts everything.
    fn unknown() -> Self {
        Self {
            since_secs: i64::MIN,
            is_whole: false,
            has_made_root: false,
            scope: None,
            last_secs: i64::MIN,
        }
    }

    /// What a power failure left of a marker doubts everything.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let since_secs = match bytes.strip_prefix(TEXT.as_bytes()) {
            Some(text) => time_of(text).unwrap_or(i64::MIN),
            None => is_torn(bytes).then_some(i64::MIN)?,
        };
        let text = String::from_utf8_lossy(bytes);
        let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
        let scope = line(RESTORED).map(|what| RestoreScope {
            what: what.to_owned(),
            // A part that cannot be read is none that anybody restores.
            part: line(PART).map(|part| u64::from_str_radix(part, 16).unwrap_or(0)),
        });
        let (is_whole, has_made_root) = (line(WHOLE).is_some(), line(MADE).is_some());
        Some(Self { since_secs, is_whole, has_made_root, scope, last_secs: i64::MIN })
    }
}

/// Whether a marker can have this name: a process and a time.
fn is_name_of_marker(name: &[u8]) -> bool {
    let is_number =
        |part: &[u8], is_digit: fn(&u8) -> bool| !part.is_empty() && part.iter().all(is_digit);
    let number = name.strip_prefix(PREFIX).unwrap_or_default();
    let dash = number.iter().position(|byte| *byte == b'-');
    dash.and_then(|at| number.split_at_checked(at)).is_some_and(|(process, time)| {
        is_number(process, u8::is_ascii_digit) && is_number(&time[1..], u8::is_ascii_hexdigit)
    })
}

/// Whether `name` in a directory is a marker. Somebody else's file may have a name that begins like one.
pub(crate) fn is_marker(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    read(directory, name).is_some()
}

/// What the marker `name` says; `None` if it is none.
pub(crate) fn read(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Marker> {
    read_of(directory, name, &|_| true)
}

/// The same, if it belongs to a user of whom `is_trusted` says so.
pub(crate) fn read_of(
    directory: BorrowedFd<'_>,
    name: &[u8],
    is_trusted: &dyn Fn(u32) -> bool,
) -> Option<Marker> {
    if !is_name_of_marker(name) {
        return None;
    }
    let file = match rustix::fs::openat(directory, name, READ, Mode::empty()) {
        // That of another user: nobody knows what it says.
        Err(Errno::ACCESS | Errno::PERM) => {
            let owner = system::stat_at(directory, name).ok()?.stx_uid;
            return is_trusted(owner).then(Marker::unknown);
        }
        file => file.ok()?,
    };
    let stat = system::stat_open(file.as_fd()).ok()?;
    if system::file_type(&stat) != FileType::RegularFile || !is_trusted(stat.stx_uid) {
        return None;
    }
    let mut bytes = vec![0; BYTES_MAX + 1];
    let length = rustix::io::read(&file, &mut bytes).ok()?;
    let bytes = bytes.get(..length).filter(|bytes| bytes.len() <= BYTES_MAX)?;
    Some(Marker { last_secs: stat.stx_mtime.tv_sec, ..Marker::parse(bytes)? })
}

/// Whether the restore that wrote a marker is running.
pub(crate) fn is_held(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let Ok(file) = rustix::fs::openat(directory, name, READ, Mode::empty()) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// The time in the text of a marker.
fn time_of(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let secs = std::str::from_utf8(&text[..end]).ok()?;
    secs.trim().parse::<i64>().ok().map(|secs| secs.saturating_sub(MARGIN_SECS))
}

/// Whether a power failure can have made this of the text of a marker: cut short, or zeros from somewhere on.
fn is_torn(bytes: &[u8]) -> bool {
    let kept = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    TEXT.as_bytes().starts_with(&bytes[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_marker_says_is_read_back() {
        let scope = |what: &str, part| Some(RestoreScope { what: what.to_owned(), part });
        for scope in [None, scope("3f2a:home/me", None), scope("3f2a:a b\\n", Some(7))] {
            for [is_whole, has_made_root] in [[false, true], [true, false]] {
                let marker = Marker {
                    since_secs: 5,
                    last_secs: 5,
                    is_whole,
                    has_made_root,
                    scope: scope.clone(),
                };
                let read = Marker::parse(marker.text().as_bytes()).unwrap();
                assert_eq!(read.since_secs, 5 - MARGIN_SECS);
                assert_eq!((read.is_whole, read.has_made_root), (is_whole, has_made_root));
                assert_eq!(read.scope, scope);
            }
        }
    }

    #[test]
    fn only_who_restores_the_same_or_all_of_it_ends_what_another_one_began() {
        let scope = |what: &str, part| RestoreScope { what: what.to_owned(), part };
        let (all, part, other) = (scope("a:x", None), scope("a:x", Some(1)), scope("a:x", Some(2)));
        let covers =
            |own: &RestoreScope, begun: &RestoreScope| RestoreScope::covers(Some(own), Some(begun));
        assert!(covers(&all, &all) && covers(&all, &part) && covers(&part, &part));
        assert!(!covers(&part, &all) && !covers(&part, &other));
        assert!(!covers(&scope("b:x", None), &all) && !covers(&scope("a:", None), &all));
        assert!(RestoreScope::covers(Some(&all), None) && !RestoreScope::covers(Some(&part), None));
    }
}
