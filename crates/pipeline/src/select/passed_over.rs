//! Snapshots that a search passes over, because they are damaged or nobody known signed them. Who asked for the newest
//! one gets an older one then, and has to be told: what is newer in the target may be what the damaged one has.

use super::{Search, Selected, wanted};
use crate::effective_time::creation_order;
use crate::manifest::Snapshot;
use crate::{Error, Result};
use store::SnapshotRef;

impl Search<'_> {
    /// Skips a damaged snapshot. An error that would occur with all of them ends the search.
    pub(super) fn pass_over(&mut self, name: SnapshotRef, error: Error) -> Result<()> {
        if matches!(error, Error::Repository(store::Error::Storage(_)) | Error::WriteOnly) {
            return Err(error);
        }
        // What nobody known signed counts for nothing, whatever it says.
        if matches!(error, Error::Untrusted { .. }) {
            (self.note)(&format!("{error}; it is skipped"));
            return Ok(());
        }
        (self.note)(&format!("snapshot {} cannot be read and is skipped: {error}", name.id));
        self.unread.push(name);
        Ok(())
    }

    /// What was found, and what may have been meant instead of it: of which node, paths and time a snapshot is stands
    /// in what cannot be read, and only its name says that it is newer. The number in that is the one of its creation,
    /// or of a later change of its tags.
    pub(super) fn selected(&self, found: Snapshot) -> Selected {
        let (number, _) = creation_order(&found.head);
        let newer = self.unread.iter().filter(|name| name.sequence > number);
        Selected { unread: newer.map(|name| name.id).collect(), snapshot: found }
    }

    /// Nothing was found, or nothing that can be read.
    pub(super) fn missing(&self) -> Error {
        let wanted = wanted(self.selector);
        match self.unread.len() {
            0 => Error::SnapshotNotFound(wanted),
            unread => Error::SnapshotUnread { wanted, unread },
        }
    }
}
