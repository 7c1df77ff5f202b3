//! The entries to restore, and their paths in the target.

use super::RestoreOptions;
use super::patterns::Patterns;
use super::roots::Roots;
use crate::browse;
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use crate::{Error, Result};
use format::entry::{Entry, Kind};
use std::collections::BTreeSet;
use tree::Cursor;
use tree::cursor::{find, is_below};

/// The selection of a restore.
pub(super) struct Selection {
    subpath: Vec<u8>,
    /// The prefix that paths lose.
    prefix: Vec<u8>,
    /// The target gets the content of a directory, and not just one object.
    pub(super) is_directory: bool,
    /// That directory, if the snapshot has it; as the target is named.
    pub(super) root: Option<Entry>,
    include: Option<Patterns>,
    exclude: Option<Patterns>,
    /// Literal paths; all if empty.
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
        let Target { prefix, is_directory, root } = match subpath.is_empty() {
            true => Target { prefix: Vec::new(), is_directory: true, root: None },
            false => Target::of(pages, snapshot, &subpath)?,
        };
        let include = Patterns::new(&options.include)?;
        let exclude = Patterns::new(&options.exclude)?;
        let paths = options.paths.clone();
        // A missing path is a mistake, and reported before anything is written.
        paths.iter().try_for_each(|path| refuse_missing(pages, snapshot, path))?;
        let roots = Roots::new(&snapshot.body.paths);
        Ok(Self { subpath, prefix, is_directory, root, include, exclude, paths, roots })
    }

    /// Whether the snapshot has the complete content of the directory `path` of the target.
    pub(super) fn is_known(&self, path: &[u8]) -> bool {
        let path = [&self.prefix, path].concat();
        self.roots.know(path.strip_suffix(b"/").unwrap_or(&path))
    }

    /// The paths that were backed up, below the target; none if all of the selection was.
    pub(super) fn sources(&self) -> BTreeSet<Vec<u8>> {
        self.roots.below(&self.subpath)
    }

    /// The path in the target of `path` of the snapshot; `/` for the target itself.
    fn place_of(&self, path: &[u8]) -> Vec<u8> {
        match path.strip_prefix(&self.prefix[..]) {
            Some(path) if !path.is_empty() => path.to_vec(),
            _ => b"/".to_vec(),
        }
    }

    /// Whether `path` of the snapshot is selected.
    fn wants(&self, path: &[u8], is_directory: bool) -> bool {
        let is_named = |named: &Vec<u8>| path == *named || is_below(path, named);
        if !self.paths.is_empty() && !self.paths.iter().any(is_named) {
            return false;
        }
        let matches = |patterns: &Patterns| patterns.match_path(path, is_directory);
        self.include.as_ref().is_none_or(&matches) && !self.exclude.as_ref().is_some_and(&matches)
    }

    /// Whether a path of the target is selected, whether or not it is in the snapshot.
    pub(super) fn wants_in_target(&self, path: &[u8], is_directory: bool) -> bool {
        self.wants(&[&self.prefix, path].concat(), is_directory)
    }

    /// The patterns that matched nothing until now, each with its flag. If no include matched, nothing was restored:
    /// that says it already.
    pub(super) fn idle_patterns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let include = self.include.iter().filter(|patterns| patterns.has_matched());
        let include = include.flat_map(|patterns| patterns.idle()).map(|line| ("--include", line));
        let exclude = self.exclude.iter().flat_map(|patterns| patterns.idle());
        include.chain(exclude.map(|line| ("--exclude", line)))
    }

    pub(super) fn has_include(&self) -> bool {
        self.include.is_some() || !self.paths.is_empty()
    }

    pub(super) fn has_patterns(&self) -> bool {
        self.has_include() || self.exclude.is_some()
    }
}

/// What a chosen path is.
struct Target {
    /// A directory loses its whole path, because its content goes into the target; anything else
    /// loses all but its name.
    prefix: Vec<u8>,
    is_directory: bool,
    root: Option<Entry>,
}

impl Target {
    fn of(pages: &PageReader<'_>, snapshot: &Snapshot, subpath: &[u8]) -> Result<Self> {
        let directory = [subpath, b"/"].concat();
        let entry = match find(pages, snapshot.head.root, snapshot.head.level, subpath) {
            // Only a directory has something below it: its own entry is lost, and what is there is restored.
            Err(error) if error.is_damage() && has_some_below(pages, snapshot, subpath)? => {
                return Ok(Self { prefix: directory, is_directory: true, root: None });
            }
            found => found?.ok_or_else(|| no_path(subpath))?,
        };
        Ok(match entry.kind() {
            Kind::Directory => {
                let root = Some(Entry { path: b"/".to_vec(), ..entry });
                Self { prefix: directory, is_directory: true, root }
            }
            _ => {
                let prefix = subpath[..subpath.len() - entry.name().len()].to_vec();
                Self { prefix, is_directory: false, root: None }
            }
        })
    }
}

/// Whether an entry below `path`, which itself cannot be read, can be.
fn has_some_below(pages: &PageReader<'_>, snapshot: &Snapshot, path: &[u8]) -> Result<bool> {
    let mut lost = Vec::new();
    let (mut entries, _) = browse::Entries::at(pages, snapshot, path, &mut lost)?;
    Ok(entries.next_entry()?.is_some())
}

/// Refuses a path that the snapshot does not have. If damage hides that, the restore names the damage.
fn refuse_missing(pages: &PageReader<'_>, snapshot: &Snapshot, path: &[u8]) -> Result<()> {
    match find(pages, snapshot.head.root, snapshot.head.level, path) {
        Err(error) if error.is_damage() => Ok(()),
        found => found?.map(drop).ok_or_else(|| no_path(path)),
    }
}

fn no_path(path: &[u8]) -> Error {
    Error::PathNotFound(String::from_utf8_lossy(path).into_owned())
}

/// The entries of a restore in path order, with their paths in the target.
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

/// An entry, and whether it is selected. Directories that are not may contain what is; the others
/// show what the snapshot has, to recognize extraneous objects.
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

    /// The next step below the chosen path.
    pub(super) fn step(&mut self) -> Result<Next> {
        match self.entry() {
            Ok(found) => Ok(found.map_or(Next::End, Next::Entry)),
            Err(error) => match LostPage::at(&mut self.cursor, &error) {
                Some(lost) if lost.is_behind(&self.selection.subpath) => Ok(Next::End),
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
            // Page by page, so that the pages below one are requested before the first of them is
            // read.
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
                // The chosen directory itself is the target.
                continue;
            }
            let wanted = self.selection.wants(&entry.path, entry.kind() == Kind::Directory);
            entry.path.drain(..prefix.len());
            return Ok(Some(Selected { entry, wanted }));
        }
    }

    /// Prefetches the next pages from a remote repository.
    fn prefetch_pages(&self) -> Result<()> {
        let subpath = &self.selection.subpath;
        let pages = self.cursor.upcoming_pages().take_while(|page| is_below(&page.first, subpath));
        self.pages.prefetch(pages.map(|page| page.id))
    }
}
