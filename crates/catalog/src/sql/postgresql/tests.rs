//! What only PostgreSQL does: connections that are lost, changes that are in each other's way, long waits.

mod healing;
mod messages;

use crate::audit::note;
use crate::testing::{BY, On, database, run};
use crate::{By, Catalog, Error, Failure, Location};
use std::cell::Cell;
use std::path::Path;

/// Ends all connections of others to the database that `client` is connected to.
const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

fn catalog() -> (Catalog, postgres::Client) {
    let database = database();
    let location = Location::parse(&database, Path::new("/")).unwrap();
    let catalog = Catalog::open(&location).unwrap();
    (catalog, postgres::Client::connect(&database, postgres::NoTls).unwrap())
}

#[test]
fn a_connection_that_was_lost_is_opened_again() {
    let (catalog, mut beside) = catalog();
    catalog.audit_note(BY, "test", "", "").unwrap();
    assert_eq!(catalog.audit_entries(None, 9).unwrap().len(), 1);
    beside.batch_execute(END).unwrap();
    assert_eq!(catalog.audit_entries(None, 9).unwrap().len(), 1);
    assert!(catalog.nodes().unwrap().is_empty());
    catalog.audit_note(BY, "test", "", "").unwrap();
    assert_eq!(catalog.audit_verify().unwrap().total, 2);
}

#[test]
fn a_connection_that_is_lost_in_a_change_repeats_it() {
    let (catalog, beside) = catalog();
    let (beside, attempts) = (std::cell::RefCell::new(beside), Cell::new(0));
    catalog
        .change(|change| {
            note(change, BY, "test", "", "")?;
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 {
                beside.borrow_mut().batch_execute(END).unwrap();
            }
            note(change, BY, "test", "", "")
        })
        .unwrap();
    assert_eq!((attempts.get(), catalog.audit_verify().unwrap().total), (2, 2));
}

/// The commit itself is answered by the end of the connection: then it is not repeated.
#[test]
fn a_connection_that_is_lost_in_a_commit_leaves_the_outcome_open() {
    let (catalog, mut beside) = catalog();
    let trigger = "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER die AFTER INSERT ON limits DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION die()";
    beside.batch_execute(trigger).unwrap();
    let attempts = Cell::new(0);
    let changed = catalog.change(|change| {
        attempts.set(attempts.get() + 1);
        change.execute("INSERT INTO limits (rule) VALUES ('{}')", &[])
    });
    assert!(matches!(changed, Err(Error::OutcomeUnknown)), "{changed:?}");
    assert_eq!(attempts.get(), 1);
    catalog.audit_note(BY, "test", "", "").unwrap();
}

/// Somebody who does not wait for the turn of a change, such as an administrator with `psql`.
#[test]
fn a_change_that_another_one_was_in_the_way_of_is_repeated() {
    let (catalog, beside) = catalog();
    run(&catalog, "INSERT INTO limits (rule) VALUES ('0')");
    let (beside, attempts) = (std::cell::RefCell::new(beside), Cell::new(0));
    let add = "UPDATE limits SET rule = (rule::int + 1)::text";
    catalog
        .change(|change| {
            let seen = change.one("SELECT rule FROM limits", &[], |row| row.get::<String>(0))?;
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 {
                assert_eq!(seen, "0");
                beside.borrow_mut().batch_execute(add).unwrap();
            }
            change.execute(add, &[]).map(drop)
        })
        .unwrap();
    let rule = catalog.look(|look| look.one("SELECT rule FROM limits", &[], |row| row.get(0)));
    assert_eq!((attempts.get(), rule.unwrap()), (2, "2".to_owned()));
}

/// The lock of a server goes with the connection that writes: without it nothing is written.
#[test]
fn a_server_whose_lock_another_one_took_writes_nothing_more() {
    let (first, mut beside) = catalog();
    first.serve().unwrap();
    beside.batch_execute(END).unwrap();
    let second = Catalog::open(first.location()).unwrap();
    second.serve().unwrap();
    let refused = first.audit_note(BY, "test", "", "").unwrap_err();
    assert!(matches!(refused, Error::Serving { .. }), "{refused}");
    second.audit_note(BY, "test", "", "").unwrap();
    assert_eq!(second.audit_verify().unwrap().total, 1);
}

#[test]
fn readers_do_not_wait_for_a_change() {
    let (catalog, _beside) = catalog();
    let seen = catalog.change(|change| {
        note(change, BY, "test", "", "")?;
        Ok((catalog.audit_entries(None, 9)?.len(), catalog.nodes()?.len(), catalog.limits()?.len()))
    });
    assert_eq!(seen.unwrap(), (0, 0, 0));
}

#[test]
fn reading_changes_nothing_and_ends_in_time() {
    let (catalog, _beside) = catalog();
    let written = catalog.look(|look| look.execute("DELETE FROM audit", &[]));
    assert!(matches!(written, Err(Error::Database { failure: Failure::ReadOnly, .. })));
    let most = "SELECT setting FROM pg_settings WHERE name = 'statement_timeout'";
    let most = catalog.look(|look| look.one(most, &[], |row| row.get::<String>(0)));
    assert_eq!(most.unwrap(), "120000");
}

#[test]
fn more_readers_than_connections_wait_for_each_other_and_all_read() {
    let (catalog, mut beside) = catalog();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..20).for_each(|_| assert!(catalog.limits().unwrap().is_empty())));
        }
    });
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'icecore'";
    let connections: i64 = beside.query_one(count, &[]).unwrap().get(0);
    assert!((2..=7).contains(&connections), "{connections}");
}

#[test]
fn a_database_that_is_not_there_is_named_and_a_password_is_not() {
    let (_folder, location) = On::Postgres.location();
    let (written, by) = (location.written(), By { who: "a", now_secs: 0 });
    let missing = written.replace("dbname=", "password=s3cret dbname=no");
    let missing = Location::parse(&missing, Path::new("/")).unwrap();
    let refused = Catalog::open(&missing).err().unwrap().to_string();
    assert!(refused.contains("dbname=notest") && !refused.contains("s3cret"), "{refused}");
    let moved = Catalog::move_to(&location, &missing, by).unwrap_err().to_string();
    assert!(!moved.contains("s3cret"), "{moved}");
}
