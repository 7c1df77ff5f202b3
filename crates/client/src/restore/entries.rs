//! Which entries are restored, and under which path of the target.

use super::Options;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::{Error, Result};
use format::entry::{Entry, Kind};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tree::Cursor;
use tree::cursor::{find, is_below};

/// What is restored.
pub(super) struct Selection {
    subpath: Vec<u8>,
    /// Bytes that paths lose at their front.
    strip: usize,
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
}

impl Selection {
    pub(super) fn new(
        pages: &PageReader<'_>,
        snapshot: &Snapshot,
        subpath: &[u8],
        options: &Options,
    ) -> Result<Self> {
        let subpath = subpath.to_vec();
        let strip = match subpath.is_empty() {
            true => 0,
            false => strip_of(pages, snapshot, &subpath)?,
        };
        let (include, exclude) = (patterns(&options.include)?, patterns(&options.exclude)?);
        Ok(Self { subpath, strip, include, exclude })
    }

    /// Whether `path`, an entry of the snapshot, is wanted.
    fn wants(&self, entry: &Entry) -> bool {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let is_directory = entry.kind() == Kind::Directory;
        let matches = |patterns: &Gitignore| {
            patterns.matched_path_or_any_parents(path, is_directory).is_ignore()
        };
        self.include.as_ref().is_none_or(&matches) && !self.exclude.as_ref().is_some_and(&matches)
    }
}

/// A directory loses its whole path (its content lands in the target), anything else all but its
/// name.
fn strip_of(pages: &PageReader<'_>, snapshot: &Snapshot, subpath: &[u8]) -> Result<usize> {
    let entry = find(pages, snapshot.head.root, snapshot.head.level, subpath)?;
    let entry =
        entry.ok_or_else(|| Error::NoPath(String::from_utf8_lossy(subpath).into_owned()))?;
    Ok(match entry.kind() {
        Kind::Directory => subpath.len() + 1,
        _ => subpath.len() - entry.name().len(),
    })
}

fn patterns(lines: &[String]) -> Result<Option<Gitignore>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        builder
            .add_line(None, line)
            .map_err(|error| Error::Usage(format!("pattern '{line}': {error}")))?;
    }
    builder.build().map(Some).map_err(|error| Error::Usage(format!("patterns: {error}")))
}

/// The entries of a restore in order, with their paths in the target.
pub(super) struct Entries<'a> {
    cursor: Cursor<'a, PageReader<'a>>,
    selection: &'a Selection,
}

/// An entry, and whether it is wanted itself or only as a parent of what may be.
pub(super) struct Selected {
    pub(super) entry: Entry,
    pub(super) wanted: bool,
}

impl<'a> Entries<'a> {
    pub(super) fn new(
        pages: &'a PageReader<'a>,
        snapshot: &Snapshot,
        selection: &'a Selection,
    ) -> Result<Self> {
        let mut cursor = Cursor::new(pages, snapshot.head.root, snapshot.head.level);
        cursor.seek(&selection.subpath)?;
        Ok(Self { cursor, selection })
    }

    /// The next entry below the chosen path.
    pub(super) fn next(&mut self) -> Result<Option<Selected>> {
        let Selection { subpath, strip, .. } = self.selection;
        loop {
            let Some(mut entry) = self.cursor.next_entry()? else { return Ok(None) };
            if entry.path != *subpath && !is_below(&entry.path, subpath) {
                return Ok(None);
            }
            let wanted = self.selection.wants(&entry);
            if entry.path.len() < *strip {
                // The chosen directory itself: its place is the target.
                continue;
            }
            if wanted || entry.kind() == Kind::Directory {
                entry.path.drain(..*strip);
                return Ok(Some(Selected { entry, wanted }));
            }
        }
    }
}
