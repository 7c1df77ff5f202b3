//! What can go wrong with the catalog.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with the catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite says no.
    #[error("the catalog: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// It was made by a later program.
    #[error("the catalog has version {found}; this program supports up to {known}")]
    Newer {
        /// Its version.
        found: u32,
        /// The last that is known.
        known: u32,
    },
    /// There is no such thing.
    #[error("there is no {what} '{name}'")]
    Missing {
        /// What was looked for.
        what: &'static str,
        /// By this name.
        name: String,
    },
    /// The thing is there already.
    #[error("the {what} '{name}' exists already")]
    Exists {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The token is not known, used, or has ended.
    #[error("the token is {0}")]
    Token(TokenRefusal),
}

/// Why a token is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// No such token was made here.
    Unknown,
    /// Somebody has enrolled with it.
    Used,
    /// Its time is over.
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

/// For what should have changed one row.
pub(crate) fn found(rows: usize, what: &'static str, name: impl ToString) -> Result<()> {
    if rows == 0 { Err(Error::Missing { what, name: name.to_string() }) } else { Ok(()) }
}
