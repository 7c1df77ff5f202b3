//! The differences between two snapshots, as a user sees them.

use super::cursor;
use super::find::{comparable, same_attributes};
use crate::Result;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use format::entry::Entry;
use tree::Change;
use tree::cursor::is_below;

/// The kind of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DifferenceKind {
    /// Only in the second snapshot.
    Added,
    /// Only in the first.
    Removed,
    /// The content differs.
    Content,
    /// The content is equal; mode, owner, times or attributes differ.
    Attributes,
    /// The kind of object differs.
    Type,
}

/// A difference between two snapshots.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its kind.
    pub kind: DifferenceKind,
    /// The entry in the first snapshot, if there is one.
    pub before: Option<Entry>,
    /// The entry in the second snapshot, if there is one.
    pub now: Option<Entry>,
}

impl Difference {
    /// The path of the object.
    pub fn path(&self) -> &[u8] {
        self.now.as_ref().or(self.before.as_ref()).map_or(&[], |entry| &entry.path)
    }

    fn of(pages: &PageReader<'_>, change: Change) -> Option<Self> {
        Some(match change {
            Change::Added(now) => {
                Self { kind: DifferenceKind::Added, before: None, now: Some(now) }
            }
            Change::Removed(before) => {
                Self { kind: DifferenceKind::Removed, before: Some(before), now: None }
            }
            Change::Modified(before, now) => {
                let kind = kind_of(&comparable(pages, &before), &comparable(pages, &now))?;
                Self { kind, before: Some(before), now: Some(now) }
            }
        })
    }
}

fn kind_of(before: &Entry, now: &Entry) -> Option<DifferenceKind> {
    if before.kind() != now.kind() {
        Some(DifferenceKind::Type)
    } else if before.content != now.content || before.size != now.size {
        Some(DifferenceKind::Content)
    } else if before.mtime != now.mtime || !same_attributes(before, now) {
        Some(DifferenceKind::Attributes)
    } else {
        None
    }
}

/// Calls `visit` for every difference at or below `path`, in order.
pub fn run(
    pages: &PageReader<'_>,
    from: &Snapshot,
    to: &Snapshot,
    path: &[u8],
    mut visit: impl FnMut(Difference) -> Result<()>,
) -> Result<()> {
    let (mut left, mut right) = (cursor(pages, from), cursor(pages, to));
    tree::diff(&mut left, &mut right, |change| match Difference::of(pages, change) {
        Some(found) if found.path() == path || is_below(found.path(), path) => visit(found),
        _ => Ok(()),
    })
}
