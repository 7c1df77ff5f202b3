//! Moves a catalog to another database: all tables in one transaction, compared before it is committed. The old one
//! stays as it is, and says where the new one lies, so that no server starts on it again.
//!
//! A move that was interrupted is repeated: either nothing is in the new database, or all of it.

use crate::audit::note;
use crate::location::Location;
use crate::schema::{self, STEPS, TABLES, Table};
use crate::settings;
use crate::sql::{Backend, Purpose, Row, Sql, Value, connect};
use crate::{By, Catalog, Error, Result};
use blake3::Hash;

/// Rows that are written with one statement. SQLite allows 32,766 parameters, and no table has 30 columns.
const ROWS_AT_ONCE: usize = 200;
const CONTEXT: &str = "icecore 2026 catalog table v1";

/// What was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// From where, without a password.
    pub from: String,
    /// To where, without a password.
    pub to: String,
    /// Rows of each table; empty when an earlier move had copied them.
    pub rows: Vec<(&'static str, u64)>,
}

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    rows: u64,
    digest: Hash,
}

impl Catalog {
    /// Moves the catalog at `from` to `to`, which must be empty. No server may use it. The same move again completes
    /// one that was interrupted.
    ///
    /// # Errors
    /// [`Error::Target`] when `to` is not empty or would differ, [`Error::Serving`], [`Error::Moved`] when the catalog
    /// was moved elsewhere; those of [`Catalog::open`].
    pub fn move_to(from: &Location, to: &Location, by: By<'_>) -> Result<Move> {
        let source = Self::open_at(from, STEPS)?;
        source.serve()?;
        source.change(|change| {
            let rows = match settings::get(change, settings::MOVED_TO)? {
                Some(place) => is_there(change, from, to, place).map(|()| Vec::new())?,
                None => copy_and_mark(change, from, to, by)?,
            };
            Ok(Move { from: from.to_string(), to: to.to_string(), rows })
        })
    }
}

/// An earlier move was completed: its target must be `to`.
fn is_there(change: &Sql<'_>, from: &Location, to: &Location, place: String) -> Result<()> {
    if place == to.to_string() && is_same(change, &mut *connect(to, Purpose::Read)?)? {
        return Ok(());
    }
    Err(Error::Moved { place: from.to_string(), to: place })
}

fn copy_and_mark(
    change: &Sql<'_>,
    from: &Location,
    to: &Location,
    by: By<'_>,
) -> Result<Vec<(&'static str, u64)>> {
    let mut target = connect(to, Purpose::Write)?;
    let mut rows = Vec::new();
    must_lie_elsewhere(change, &mut *target, to)?;
    if target.tables()?.is_empty() {
        rows = copy(change, &mut *target, to, (from, by))?;
    } else if !is_complete(change, &mut *target)? {
        let why = "it is not empty. Choose an empty database or a new file, or empty this one";
        return Err(Error::Target { place: to.to_string(), why: why.to_owned() });
    }
    settings::set(change, settings::MOVED_TO, &to.to_string())?;
    note(change, by, "catalog.move", &to.to_string(), "moved there")?;
    Ok(rows)
}

/// Whoever moves the catalog holds its lock: where the lock of the same catalog is taken, it is this one.
fn must_lie_elsewhere(change: &Sql<'_>, target: &mut dyn Backend, to: &Location) -> Result<()> {
    if !is_same(change, target)? {
        return Ok(());
    }
    if target.lock()? {
        return target.unlock();
    }
    let why = "it lies there already: icecore server catalog show";
    Err(Error::Target { place: to.to_string(), why: why.to_owned() })
}

/// Whether the target holds this catalog, perhaps in an older state.
fn is_same(source: &Sql<'_>, target: &mut dyn Backend) -> Result<bool> {
    if !target.tables()?.iter().any(|table| table == "settings") {
        return Ok(false);
    }
    let of_target = settings::get(&Sql::on(target), settings::ID)?;
    Ok(of_target.is_some() && of_target == settings::get(source, settings::ID)?)
}

/// Whether the target holds what this catalog holds now: a move was interrupted after its commit.
fn is_complete(source: &Sql<'_>, target: &mut dyn Backend) -> Result<bool> {
    if !is_same(source, target)? {
        return Ok(false);
    }
    let contents = TABLES.iter().map(|table| content(source, table, |_| Ok(())));
    let contents: Vec<_> = contents.collect::<Result<_>>()?;
    let copied = settings::get(&Sql::on(target), settings::COPIED)?;
    Ok(copied == Some(of_all(&contents)))
}

/// Fills the empty target in one transaction.
fn copy(
    source: &Sql<'_>,
    target: &mut dyn Backend,
    to: &Location,
    (from, by): (&Location, By<'_>),
) -> Result<Vec<(&'static str, u64)>> {
    target.begin(false)?;
    let filled = fill(source, target, to).and_then(|contents| {
        let change = Sql::on(&mut *target);
        settings::set(&change, settings::COPIED, &of_all(&contents))?;
        note(&change, by, "catalog.move", &from.to_string(), "moved here")?;
        Ok(contents)
    });
    let done = filled.and_then(|contents| target.commit().map(|()| contents));
    let contents = done.inspect_err(|_| target.rollback())?;
    Ok(TABLES.iter().zip(contents).map(|(table, content)| (table.name, content.rows)).collect())
}

fn fill(source: &Sql<'_>, target: &mut dyn Backend, to: &Location) -> Result<Vec<Content>> {
    schema::create(target)?;
    target.execute("DELETE FROM settings", &[])?;
    TABLES.iter().map(|table| fill_table(source, target, (table, to))).collect()
}

fn fill_table(
    source: &Sql<'_>,
    target: &mut dyn Backend,
    (table, to): (&Table, &Location),
) -> Result<Content> {
    let columns = source.backend(|backend| backend.columns(table.name))?;
    let mut waiting: Vec<Row> = Vec::new();
    let content_of_source = content(source, table, |row| {
        waiting.push(row.clone());
        if waiting.len() == ROWS_AT_ONCE {
            insert(target, table, &columns, &std::mem::take(&mut waiting))?;
        }
        Ok(())
    })?;
    insert(target, table, &columns, &waiting)?;
    if table.is_numbered {
        let last = source.backend(|backend| backend.last_id(table.name))?;
        target.set_last_id(table.name, last)?;
    }
    if content(&Sql::on(target), table, |_| Ok(()))? != content_of_source {
        let why = format!("the table {} would not be the same there", table.name);
        return Err(Error::Target { place: to.to_string(), why });
    }
    Ok(content_of_source)
}

fn insert(target: &mut dyn Backend, table: &Table, columns: &[String], rows: &[Row]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut number = 0;
    let mut parameters = |_: &Row| {
        let row: Vec<_> = columns
            .iter()
            .map(|_| {
                number += 1;
                format!("${number}")
            })
            .collect();
        format!("({})", row.join(", "))
    };
    let parameters: Vec<_> = rows.iter().map(&mut parameters).collect();
    let (name, parameters) = (table.name, parameters.join(", "));
    let sql = format!("INSERT INTO {name} ({}) VALUES {parameters}", columns.join(", "));
    let values: Vec<Value> = rows.iter().flat_map(Row::values).cloned().collect();
    target.execute(&sql, &values).map(drop)
}

/// Reads a whole table in the order of its key, without the mark of a move.
fn content(
    look: &Sql<'_>,
    table: &Table,
    mut with: impl FnMut(&Row) -> Result<()>,
) -> Result<Content> {
    let columns = look.backend(|backend| backend.columns(table.name))?.join(", ");
    let Table { name, key, .. } = table;
    let mark = if *name == "settings" {
        format!(" WHERE key <> '{}'", settings::MOVED_TO)
    } else {
        String::new()
    };
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    feed(&mut hasher, columns.as_bytes());
    let mut rows = 0;
    look.each(&format!("SELECT {columns} FROM {name}{mark} ORDER BY {key}"), &[], |row| {
        rows += 1;
        row.values().iter().for_each(|value| feed_value(&mut hasher, value));
        with(row)
    })?;
    Ok(Content { rows, digest: hasher.finalize() })
}

/// Each value is preceded by its kind, and bytes by their number: different rows never hash the same bytes.
fn feed_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => {
            hasher.update(&[0]);
        }
        Value::Int(number) => {
            hasher.update(&[1]).update(&number.to_le_bytes());
        }
        Value::Text(text) => feed(hasher.update(&[2]), text.as_bytes()),
        Value::Blob(bytes) => feed(hasher.update(&[3]), bytes),
    }
}

fn feed(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

/// One digest of all tables, in hex.
fn of_all(contents: &[Content]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    contents.iter().for_each(|content| feed(&mut hasher, content.digest.as_bytes()));
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests;
