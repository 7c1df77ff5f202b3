//! Session records in snapshot files. When a container has lost both copies of a session record, its records can be
//! opened only with the copy in the snapshot file of that session.

use crate::{Error, Repository, Result};
use format::record;
use ids::SessionId;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// The session records in the snapshot files; read when the first one is asked for.
pub(crate) struct SnapshotKeys<'a> {
    repository: &'a Repository,
    records: OnceCell<FxHashMap<SessionId, Vec<u8>>>,
}

impl<'a> SnapshotKeys<'a> {
    pub(crate) fn new(repository: &'a Repository) -> Self {
        Self { repository, records: OnceCell::new() }
    }

    /// The session record of `session`, if a snapshot file has it.
    pub(crate) fn find(&self, session: SessionId) -> Result<Option<&[u8]>> {
        if let Some(records) = self.records.get() {
            return Ok(records.get(&session).map(Vec::as_slice));
        }
        let read = self.read()?;
        Ok(self.records.get_or_init(|| read).get(&session).map(Vec::as_slice))
    }

    fn read(&self) -> Result<FxHashMap<SessionId, Vec<u8>>> {
        let mut records = FxHashMap::default();
        let names = self.repository.current_snapshots()?;
        for (_, read) in self.repository.each_snapshot(&names) {
            let stored = match read {
                // Damaged in both places, or forgotten at this moment.
                Err(Error::Damaged { .. } | Error::SnapshotMissing(_)) => continue,
                stored => stored?,
            };
            if let Ok(record) = record::verify(stored.session_record()) {
                records.insert(record.header.session, stored.session_record().to_vec());
            }
        }
        Ok(records)
    }
}
