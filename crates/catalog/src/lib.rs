//! What a server knows: nodes, tokens, domains, grants, jobs. SQLite.
//!
//! All SQL of the program is here. Each change is one transaction with its entry in the audit log, durable when the
//! call returns. The progress of jobs is kept in memory; jobs are written when they start and end: a thousand
//! sessions must not cost a thousand syncs a second.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod audit;
pub mod certificates;
pub mod commands;
pub mod domains;
mod error;
pub mod grants;
pub mod jobs;
pub mod limits;
pub mod nodes;
mod old;
mod schema;
pub mod storage_servers;
mod stored;
pub mod tokens;

pub use error::{Error, Result};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::path::Path;
use std::time::Duration;

/// How long to wait for another process that holds the file, such as a backup of it.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// An open catalog. Readers do not wait for a writer's sync, and short reads do not wait for long ones.
pub struct Catalog {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    historian: Mutex<Connection>,
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
    /// Opens the catalog at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Newer`] for the catalog of a newer program; [`Error::Sqlite`].
    pub fn open(path: &Path) -> Result<Self> {
        let mut writer = Connection::open(path)?;
        writer.busy_timeout(BUSY_WAIT)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update(None, "foreign_keys", true)?;
        schema::migrate(&mut writer)?;
        let (reader, historian) = (reader(path)?, reader(path)?);
        let (reader, historian) = (Mutex::new(reader), Mutex::new(historian));
        Ok(Self { writer: Mutex::new(writer), reader, historian })
    }

    /// One transaction: everything is durable, or nothing changed.
    fn change<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut writer = self.writer.lock();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Reads committed data: some rows by their key.
    fn look<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(&self.reader.lock())
    }

    /// The same for reads that may take long, such as history and whole tables. Connecting nodes do not wait for them.
    fn look_long<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(&self.historian.lock())
    }
}

fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.busy_timeout(BUSY_WAIT)?;
    Ok(reader)
}

#[cfg(test)]
mod testing {
    use super::*;

    pub(crate) const BY: By<'static> = By { who: "admin", now_secs: 1_000 };

    /// A catalog with the domain and node `web`.
    pub(crate) fn catalog() -> (tempfile::TempDir, Catalog) {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("catalog.sqlite")).unwrap();
        (folder, catalog)
    }
}

#[cfg(test)]
mod tests;
