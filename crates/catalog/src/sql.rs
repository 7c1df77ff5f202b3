//! One way to run SQL, whatever database the catalog is in.
//!
//! Queries are written once: parameters are `$1`, `$2`, …, numbers are 64 bits, yes and no are 1 and 0, and what one of
//! the databases does differently is in its back end. PostgreSQL must be able to tell the type of a parameter from the
//! place where it first stands: write `node = $1 OR $1 IS NULL`, not the other way round.

mod pool;
mod postgresql;
mod retry;
mod sqlite;
mod value;
mod words;
mod writer;

pub(crate) use pool::Pool;
pub(crate) use postgresql::address::{Address, HOW};
pub(crate) use retry::again;
pub(crate) use value::{FromValue, Row, ToValue, Value, storable};
pub(crate) use words::{Json, Word};
pub(crate) use writer::Writer;

use crate::location::{Kind, Location};
use crate::{Error, Result};
use std::cell::RefCell;

/// The values of the parameters of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::ToValue::to_value(&$value)?),*] };
}
pub(crate) use values;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To change the catalog.
    Write,
    /// To read it.
    Read,
}

/// A connection to a database.
pub(crate) trait Backend: Send {
    /// Begins a transaction. If `alone`, no other transaction that began so runs meanwhile, in any process. Where this
    /// fails, no transaction is left.
    fn begin(&mut self, alone: bool) -> Result<()>;
    /// Makes the transaction durable.
    fn commit(&mut self) -> Result<()>;
    /// Undoes the transaction. What fails here has ended the transaction as well.
    fn rollback(&mut self);
    /// Runs a statement; returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64>;
    /// Runs a query, and calls `with` for each row.
    fn each(
        &mut self,
        sql: &str,
        values: &[Value],
        with: &mut dyn FnMut(&Row) -> Result<()>,
    ) -> Result<()>;
    /// Runs several statements without parameters.
    fn batch(&mut self, sql: &str) -> Result<()>;

    /// What stands for each placeholder in the text of the tables.
    fn types(&self) -> &'static [(&'static str, &'static str)];
    /// The names of all tables.
    fn tables(&mut self) -> Result<Vec<String>>;
    /// The names of the columns of `table`, sorted.
    fn columns(&mut self, table: &str) -> Result<Vec<String>>;
    /// The highest number that was ever given to a row of `table`, 0 for none.
    fn last_id(&mut self, table: &str) -> Result<i64>;
    /// The next row of `table` gets a number above `last`.
    fn set_last_id(&mut self, table: &str, last: i64) -> Result<()>;
    /// Copies all tables, which have the version `version`, and keeps the newest `keep` copies.
    fn copy(&mut self, version: u32, keep: usize) -> Result<()>;
    /// Takes the lock of whoever serves or migrates the catalog, until the connection ends. Returns whether it is free.
    fn lock(&mut self) -> Result<bool>;
    /// How whoever holds the lock gives it back.
    fn how_to_free(&mut self) -> String {
        "stop it first".to_owned()
    }
    /// Gives the lock back.
    fn unlock(&mut self) -> Result<()>;
}

/// Opens a connection.
pub(crate) fn connect(location: &Location, purpose: Purpose) -> Result<Box<dyn Backend>> {
    match &location.0 {
        Kind::Sqlite(path) | Kind::Named(path) => {
            Ok(Box::new(sqlite::Sqlite::open(path, purpose)?))
        }
        Kind::Postgres(address) => Ok(Box::new(postgresql::Postgres::connect(address, purpose)?)),
    }
}

/// A connection as queries use it, in a transaction or for reading.
pub(crate) struct Sql<'a>(RefCell<&'a mut dyn Backend>);

impl<'a> Sql<'a> {
    pub(crate) fn on(backend: &'a mut dyn Backend) -> Self {
        Self(RefCell::new(backend))
    }

    /// Runs a statement; returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, values: &[Value]) -> Result<u64> {
        self.0.borrow_mut().execute(sql, values)
    }

    /// Calls `with` for each row. It must not run statements itself.
    pub(crate) fn each(
        &self,
        sql: &str,
        values: &[Value],
        mut with: impl FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        self.0.borrow_mut().each(sql, values, &mut with)
    }

    /// All rows, as `read` reads them.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.each(sql, values, |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row, if there is one.
    pub(crate) fn row<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, values, read)?.into_iter().next())
    }

    /// The row that is always there, such as that of an `INSERT … RETURNING`.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<T> {
        self.row(sql, values, read)?.ok_or_else(|| Error::database("a row is missing"))
    }

    /// Whether there is a row.
    pub(crate) fn exists(&self, sql: &str, values: &[Value]) -> Result<bool> {
        Ok(self.row(sql, values, |_| Ok(()))?.is_some())
    }

    /// What only the back end knows.
    pub(crate) fn backend<T>(&self, ask: impl FnOnce(&mut dyn Backend) -> Result<T>) -> Result<T> {
        ask(&mut **self.0.borrow_mut())
    }
}
