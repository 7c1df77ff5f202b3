//! A running site whose catalog moves to PostgreSQL and back.

use crate::machine::Ran;
use crate::storage_servers::Site;
use std::os::unix::fs::PermissionsExt;
use testkit::postgres::Server;

fn backup(site: &Site, node: &str) -> Ran {
    let mut command = site.node_command(node, &["backup"]);
    command.arg(site.machine.source()).env_remove("ICECORE_REPO");
    crate::machine::ended(&mut command)
}

fn enroll(site: &Site, node: &str) {
    let [url, token] = site.token(&[node]);
    site.node(node, &["agent", "enroll", &url, &token]).ends(0);
}

fn jobs(site: &Site) -> usize {
    site.govern(&["jobs", "--json"]).ends(0).lines().len()
}

fn is_in(site: &Site, database: &str) {
    let shown = site.govern(&["catalog", "show", "--json"]).ends(0).last();
    assert_eq!(shown["database"], database);
}

#[test]
fn a_site_moves_to_postgresql_and_back_and_its_nodes_notice_nothing() {
    let mut site = Site::new();
    enroll(&site, "web");
    backup(&site, "web").ends(0);
    let (postgres, before) = (Server::start("site", &[]), jobs(&site));
    let to = postgres.database("icecore");
    is_in(&site, "SQLite");
    let refused = site.govern(&["catalog", "move", &to]).ends(11);
    assert!(refused.stderr.contains("Stop the other one first"), "{}", refused.stderr);

    site.server = None;
    let moved = site.govern(&["catalog", "move", &to]).ends(0).text();
    assert!(moved.contains("compared"), "{moved}");
    is_in(&site, "PostgreSQL");
    site.start_server();
    backup(&site, "web").ends(0);
    enroll(&site, "db");
    backup(&site, "db").ends(0);
    assert_eq!(jobs(&site), before + 2);
    site.govern(&["key", "db"]).ends(0);
    site.govern(&["audit"]).ends(0);

    site.server = None;
    let back = site.folder("catalog-again.sqlite");
    site.govern(&["catalog", "move", &back]).ends(0);
    drop(postgres);
    site.start_server();
    is_in(&site, "SQLite");
    backup(&site, "db").ends(0);
    assert_eq!(jobs(&site), before + 3);
    site.govern(&["audit"]).ends(0);
}

/// A database that is restarted costs no nightly backup.
#[test]
fn a_backup_tries_again_while_the_database_is_away() {
    let mut site = Site::new();
    enroll(&site, "web");
    let postgres = Server::start("away", &[]);
    let to = postgres.database("icecore");
    site.server = None;
    site.govern(&["catalog", "move", &to]).ends(0);
    site.start_server();
    postgres.go_away();
    let refused = site.govern(&["nodes"]).ends(16);
    assert!(refused.stderr.contains("its catalog"), "{}", refused.stderr);
    std::thread::scope(|scope| {
        let done = scope.spawn(|| backup(&site, "web"));
        // Longer than one call waits for the database.
        std::thread::sleep(std::time::Duration::from_secs(25));
        assert!(!done.is_finished(), "{}", done.join().unwrap().stderr);
        postgres.come_back();
        done.join().unwrap().ends(0);
    });
}

#[test]
fn a_server_whose_catalog_was_moved_away_says_where_it_is() {
    let mut site = Site::new();
    site.server = None;
    let to = site.folder("elsewhere.sqlite");
    site.govern(&["catalog", "move", &to]).ends(0);
    std::fs::remove_file(site.machine.path("data").join("catalog")).unwrap();
    let refused = site.govern(&["--listen", "127.0.0.1:0"]).ends(1);
    assert!(refused.stderr.contains(&to), "{}", refused.stderr);
    site.govern(&["catalog", "move", &to]).ends(0);
    site.start_server();
}

#[test]
fn a_server_whose_database_is_gone_names_it_and_no_password() {
    let mut site = Site::new();
    site.server = None;
    let file = site.machine.path("data").join("catalog");
    std::fs::write(&file, "host=/nonexistent user=a password=s3cret dbname=b\n").unwrap();
    let readable = site.govern(&["catalog", "show"]).ends(13);
    assert!(readable.stderr.contains("chmod 600"), "{}", readable.stderr);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, private).unwrap();
    for words in [&["--listen", "127.0.0.1:0"][..], &["key", "web"]] {
        let gone = site.govern(words).ends(16);
        assert!(gone.stderr.contains("host=/nonexistent user=a dbname=b"), "{}", gone.stderr);
        assert!(gone.stderr.contains("icecore server catalog show"), "{}", gone.stderr);
        assert!(!gone.stderr.contains("s3cret"), "{}", gone.stderr);
    }
}

#[test]
fn a_move_to_a_database_that_is_away_or_refuses_ends_with_the_code_for_it() {
    let mut site = Site::new();
    site.server = None;
    site.govern(&["catalog", "move", "host=/nonexistent user=a dbname=b"]).ends(16);
    let to = Server::shared().database("refuses").replace("user=postgres", "user=nobody");
    let refused = site.govern(&["catalog", "move", &to]).ends(13);
    assert!(refused.stderr.contains("user=nobody"), "{}", refused.stderr);
    let file = site.folder("absent.sqlite");
    let place = site.machine.path("data").join("catalog");
    std::fs::write(&place, &file).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
    let absent = site.govern(&["--listen", "127.0.0.1:0"]).ends(16);
    assert!(absent.stderr.contains(&file), "{}", absent.stderr);
    assert!(!std::path::Path::new(&file).exists());
}

/// A site whose catalog lies in a database of its own.
fn in_postgres(database: &str) -> Site {
    let mut site = Site::new();
    enroll(&site, "web");
    site.server = None;
    let to = Server::shared().database(database);
    site.govern(&["catalog", "move", &to]).ends(0);
    site.start_server();
    site
}

/// As when its password was changed, or somebody dropped it.
#[test]
fn a_database_that_refuses_the_server_is_no_refusal_of_a_node() {
    let site = in_postgres("refusing");
    Server::shared().refuse("refusing");
    let refused = site.govern(&["nodes"]).ends(16);
    assert!(refused.stderr.contains("its catalog"), "{}", refused.stderr);
    std::thread::scope(|scope| {
        let done = scope.spawn(|| backup(&site, "web"));
        std::thread::sleep(std::time::Duration::from_secs(5));
        assert!(!done.is_finished(), "{}", done.join().unwrap().stderr);
        Server::shared().let_in("refusing", true);
        done.join().unwrap().ends(0);
    });
}

#[test]
fn the_status_has_an_alarm_while_the_catalog_cannot_be_written() {
    let site = in_postgres("unwritable");
    let set = |to: &str| {
        let (mut beside, set) = (Server::shared().client(), "default_transaction_read_only");
        let set = format!("ALTER DATABASE unwritable SET {set} = {to}");
        beside.batch_execute(&set).unwrap();
    };
    let status = || site.govern(&["status"]).ends(0).text();
    let is_alarm = |text: &str| text.contains("ALARM") && text.contains("25006");
    assert!(!is_alarm(&status()));
    set("on");
    Server::shared().refuse("unwritable");
    Server::shared().let_in("unwritable", true);
    site.govern(&["token", "db"]).ends(16);
    let shown = status();
    assert!(is_alarm(&shown) && shown.contains("dbname=unwritable"), "{shown}");
    set("off");
    site.govern(&["token", "db"]).ends(0);
    assert!(!is_alarm(&status()));
}

/// As long as the guide promises, and a second: a server that waits for its database ends all the same.
#[test]
fn a_server_whose_database_hangs_stops_as_soon_as_any_other() {
    let mut site = Site::new();
    enroll(&site, "web");
    let postgres = Server::start("hangs", &[]);
    let to = postgres.database("icecore");
    site.server = None;
    site.govern(&["catalog", "move", &to]).ends(0);
    site.start_server();
    let mut waiting = site.begin_backup("web");
    let frozen = postgres.freeze();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let server = site.server.as_mut().unwrap();
    crate::stopping::ask_to_stop(server, rustix::process::Signal::TERM);
    drop(frozen);
    waiting.kill();
}
