//! Which entries are restored, and under which path of the target.

use super::RestoreOptions;
use super::roots::Roots;
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use crate::{Error, Result};
use format::entry::{Entry, Kind, compare_paths};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tree::Cursor;
use tree::cursor::{find, is_below};

/// What is restored.
pub(super) struct Selection {
    subpath: Vec<u8>,
    /// What paths lose at their front.
    prefix: Vec<u8>,
    /// The target is a directory of the snapshot, and does not just get one object.
    pub(super) is_directory: bool,
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// By the letter; all when empty.
    paths: Vec<Vec<u8>>,
    roots: Roots,
}

impl Selection {
    pub(super) fn new(
        pages: &PageReader<'_>,
        snapshot: &Snapshot,
        subpath: &[u8],
        options: &RestoreOptions,
    ) -> Result<Self> {
        let subpath = subpath.to_vec();
        let (prefix, is_directory) = match subpath.is_empty() {
            true => (Vec::new(), true),
            false => prefix_of(pages, snapshot, &subpath)?,
        };
        let (include, exclude) = (patterns(&options.include)?, patterns(&options.exclude)?);
        let paths = options.paths.clone();
        // One that is missing is a mistake, and told before anything is written.
        for path in &paths {
            find(pages, snapshot.head.root, snapshot.head.level, path)?
                .ok_or_else(|| Error::PathNotFound(String::from_utf8_lossy(path).into_owned()))?;
        }
        let roots = Roots::new(&snapshot.body.paths);
        Ok(Self { subpath, prefix, is_directory, include, exclude, paths, roots })
    }

    /// Whether the snapshot knows all that was in the directory `path` of the target.
    pub(super) fn is_known(&self, path: &[u8]) -> bool {
        let path = [&self.prefix, path].concat();
        self.roots.know(path.strip_suffix(b"/").unwrap_or(&path))
    }

    /// Where in the target `path` of the snapshot is; the whole of it is `/`.
    fn place_of(&self, path: &[u8]) -> Vec<u8> {
        match path.strip_prefix(&self.prefix[..]) {
            Some(path) if !path.is_empty() => path.to_vec(),
            _ => b"/".to_vec(),
        }
    }

    /// Whether what begins at `path` of the snapshot lies behind all that is restored.
    fn ends_before(&self, path: &[u8]) -> bool {
        compare_paths(path, &self.subpath).is_gt() && !is_below(path, &self.subpath)
    }

    /// Whether `path` of the snapshot is wanted.
    fn wants(&self, path: &[u8], is_directory: bool) -> bool {
        let is_named = |named: &Vec<u8>| path == *named || is_below(path, named);
        if !self.paths.is_empty() && !self.paths.iter().any(is_named) {
            return false;
        }
        let path = Path::new(OsStr::from_bytes(path));
        let matches = |patterns: &Gitignore| {
            patterns.matched_path_or_any_parents(path, is_directory).is_ignore()
        };
        self.include.as_ref().is_none_or(&matches) && !self.exclude.as_ref().is_some_and(&matches)
    }

    /// The same of a path of the target, whether the snapshot has it or not.
    pub(super) fn wants_in_target(&self, path: &[u8], is_directory: bool) -> bool {
        self.wants(&[&self.prefix, path].concat(), is_directory)
    }

    pub(super) fn has_include(&self) -> bool {
        self.include.is_some() || !self.paths.is_empty()
    }

    pub(super) fn has_patterns(&self) -> bool {
        self.has_include() || self.exclude.is_some()
    }
}

/// A directory loses its whole path (its content lands in the target), anything else all but its
/// name.
fn prefix_of(
    pages: &PageReader<'_>,
    snapshot: &Snapshot,
    subpath: &[u8],
) -> Result<(Vec<u8>, bool)> {
    let entry = find(pages, snapshot.head.root, snapshot.head.level, subpath)?;
    let entry =
        entry.ok_or_else(|| Error::PathNotFound(String::from_utf8_lossy(subpath).into_owned()))?;
    Ok(match entry.kind() {
        Kind::Directory => ([subpath, b"/"].concat(), true),
        _ => (subpath[..subpath.len() - entry.name().len()].to_vec(), false),
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
    pages: &'a PageReader<'a>,
    selection: &'a Selection,
    /// Where the cursor still has to go.
    is_sought: bool,
}

/// What comes next.
pub(super) enum Next {
    /// An entry.
    Entry(Selected),
    /// A page that cannot be read.
    Lost(LostPage),
    /// Nothing.
    End,
}

/// An entry, and whether it is wanted. Directories that are not may hold what is; the others tell
/// what the snapshot has, for what is to be removed.
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
        let cursor = Cursor::new(pages, snapshot.head.root, snapshot.head.level);
        Ok(Self { cursor, pages, selection, is_sought: false })
    }

    /// What comes next below the chosen path.
    pub(super) fn step(&mut self) -> Result<Next> {
        match self.entry() {
            Ok(found) => Ok(found.map_or(Next::End, Next::Entry)),
            Err(error) => match LostPage::at(&mut self.cursor, &error) {
                Some(lost) if self.selection.ends_before(&lost.first) => Ok(Next::End),
                Some(lost) => {
                    Ok(Next::Lost(LostPage { first: self.selection.place_of(&lost.first), ..lost }))
                }
                None => Err(error),
            },
        }
    }

    fn entry(&mut self) -> Result<Option<Selected>> {
        let Selection { subpath, prefix, .. } = self.selection;
        if !self.is_sought {
            self.cursor.seek(subpath)?;
            self.is_sought = true;
        }
        loop {
            // Page by page, so that those below one are sent for before the first of them is read.
            while self.cursor.buffered().is_empty() {
                self.prefetch_pages()?;
                if !self.cursor.step()? {
                    return Ok(None);
                }
            }
            let Some(mut entry) = self.cursor.next_entry()? else { return Ok(None) };
            if entry.path != *subpath && !is_below(&entry.path, subpath) {
                return Ok(None);
            }
            if entry.path.len() < prefix.len() {
                // The chosen directory itself: its place is the target.
                continue;
            }
            let wanted = self.selection.wants(&entry.path, entry.kind() == Kind::Directory);
            entry.path.drain(..prefix.len());
            return Ok(Some(Selected { entry, wanted }));
        }
    }

    /// The pages that come next are sent for, when they lie far away.
    fn prefetch_pages(&self) -> Result<()> {
        let subpath = &self.selection.subpath;
        let pages = self.cursor.upcoming_pages().take_while(|page| is_below(&page.first, subpath));
        self.pages.prefetch(pages.map(|page| page.id))
    }
}
