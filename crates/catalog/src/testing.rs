//! What tests of this crate share. Each test runs on both databases: it takes where it runs, and `on_both!` lists it.

use crate::location::Location;
use crate::{By, Catalog};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
pub(crate) use testkit::postgres::{Server, give};

pub(crate) const BY: By<'static> = By { who: "admin", now_secs: 1_000 };

/// A database of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Sqlite,
    Postgres,
}

impl On {
    /// Where a new catalog lies that does not exist yet.
    pub(crate) fn location(self) -> (TempDir, Location) {
        let folder = tempfile::tempdir().unwrap();
        let location = match self {
            Self::Sqlite => Location::file(folder.path().join("catalog.sqlite")),
            Self::Postgres => Location::parse(&database(), Path::new("/")).unwrap(),
        };
        (folder, location)
    }

    /// An empty catalog.
    pub(crate) fn catalog(self) -> (TempDir, Catalog) {
        let (folder, location) = self.location();
        (folder, Catalog::open(&location).unwrap())
    }
}

/// A new database of the PostgreSQL that this process has started.
pub(crate) fn database() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    Server::shared().database(&format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// Runs SQL past the catalog.
pub(crate) fn run(catalog: &Catalog, sql: &str) {
    catalog.writer.lock().backend().unwrap().batch(sql).unwrap();
}

/// Each of these functions is two tests.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn sqlite() {
                super::$name(crate::testing::On::Sqlite);
            }

            #[test]
            fn postgres() {
                super::$name(crate::testing::On::Postgres);
            }
        }
    )*};
}
pub(crate) use on_both;
