//! The objects that are reached, and those pages that are still to be visited.

use crate::Result;
use crate::check::IdPrefix;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::snapshots::SnapshotRef;
use crate::sorted_ids::SortedIds;
use ids::{ObjectId, SnapshotId};
use rustc_hash::FxHashSet;

/// A page to visit, and the locked snapshot that must not lose it.
pub(super) type Pending = (ObjectId, Option<SnapshotId>);

/// The objects that are reached. It grows: what was reached once stays in it. Pages are in memory, chunks on the disk
/// of this machine when there are many.
#[derive(Default)]
pub(super) struct LiveSet {
    /// Pages that were visited.
    pages: FxHashSet<Prefix>,
    /// Sorted when nobody marks.
    chunks: SortedIds,
    /// Snapshots whose roots were visited, or are pending.
    snapshots: FxHashSet<SnapshotRef>,
    pending: Vec<Pending>,
    /// A page that is lost does not end the marking.
    pub(super) accepts_loss: bool,
}

impl LiveSet {
    /// Nothing yet; whether what is lost may be given up.
    pub(super) fn accepting_damage(accepts_loss: bool) -> Self {
        Self { accepts_loss, ..Self::default() }
    }

    /// Whether `id` is reached.
    pub(super) fn contains(&self, id: &ObjectId) -> Result<bool> {
        match id.is_page() {
            true => Ok(self.has_visited(id)),
            false => self.chunks.contains(IdPrefix::new(id)),
        }
    }

    /// Whether `page` was visited.
    pub(super) fn has_visited(&self, page: &ObjectId) -> bool {
        self.pages.contains(&prefix_of(page))
    }

    /// Whether the root of the snapshot `name` was visited, or is to be.
    pub(super) fn has_snapshot(&self, name: SnapshotRef) -> bool {
        self.snapshots.contains(&name)
    }

    /// The root of the snapshot `name` is to be visited, too.
    pub(super) fn add_snapshot(&mut self, name: SnapshotRef, root: Pending) {
        self.snapshots.insert(name);
        self.pending.push(root);
    }

    /// `page` is to be visited.
    pub(super) fn add_page(&mut self, page: Pending) {
        self.pending.push(page);
    }

    /// The next page to visit. It counts as visited from now on.
    pub(super) fn next_page(&mut self) -> Option<Pending> {
        loop {
            let page = self.pending.pop()?;
            if self.pages.insert(prefix_of(&page.0)) {
                return Some(page);
            }
        }
    }

    /// Whether there is no page to visit.
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn add_chunk(&mut self, id: &ObjectId) -> Result<()> {
        self.chunks.insert(IdPrefix::new(id))
    }

    /// Makes the recent chunks known to [`LiveSet::contains`].
    pub(super) fn sort_recent(&mut self) {
        self.chunks.sort();
    }

    /// Puts the chunks together, so that it takes one look to find one.
    pub(super) fn compact(&mut self) -> Result<()> {
        self.chunks.merge()
    }

    /// The pages in order, for [`LiveSet::in_order`].
    pub(super) fn sorted_pages(&self) -> Vec<Prefix> {
        let mut pages: Vec<_> = self.pages.iter().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// All of the chunks and `pages` in order.
    pub(super) fn in_order<'a>(
        &'a self,
        pages: &'a [Prefix],
    ) -> impl Iterator<Item = Result<IdPrefix>> + 'a {
        self.chunks.in_order_with(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8, is_page: bool) -> ObjectId {
        ObjectId([number; ObjectId::LEN]).with_type(is_page)
    }

    #[test]
    fn what_came_later_is_reached_too_and_everything_once() {
        let mut live = LiveSet::default();
        [5, 3, 5].iter().for_each(|number| live.add_chunk(&id(*number, false)).unwrap());
        live.sort_recent();
        live.compact().unwrap();
        [9, 1, 3, 9].iter().for_each(|number| live.add_chunk(&id(*number, false)).unwrap());
        live.add_page((id(4, true), None));
        live.next_page();
        live.sort_recent();
        let has = |number| live.contains(&id(number, false)).unwrap();
        assert!([1, 3, 5, 9].into_iter().all(has) && !has(2) && !has(7) && !has(4));
        assert!(live.contains(&id(4, true)).unwrap());
        assert_eq!(live.in_order(&live.sorted_pages()).count(), 5);
    }

    #[test]
    fn a_page_is_visited_once() {
        let mut live = LiveSet::default();
        [7, 8, 7].iter().for_each(|number| live.add_page((id(*number, true), None)));
        let visited = std::iter::from_fn(|| live.next_page()).count();
        assert_eq!((visited, live.is_done()), (2, true));
    }
}
