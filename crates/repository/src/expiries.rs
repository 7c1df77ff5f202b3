//! What servers signed of snapshots that expired, wherever it lies in the containers.

use crate::container::read::ContainerReader;
use crate::{Error, Repository, Result};
use format::record::{self, RecordKind};
use ids::{ContainerNo, RecordLocation};
use std::collections::BTreeMap;

/// The expiries of containers that were looked at: a container never changes.
#[derive(Default)]
pub struct SeenExpiries(BTreeMap<ContainerNo, Vec<Vec<u8>>>);

impl Repository {
    /// The clear parts of all expiries, in the order of their containers. Those of `seen` are not read again. What is
    /// damaged says nothing.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn expiries(&self, seen: &mut SeenExpiries) -> Result<Vec<Vec<u8>>> {
        let files = self.current_containers()?;
        let there: Vec<_> = files.iter().filter(|file| file.finished).map(|it| it.number).collect();
        let mut known = std::mem::take(&mut seen.0);
        let unknown: Vec<_> = there.iter().copied().filter(|it| !known.contains_key(it)).collect();
        let without = self.cold_content(&unknown)?;
        for number in there {
            let found = match known.remove(&number) {
                Some(found) => Ok(found),
                None if without.contains(&number) => Ok(Vec::new()),
                None => self.expiries_in(number),
            };
            match found {
                // Reclaimed at this moment: what it had lies elsewhere.
                Err(Error::Damaged { .. } | Error::ContainerMissing(_)) => {}
                Err(error) if error.is_archived() && self.is_archived_content(number)? => {}
                found => drop(seen.0.insert(number, found?)),
            }
        }
        Ok(seen.0.values().flatten().cloned().collect())
    }

    fn expiries_in(&self, container: ContainerNo) -> Result<Vec<Vec<u8>>> {
        let reader = ContainerReader::open(&*self.storage, container)?;
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        for row in reader.rows()?.iter().filter(|row| row.has_kind(RecordKind::Expiry)) {
            let (offset, length) = (row.offset, row.length);
            reader.read(RecordLocation { container, offset, length }, &mut bytes)?;
            let record = record::verify(&bytes).ok();
            let is_one = |record: &record::Record<'_>| record.header.kind == RecordKind::Expiry;
            found.extend(record.filter(is_one).map(|record| record.clear.to_vec()));
        }
        Ok(found)
    }
}
