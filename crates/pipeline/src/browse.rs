//! Reading snapshots: listing, searching, reading files, comparing. Nothing here writes.

pub mod content;
pub mod diff;
pub mod find;
pub mod glob;
pub mod ls;
pub mod map;

use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::{Error, Result};
use format::entry::Entry;
use tree::Cursor;

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
/// root, which has no entry.
///
/// # Errors
/// [`Error::PathNotFound`]; the error of `visit`.
pub fn below(
    pages: &PageReader<'_>,
    snapshot: &Snapshot,
    path: &[u8],
    mut visit: impl FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let mut cursor = cursor(pages, snapshot);
    if !path.is_empty() {
        cursor.seek(path)?;
        match cursor.next_entry()? {
            Some(first) if first.path == path => visit(first)?,
            _ => return Err(no_path(path)),
        }
    }
    while let Some(entry) = cursor.next_entry()? {
        if !tree::cursor::is_below(&entry.path, path) {
            break;
        }
        visit(entry)?;
    }
    Ok(())
}

fn no_path(path: &[u8]) -> Error {
    Error::PathNotFound(format!("/{}", path.escape_ascii()))
}
