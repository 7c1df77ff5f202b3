//! What the catalog says about itself.

use crate::sql::{Sql, values};
use crate::{Catalog, Error, Result};

/// A random number by which a catalog is recognized, also after it was moved.
pub(crate) const ID: &str = "id";
/// The version of the tables.
pub(crate) const VERSION: &str = "version";
/// Where the catalog was moved to, without a password.
pub(crate) const MOVED_TO: &str = "moved-to";
/// In a catalog that was moved: the digest of what was copied.
pub(crate) const COPIED: &str = "copied";
/// How often the objects of the site were changed.
pub(crate) const SITE_VERSION: &str = "site-version";

/// The state of the clock by which runs start.
pub(crate) const CLOCK: &str = "clock";

/// Set once the server has files of its own beside the catalog, which know what the catalog may lose.
pub(crate) const HAS_MARK: &str = "has-mark";

/// The value of a setting.
pub(crate) fn get(look: &Sql<'_>, key: &str) -> Result<Option<String>> {
    look.row("SELECT value FROM settings WHERE key = $1", values![key], |row| row.get(0))
}

/// Stores the value of a setting.
pub(crate) fn set(change: &Sql<'_>, key: &str, value: &str) -> Result<()> {
    change.execute(
        "INSERT INTO settings (key, value) VALUES ($1, $2)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        values![key, value],
    )?;
    Ok(())
}

/// 16 random bytes in hex.
pub(crate) fn new_id() -> Result<String> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(Error::database)?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Catalog {
    /// Whether a server has files beside this catalog that know what it may lose.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn has_mark(&self) -> Result<bool> {
        Ok(self.look(|look| get(look, HAS_MARK))?.is_some())
    }

    /// From now on the catalog knows that its server has such files.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn set_has_mark(&self) -> Result<()> {
        self.change(|change| set(change, HAS_MARK, "1"))
    }
}
