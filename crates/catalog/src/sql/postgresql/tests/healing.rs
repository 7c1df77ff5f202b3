//! What a database ends, or refuses for a time, is as it was afterwards: nothing of it stays with a connection.

use super::catalog;
use crate::testing::{BY, run};
use crate::{Catalog, Error};
use postgres::Client;
use std::time::Duration;

/// What changes wait for.
const TURN: &str = "BEGIN; LOCK TABLE settings IN SHARE MODE";

/// How many of the connections of the catalog are in a transaction that failed.
fn failed_transactions(beside: &mut Client) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state = 'idle in transaction (aborted)'";
    beside.query_one(count, &[]).unwrap().get(0)
}

fn works(catalog: &Catalog, beside: &mut Client) {
    catalog.audit_note(BY, "test", "", "").unwrap();
    assert_eq!(failed_transactions(beside), 0);
}

#[test]
fn a_change_whose_turn_did_not_come_in_time_is_repeated() {
    let (catalog, mut beside) = catalog();
    run(&catalog, "SET lock_timeout = '100ms'");
    beside.batch_execute(TURN).unwrap();
    std::thread::scope(|scope| {
        let changed = scope.spawn(|| catalog.audit_note(BY, "test", "", ""));
        std::thread::sleep(Duration::from_secs(1));
        beside.batch_execute("COMMIT").unwrap();
        changed.join().unwrap().unwrap();
    });
    works(&catalog, &mut beside);
}

#[test]
fn a_change_that_waited_too_long_leaves_no_transaction() {
    let (catalog, mut beside) = catalog();
    run(&catalog, "SET statement_timeout = '100ms'");
    beside.batch_execute(TURN).unwrap();
    let refused = catalog.audit_note(BY, "test", "", "").unwrap_err();
    assert!(refused.to_string().contains("57014"), "{refused}");
    assert_eq!(failed_transactions(&mut beside), 0);
    assert_eq!(catalog.write_fault(), Some(refused.to_string()));
    assert!(catalog.remove_limit(BY, 1).is_err(), "as before");
    assert!(catalog.write_fault().is_some());
    beside.batch_execute("COMMIT").unwrap();
    assert!(matches!(catalog.remove_limit(BY, 1), Err(Error::Missing { .. })));
    assert!(catalog.write_fault().is_some(), "that was no change");
    works(&catalog, &mut beside);
    assert_eq!(catalog.write_fault(), None);
}

#[test]
fn a_connection_in_a_failed_transaction_is_used_no_more() {
    let (catalog, mut beside) = catalog();
    let backend = |sql: &str| catalog.writer.lock().backend().unwrap().batch(sql);
    assert!(backend("BEGIN; SELECT 1 / 0").is_err());
    works(&catalog, &mut beside);
}

/// `idle_session_timeout` of a database's administrator.
#[test]
fn connections_that_were_ended_for_being_idle_are_opened_again() {
    let (catalog, _beside) = catalog();
    let soon = "SET idle_session_timeout = '50ms'";
    for _ in 0..3 {
        run(&catalog, soon);
        catalog.look(|look| look.execute(soon, &[])).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(catalog.limits().unwrap().is_empty());
        catalog.audit_note(BY, "test", "", "").unwrap();
    }
    assert_eq!(catalog.audit_verify().unwrap().total, 3);
}

/// The lock of a server would go with it, and another server could take the catalog.
#[test]
fn the_connection_with_the_lock_of_a_server_is_not_ended_for_being_idle() {
    let (catalog, mut beside) = catalog();
    let place = catalog.location().to_string();
    let database = place.rsplit('=').next().unwrap();
    let soon = format!("ALTER DATABASE {database} SET idle_session_timeout = '50ms'");
    beside.batch_execute(&soon).unwrap();
    let server = Catalog::open(catalog.location()).unwrap();
    server.serve().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let second = Catalog::open(catalog.location()).unwrap();
    assert!(matches!(second.serve(), Err(Error::Serving { .. })));
}

/// Else a reader waits for as long as somebody changes a table, and its node with it.
#[test]
fn waiting_for_a_table_ends_for_readers_too() {
    let (catalog, mut beside) = catalog();
    let most = "SELECT setting FROM pg_settings WHERE name = 'lock_timeout'";
    let most = catalog.look(|look| look.one(most, &[], |row| row.get::<String>(0)));
    assert_eq!(most.unwrap(), "10000");
    catalog.look(|look| look.execute("SET lock_timeout = '100ms'", &[])).unwrap();
    beside.batch_execute("BEGIN; LOCK TABLE limits").unwrap();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| catalog.limits());
        std::thread::sleep(Duration::from_secs(1));
        beside.batch_execute("COMMIT").unwrap();
        assert!(read.join().unwrap().unwrap().is_empty());
    });
}
