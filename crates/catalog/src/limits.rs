//! Bandwidth limits, as they were entered.

use crate::audit::note;
use crate::error::found;
use crate::stored::Json;
use crate::{By, Catalog, Result};
use api::limits::Limit;

impl Catalog {
    /// All limits.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn limits(&self) -> Result<Vec<Limit>> {
        self.look(|look| {
            let mut select = look.prepare_cached("SELECT id, rule FROM limits ORDER BY id")?;
            let rows = select.query_map([], |row| {
                let Json(limit) = row.get::<_, Json<Limit>>(1)?;
                Ok(Limit { id: Some(row.get::<_, i64>(0)?.unsigned_abs()), ..limit })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Adds a limit and returns it with its number.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn add_limit(&self, by: By<'_>, new: &Limit) -> Result<Limit> {
        self.change(|change| {
            let rule = Limit { id: None, ..new.clone() };
            change.execute("INSERT INTO limits (rule) VALUES (?1)", [Json(&rule)])?;
            let id = change.last_insert_rowid().unsigned_abs();
            let detail = format!("up {}, down {}", new.up, new.down);
            note(change, by, "limit.add", &id.to_string(), &detail)?;
            Ok(Limit { id: Some(id), ..rule })
        })
    }

    /// Removes a limit.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Sqlite`].
    pub fn remove_limit(&self, by: By<'_>, id: u64) -> Result<()> {
        self.change(|change| {
            let number = i64::try_from(id).unwrap_or(i64::MAX);
            let rows = change.execute("DELETE FROM limits WHERE id = ?1", [number])?;
            found(rows, "limit", id)?;
            note(change, by, "limit.remove", &id.to_string(), "")
        })
    }
}
