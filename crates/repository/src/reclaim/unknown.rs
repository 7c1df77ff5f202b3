//! Records that the index does not know: of a reclaim that was killed before it removed the file, or of an object that
//! was stored twice, of which the index knows one place. Nobody reads them, and rewriting leaves them behind.

use crate::{Error, Repository, Result};
use format::container::Row;
use format::record::RecordKind;
use ids::ContainerNo;
use rustc_hash::{FxHashMap, FxHashSet};

/// Offsets of the records that the index knows, by container.
#[derive(Default)]
pub(super) struct Known(FxHashMap<ContainerNo, FxHashSet<u32>>);

impl Known {
    /// Of `containers`. Takes a few bytes of memory for each record in them.
    pub(super) fn of(repository: &Repository, containers: &[ContainerNo]) -> Result<Self> {
        let mut known: FxHashMap<_, FxHashSet<_>> =
            containers.iter().map(|number| (*number, FxHashSet::default())).collect();
        repository.index().visit(|row| {
            if let Some(offsets) = known.get_mut(&row.location.container) {
                offsets.insert(row.location.offset);
            }
            Ok(())
        })?;
        Ok(Self(known))
    }

    /// Bytes of the records with objects in `container` that are not known. None where its footer is damaged: that is
    /// for a check, and no reason to stop.
    pub(super) fn lacks(&self, repository: &Repository, container: ContainerNo) -> Result<u64> {
        let rows = match repository.container(container)?.rows() {
            Err(Error::Damaged { .. }) => return Ok(0),
            rows => rows?,
        };
        let known = self.0.get(&container);
        let is_known = |row: &Row| known.is_some_and(|known| known.contains(&row.offset));
        let lacking = rows.iter().filter(|row| has_objects(row) && !is_known(row));
        Ok(lacking.map(|row| u64::from(row.length)).sum())
    }
}

/// Whether objects are in the record.
pub(super) fn has_objects(row: &Row) -> bool {
    row.has_kind(RecordKind::Data) || row.has_kind(RecordKind::Pages)
}
