//! Lists that are not of the past. A network file system may list what it has in its cache, and
//! who removes what no list names must not believe that.
//!
//! A file is made under a name that was never there before. A list that has it is of after that
//! moment, and so has all that was there before: the other names in it are as fresh.

use crate::sabotage::{Point, is_out};
use crate::storage::{PUT_SUFFIX, Storage, StorageError};
use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a directory is listed until the list is not of the past.
const LISTS_MAX: usize = 4;
const PREFIX: &str = "now-";

/// Makes marks: each has a name of its own.
#[derive(Default)]
pub(crate) struct Marks {
    /// Of the lease under which they are made.
    generation: AtomicU64,
    next: AtomicU64,
}

impl Marks {
    /// From now on they are those of the holder of this lease.
    pub(crate) fn take_over(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// Names in `directory` as of now. Only the holder of the lease asks for it. `point` takes it
    /// out.
    pub(crate) fn list(
        &self,
        storage: &dyn Storage,
        directory: &str,
        point: Point,
    ) -> Result<Vec<String>> {
        let names = if storage.lists_are_fresh() || is_out(point) {
            storage.list(directory)?
        } else {
            self.list_with_mark(storage, directory)?
        };
        // A kill may leave one, on the way through a network to the same disk too.
        names.iter().filter(|name| self.is_of_the_dead(name)).try_for_each(|name| {
            storage.remove(&format!("{directory}/{name}")).map_err(Error::from)
        })?;
        Ok(names.into_iter().filter(|name| !is_mark(name)).collect())
    }

    fn list_with_mark(&self, storage: &dyn Storage, directory: &str) -> Result<Vec<String>> {
        let mark = self.make(storage, directory)?;
        let names = list_with(storage, directory, &mark);
        // When it stays, the next holder of the lease removes it.
        let _ = storage.remove(&format!("{directory}/{mark}"));
        names
    }

    fn make(&self, storage: &dyn Storage, directory: &str) -> Result<String> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mark = format!("{}{number:x}{PUT_SUFFIX}", self.start());
            match storage.create(&format!("{directory}/{mark}")) {
                // Left over from before a lease was lost that counted alike.
                Err(error) if error.exists_already() => {}
                made => return made.map(|_| mark).map_err(StorageError::into),
            }
        }
    }

    /// How the names of all marks of this lease begin.
    fn start(&self) -> String {
        format!("{PREFIX}{:x}-", self.generation.load(Ordering::Relaxed))
    }

    /// Another thread may be about to look for one of our own.
    fn is_of_the_dead(&self, name: &str) -> bool {
        is_mark(name) && !name.starts_with(&self.start())
    }
}

fn is_mark(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(PUT_SUFFIX)
}

fn list_with(storage: &dyn Storage, directory: &str, mark: &str) -> Result<Vec<String>> {
    for _ in 0..LISTS_MAX {
        let names = storage.list(directory)?;
        if names.iter().any(|name| name == mark) {
            return Ok(names);
        }
    }
    Err(Error::StaleList { directory: directory.to_owned() })
}
