//! The objects that are reached, and those pages that are still to be visited.

use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::snapshots::SnapshotRef;
use ids::{ObjectId, SnapshotId};
use rustc_hash::FxHashSet;

/// Chunks that come before they are put to the others, unless there are even more of those.
const RECENT_MAX: usize = 1 << 20;

/// A page to visit, and the locked snapshot that must not lose it.
pub(super) type Pending = (ObjectId, Option<SnapshotId>);

/// The objects that are reached. It grows: what was reached once stays in it.
#[derive(Default)]
pub(super) struct LiveSet {
    /// Pages that were visited.
    pages: FxHashSet<Prefix>,
    /// Sorted, each once.
    chunks: Vec<Prefix>,
    /// Those that came since; sorted when nobody marks.
    recent: Vec<Prefix>,
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
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        let prefix = prefix_of(id);
        let has = |some: &[Prefix]| some.binary_search(&prefix).is_ok();
        if id.is_page() {
            self.pages.contains(&prefix)
        } else {
            has(&self.chunks) || has(&self.recent)
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

    pub(super) fn add_chunk(&mut self, id: &ObjectId) {
        self.recent.push(prefix_of(id));
        if self.recent.len() >= RECENT_MAX.max(self.chunks.len()) {
            self.compact();
        }
    }

    /// Makes the recent chunks known to [`LiveSet::contains`].
    pub(super) fn sort_recent(&mut self) {
        self.recent.sort_unstable();
        self.recent.dedup();
    }

    /// Puts the recent chunks to the others.
    pub(super) fn compact(&mut self) {
        if self.recent.is_empty() {
            return;
        }
        self.chunks.append(&mut self.recent);
        self.chunks.sort_unstable();
        self.chunks.dedup();
    }

    /// All prefixes in order.
    pub(super) fn sorted(&self) -> Vec<Prefix> {
        let mut all = Vec::with_capacity(self.pages.len() + self.chunks.len() + self.recent.len());
        all.extend(self.pages.iter().chain(&self.chunks).chain(&self.recent));
        all.sort_unstable();
        all.dedup();
        all
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
        [5, 3, 5].iter().for_each(|number| live.add_chunk(&id(*number, false)));
        live.compact();
        [9, 1, 3, 9].iter().for_each(|number| live.add_chunk(&id(*number, false)));
        live.sort_recent();
        let has = |number| live.contains(&id(number, false));
        assert!([1, 3, 5, 9].into_iter().all(has) && !has(2) && !has(7));
        assert_eq!(live.sorted().len(), 4);
    }

    #[test]
    fn a_page_is_visited_once() {
        let mut live = LiveSet::default();
        [7, 8, 7].iter().for_each(|number| live.add_page((id(*number, true), None)));
        let visited = std::iter::from_fn(|| live.next_page()).count();
        assert_eq!((visited, live.is_done()), (2, true));
    }
}
