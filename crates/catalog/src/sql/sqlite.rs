//! SQLite: one file, one connection that writes, and some that read.

mod copies;

use super::{Backend, Purpose, Row, Value};
use crate::error::Failure;
use crate::{Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another process that holds the file, such as a backup of it.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// What stands for the placeholders in the text of the tables.
const TYPES: &[(&str, &str)] = &[
    ("{id}", "INTEGER PRIMARY KEY AUTOINCREMENT"),
    ("{int}", "INTEGER"),
    ("{text}", "TEXT"),
    ("{blob}", "BLOB"),
    ("{strict}", " STRICT"),
];

/// A connection to SQLite.
pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    lock: Option<File>,
}

impl Sqlite {
    /// Opens the file, and creates it for its owner only if it does not exist: SQLite would let others read it, and
    /// makes its further files like this one.
    pub(super) fn open(path: &Path, purpose: Purpose) -> Result<Self> {
        if purpose == Purpose::Write {
            private(path)?;
        }
        let connection = match purpose {
            Purpose::Write => writer(path),
            Purpose::Read => reader(path),
        };
        let connection = connection.map_err(|error| failed(error).at(&path.display()))?;
        Ok(Self { connection, path: path.to_owned(), lock: None })
    }

    fn texts(&self, sql: &str) -> Result<Vec<String>> {
        let mut select = self.connection.prepare(sql).map_err(failed)?;
        let rows = select.query_map([], |row| row.get(0)).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

/// A file that only its owner can read, whether it exists or not.
fn private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path).map_err(disk(path))
}

fn writer(path: &Path) -> rusqlite::Result<Connection> {
    let writer = Connection::open(path)?;
    writer.busy_timeout(BUSY_WAIT)?;
    writer.pragma_update(None, "journal_mode", "WAL")?;
    writer.pragma_update(None, "synchronous", "FULL")?;
    writer.pragma_update(None, "foreign_keys", true)?;
    Ok(writer)
}

fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.busy_timeout(BUSY_WAIT)?;
    Ok(reader)
}

impl Backend for Sqlite {
    /// An immediate transaction is always alone.
    fn begin(&mut self, _alone: bool) -> Result<()> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn commit(&mut self) -> Result<()> {
        self.batch("COMMIT")
    }

    fn rollback(&mut self) {
        let _ = self.batch("ROLLBACK"); // SQLite has undone it, then
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(&own(sql)).map_err(failed)?;
        let rows = statement.execute(params_from_iter(values)).map_err(failed)?;
        Ok(rows as u64)
    }

    fn each(
        &mut self,
        sql: &str,
        values: &[Value],
        with: &mut dyn FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        let mut select = self.connection.prepare_cached(&own(sql)).map_err(failed)?;
        let columns = select.column_count();
        let mut rows = select.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            with(&read(row, columns)?)?;
        }
        Ok(())
    }

    fn batch(&mut self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(failed)
    }

    fn types(&self) -> &'static [(&'static str, &'static str)] {
        TYPES
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        self.texts(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        )
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        self.texts(&format!("SELECT name FROM pragma_table_info('{table}') ORDER BY name"))
    }

    fn last_id(&mut self, table: &str) -> Result<i64> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1";
        self.connection.query_row(sql, [table], |row| row.get(0)).map_err(failed)
    }

    fn set_last_id(&mut self, table: &str, last: i64) -> Result<()> {
        let delete = "DELETE FROM sqlite_sequence WHERE name = ?1";
        self.connection.execute(delete, [table]).map_err(failed)?;
        let insert = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
        self.connection.execute(insert, (table, last)).map_err(failed)?;
        Ok(())
    }

    fn copy(&mut self, version: u32, keep: usize) -> Result<()> {
        copies::copy(&self.connection, &self.path, version)?;
        copies::prune(&self.path, keep)
    }

    /// A file beside the catalog: SQLite's own locks end with each transaction.
    fn lock(&mut self) -> Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        let path = beside(&self.path, "-lock");
        let file = private(&path)?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(std::fs::TryLockError::WouldBlock) => return Ok(false),
            Err(std::fs::TryLockError::Error(error)) => return Err(disk(&path)(error)),
        }
        Ok(true)
    }

    fn unlock(&mut self) -> Result<()> {
        self.lock = None;
        Ok(())
    }
}

/// Where SQLite has numbered parameters, others have `$1`.
fn own(sql: &str) -> String {
    sql.replace('$', "?")
}

fn read(row: &rusqlite::Row<'_>, columns: usize) -> Result<Row> {
    let value = |at| match row.get_ref(at).map_err(failed)? {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Text(text) => {
            Ok(Value::Text(String::from_utf8(text.to_vec()).map_err(Error::database)?))
        }
        ValueRef::Blob(bytes) => Ok(Value::Blob(bytes.to_vec())),
        ValueRef::Real(_) => Err(Error::database("a column holds a fraction")),
    };
    (0..columns).map(value).collect::<Result<_>>().map(Row::new)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn failed(error: rusqlite::Error) -> Error {
    let failure = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::Busy,
        Some(ErrorCode::DiskFull) => Failure::Full,
        _ => Failure::Lasting,
    };
    Error::failed(failure, error)
}

fn disk(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::database(format!("{}: {error}", path.display()))
}

/// The file with this name and `end`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
