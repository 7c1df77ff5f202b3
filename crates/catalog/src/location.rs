//! Where a catalog lies: a file, or a database of PostgreSQL.

use crate::sql::{Address, HOW};
use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable with the password of the database, as PostgreSQL's own programs have it.
const PASSWORD: &str = "PGPASSWORD";
/// What the path of a file begins with, whatever it contains.
const PATHS: [&str; 3] = ["/", "./", "../"];
/// What a URL of PostgreSQL begins with.
const URLS: [&str; 2] = ["postgres://", "postgresql://"];

/// Where a catalog lies. It is shown without its password.
#[derive(Clone, Debug)]
pub struct Location(pub(crate) Kind);

/// The databases.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The file of SQLite.
    Sqlite(PathBuf),
    /// A file of SQLite that somebody named: where it is missing, a new one in its place would be a mistake.
    Named(PathBuf),
    /// A database of PostgreSQL.
    Postgres(Box<Address>),
}

impl Location {
    /// The file of SQLite at `path`, which is made where there is none.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Sqlite(path.into()))
    }

    /// Whether it is a file of SQLite.
    pub const fn is_file(&self) -> bool {
        !matches!(self.0, Kind::Postgres(_))
    }

    /// Reads `postgres://…`, `host=… dbname=…`, or the path of a file; a path that is not absolute is below `folder`.
    /// A password that is not written is taken from `PGPASSWORD`. Such a file is made by a move only.
    ///
    /// # Errors
    /// [`Error::Location`], which never repeats the text: what may be an address may hold a password.
    pub fn parse(text: &str, folder: &Path) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Location("it is empty".to_owned()));
        }
        let begins = |with: &[&str]| with.iter().any(|start| text.starts_with(start));
        if !begins(&PATHS) && (begins(&URLS) || text.contains('=')) {
            let address = Address::parse(text, std::env::var(PASSWORD).ok())?;
            return Ok(Self(Kind::Postgres(Box::new(address))));
        }
        if !begins(&PATHS) && is_like_an_address(text) {
            return Err(Error::Location(HOW.to_owned()));
        }
        Ok(Self(Kind::Named(folder.join(text))))
    }

    /// Refuses to begin anew where somebody has named the catalog that there is.
    pub(crate) fn must_be_there(&self) -> Result<()> {
        match &self.0 {
            Kind::Named(path) if matches!(path.try_exists(), Ok(false)) => {
                Err(Error::Absent { path: path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// As it can be read again with [`Location::parse`]: with the password, if one was written.
    pub fn written(&self) -> String {
        match &self.0 {
            Kind::Sqlite(path) | Kind::Named(path) => path.display().to_string(),
            Kind::Postgres(address) => address.written().to_owned(),
        }
    }
}

/// What is meant as an address, and is none: in quotes, with another scheme, or `USER:PASSWORD@HOST`.
fn is_like_an_address(text: &str) -> bool {
    text.starts_with(['\'', '"'])
        || text.contains("//")
        || (text.contains(':') && text.contains('@'))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Sqlite(path) | Kind::Named(path) => path.display().fmt(f),
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
            Kind::Sqlite(path) | Kind::Named(path) => path,
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

    #[test]
    fn an_address_is_no_file_however_it_begins_and_its_password_is_not_shown() {
        let first = "sslmode=disable host=127.0.0.1 user=u password=S3 dbname=d";
        assert!(matches!(parse(first).unwrap().0, Kind::Postgres(_)));
        for bad in [
            "'host=h user=u password=S3 dbname=d'",
            "\"host=h user=u password=S3 dbname=d\"",
            "'catalog.sqlite'",
            "Host=/run/p user=u password=S3 dbname=d",
            "user = u password = S3",
            "postgresql//u:S3@h/d",
            "PostgreSQL://u:S3@h/d",
            "mysql://u:S3@h/d",
            "u:S3@h/d",
        ] {
            let refused = parse(bad).unwrap_err();
            assert!(matches!(refused, Error::Location(_)), "{bad}: {refused}");
            assert!(!refused.to_string().contains("S3"), "{refused}");
        }
        for path in ["/srv/a=b//c", "/data/u:v@h", "./a=b", "catalog 2.sqlite"] {
            assert!(parse(path).unwrap().is_file(), "{path}");
        }
    }
}
