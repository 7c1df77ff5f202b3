//! Listings of snapshots and containers, current or perhaps stale.

use crate::guard::{Guard, guarded};
use crate::snapshots::{self, SnapshotRef};
use crate::{Repository, Result, container};
use ids::ContainerNo;

impl Repository {
    /// All snapshots. On a network file system the listing may be stale: a snapshot that another machine just created
    /// is missing, or a forgotten one is listed and cannot be read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        Ok(snapshots::parse_all(&self.storage.list(snapshots::DIRECTORY)?))
    }

    /// All snapshots, perhaps without what others have done in the last moments: [`crate::storage::Storage::list_lately`].
    pub(crate) fn snapshots_lately(&self) -> Result<Vec<SnapshotRef>> {
        Ok(snapshots::parse_all(&self.storage.list_lately(snapshots::DIRECTORY)?))
    }

    /// All snapshots, never stale; for the holder of the lease.
    pub fn current_snapshots(&self) -> Result<Vec<SnapshotRef>> {
        if !guarded(Guard::SnapshotListing) {
            return self.snapshots();
        }
        let names = self.listing_markers.list(&*self.storage, snapshots::DIRECTORY)?;
        Ok(snapshots::parse_all(&names))
    }

    /// All containers, for readers. Where a listing may be stale, the newest are looked up by name.
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

    /// All containers, never stale; for the holder of the lease.
    pub fn current_containers(&self) -> Result<Vec<container::ContainerFile>> {
        if !guarded(Guard::ContainerListing) {
            return container::list(&*self.storage, ContainerNo(0));
        }
        container::list_current(self, ContainerNo(0))
    }
}
