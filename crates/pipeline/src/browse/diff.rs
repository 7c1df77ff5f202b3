//! The differences between two snapshots, as a user sees them.

use super::cursor;
use super::find::{comparable, same_attributes};
use crate::Result;
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use format::entry::Entry;
use tree::cursor::is_below;
use tree::{Change, Cursor, Side, diff_past};

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

/// Pages that cannot be read.
#[derive(Debug, Default)]
pub struct Unread {
    /// Of the first snapshot.
    pub from: Vec<LostPage>,
    /// Of the second.
    pub to: Vec<LostPage>,
}

/// Calls `visit` for every difference at or below `path`, in order. Pages that cannot be read are added to `unread`, and
/// the rest is compared: what may be in one of them is no difference.
///
/// # Errors
/// That of `visit`; when a storage does not answer, or a tree is invalid.
pub fn run(
    pages: &PageReader<'_>,
    (from, to): (&Snapshot, &Snapshot),
    path: &[u8],
    unread: &mut Unread,
    mut visit: impl FnMut(Difference) -> Result<()>,
) -> Result<()> {
    let (mut left, mut right) = (cursor(pages, from), cursor(pages, to));
    let pass = |side, cursor: &mut Cursor<'_, PageReader<'_>>, error| {
        let page = LostPage::at(cursor, &error).ok_or(error)?;
        let lost = if side == Side::Left { &mut unread.from } else { &mut unread.to };
        if !page.is_behind(path) {
            lost.push(page);
        }
        Ok(())
    };
    diff_past(&mut left, &mut right, pass, |change, is_certain| {
        match Difference::of(pages, change) {
            Some(found) if is_certain && (found.path() == path || is_below(found.path(), path)) => {
                visit(found)
            }
            _ => Ok(()),
        }
    })
}
