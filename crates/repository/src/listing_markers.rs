//! Listings that are up to date. A network file system may answer with a stale listing from its cache, and
//! whoever removes files that no listing names must not rely on one.
//!
//! So a marker is created, under a name that never existed before. A listing that contains the marker was made after
//! that moment, and contains every file that existed then.

use crate::storage::{PUT_SUFFIX, Storage, StorageError};
use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a directory is listed until its listing is not stale.
const LISTS_MAX: usize = 4;
const PREFIX: &str = "now-";

/// Creates markers; each has a name of its own.
#[derive(Default)]
pub(crate) struct ListingMarkers {
    /// Generation of the lease under which they are created.
    generation: AtomicU64,
    next: AtomicU64,
}

impl ListingMarkers {
    /// From now on, markers belong to the lease of this generation.
    pub(crate) fn take_over(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// The current names in `directory`, for the holder of the lease only.
    ///
    /// # Errors
    /// [`Error::StaleListing`] when the storage lists a stale directory again and again.
    pub(crate) fn list(&self, storage: &dyn Storage, directory: &str) -> Result<Vec<String>> {
        let names = if storage.has_consistent_listing() {
            storage.list(directory)?
        } else {
            self.list_with_marker(storage, directory)?
        };
        // A killed writer may have left one, also when it reached the same disk through a network.
        names.iter().filter(|name| self.is_leftover(name)).try_for_each(|name| {
            storage.remove(&format!("{directory}/{name}")).map_err(Error::from)
        })?;
        Ok(names.into_iter().filter(|name| !is_marker(name)).collect())
    }

    fn list_with_marker(&self, storage: &dyn Storage, directory: &str) -> Result<Vec<String>> {
        let marker = self.make(storage, directory)?;
        let names = list_with(storage, directory, &marker);
        // If this fails, the next holder of the lease removes it.
        let _ = storage.remove(&format!("{directory}/{marker}"));
        names
    }

    fn make(&self, storage: &dyn Storage, directory: &str) -> Result<String> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let marker = format!("{}{number:x}{PUT_SUFFIX}", self.start());
            match storage.create(&format!("{directory}/{marker}")) {
                // Left by a lease that was lost and had the same generation.
                Err(error) if error.already_exists() => {}
                made => return made.map(|_| marker).map_err(StorageError::into),
            }
        }
    }

    /// How the names of all markers of this lease begin.
    fn start(&self) -> String {
        format!("{PREFIX}{:x}-", self.generation.load(Ordering::Relaxed))
    }

    /// Whether it is a marker of an earlier lease. Another thread may be about to look for one of this lease.
    fn is_leftover(&self, name: &str) -> bool {
        is_marker(name) && !name.starts_with(&self.start())
    }
}

fn is_marker(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(PUT_SUFFIX)
}

fn list_with(storage: &dyn Storage, directory: &str, marker: &str) -> Result<Vec<String>> {
    for _ in 0..LISTS_MAX {
        let names = storage.list(directory)?;
        if names.iter().any(|name| name == marker) {
            return Ok(names);
        }
    }
    Err(Error::StaleListing { directory: directory.to_owned() })
}
