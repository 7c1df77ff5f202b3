//! What a server knows: nodes, tokens, domains, grants, jobs. SQLite or PostgreSQL.
//!
//! All SQL of the program is here, written once for both databases (`docs/adr/0021-one-catalog-two-databases.md`). Each
//! change is one transaction with its entry in the audit log, durable when the call returns. The progress of jobs is
//! kept in memory; jobs are written when they start and end: a thousand sessions must not cost a thousand syncs a
//! second.
//!
//! Calls wait for the database: an asynchronous program makes them on threads that may block.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod audit;
pub mod backup_states;
pub mod certificates;
pub mod commands;
pub mod domains;
mod error;
pub mod grants;
pub mod job_log;
pub mod jobs;
pub mod limits;
mod location;
mod moving;
pub mod nodes;
pub mod objects;
mod old;
pub mod options;
pub mod pools;
mod queued;
pub mod reports;
pub mod schedules;
mod schema;
mod settings;
pub mod snapshots;
mod sql;
pub mod storage_servers;
pub mod tokens;
pub mod upkeep;

pub use error::{Error, Failure, Result};
pub use location::Location;
pub use moving::Move;

use parking_lot::Mutex;
use sql::{Pool, Sql, Writer};

/// Connections for short reads, such as some rows by their key. Those of SQLite share one file and its cache: one is
/// as fast as several.
const fn readers(location: &Location) -> usize {
    if location.is_file() { 1 } else { 4 }
}
/// Connections for reads that may take long, such as history and whole tables: short reads do not wait for them.
const fn historians(location: &Location) -> usize {
    if location.is_file() { 1 } else { 2 }
}

/// An open catalog. Readers do not wait for a writer's sync, and short reads do not wait for long ones.
pub struct Catalog {
    location: Location,
    writer: Mutex<Writer>,
    readers: Pool,
    historians: Pool,
    /// Why the last change was not stored, if it was not.
    write_fault: Mutex<Option<String>>,
}

/// Who changes something, and when: for the audit log.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// `admin`, `node NAME` or `server`.
    pub who: &'a str,
    /// Seconds since 1970.
    pub now_secs: i64,
}

impl Catalog {
    /// Opens the catalog at `location`, and creates it if it does not exist, unless somebody named its file. It can be
    /// open several times, and a server can be using it.
    ///
    /// # Errors
    /// [`Error::Absent`] for such a file; [`Error::Newer`] for the catalog of a newer program, [`Error::Moved`] for one that was moved, [`Error::Foreign`]
    /// for a database with other tables, [`Error::Serving`] when its tables must change first while a server uses it;
    /// [`Error::Database`].
    pub fn open(location: &Location) -> Result<Self> {
        let catalog = Self::open_at(location, schema::STEPS)?;
        match catalog.look(|look| settings::get(look, settings::MOVED_TO))? {
            Some(to) => Err(Error::Moved { place: location.to_string(), to }),
            None => Ok(catalog),
        }
    }

    /// Opens the catalog with the tables of `steps`, also one that was moved.
    fn open_at(location: &Location, steps: &[&str]) -> Result<Self> {
        location.must_be_there()?;
        let mut writer = Writer::new(location);
        writer.begin_with(steps)?;
        Ok(Self {
            location: location.clone(),
            writer: Mutex::new(writer),
            readers: Pool::new(location, readers(location)),
            historians: Pool::new(location, historians(location)),
            write_fault: Mutex::default(),
        })
    }

    /// Keeps other servers away from the catalog until it is closed.
    ///
    /// # Errors
    /// [`Error::Serving`] when another server uses it; [`Error::Database`].
    pub fn serve(&self) -> Result<()> {
        self.writer.lock().serve()
    }

    /// Where it lies.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// One transaction: everything is durable, or nothing changed. `work` is repeated when another change was in its
    /// way, or when the connection was lost before the commit: it must do nothing but change the catalog.
    fn change<T>(&self, work: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        let done = self.writer.lock().change(work);
        match &done {
            Ok(_) => *self.write_fault.lock() = None,
            Err(error) if error.is_of_database() => {
                *self.write_fault.lock() = Some(error.to_string());
            }
            Err(_) => {} // what was asked for could not be: nobody knows whether it would have been stored
        }
        done
    }

    /// Why the last change was not stored: until one is, perhaps none can be.
    pub fn write_fault(&self) -> Option<String> {
        self.write_fault.lock().clone()
    }

    /// Reads committed data: some rows by their key.
    fn look<T>(&self, work: impl Fn(&Sql<'_>) -> Result<T>) -> Result<T> {
        self.readers.look(work)
    }

    /// The same for reads that may take long, such as history and whole tables. Connecting nodes do not wait for them.
    fn look_long<T>(&self, work: impl Fn(&Sql<'_>) -> Result<T>) -> Result<T> {
        self.historians.look(work)
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
