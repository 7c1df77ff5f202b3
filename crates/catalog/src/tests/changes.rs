//! Changes that are killed, repeated, made by many at once, or left in the middle; and what they leave for later.

use super::*;
use crate::Location;
use crate::audit::note;
use crate::testing::{Server, run};
use api::commands::NewRestore;
use std::cell::Cell;
use std::path::Path;
use std::process::Command;

/// The files as they lie while a change is under way are what a killed process leaves behind.
#[test]
fn killed_before_a_commit_nothing_happened_and_after_it_all() {
    let (folder, catalog) = with_nodes(On::Sqlite);
    let copied = tempfile::tempdir().unwrap();
    let copy = |to: &str| {
        let to = copied.path().join(to);
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let name = entry.unwrap().file_name();
            std::fs::copy(folder.path().join(&name), to.join(&name)).unwrap();
        }
        Catalog::open(&Location::file(to.join("catalog.sqlite"))).unwrap()
    };
    catalog.add_token(BY, &[3; 32], &terms("web")).unwrap();
    let before = catalog.change(|change| {
        change.execute("UPDATE certificates SET revoked = 1", &[])?;
        change.execute("UPDATE tokens SET used_at = 5", &[])?;
        Ok(copy("before"))
    });
    is_as_before(&before.unwrap());
    let after = copy("after");
    assert!(after.certificate(Holder::Node, "web").unwrap().unwrap().revoked);
}

/// The database is killed and recovers; the change is made again, once.
#[test]
fn a_database_that_dies_before_a_commit_forgets_the_change_and_gets_it_again() {
    let server = Server::start("killed", &[]);
    let location = Location::parse(&server.database("killed"), Path::new("/")).unwrap();
    let catalog = Catalog::open(&location).unwrap();
    fill(&catalog);
    catalog.add_token(BY, &[3; 32], &terms("web")).unwrap();
    let attempts = Cell::new(0);
    catalog
        .change(|change| {
            attempts.set(attempts.get() + 1);
            change.execute("UPDATE tokens SET made = made + 5", &[])?;
            if attempts.get() == 1 {
                let backend =
                    change.one("SELECT pg_backend_pid()", &[], |row| row.get::<i64>(0))?;
                let kill = Command::new("kill").args(["-9", &backend.to_string()]).status();
                assert!(kill.unwrap().success());
            }
            note(change, BY, "test", "", "")
        })
        .unwrap();
    assert_eq!(attempts.get(), 2);
    let made =
        catalog.look(|look| look.rows("SELECT made FROM tokens", &[], |row| row.get::<i64>(0)));
    assert_eq!(made.unwrap(), [1_005; 3]);
    is_as_before(&catalog);
}

fn is_as_before(catalog: &Catalog) {
    assert!(!catalog.certificate(Holder::Node, "web").unwrap().unwrap().revoked);
    assert!(matches!(catalog.token(&[3; 32], &[9; 32], 1_000), Ok(TokenUse::Good(_))));
    assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
}

/// Writers that know nothing of each other, as a server and a command beside it.
fn entries_of_many_writers_are_one_chain(on: On) {
    let (_folder, catalog) = on.catalog();
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let location = catalog.location();
            scope.spawn(move || {
                let catalog = Catalog::open(location).unwrap();
                let who = format!("writer {writer}");
                for number in 0..20 {
                    let by = By { who: &who, now_secs: number };
                    catalog.audit_note(by, "test", "", "").unwrap();
                }
            });
        }
    });
    let verdict = catalog.audit_verify().unwrap();
    assert_eq!((verdict.total, verdict.broken_at), (120, None));
}

fn a_text_of_a_node_may_hold_anything(on: On) {
    let (_folder, catalog) = on.catalog();
    catalog.audit_note(BY, "a\0b", "\u{1f9ca}", "'; DROP TABLE audit; --").unwrap();
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "a\u{fffd}b");
    assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
}

/// What a panic leaves open is not continued by the next change.
fn a_change_that_panics_changes_nothing(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        catalog.change(|change| -> Result<(), Error> {
            change.execute("UPDATE nodes SET revoked = 1", &[])?;
            panic!("in the middle");
        })
    }));
    assert!(changed.is_err());
    catalog.audit_note(BY, "test", "", "").unwrap();
    assert!(!catalog.node(&name("web")).unwrap().unwrap().revoked);
}

/// `node` and `key` of all key slots that are to be removed.
fn old_keys(catalog: &Catalog) -> Vec<(String, String)> {
    let old = catalog.old_keys().unwrap();
    old.iter().map(|old| (old.node.to_string(), old.key.clone())).collect()
}

fn the_key_slot_of_a_node_is_kept_when_it_is_revoked_removed_or_replaced(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let key = |node: &str, key: &str| (node.to_owned(), key.to_owned());
    run(&catalog, "UPDATE nodes SET key = 'of ' || name");
    assert!(old_keys(&catalog).is_empty());
    catalog.revoke_node(BY, &name("web")).unwrap();
    catalog.revoke_node(BY, &name("web")).unwrap();
    assert_eq!(old_keys(&catalog), [key("web", "of web")]);
    let removed = catalog.old_keys().unwrap().remove(0);
    catalog.remove_old_key(BY, &removed).unwrap();
    catalog.revoke_node(BY, &name("web")).unwrap();
    assert!(old_keys(&catalog).is_empty(), "it was removed, and it has none since");
    let known = |keys: Vec<GrantedKey>| keys.into_iter().map(|key| key.key).collect::<Vec<_>>();
    assert_eq!(known(catalog.removed_keys().unwrap()), ["of web"], "and may not come back");
    catalog.add_token(BY, &[4; 32], &terms("db")).unwrap();
    enroll(&catalog, 4, "db", "db2").unwrap();
    assert_eq!(old_keys(&catalog), [key("db", "of db")], "replaced by 00");
    catalog.remove_node(BY, &name("db")).unwrap();
    let mut old = old_keys(&catalog);
    old.sort();
    assert_eq!(old, [key("db", "00"), key("db", "of db")]);
}

fn a_node_that_is_stopped_as_a_fork_loses_its_key_slot(on: On) {
    let (_folder, catalog) = with_nodes(on);
    run(&catalog, "UPDATE nodes SET key = 'of ' || name");
    catalog.forked(BY, Holder::Node, &name("web"), "web").unwrap();
    assert_eq!(old_keys(&catalog), [("web".to_owned(), "of web".to_owned())]);
}

fn every_certificate_is_told_with_whether_it_is_revoked(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let told = || {
        let mut all: Vec<_> = catalog.certificates().unwrap();
        all.sort_by(|one, other| one.serial.cmp(&other.serial));
        all.into_iter().map(|one| (one.serial, one.revoked)).collect::<Vec<_>>()
    };
    let one = |serial: &str, revoked| (serial.to_owned(), revoked);
    assert_eq!(told(), [one("db", false), one("web", false)]);
    run(&catalog, "UPDATE nodes SET revoked = 1 WHERE name = 'web'");
    assert_eq!(told(), [one("db", false), one("web", true)], "with its node");
    catalog.add_token(BY, &[4; 32], &terms("db")).unwrap();
    enroll(&catalog, 4, "db", "db2").unwrap();
    assert_eq!(told(), [one("db", true), one("db2", false), one("web", true)], "when replaced");
    let removed = catalog.remove_node(BY, &name("db")).unwrap();
    let removed: Vec<_> = removed.iter().map(|one| (&*one.serial, one.holder.as_str())).collect();
    assert!(removed.contains(&("db", "db")) && removed.contains(&("db2", "db")), "{removed:?}");
    assert_eq!((removed.len(), told()), (2, vec![one("web", true)]));
}

fn tokens_that_are_void_enroll_nobody(on: On) {
    let (_folder, catalog) = with_nodes(on);
    catalog.add_token(BY, &[4; 32], &terms("web")).unwrap();
    catalog.add_storage_server_token(BY, &[5; 32], &name("disk"), 2_000).unwrap();
    assert_eq!(catalog.void_tokens(BY).unwrap(), 2);
    assert_eq!(refusal(catalog.token(&[4; 32], &[9; 32], 1_000)), TokenRefusal::Unknown);
    assert!(catalog.storage_server_token(&[5; 32], &[9; 32], 1_000).is_err());
    let again = catalog.token(&[1; 32], &[9; 32], 1_000).unwrap();
    assert!(matches!(again, TokenUse::Answered(_)), "who has enrolled gets the same reply");
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "token.void");
    assert_eq!(catalog.void_tokens(BY).unwrap(), 0);
}

fn restores_that_may_be_done_fail_and_backups_stay(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let restore = |node: &str| {
        let (snapshot, target) = ("latest".to_owned(), "/srv".to_owned());
        Task::Restore(NewRestore {
            node: name(node),
            domain: None,
            snapshot,
            paths: vec![],
            target,
        })
    };
    let backup = Task::Backup(NewBackup::of(name("web"), vec![]));
    let add = |task: &Task| catalog.add_command(BY, task).unwrap().id;
    let [done, pending, taken, stays] =
        [add(&restore("web")), add(&restore("web")), add(&restore("db")), add(&backup)];
    let update = |node: &str, id, state| {
        catalog.update_command(BY, &name(node), id, state, None).unwrap();
    };
    update("web", done, CommandState::Done);
    update("db", taken, CommandState::Taken);
    assert_eq!(catalog.fail_restores(BY).unwrap(), 2);
    assert!(catalog.open_commands("db").unwrap().is_empty());
    assert_eq!(catalog.open_commands("web").unwrap()[0].id, stays);
    let all = catalog.commands(9).unwrap();
    let state = |id: u64| all.iter().find(|one| one.id == id).unwrap().state;
    assert_eq!([done, pending].map(state), [CommandState::Done, CommandState::Failed]);
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].detail, format!("{pending} {taken}"));
    assert_eq!(catalog.fail_restores(BY).unwrap(), 0);
}

fn that_a_catalog_has_a_mark_is_told_by_it(on: On) {
    let (_folder, catalog) = with_nodes(on);
    assert!(!catalog.has_mark().unwrap());
    catalog.set_has_mark().unwrap();
    catalog.set_has_mark().unwrap();
    assert!(catalog.has_mark().unwrap());
}

on_both![
    every_certificate_is_told_with_whether_it_is_revoked,
    tokens_that_are_void_enroll_nobody,
    restores_that_may_be_done_fail_and_backups_stay,
    that_a_catalog_has_a_mark_is_told_by_it,
    entries_of_many_writers_are_one_chain,
    a_text_of_a_node_may_hold_anything,
    a_change_that_panics_changes_nothing,
    the_key_slot_of_a_node_is_kept_when_it_is_revoked_removed_or_replaced,
    a_node_that_is_stopped_as_a_fork_loses_its_key_slot,
];
