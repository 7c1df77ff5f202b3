//! Reading records that are to be copied, and verifying them.

use crate::container::read::ContainerReader;
use crate::snapshot_keys::SnapshotKeys;
use crate::{Error, Repository, Result, container};
use format::record::{self, RecordKind};
use ids::{ContainerNo, ObjectId, RecordLocation, SessionId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A record whose checksum fits, with the session record that opens it.
pub struct GoodRecord {
    /// All of it.
    pub bytes: Vec<u8>,
    /// The session record.
    pub key: Arc<[u8]>,
    /// Its kind.
    pub kind: RecordKind,
    /// Its objects.
    pub ids: Vec<ObjectId>,
}

/// Whole session records.
pub(super) type SessionRecords = FxHashMap<SessionId, Arc<[u8]>>;

/// Reads records with the session records that open them.
pub(crate) struct RecordReader<'a> {
    repository: &'a Repository,
    keys: SnapshotKeys<'a>,
    /// The session records of the container that is read.
    here: Option<(ContainerNo, SessionRecords)>,
}

impl<'a> RecordReader<'a> {
    pub(crate) fn new(repository: &'a Repository) -> Self {
        Self { repository, keys: SnapshotKeys::new(repository), here: None }
    }

    /// The record at `location`, from parity if it is damaged.
    ///
    /// # Errors
    /// [`Error::ContainerMissing`]; [`Error::Damaged`].
    pub(crate) fn read(&mut self, location: RecordLocation) -> Result<GoodRecord> {
        let name = container::name(location.container);
        let at = |reason| Error::damaged(&format!("{name}, at {}", location.offset), reason);
        let mut bytes = Vec::new();
        self.repository.read(location, &mut bytes)?;
        if let Err(reason) = record::verify(&bytes)
            && !self.repository.heal(location, &mut bytes)
        {
            return Err(at(reason));
        }
        let record = record::split(&bytes).map_err(at)?;
        let kind = record.header.kind;
        if !matches!(kind, RecordKind::Data | RecordKind::Pages)
            || record.header.record_bytes() != bytes.len()
        {
            return Err(at(format::Error::Invalid { what: "record" }));
        }
        let ids = record::object_ids(&record).map_err(at)?;
        let key = self.key(record.header.session, location.container)?;
        Ok(GoodRecord { bytes, key, kind, ids })
    }

    /// The session record of `session`: from the container, else from a snapshot file.
    fn key(&mut self, session: SessionId, container: ContainerNo) -> Result<Arc<[u8]>> {
        let known = match &self.here {
            Some((number, known)) if *number == container => known.get(&session).cloned(),
            _ => {
                let known = keys_in(&*self.repository.container(container)?)?;
                let found = known.get(&session).cloned();
                self.here = Some((container, known));
                found
            }
        };
        if let Some(key) = known {
            return Ok(key);
        }
        let lost = format::Error::Invalid { what: "session record" };
        let found = self.keys.find(session)?.map(Arc::from);
        found.ok_or_else(|| Error::damaged(&container::name(container), lost))
    }
}

/// The good session records of a container.
pub(super) fn keys_in(reader: &ContainerReader) -> Result<SessionRecords> {
    let rows = match reader.rows() {
        Ok(rows) => rows,
        Err(error) if error.is_unreachable() || error.is_container_missing() => return Err(error),
        Err(_) => reader.walk(|_, _| ())?.rows,
    };
    let mut keys = FxHashMap::default();
    let container = reader.number();
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Session)) {
        let location = RecordLocation { container, offset: row.offset, length: row.length };
        let mut bytes = Vec::new();
        let is_good = match reader.read(location, &mut bytes) {
            Err(error) if error.is_unreachable() => return Err(error),
            read => read.is_ok() && record::verify(&bytes).is_ok(),
        };
        if !is_good && !reader.heal(location, &mut bytes) {
            continue; // each stands twice
        }
        if let Ok(record) = record::verify(&bytes) {
            let session = record.header.session;
            keys.entry(session).or_insert_with(|| Arc::from(&bytes[..]));
        }
    }
    Ok(keys)
}
