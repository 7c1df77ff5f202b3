//! The content of a directory in a snapshot.

use super::Entries;
use crate::Result;
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use format::entry::{Entry, Kind};

/// Calls `visit` for the objects in the directory `path`, not for those in its subdirectories. If
/// `path` is not a directory, calls it for the object itself. Pages that cannot be read are added to
/// `lost`.
pub fn children(
    pages: &PageReader<'_>,
    snapshot: &Snapshot,
    path: &[u8],
    lost: &mut Vec<LostPage>,
    mut visit: impl FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let (mut entries, found) = Entries::at(pages, snapshot, path, lost)?;
    if let Some(object) = found.filter(|found| found.kind() != Kind::Directory) {
        return visit(object);
    }
    while let Some(child) = entries.next_entry()? {
        let name = child_of(path, &child.path);
        if child.kind() == Kind::Directory || name != child.path {
            entries.skip_below(name)?;
        }
        match entries.lost.last() {
            Some(page) if name != child.path => {
                let without_entry = LostPage::of_entry(page.id, name);
                entries.lost.push(without_entry);
            }
            _ => visit(child)?,
        }
    }
    Ok(())
}

/// The object in `directory` at which or below which `path` lies.
fn child_of<'p>(directory: &[u8], path: &'p [u8]) -> &'p [u8] {
    let begin = if directory.is_empty() { 0 } else { directory.len() + 1 };
    let name = path.get(begin..).unwrap_or_default();
    let length = name.iter().position(|byte| *byte == b'/').unwrap_or(name.len());
    path.get(..begin + length).unwrap_or(path)
}
