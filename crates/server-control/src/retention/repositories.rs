//! The repositories, as retention needs them.

use super::facts::{of_received, of_unread};
use crate::domain_repository::DomainRepositories;
use crate::{Error, Result};
use ::retention::Facts;
use api::Name;
use clock::Reading;
use ids::SnapshotId;
use repository::received::ReceivedSnapshot;
use repository::snapshots::SnapshotRef;
use server_contract::Expired;

/// Where the snapshots of domains are stored.
pub(crate) trait SnapshotStore: Send + Sync {
    /// The names of the snapshots of a domain; none if it has no repository yet.
    ///
    /// # Errors
    /// When the repository cannot be read.
    fn names(&self, domain: &Name) -> Result<Vec<SnapshotRef>>;

    /// What is known of those that are still there. One that is damaged is suspect.
    ///
    /// # Errors
    /// When the repository cannot be read.
    fn facts(&self, domain: &Name, names: &[SnapshotRef]) -> Result<Vec<Facts>>;

    /// Deletes snapshots; those that are gone count as removed.
    ///
    /// # Errors
    /// When the repository cannot be written. Some may have been removed.
    fn expire(&self, domain: &Name, ids: &[SnapshotId], now: Reading) -> Result<Expired>;
}

impl SnapshotStore for DomainRepositories {
    fn names(&self, domain: &Name) -> Result<Vec<SnapshotRef>> {
        self.all_names(domain)
    }

    fn facts(&self, domain: &Name, names: &[SnapshotRef]) -> Result<Vec<Facts>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let read = self.by_name(domain)?.received(names)?;
        known(names, read)
    }

    fn expire(&self, domain: &Name, ids: &[SnapshotId], now: Reading) -> Result<Expired> {
        self.by_name(domain)?.expire(ids, now)
    }
}

/// What was read of each of `names`; those that are gone are left out.
pub(crate) fn known(
    names: &[SnapshotRef],
    read: Vec<repository::Result<ReceivedSnapshot>>,
) -> Result<Vec<Facts>> {
    let mut found = Vec::new();
    for (name, one) in names.iter().zip(read) {
        match one {
            Ok(received) => found.push(of_received(received)),
            Err(repository::Error::SnapshotMissing(_)) => {}
            Err(repository::Error::Damaged { .. }) => found.push(of_unread(*name)),
            Err(error) => return Err(Error::Repository(error)),
        }
    }
    Ok(found)
}
