//! Reading and writing the files that change: the highest object of each row ([`crate::roots`]).

use crate::names::{REMOVED, ROOTS, STATE, numbered};
use crate::roots;
use crate::storage::ObjectStorage;
use bytes::Bytes;
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};

/// How often a row is listed again when its last object vanished.
const TRIES: usize = 8;

impl ObjectStorage {
    /// The content of the file `root`: of the highest object of its row.
    pub(crate) fn read_root(&self, root: &'static str) -> StorageResult<Bytes> {
        let absent = || StorageError::new("open", root, ErrorKind::NotFound);
        for _ in 0..TRIES {
            let mut state = self.look(root)?;
            let last = state.names.highest(root).ok_or_else(absent)?;
            if root == STATE {
                state.note_state();
            }
            if let Some((number, content)) = state.roots.get(root)
                && *number == last
            {
                return Ok(content.clone());
            }
            let name = numbered(root, last);
            let is_good = |object: &Bytes| roots::decode(object).is_some();
            let fetch = || roots::read(self.client(), &name);
            match state.kept_of(&name).whole(&name, is_good, fetch) {
                Ok(object) => {
                    // What is damaged the engine finds damaged.
                    let content = roots::decode(&object).unwrap_or(object);
                    state.roots.insert(root, (last, content.clone()));
                    return Ok(content);
                }
                // Tidied up meanwhile: there is a higher one.
                Err(error) if error.is_not_found() && state.held.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Err(absent())
    }

    /// Writes the next object of the row `root`.
    pub(crate) fn put_root(&self, root: &'static str, bytes: &[u8]) -> StorageResult<()> {
        let mut state = self.look(root)?;
        let next = state.names.highest(root).unwrap_or(0) + 1;
        let (name, object) = (numbered(root, next), roots::encode(bytes));
        let held = state.held.clone();
        let Some(written) = self.client().create(&name, &object)? else {
            held.iter().for_each(|held| held.forget_check());
            return Err(taken_over(root));
        };
        // The name can be free once more: others may have written so much meanwhile that they tidied this number away.
        if let Some(held) = held
            && self.later_leases(&held)?.is_some()
        {
            return Err(taken_over(root));
        }
        state.names.insert_tagged(&name, object.len() as u64, written.tag);
        state.kept_of(&name).keep(&name, &object);
        state.roots.insert(root, (next, Bytes::copy_from_slice(bytes)));
        Ok(())
    }

    /// Says that these containers are about to go. The next writer finishes that before it does anything else: so
    /// nothing goes any more that it has seen.
    pub(crate) fn announce_removal(&self, containers: &[String]) -> StorageResult<()> {
        self.change_removed(|removed| removed.extend_from_slice(containers))
    }

    /// They are gone. One of the same number may come later, from a process that slept since before there was one: if
    /// the list stayed, whoever takes the lease over would remove that one as well.
    pub(crate) fn forget_removal(&self, containers: &[String]) -> StorageResult<()> {
        self.change_removed(|removed| removed.retain(|container| !containers.contains(container)))
    }

    fn change_removed(&self, change: impl FnOnce(&mut Vec<String>)) -> StorageResult<()> {
        let _one_at_a_time = self.announcing.lock();
        let mut removed = self.shared.state.lock().removed.clone();
        change(&mut removed);
        self.put_root(REMOVED, removed.join("\n").as_bytes())?;
        self.shared.state.lock().removed = removed;
        Ok(())
    }
}

fn taken_over(root: &str) -> StorageError {
    let reason = "another process took over the lease";
    StorageError::new("write", root, Error::new(ErrorKind::AlreadyExists, reason))
}

/// The row that holds the file `name`, if it is one that changes.
pub(crate) fn row_of(name: &str) -> Option<&'static str> {
    ROOTS.into_iter().find(|root| *root == name)
}
