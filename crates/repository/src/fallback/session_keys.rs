//! Session keys that a container of the first place has lost.

use super::WithCopies;
use crate::Repository;
use format::record::{object_ids, split};
use ids::{ContainerNo, ObjectId, SessionId};
use std::collections::BTreeMap;

/// So many objects of a session are looked for in copies until one has been sealed in the same session there.
const OBJECTS_MAX: usize = 32;

impl WithCopies {
    /// The session keys in `container` of the first place. Who asks for healed ones has found none that opens: copies may
    /// have it.
    pub(super) fn keys_of_first(
        &self,
        container: ContainerNo,
        healed: bool,
    ) -> crate::Result<Vec<Vec<u8>>> {
        let here = self.first.session_keys(container, healed);
        if !healed {
            return here;
        }
        match (here, self.keys_of_copies(container)) {
            (Err(error), elsewhere) if elsewhere.is_empty() => Err(error),
            (here, elsewhere) => Ok([here.unwrap_or_default(), elsewhere].concat()),
        }
    }

    /// The session keys in copies of what lies in `container` of the first place.
    fn keys_of_copies(&self, container: ContainerNo) -> Vec<Vec<u8>> {
        let mut sessions: BTreeMap<SessionId, Vec<ObjectId>> = BTreeMap::new();
        if self.copies.is_empty() {
            return Vec::new();
        }
        let Ok(reader) = self.first.container(container) else { return Vec::new() };
        // As far as it can be read: what is not found here stays without a key.
        let _ = reader.walk(|_, record| {
            let ids = sessions.entry(record.header.session).or_default();
            ids.extend(object_ids(record).unwrap_or_default());
            ids.truncate(OBJECTS_MAX);
        });
        let keys = sessions.iter().filter_map(|(session, ids)| {
            ids.iter().find_map(|id| self.in_copies(|copy| keys_of(copy, session, id)))
        });
        keys.flat_map(|(_, keys)| keys).collect()
    }
}

/// The session keys in the container of `copy` that holds `id`, if `session` sealed it there, too.
fn keys_of(copy: &Repository, session: &SessionId, id: &ObjectId) -> Option<Vec<Vec<u8>>> {
    let mut buffer = Vec::new();
    let location = copy.fetch(id, &mut buffer).ok()?;
    let is_of_it = split(&buffer).ok()?.header.session == *session;
    if is_of_it { copy.session_keys(location.container, false).ok() } else { None }
}
