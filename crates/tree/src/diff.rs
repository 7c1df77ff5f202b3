//! What differs between two trees, in time proportional to the difference.

use crate::PageSource;
use crate::cursor::Cursor;
use format::entry::{Entry, compare_paths};
use std::cmp::Ordering;

/// A difference between two trees.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Only in the second.
    Added(Entry),
    /// Only in the first.
    Removed(Entry),
    /// In both, not equal: at least in the ids of their content.
    Modified(Entry, Entry),
}

/// One of two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

/// Calls `visit` for every difference from `left` to `right`, in path order. Both cursors stand
/// at the start of a page or tree.
pub fn diff<S: PageSource>(
    left: &mut Cursor<'_, S>,
    right: &mut Cursor<'_, S>,
    mut visit: impl FnMut(Change) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    diff_past(left, right, |_, _, error| Err(error), |change, _| visit(change))
}

/// The same; goes on past a page that cannot be read if `lost`, which gets the error and the cursor that met it,
/// returns none. What such a page names seems not to be in its tree: then `visit` gets that the change is not certain.
pub fn diff_past<S: PageSource>(
    left: &mut Cursor<'_, S>,
    right: &mut Cursor<'_, S>,
    mut lost: impl FnMut(Side, &mut Cursor<'_, S>, S::Error) -> Result<(), S::Error>,
    mut visit: impl FnMut(Change, bool) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    // Whether pages are lost between the last entry of a tree and the next one.
    let (mut left_lost, mut right_lost) = (false, false);
    loop {
        if skip_equal(left, right)? {
            (left_lost, right_lost) = (false, false);
            continue;
        }
        while let Err(error) = left.peek() {
            lost(Side::Left, left, error)?;
            left_lost = true;
        }
        while let Err(error) = right.peek() {
            lost(Side::Right, right, error)?;
            right_lost = true;
        }
        let order = match (left.peek()?, right.peek()?) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => compare_paths(&a.path, &b.path),
        };
        let a = if order.is_le() { left.next_entry()? } else { None };
        let b = if order.is_ge() { right.next_entry()? } else { None };
        left_lost &= a.is_none();
        right_lost &= b.is_none();
        match (a, b) {
            (Some(a), Some(b)) if a != b => visit(Change::Modified(a, b), true)?,
            (Some(a), None) => visit(Change::Removed(a), !right_lost)?,
            (None, Some(b)) => visit(Change::Added(b), !left_lost)?,
            _ => {}
        }
    }
}

/// Skips the largest page that begins here in both trees.
fn skip_equal<S: PageSource>(
    left: &mut Cursor<'_, S>,
    right: &mut Cursor<'_, S>,
) -> Result<bool, S::Error> {
    if !left.buffered().is_empty() || !right.buffered().is_empty() {
        return Ok(false);
    }
    let (of_left, of_right) = (left.heads()?, right.heads()?);
    let twin = |id| of_right.iter().find(|other| left.content_of(other) == left.content_of(id));
    let same = of_left.iter().find_map(|id| Some((id, twin(id)?)));
    let Some((id, twin)) = same else { return Ok(false) };
    left.skip_head(id)?;
    right.skip_head(twin)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Store, build, entries};

    fn changes(store: &Store, before: &[Entry], after: &[Entry]) -> Vec<Change> {
        let (a, b) = (build(store, before), build(store, after));
        store.reset_reads();
        let mut found = Vec::new();
        let mut left = Cursor::new(store, a.id, a.level);
        let mut right = Cursor::new(store, b.id, b.level);
        diff(&mut left, &mut right, |change| {
            found.push(change);
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn every_kind_of_change_is_found() {
        let store = Store::default();
        let before = entries(8_000);
        let mut after = before.clone();
        after[4_000].mtime.secs = 77;
        let removed = after.remove(100);
        let mut added = after[7_000].clone();
        added.path.extend_from_slice(b"+");
        after.insert(7_001, added.clone());
        let expected = [
            Change::Removed(removed),
            Change::Modified(before[4_000].clone(), after[3_999].clone()),
            Change::Added(added),
        ];
        assert_eq!(changes(&store, &before, &after), expected);
    }

    #[test]
    fn equal_trees_cost_one_look() {
        let store = Store::default();
        let all = entries(20_000);
        assert!(changes(&store, &all, &all).is_empty());
        assert!(store.reads() < 10, "{} pages read", store.reads());
    }

    #[test]
    fn a_small_change_reads_few_pages() {
        let store = Store::default();
        let before = entries(20_000);
        let mut after = before.clone();
        after[9_999].mtime.secs = 1;
        assert_eq!(changes(&store, &before, &after).len(), 1);
        assert!(store.reads() < 30, "{} pages read", store.reads());
    }

    /// What the lost page named seems to be missing, and nothing else.
    #[test]
    fn a_lost_page_costs_what_it_names() {
        let store = Store::default();
        let before = entries(5_000);
        let mut after = before.clone();
        after[2_000].mtime.secs = 77;
        let last = after.pop();
        let (a, b) = (build(&store, &before), build(&store, &after));
        let mut cursor = Cursor::new(&store, b.id, b.level);
        let (mut leaf, mut at) = (Vec::new(), 0);
        let page = loop {
            let (page, _) = cursor.next_leaf(&mut leaf).unwrap().unwrap();
            if (at..at + leaf.len()).contains(&2_000) {
                break page;
            }
            at += leaf.len();
        };
        store.lose(&page.id);
        let mut left = Cursor::new(&store, a.id, a.level);
        let mut right = Cursor::new(&store, b.id, b.level);
        let (mut sides, mut removed) = (Vec::new(), Vec::new());
        let lost = |side, cursor: &mut Cursor<'_, Store>, error| {
            sides.push((side, cursor.take_unreadable_page().ok_or(error)?.id));
            Ok(())
        };
        let mut certain = Vec::new();
        let visit = |change, is_certain| {
            let Change::Removed(entry) = change else { panic!("{change:?}") };
            if is_certain { &mut certain } else { &mut removed }.push(entry);
            Ok(())
        };
        diff_past(&mut left, &mut right, lost, visit).unwrap();
        assert_eq!(sides, [(Side::Right, page.id)]);
        assert_eq!(removed, before[at..at + leaf.len()], "that it is gone is not certain");
        assert_eq!(certain, [before[4_999].clone()]);
        assert_ne!(last, None);
    }

    #[test]
    fn everything_differs_from_nothing() {
        let store = Store::default();
        let all = entries(1_000);
        assert_eq!(changes(&store, &[], &all).len(), 1_000);
        assert_eq!(changes(&store, &all, &[]).len(), 1_000);
    }
}
