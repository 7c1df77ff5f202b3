//! Errors of the catalog.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite failed.
    #[error("the catalog: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A newer program created the catalog.
    #[error("the catalog has version {found}; this program supports up to {known}")]
    Newer {
        /// Its version.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// The object does not exist.
    #[error("there is no {what} '{name}'")]
    Missing {
        /// Kind of the object.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The object already exists.
    #[error("the {what} '{name}' exists already")]
    Exists {
        /// Kind of the object.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The token is unknown, used or expired.
    #[error("the token is {0}")]
    Token(TokenRefusal),
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It was not issued here.
    Unknown,
    /// It was used.
    Used,
    /// It has expired.
    Expired,
}

impl std::fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not known here",
            Self::Used => "used already",
            Self::Expired => "too old",
        })
    }
}

/// Checks that exactly one row was changed.
pub(crate) fn found(rows: usize, what: &'static str, name: impl ToString) -> Result<()> {
    if rows == 0 { Err(Error::Missing { what, name: name.to_string() }) } else { Ok(()) }
}
