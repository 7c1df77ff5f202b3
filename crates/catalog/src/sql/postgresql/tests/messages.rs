//! What somebody reads when a database refuses: which one, why, and a command that helps.

use super::catalog;
use crate::testing::{BY, database};
use crate::{Catalog, Error, Failure, Location};
use postgres::{Client, NoTls};
use std::path::Path;
use std::process::Command;

/// Types the command at the end of a message, as it stands there.
fn follow(message: &str) {
    let command = message.rsplit(": ").next().unwrap();
    let done = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The SQL at the end of a message.
fn sql(message: &str) -> &str {
    message.rsplit(": ").next().unwrap()
}

fn open(place: &str) -> crate::Result<Catalog> {
    Catalog::open(&Location::parse(place, Path::new("/")).unwrap())
}

#[test]
fn who_holds_the_lock_of_a_server_is_named_with_how_to_end_it() {
    let (first, _beside) = catalog();
    first.serve().unwrap();
    let second = Catalog::open(first.location()).unwrap();
    let refused = second.serve().unwrap_err();
    assert!(matches!(refused, Error::Serving { .. }), "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("connected from"), "{refused}");
    follow(&refused);
    second.serve().unwrap();
    assert!(first.audit_note(BY, "test", "", "").is_err(), "its lock is gone");
}

#[test]
fn a_user_who_may_not_make_tables_is_told_what_is_missing() {
    let place = database();
    let mut admin = Client::connect(&place, NoTls).unwrap();
    admin
        .batch_execute("CREATE ROLE \"no-body\" LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        .unwrap();
    let place = place.replace("user=postgres", "user=no-body");
    let refused = open(&place).err().unwrap().to_string();
    assert!(refused.contains("42501") && refused.contains("user=no-body dbname="), "{refused}");
    admin.batch_execute(sql(&refused)).unwrap();
    open(&place).unwrap();
}

/// The next change is made on a new connection, which has the new settings.
#[test]
fn a_database_that_only_reads_is_told_with_how_to_change_that() {
    let (catalog, mut beside) = catalog();
    let place = catalog.location().to_string();
    let database = place.rsplit('=').next().unwrap();
    let read_only = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    beside.batch_execute(&read_only).unwrap();
    let catalog = Catalog::open(catalog.location()).unwrap();
    let refused = catalog.audit_note(BY, "test", "", "").unwrap_err();
    assert!(matches!(refused, Error::Database { failure: Failure::ReadOnly, .. }), "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("25006") && refused.contains(&place), "{refused}");
    beside.batch_execute(sql(&refused)).unwrap();
    catalog.audit_note(BY, "test", "", "").unwrap();
}
