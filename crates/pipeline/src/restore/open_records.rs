//! Records that a later window needs again. A record holds a few thousand small files, which several threads stored in
//! turns, so its files lie in several windows.

use ids::RecordLocation;
use parking_lot::Mutex;
use seal::OpenedBlock;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of opened records that are kept: what some threads stored at the same time.
const OPEN_BYTES_MAX: usize = 16 << 20;

/// The opened records that were used last.
#[derive(Default)]
pub(super) struct OpenRecords(Mutex<VecDeque<(RecordLocation, Arc<OpenedBlock>)>>);

impl OpenRecords {
    /// The record at `location`, if it is open.
    pub(super) fn get(&self, location: RecordLocation) -> Option<Arc<OpenedBlock>> {
        let mut open = self.0.lock();
        let at = open.iter().position(|(other, _)| *other == location)?;
        let found = open.remove(at)?;
        let opened = found.1.clone();
        open.push_front(found);
        Some(opened)
    }

    /// Keeps the record at `location`; those that nobody used for longest make room.
    pub(super) fn keep(&self, location: RecordLocation, opened: &Arc<OpenedBlock>) {
        let mut open = self.0.lock();
        // Two threads may have opened it at the same time.
        if open.iter().all(|(other, _)| *other != location) {
            open.push_front((location, opened.clone()));
        }
        while open.iter().map(|(_, opened)| opened.bytes()).sum::<usize>() > OPEN_BYTES_MAX
            && open.pop_back().is_some()
        {}
    }
}
