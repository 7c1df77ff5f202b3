//! What pages refer to, of the records that were read last.

use crate::index::prefix_of;
use crate::index::run::Prefix;
use format::page::PageHead;
use ids::{ObjectId, RecordLocation};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Ids that are kept, 24 bytes each. A tree that jumps between the records of more pages is read slowly.
const IDS_MAX: usize = 1 << 20;

/// What the pages of a record refer to.
pub(crate) type RecordHeads = FxHashMap<Prefix, Arc<[ObjectId]>>;

/// The records that were read last, since neighbors in a tree are mostly neighbors at rest.
///
/// A page is looked for only in the record in which the index has it: any other may claim its id. Whoever stored that
/// one later could name other references, and let what the page needs look dead.
#[derive(Default)]
pub(crate) struct LatestHeads {
    records: FxHashMap<RecordLocation, Arc<RecordHeads>>,
    order: VecDeque<RecordLocation>,
    ids: usize,
}

impl LatestHeads {
    /// Those of the record at `location`, if it was read lately.
    pub(crate) fn at(&self, location: &RecordLocation) -> Option<&Arc<RecordHeads>> {
        self.records.get(location)
    }

    /// Keeps those of the record at `location`.
    pub(crate) fn keep(
        &mut self,
        location: RecordLocation,
        heads: &[PageHead<'_>],
    ) -> Arc<RecordHeads> {
        let kept = heads.iter().map(|head| (prefix_of(&head.id), head.refs().collect()));
        let kept = Arc::new(kept.collect::<RecordHeads>());
        self.ids += ids_in(&kept);
        self.order.push_back(location);
        if let Some(same) = self.records.insert(location, kept.clone()) {
            self.ids -= ids_in(&same);
        }
        while self.ids > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let removed = self.records.remove(&oldest);
            self.ids -= removed.map_or(0, |removed| ids_in(&removed));
        }
        kept
    }
}

fn ids_in(heads: &RecordHeads) -> usize {
    heads.values().map(|refs| 1 + refs.len()).sum()
}
