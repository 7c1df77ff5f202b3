//! The content of a directory in a snapshot.

use super::{cursor, entry};
use crate::Result;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use format::entry::{Entry, Kind};

/// Calls `visit` for the objects in the directory `path`, not for those in its subdirectories. If
/// `path` is not a directory, calls it for the object itself.
pub fn children(
    pages: &PageReader<'_>,
    snapshot: &Snapshot,
    path: &[u8],
    mut visit: impl FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let mut cursor = cursor(pages, snapshot);
    if !path.is_empty() {
        let found = entry(pages, snapshot, path)?;
        if found.kind() != Kind::Directory {
            return visit(found);
        }
        cursor.seek(path)?;
        cursor.next_entry()?;
    }
    while let Some(child) = cursor.next_entry()? {
        if !tree::cursor::is_below(&child.path, path) {
            break;
        }
        if child.kind() == Kind::Directory {
            cursor.skip_below(&child.path)?;
        }
        visit(child)?;
    }
    Ok(())
}
