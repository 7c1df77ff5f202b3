//! Errors of the catalog.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("the catalog: {what}")]
    Database {
        /// What that means for the program.
        failure: Failure,
        /// What the database said. Never a password.
        what: String,
    },
    /// The connection was lost while a change was being committed. The change is not repeated: it may be there.
    #[error(
        "the connection to the catalog was lost while a change was being stored: it may be in effect or not. Look whether it is, and repeat it if not"
    )]
    OutcomeUnknown,
    /// What names a catalog is no path and no address of a database.
    #[error("the location of the catalog: {0}")]
    Location(String),
    /// The file that was named as the catalog does not exist.
    #[error(
        "the catalog {} does not exist, and a new one in its place would know nobody: bring it back, or mount its file system. What the file 'catalog' in the server's directory names: icecore server catalog show",
        path.display()
    )]
    Absent {
        /// The missing file.
        path: PathBuf,
    },
    /// Another server uses the catalog, or another program is changing its tables.
    #[error("another server is using the catalog {place}: {how}")]
    Serving {
        /// The catalog, without a password.
        place: String,
        /// How that is ended.
        how: String,
    },
    /// The catalog was moved to another database.
    #[error(
        "the catalog {place} was moved to {to}, and is out of date since: use the new one, or restore the server's directory as it was before the move"
    )]
    Moved {
        /// The catalog, without a password.
        place: String,
        /// Where it was moved to, without a password.
        to: String,
    },
    /// The database holds something else.
    #[error("{place} holds no catalog of this program ({why}): choose an empty database")]
    Foreign {
        /// The database, without a password.
        place: String,
        /// What was found.
        why: String,
    },
    /// A catalog cannot be moved there.
    #[error("the catalog cannot be moved to {place}: {why}. Nothing was changed")]
    Target {
        /// The database, without a password.
        place: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A newer program created the catalog.
    #[error(
        "the catalog has version {found}; this program supports up to {known}: install a newer one"
    )]
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
    /// Somebody else changed the objects of the site.
    #[error("the site was changed since: it has version {found} now, not {expected}")]
    ChangedSince {
        /// The version on which the change was based.
        expected: u64,
        /// The version that it has.
        found: u64,
    },
    /// The token is unknown, used or expired.
    #[error("the token is {0}")]
    Token(TokenRefusal),
}

/// What a failure of the database means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody else was in the way: repeating it helps.
    Busy,
    /// There is no connection, and nothing was committed: repeating it on another one helps.
    Disconnected,
    /// The disk of the database is full.
    Full,
    /// The database only reads, as long as this connection lasts.
    ReadOnly,
    /// The user of the database may not do this, or not connect.
    Denied,
    /// Repeating it does not help.
    Lasting,
}

impl Error {
    /// A failure that lasts.
    pub(crate) fn database(what: impl ToString) -> Self {
        Self::failed(Failure::Lasting, what)
    }

    pub(crate) fn failed(failure: Failure, what: impl ToString) -> Self {
        Self::Database { failure, what: what.to_string() }
    }

    /// With the place where it happened.
    pub(crate) fn at(self, place: &impl std::fmt::Display) -> Self {
        match self {
            Self::Database { failure, what } => Self::failed(failure, format!("{place}: {what}")),
            other => other,
        }
    }

    /// Whether the same may succeed when it is repeated.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Database { failure: Failure::Busy | Failure::Disconnected, .. })
    }

    /// Whether the database failed, or this server may not use it, whatever was asked: it is no answer.
    pub fn is_of_database(&self) -> bool {
        matches!(self, Self::Database { .. } | Self::OutcomeUnknown | Self::Serving { .. })
    }

    /// Whether the database does not let its user in, or do what is needed.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Database { failure: Failure::Denied, .. })
    }

    /// Whether the disk of the database is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Database { failure: Failure::Full, .. })
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_disconnect(&self) -> bool {
        use Failure::{Disconnected, ReadOnly};
        let is_over = matches!(self, Self::Database { failure: Disconnected | ReadOnly, .. });
        is_over || matches!(self, Self::OutcomeUnknown)
    }
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
pub(crate) fn found(rows: u64, what: &'static str, name: impl ToString) -> Result<()> {
    if rows == 0 { Err(Error::Missing { what, name: name.to_string() }) } else { Ok(()) }
}
