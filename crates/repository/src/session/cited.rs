//! What the pages that a node sends refer to.
//!
//! A page that refers to what nobody has stored keeps every reclaim and copy from going on: what cannot be seen is not
//! dead. Where its snapshot is locked, nobody could even forget it.

use super::Session;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::{Error, Result};
use format::page::heads;
use format::record::{Record, RecordKind};
use ids::ObjectId;
use rustc_hash::FxHashMap;

/// References that may be open at a time: 24 MiB. A node sends what its pages refer to before them, or soon after.
const OPEN_MAX: usize = 1 << 20;

/// References to what was neither promised nor stored when they came.
pub(super) type OpenReferences = FxHashMap<Prefix, ObjectId>;

impl Session {
    /// Notes what the pages in `record` refer to.
    ///
    /// # Errors
    /// [`Error::TooManyOpen`]; those of the storage.
    pub(super) fn note_references(&self, record: &Record<'_>) -> Result<()> {
        if record.header.kind != RecordKind::Pages {
            return Ok(());
        }
        let foreign = |reason| Error::damaged("a record that was sent", reason);
        let heads = heads(record).map_err(foreign)?;
        let mut unknown: Vec<_> = heads.iter().flat_map(|head| head.refs()).collect();
        let objects = self.objects.lock();
        unknown.retain(|id| !objects.has(id));
        drop(objects);
        for id in unknown {
            if !self.is_listed(&id)? {
                let mut open = self.open_references.lock();
                open.insert(prefix_of(&id), id);
                if open.len() > OPEN_MAX {
                    return Err(Error::TooManyOpen(OPEN_MAX));
                }
            }
        }
        Ok(())
    }

    /// Refuses a snapshot of pages that refer to what is not stored by now.
    ///
    /// # Errors
    /// [`Error::NothingBehind`]; those of the storage.
    pub(super) fn check_references(&self) -> Result<()> {
        let open = std::mem::take(&mut *self.open_references.lock());
        for id in open.into_values() {
            if !self.objects.lock().has_placed(&id) && !self.is_listed(&id)? {
                return Err(Error::NothingBehind(id));
            }
        }
        Ok(())
    }
}
