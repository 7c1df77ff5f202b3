//! Directories in which nothing is mounted any more: those that the user named, those below them in which the machine
//! should mount something, those in which something is mounted on demand, and, once, those in which somebody mounted
//! something. Their backups would be empty, and complete: after some of them retention would let those go that have
//! the files.

use super::failed::FailedObject;
use super::options::BackupOptions;
use crate::select::clean_path;
use capture::CaptureProblem;
use capture::walk::{NotEntered, SourceRoot, WalkEntry};
use format::entry::{Entry, Kind, STATUS_NOT_ENTERED};
use format::escape::escape;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Looks for such directories while walk and previous snapshot are merged: what is in a directory follows it.
pub(super) struct Emptied {
    /// By their paths in the snapshot: a list of files may name many.
    roots: FxHashMap<Vec<u8>, Root>,
    /// The paths on this machine of those that were so in the previous snapshot, escaped.
    failed: FxHashSet<String>,
    /// The one of them that was met last, until something in it is met.
    last: Option<Last>,
    /// The directories around the one that was met last, whose file systems changed.
    changed: Vec<Changed>,
}

/// A directory that is on another file system than in the previous snapshot, and was on another or is on another than
/// the one around it.
struct Changed {
    /// With a slash at its end.
    below: Vec<u8>,
    was: u64,
    is: u64,
}

struct Root {
    source: Vec<u8>,
    /// It was so in the previous snapshot, which has no files of it either.
    was_so: bool,
    /// The user named it.
    is_named: bool,
}

struct Last {
    /// With a slash at its end.
    below: Vec<u8>,
    source: Vec<u8>,
    had_files: bool,
}

impl Emptied {
    /// Of a backup behind one that could not read `failed`.
    pub(super) fn new(options: &BackupOptions, failed: &[FailedObject]) -> Self {
        let reason = reason();
        let failed = failed.iter().filter(|it| it.reason == reason);
        let failed: FxHashSet<_> = failed.map(|it| it.path.clone()).collect();
        let root = |source: &[u8], shown: &[u8], is_named| {
            let was_so = failed.contains(escape(source).as_str());
            (clean_path(shown), Root { source: source.to_vec(), was_so, is_named })
        };
        let named = options.roots.iter();
        let named =
            named.map(|it| root(&it.source, it.shown_as.as_ref().unwrap_or(&it.source), true));
        let below = options.mount_points.iter().flat_map(|point| below(&options.roots, point));
        // A root that is such a directory, too, is there twice.
        let below = below.map(|(source, shown)| root(&source, &shown, false));
        let roots = below.chain(named).collect();
        Self { roots, failed, last: None, changed: Vec::new() }
    }

    /// The walk met `found`; what was gone before it has been told. The problem of the directory before it, if that is one.
    pub(super) fn met(
        &mut self,
        found: &WalkEntry<'_>,
        before: Option<&Entry>,
    ) -> Option<CaptureProblem> {
        let problem = match &self.last {
            Some(last) if found.path.starts_with(&last.below) => {
                self.last = None;
                None
            }
            _ => self.ended(),
        };
        if found.row.kind == Kind::Directory {
            self.last = match found.row.not_entered {
                Some(NotEntered::PseudoFileSystem) => self.on_demand(found, before),
                Some(NotEntered::OtherFileSystem) => None,
                _ => {
                    let unmounted = self.unmounted(found, before);
                    self.wanted(found, before).or(unmounted)
                }
            };
        }
        problem
    }

    /// A directory in which something should be mounted, if it looks as if nothing was.
    fn wanted(&self, found: &WalkEntry<'_>, before: Option<&Entry>) -> Option<Last> {
        let root = self.roots.get(found.path)?;
        let is_other = |entry: &Entry| entry.attributes.file_system != found.file_system;
        let is_other = before.is_some_and(is_other);
        // What is mounted again lies elsewhere than the empty directory did. Of one that the user named, files are
        // wanted.
        let had_files = root.was_so && (root.is_named || !is_other);
        (had_files || is_other).then(|| Last::new(found, root.source.clone(), had_files))
    }

    /// A directory on which nothing is mounted now, if something was: by hand, as far as the machine knows, so that it
    /// may be meant. The next backup finds the same file system in the previous snapshot, and says nothing.
    fn unmounted(&mut self, found: &WalkEntry<'_>, before: Option<&Entry>) -> Option<Last> {
        let (was, is) = (before?.attributes.file_system, found.file_system);
        if was == is || was == 0 || is == 0 {
            return None;
        }
        while self.changed.last().is_some_and(|it| !found.path.starts_with(&it.below)) {
            self.changed.pop();
        }
        // The whole tree around it came from another disk, or its file system has another identity now.
        let is_inside = self.changed.iter().any(|it| (it.was, it.is) == (was, is));
        let below = [found.path, b"/"].concat();
        self.changed.push(Changed { below, was, is });
        let source = || found.directory.path_of(found.name.to_bytes());
        (!is_inside).then(|| Last::new(found, source(), false))
    }

    /// A directory of an automounter, in which nothing is mounted now, if something was.
    fn on_demand(&self, found: &WalkEntry<'_>, before: Option<&Entry>) -> Option<Last> {
        let source = found.directory.path_of(found.name.to_bytes());
        let was_so = self.failed.contains(escape(&source).as_str());
        let was_entered = before.is_some_and(|entry| entry.status & STATUS_NOT_ENTERED == 0);
        (was_so || was_entered).then(|| Last::new(found, source, was_so))
    }

    /// The previous snapshot has `before`, and the walk does not.
    pub(super) fn gone(&mut self, before: &Entry) {
        if let Some(last) = &mut self.last {
            last.had_files |= before.path.starts_with(&last.below);
        }
    }

    /// Nothing more is in the directory that was met last.
    pub(super) fn ended(&mut self) -> Option<CaptureProblem> {
        let last = self.last.take().filter(|last| last.had_files)?;
        Some(CaptureProblem::not_mounted(last.source))
    }
}

impl Last {
    fn new(found: &WalkEntry<'_>, source: Vec<u8>, had_files: bool) -> Self {
        Self { below: [found.path, b"/"].concat(), source, had_files }
    }
}

/// Where the directory `point` is in the trees of `roots`: on this machine and in the snapshot. Links above them are
/// followed, so that each may be named in another way.
fn below<'a>(
    roots: &'a [SourceRoot],
    point: &'a [u8],
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + 'a {
    let real = followed(point);
    roots.iter().filter_map(move |root| {
        let source = followed(&root.source);
        let rest = real.strip_prefix(&*source).filter(|rest| rest.starts_with(b"/"))?;
        let shown = root.shown_as.as_deref().unwrap_or(&root.source);
        Some((point.to_vec(), [shown, rest].concat()))
    })
}

/// Where a path leads, without a slash at the end. Its last name is not looked at: what is mounted there may hang.
fn followed(path: &[u8]) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(path));
    let followed = path.parent().zip(path.file_name()).and_then(|(above, name)| {
        let mut followed = above.canonicalize().ok()?;
        followed.push(name);
        Some(followed)
    });
    let bytes = followed.unwrap_or_else(|| path.to_owned()).into_os_string().into_vec();
    bytes.strip_suffix(b"/").map_or_else(|| bytes.clone(), <[u8]>::to_vec)
}

/// As the manifest says it.
pub(super) fn reason() -> String {
    let problem = CaptureProblem::not_mounted(Vec::new());
    format!("cannot {}: {}", problem.operation, problem.reason())
}
