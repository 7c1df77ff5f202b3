//! Reading snapshots: listing, searching, reading files, comparing. Nothing here writes.

pub mod content;
pub mod diff;
pub mod find;
pub mod glob;
pub mod ls;
pub mod map;

use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use crate::{Error, Result};
use format::entry::Entry;
use tree::Cursor;
use tree::cursor::is_below;

/// A cursor at the first entry of `snapshot`.
pub fn cursor<'a>(pages: &'a PageReader<'a>, snapshot: &Snapshot) -> Cursor<'a, PageReader<'a>> {
    Cursor::new(pages, snapshot.head.root, snapshot.head.level)
}

/// The entry at `path`.
///
/// # Errors
/// [`Error::PathNotFound`].
pub fn entry(pages: &PageReader<'_>, snapshot: &Snapshot, path: &[u8]) -> Result<Entry> {
    let found = tree::cursor::find(pages, snapshot.head.root, snapshot.head.level, path)?;
    found.ok_or_else(|| no_path(path))
}

/// Calls `visit` for the entry at `path` and everything below it, in order; the empty path is the
/// root, which has no entry. Pages that cannot be read are added to `lost`, and the rest is visited.
///
/// # Errors
/// [`Error::PathNotFound`]; the error of `visit`.
pub fn below(
    pages: &PageReader<'_>,
    snapshot: &Snapshot,
    path: &[u8],
    lost: &mut Vec<LostPage>,
    mut visit: impl FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let (mut entries, first) = Entries::at(pages, snapshot, path, lost)?;
    if let Some(first) = first {
        visit(first)?;
    }
    while let Some(entry) = entries.next_entry()? {
        visit(entry)?;
    }
    Ok(())
}

/// The entries below a path, in order. Goes on behind pages that cannot be read.
pub(crate) struct Entries<'a, 'l> {
    cursor: Cursor<'a, PageReader<'a>>,
    path: &'l [u8],
    lost: &'l mut Vec<LostPage>,
}

impl<'a, 'l> Entries<'a, 'l> {
    /// Those below `path`, and the entry at it: `None` if that is lost, and for the root, which has none. Pages that
    /// cannot be read are added to `lost`.
    ///
    /// # Errors
    /// [`Error::PathNotFound`] if no lost page can hold the entry.
    pub(crate) fn at(
        pages: &'a PageReader<'a>,
        snapshot: &Snapshot,
        path: &'l [u8],
        lost: &'l mut Vec<LostPage>,
    ) -> Result<(Self, Option<Entry>)> {
        let before = lost.len();
        let mut entries = Self { cursor: cursor(pages, snapshot), path, lost };
        if path.is_empty() {
            return Ok((entries, None));
        }
        while let Err(error) = entries.cursor.seek(path) {
            entries.pass(error)?;
        }
        match entries.cursor.peek()? {
            Some(first) if first.path == path => {
                let first = entries.cursor.next_entry()?;
                Ok((entries, first))
            }
            _ if entries.lost.len() > before => Ok((entries, None)),
            _ => Err(no_path(path)),
        }
    }

    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>> {
        loop {
            match self.cursor.next_entry() {
                Ok(next) => return Ok(next.filter(|entry| is_below(&entry.path, self.path))),
                Err(error) => self.pass(error)?,
            }
        }
    }

    /// Goes past everything below `directory`.
    fn skip_below(&mut self, directory: &[u8]) -> Result<()> {
        while let Err(error) = self.cursor.skip_below(directory) {
            self.pass(error)?;
        }
        Ok(())
    }

    /// After an error: notes the page that is lost; the cursor is behind it.
    fn pass(&mut self, error: Error) -> Result<()> {
        let page = LostPage::at(&mut self.cursor, &error).ok_or(error)?;
        if !page.is_behind(self.path) {
            self.lost.push(page);
        }
        Ok(())
    }
}

fn no_path(path: &[u8]) -> Error {
    Error::PathNotFound(format!("/{}", path.escape_ascii()))
}
