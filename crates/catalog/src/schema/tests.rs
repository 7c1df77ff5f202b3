//! Catalogs of older and newer programs, and programs that end in the middle of a migration.

use super::*;
use crate::testing::{BY, On, Server, on_both, run};
use crate::{Catalog, Location, settings};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SECOND: &str = "ALTER TABLE nodes ADD COLUMN second {int}";
const THIRD: &str = "CREATE TABLE third (id {id}, text {text}){strict}";
const FOURTH: &str = "ALTER TABLE nodes ADD COLUMN fourth {int}";
const BAD: &str = "ALTER TABLE nodes ADD COLUMN bad {int}; UPDATE nowhere SET a = 1";

/// The version before the steps of a test.
const OWN: u32 = STEPS.len() as u32;

/// All steps, and these.
fn with(further: &[&'static str]) -> Vec<&'static str> {
    STEPS.iter().chain(further).copied().collect()
}

/// A catalog as this program makes it, with an entry; closed.
fn old(on: On) -> (tempfile::TempDir, Location) {
    let (folder, catalog) = on.catalog();
    catalog.audit_note(BY, "test", "of an older program", "").unwrap();
    let location = catalog.location().clone();
    (folder, location)
}

fn setting(catalog: &Catalog, key: &str) -> Option<String> {
    catalog.look(|look| settings::get(look, key)).unwrap()
}

fn entries(catalog: &Catalog) -> Vec<String> {
    let entries = catalog.audit_entries(None, 9).unwrap();
    entries.into_iter().map(|entry| entry.subject).collect()
}

/// The versions of which there is a copy, and what each copied.
fn copies(location: &Location) -> Vec<(u32, Vec<String>)> {
    let copied = |version: u32| {
        let copy = Location::file(format!("{location}.before-{version}"));
        if location.is_file() && !Path::new(&copy.to_string()).exists() {
            return None;
        }
        let (place, audit) = match location.is_file() {
            true => (copy, "audit".to_owned()),
            false => (location.clone(), format!("before_{version}.audit")),
        };
        let mut backend = crate::sql::connect(&place, crate::sql::Purpose::Read).unwrap();
        let select = format!("SELECT subject FROM {audit}");
        Some((version, Sql::on(&mut *backend).rows(&select, &[], |row| row.get(0)).ok()?))
    };
    (0..OWN + 9).filter_map(copied).collect()
}

fn a_catalog_of_a_later_program_is_not_touched(on: On) {
    let (_folder, catalog) = on.catalog();
    run(&catalog, "UPDATE settings SET value = '99' WHERE key = 'version'");
    let location = catalog.location().clone();
    drop(catalog);
    assert!(matches!(Catalog::open(&location), Err(Error::Newer { found: 99, .. })));
    let steps = with(&[SECOND]);
    assert!(matches!(Catalog::open_at(&location, &steps), Err(Error::Newer { .. })));
    assert!(copies(&location).is_empty());
}

fn opening_twice_changes_nothing(on: On) {
    let (_folder, location) = old(on);
    let first = setting(&Catalog::open(&location).unwrap(), settings::ID);
    assert_eq!(first.as_ref().unwrap().len(), 32);
    let again = Catalog::open(&location).unwrap();
    assert_eq!(setting(&again, settings::ID), first);
    assert!(copies(&location).is_empty());
}

fn many_programs_may_make_the_same_new_catalog(on: On) {
    let (_folder, location) = on.location();
    let open = || setting(&Catalog::open(&location).unwrap(), settings::ID);
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids[0].is_some() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

fn a_database_with_other_tables_is_refused(on: On) {
    let (_folder, location) = on.location();
    let mut backend = crate::sql::connect(&location, crate::sql::Purpose::Write).unwrap();
    backend.batch("CREATE TABLE others (id BIGINT)").unwrap();
    assert!(matches!(Catalog::open(&location), Err(Error::Foreign { .. })));
    backend.batch("CREATE TABLE settings (key TEXT, value TEXT)").unwrap();
    assert!(matches!(Catalog::open(&location), Err(Error::Foreign { .. })));
}

fn each_step_is_made_on_a_copied_catalog_and_two_copies_stay(on: On) {
    let (_folder, location) = old(on);
    let catalog = Catalog::open_at(&location, &with(&[SECOND])).unwrap();
    run(&catalog, "UPDATE nodes SET second = 2");
    catalog.audit_note(BY, "test", "of the second", "").unwrap();
    drop(catalog);
    let older = "of an older program".to_owned();
    assert_eq!(copies(&location), [(OWN, vec![older.clone()])]);
    if on == On::Sqlite {
        let copy = std::fs::metadata(format!("{location}.before-{OWN}")).unwrap();
        assert_eq!(copy.permissions().mode() & 0o777, 0o600, "it holds what the catalog holds");
    }
    let catalog = Catalog::open_at(&location, &with(&[SECOND, THIRD, FOURTH])).unwrap();
    run(&catalog, "INSERT INTO third (text) VALUES ('x'); UPDATE nodes SET fourth = 4");
    assert_eq!(setting(&catalog, settings::VERSION), Some((OWN + 3).to_string()));
    assert_eq!(entries(&catalog), ["of the second", "of an older program"]);
    let of: Vec<_> = copies(&location).into_iter().map(|(version, _)| version).collect();
    assert_eq!(of, [OWN + 1, OWN + 2]);
    assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
}

/// What an older program knew of copies is of the upkeep that made them.
fn what_came_of_copies_finds_its_upkeep(on: On) {
    let (_folder, location) = on.location();
    let before = STEPS.iter().position(|step| *step == copies::STEP).unwrap();
    let catalog = Catalog::open_at(&location, &STEPS[..before]).unwrap();
    let job = "INSERT INTO jobs (node, domain, kind, what, begun, state) VALUES ('', 'web', 'copy', '', 1, 'complete')";
    run(&catalog, job);
    run(&catalog, "INSERT INTO upkeep_jobs (job, upkeep, task) VALUES (1, 'second', 'copy')");
    for (domain, task, job) in [("web", "copy", 1), ("web", "check", 7), ("old", "copy", 9)] {
        run(
            &catalog,
            &format!(
                "INSERT INTO domain_upkeep (domain, task, job, ended, state, alarm)
                 VALUES ('{domain}', '{task}', {job}, 5, 'failed', 'why')"
            ),
        );
    }
    drop(catalog);
    let known = Catalog::open(&location).unwrap().domain_upkeep().unwrap();
    let known: Vec<_> = known.iter().map(|it| (&*it.task, &*it.upkeep, it.job)).collect();
    assert_eq!(known, [("check", "", 7), ("copy", "second", 1)]);
}

fn a_step_that_fails_changes_nothing_and_can_be_made_later(on: On) {
    let (_folder, location) = old(on);
    assert!(Catalog::open_at(&location, &with(&[BAD])).is_err());
    let catalog = Catalog::open(&location).unwrap();
    assert_eq!(entries(&catalog), ["of an older program"]);
    catalog.audit_note(BY, "test", "later", "").unwrap();
    drop(catalog);
    let catalog = Catalog::open_at(&location, &with(&[SECOND])).unwrap();
    run(&catalog, "UPDATE nodes SET second = 2");
    assert_eq!(copies(&location)[0].1.len(), 2, "the copy is made again");
}

/// Between the copy and the step: the copy is there, and an unfinished one of SQLite perhaps as well.
fn a_program_that_ends_after_the_copy_leaves_a_catalog_that_opens(on: On) {
    let (_folder, location) = old(on);
    let mut backend = crate::sql::connect(&location, crate::sql::Purpose::Write).unwrap();
    backend.copy(OWN, COPIES).unwrap();
    drop(backend);
    if on == On::Sqlite {
        std::fs::write(format!("{location}.before-{OWN}.part"), "half of a copy").unwrap();
    }
    assert_eq!(entries(&Catalog::open(&location).unwrap()), ["of an older program"]);
    let catalog = Catalog::open_at(&location, &with(&[SECOND])).unwrap();
    assert_eq!(setting(&catalog, settings::VERSION), Some((OWN + 1).to_string()));
    assert_eq!(copies(&location).len(), 1);
}

/// In the middle of a step: what the step did goes with its transaction.
fn a_program_that_ends_in_a_step_leaves_a_catalog_that_opens(on: On) {
    let (_folder, location) = old(on);
    let mut backend = crate::sql::connect(&location, crate::sql::Purpose::Write).unwrap();
    backend.copy(OWN, COPIES).unwrap();
    backend.begin(true).unwrap();
    step(&mut *backend, &with(&[SECOND]), STEPS.len()).unwrap();
    drop(backend);
    let catalog = Catalog::open(&location).unwrap();
    assert_eq!(setting(&catalog, settings::VERSION), Some(OWN.to_string()));
    assert_eq!(entries(&catalog), ["of an older program"]);
}

fn tables_do_not_change_under_a_server(on: On) {
    let (_folder, catalog) = on.catalog();
    catalog.serve().unwrap();
    let refused = Catalog::open_at(catalog.location(), &with(&[SECOND])).err().unwrap();
    assert!(refused.to_string().contains("stop it first"), "{refused}");
    assert!(Catalog::open(catalog.location()).is_ok(), "a command beside it works");
    assert!(copies(catalog.location()).is_empty());
}

fn a_second_server_is_refused_until_the_first_ends(on: On) {
    let (_folder, first) = on.catalog();
    first.serve().unwrap();
    first.serve().unwrap();
    let second = Catalog::open(first.location()).unwrap();
    let refused = second.serve().unwrap_err();
    assert!(matches!(refused, Error::Serving { .. }), "{refused}");
    drop(first);
    second.serve().unwrap();
}

#[test]
fn a_database_that_cannot_hold_every_text_is_refused() {
    let server = Server::shared();
    let create = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'";
    server.client().batch_execute(create).unwrap();
    let location = server.reached("latin");
    let location = Location::parse(&location, Path::new("/")).unwrap();
    let refused = Catalog::open(&location).err().unwrap().to_string();
    assert!(refused.contains("UTF8"), "{refused}");
}

on_both![
    a_catalog_of_a_later_program_is_not_touched,
    opening_twice_changes_nothing,
    many_programs_may_make_the_same_new_catalog,
    a_database_with_other_tables_is_refused,
    each_step_is_made_on_a_copied_catalog_and_two_copies_stay,
    what_came_of_copies_finds_its_upkeep,
    a_step_that_fails_changes_nothing_and_can_be_made_later,
    a_program_that_ends_after_the_copy_leaves_a_catalog_that_opens,
    a_program_that_ends_in_a_step_leaves_a_catalog_that_opens,
    tables_do_not_change_under_a_server,
    a_second_server_is_refused_until_the_first_ends,
];
