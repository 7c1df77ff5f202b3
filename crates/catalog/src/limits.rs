//! Bandwidth limits, as they were entered.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Json, values};
use crate::{By, Catalog, Result};
use api::limits::Limit;

impl Catalog {
    /// All limits.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn limits(&self) -> Result<Vec<Limit>> {
        self.look(|look| {
            look.rows("SELECT id, rule FROM limits ORDER BY id", &[], |row| {
                let Json(limit) = row.get::<Json<Limit>>(1)?;
                Ok(Limit { id: Some(row.get(0)?), ..limit })
            })
        })
    }

    /// Adds a limit and returns it with its number.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn add_limit(&self, by: By<'_>, new: &Limit) -> Result<Limit> {
        self.change(|change| {
            let rule = Limit { id: None, ..new.clone() };
            let insert = "INSERT INTO limits (rule) VALUES ($1) RETURNING id";
            let id: u64 = change.one(insert, values![Json(&rule)], |row| row.get(0))?;
            let detail = format!("up {}, down {}", new.up, new.down);
            note(change, by, "limit.add", &id.to_string(), &detail)?;
            Ok(Limit { id: Some(id), ..rule })
        })
    }

    /// Removes a limit.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Database`].
    pub fn remove_limit(&self, by: By<'_>, id: u64) -> Result<()> {
        self.change(|change| {
            let rows = change.execute("DELETE FROM limits WHERE id = $1", values![id])?;
            found(rows, "limit", id)?;
            note(change, by, "limit.remove", &id.to_string(), "")
        })
    }
}
