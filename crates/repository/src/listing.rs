//! What there is: snapshots and containers, as of now or perhaps of the past.

use crate::guard::{Guard, guarded};
use crate::snapshots::{self, SnapshotRef};
use crate::{Repository, Result, container};
use ids::ContainerNo;

impl Repository {
    /// All snapshots. On a network file system this may be of the past: one that was just made by
    /// another client is missing, or one that was forgotten is there, and cannot be read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        Ok(snapshots::parse_all(&self.storage.list(snapshots::DIRECTORY)?))
    }

    /// All snapshots as of now, for who holds the lease.
    pub fn current_snapshots(&self) -> Result<Vec<SnapshotRef>> {
        if !guarded(Guard::SnapshotListing) {
            return self.snapshots();
        }
        let names = self.listing_markers.list(&*self.storage, snapshots::DIRECTORY)?;
        Ok(snapshots::parse_all(&names))
    }

    /// All containers, for who only reads. Where a list may be of the past, the newest are looked for
    /// by their names.
    pub fn containers(&self) -> Result<Vec<container::ContainerFile>> {
        let mut found = container::list(&*self.storage, ContainerNo(0))?;
        if self.storage.has_consistent_listing() {
            return Ok(found);
        }
        let (known, mut next) = (self.index().state.next_container, 1);
        for file in &mut found {
            file.finished = file.finished || self.is_finished(file.number)?;
            next = file.number.0 + 1;
        }
        loop {
            let number = ContainerNo(next);
            if self.is_finished(number)? {
                found.push(container::ContainerFile { number, finished: true });
            } else if next >= known {
                // What a forget wrote lies behind all that the index knows, without a gap.
                return Ok(found);
            }
            next += 1;
        }
    }

    fn is_finished(&self, number: ContainerNo) -> Result<bool> {
        match self.storage.open(&container::name(number)) {
            Err(error) if error.is_not_found() => Ok(false),
            opened => Ok(opened.map(|_| true)?),
        }
    }

    /// All containers as of now, for who holds the lease.
    pub fn current_containers(&self) -> Result<Vec<container::ContainerFile>> {
        if !guarded(Guard::ContainerListing) {
            return container::list(&*self.storage, ContainerNo(0));
        }
        container::list_current(self, ContainerNo(0))
    }
}
