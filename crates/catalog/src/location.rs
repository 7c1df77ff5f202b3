//! Where a catalog lies: a file, or a database of PostgreSQL.

use crate::sql::Address;
use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable with the password of the database, as PostgreSQL's own programs have it.
const PASSWORD: &str = "PGPASSWORD";
/// The words with which a list of `key=value` begins.
const KEYS: [&str; 6] = ["host=", "hostaddr=", "port=", "user=", "dbname=", "password="];

/// Where a catalog lies. It is shown without its password.
#[derive(Clone, Debug)]
pub struct Location(pub(crate) Kind);

/// The databases.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The file of SQLite.
    Sqlite(PathBuf),
    /// A database of PostgreSQL.
    Postgres(Box<Address>),
}

impl Location {
    /// The file of SQLite at `path`.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Sqlite(path.into()))
    }

    /// Whether it is a file of SQLite.
    pub const fn is_file(&self) -> bool {
        matches!(self.0, Kind::Sqlite(_))
    }

    /// Reads `postgres://…`, `host=… dbname=…`, or the path of a file; a path that is not absolute is below `folder`.
    /// A password that is not written is taken from `PGPASSWORD`.
    ///
    /// # Errors
    /// [`Error::Location`].
    pub fn parse(text: &str, folder: &Path) -> Result<Self> {
        let text = text.trim();
        let is_url = ["postgres://", "postgresql://"].iter().any(|start| text.starts_with(start));
        if is_url || KEYS.iter().any(|key| text.starts_with(key)) {
            let address = Address::parse(text, std::env::var(PASSWORD).ok())?;
            return Ok(Self(Kind::Postgres(Box::new(address))));
        }
        if text.is_empty() {
            return Err(Error::Location("it is empty".to_owned()));
        }
        if text.contains("://") {
            let known = "only postgres:// is known, besides the path of a file";
            return Err(Error::Location(known.to_owned()));
        }
        Ok(Self::file(folder.join(text)))
    }

    /// As it can be read again with [`Location::parse`]: with the password, if one was written.
    pub fn written(&self) -> String {
        match &self.0 {
            Kind::Sqlite(path) => path.display().to_string(),
            Kind::Postgres(address) => address.written().to_owned(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Sqlite(path) => path.display().fmt(f),
            Kind::Postgres(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location> {
        Location::parse(text, Path::new("/data"))
    }

    #[test]
    fn a_location_is_a_file_or_a_database() {
        let file = |text: &str| match parse(text).unwrap().0 {
            Kind::Sqlite(path) => path,
            Kind::Postgres(address) => panic!("{address}"),
        };
        assert_eq!(file("catalog.sqlite\n"), Path::new("/data/catalog.sqlite"));
        assert_eq!(file("/srv/a=b"), Path::new("/srv/a=b"));
        for text in ["postgres:///db?host=/run/p", "host=/run/p dbname=db", "dbname=db host=/run/p"]
        {
            let location = parse(text).unwrap();
            assert!(matches!(location.0, Kind::Postgres(_)), "{text}");
            assert_eq!(location.written(), text);
            assert_eq!(location.to_string(), "host=/run/p dbname=db");
        }
        for bad in ["", "  ", "mysql://h/db", "postgres://", "host=/run/p"] {
            assert!(matches!(parse(bad), Err(Error::Location(_))), "{bad}");
        }
    }
}
