//! Lists the snapshots that a killed writer left pending: their data is stored, only their files are missing.

use crate::container::read::ContainerReader;
use crate::index::pending::PendingSnapshot;
use crate::lease::Lease;
use crate::rebuild::manifest_in;
use crate::{Error, Repository, Result, snapshots};
use format::manifest::Head;
use ids::{ContainerNo, SnapshotId};
use rustc_hash::FxHashSet;

/// Writes the files of pending snapshots that have none among the `listed` names. One whose data is not there stays
/// out of the list, since nobody was told of it. Afterwards none is pending.
pub(crate) fn list_pending(
    repository: &Repository,
    lease: &Lease,
    listed: &[String],
) -> Result<()> {
    let left = repository.pending.lock().clone();
    if left.is_empty() {
        return Ok(());
    }
    let listed: FxHashSet<_> = snapshots::parse_all(listed).into_iter().collect();
    let has_file = |one: &&PendingSnapshot| listed.contains(&one.name);
    if !left.iter().all(|one| has_file(&one)) {
        // The state of a killed writer may be seen and not be durable: no snapshot may outlive it.
        repository.storage.sync_directory("index")?;
    }
    for one in left.iter() {
        if !has_file(&one) {
            list(repository, lease, one)?;
        }
        repository.pending.lock().remove(&one.name.id);
    }
    Ok(())
}

fn list(repository: &Repository, lease: &Lease, one: &PendingSnapshot) -> Result<()> {
    let found = ContainerReader::open(&*repository.storage, one.container)
        .and_then(|reader| manifest_in(&reader, one.name.id));
    let found = match found {
        // Damage is for a check to tell. It must not keep everybody from writing.
        Err(Error::ContainerMissing(_) | Error::Damaged { .. }) => None,
        found => found?,
    };
    let Some(found) = found else { return Ok(()) };
    match Head::decode(&found.clear) {
        Ok((head, _)) if repository.is_complete(head.root)? => {
            repository.restore_manifest(lease, &found)
        }
        _ => Ok(()),
    }
}

impl Repository {
    /// The snapshots that may have no file, since nobody was told of them. As the state says now, not the index in use.
    ///
    /// # Errors
    /// Those of the storage, and a damaged state.
    pub fn pending(&self) -> Result<PendingNow> {
        let state = crate::index::state::State::read(&*self.storage)?;
        let ids = state.pending.iter().map(|one| one.name.id).collect();
        Ok(PendingNow { ids, first_unknown: state.first_unknown() })
    }
}

/// What is not known to be in the list.
#[derive(Debug)]
pub struct PendingNow {
    ids: FxHashSet<SnapshotId>,
    first_unknown: ContainerNo,
}

impl PendingNow {
    /// Whether the snapshot `id`, whose manifest is in `container`, may have no file yet.
    pub fn has(&self, id: &SnapshotId, container: ContainerNo) -> bool {
        container >= self.first_unknown || self.has_id(id)
    }

    /// The same of a snapshot whose container is settled.
    pub fn has_id(&self, id: &SnapshotId) -> bool {
        self.ids.contains(id)
    }
}
