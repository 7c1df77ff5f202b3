//! Removing a whole repository from its bucket, and making sure that there is none.
//!
//! The config goes first: from then on it is no repository, and the rest may take as long as it takes. Whoever is
//! killed in between begins again. In a bucket that keeps versions, what is removed is only hidden; what Object Lock
//! keeps is there until its lock ends.

use crate::cache;
use crate::names::LEASE;
use crate::storage::ObjectStorage;
use repository::config;
use repository::storage::{StorageError, StorageResult};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// Objects that one request removes.
const AT_ONCE: usize = 1000;

impl ObjectStorage {
    /// The name of an object of this repository, or of anything else below its prefix, if there is one. Leases do not
    /// count: the last beat of a writer can come behind all that was removed.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn any_object(&self) -> StorageResult<Option<String>> {
        // A listing by directories can name those of which only removed versions are there.
        let listed = self.client().list("", "")?.into_iter().map(|(name, _)| name);
        Ok(listed.into_iter().find(|name| name.split('/').next() != Some(LEASE)))
    }

    /// Whether this process has the lease, asked at this moment.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn still_writes(&self) -> StorageResult<bool> {
        let Some(held) = self.shared.state.lock().held.clone() else { return Ok(false) };
        held.forget_check();
        Ok(self.later_leases(&held)?.is_none())
    }

    /// Removes what is kept of it below `directory` on this machine, if that can be found. Nobody needs it, and what is not
    /// used goes in the end.
    pub fn forget_kept_in(&self, directory: &Path) {
        for config in config::NAMES.iter().filter_map(|name| self.client().get(name).ok()) {
            let _ = cache::forget(directory, &config); // there may be nothing
        }
    }

    /// Makes it no repository any more, if it was one.
    ///
    /// # Errors
    /// Those of the storage; then it may be one still.
    pub fn remove_config(&self) -> StorageResult<()> {
        self.client().delete(&config::NAMES.map(str::to_owned))?;
        match self.left(&config::NAMES)? {
            Some(name) => Err(stays(&name, 1, None)),
            None => Ok(()),
        }
    }

    /// Removes all objects below the prefix, the config first. Nobody may write any more.
    ///
    /// # Errors
    /// Names the first object that stays, how many these are, and why. What was removed stays so.
    pub fn remove_objects(&self) -> StorageResult<()> {
        self.remove_config()?;
        // Parts of objects that nobody ends. Not every storage lists them; what stays costs a little.
        let _ = self.abort_uploads(Duration::ZERO);
        let names: Vec<_> = self.client().list("", "")?.into_iter().map(|(name, _)| name).collect();
        let refused = names.chunks(AT_ONCE).map(|names| self.client().delete(names));
        let refused = refused.filter_map(Result::err).next();
        let left = self.client().list("", "")?;
        match left.first() {
            Some((name, _)) => Err(stays(name, left.len(), refused)),
            None => Ok(()),
        }
    }

    fn left(&self, names: &[&str]) -> StorageResult<Option<String>> {
        for name in names {
            match self.client().length(name) {
                Err(error) if error.is_not_found() => {}
                there => return there.map(|_| Some((*name).to_owned())),
            }
        }
        Ok(None)
    }
}

fn stays(name: &str, count: usize, why: Option<StorageError>) -> StorageError {
    let kind = why.as_ref().map_or(ErrorKind::PermissionDenied, |why| why.source.kind());
    let why = why.map_or_else(|| "the storage keeps it".to_owned(), |why| why.source.to_string());
    let others = if count > 1 { format!(" and {} others stay", count - 1) } else { String::new() };
    StorageError::new("remove", name, Error::new(kind, format!("{why}{others}")))
}
