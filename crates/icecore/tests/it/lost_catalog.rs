//! A server that has lost its catalog: with `master.key`, each repository of a managed domain is enough.

use crate::administration::{agent, govern, start, token};
use crate::hardened::node;
use crate::machine::{Machine, ended, random};
use std::fs;
use std::path::Path;

fn back_up(machine: &Machine, folder: &str) {
    node(machine, folder, &["backup", machine.source().to_str().unwrap()]).ends(0);
}

fn same(machine: &Machine, target: &Path) {
    let below = target.join(machine.source().strip_prefix("/").unwrap());
    for name in ["hello.txt", "folder/large", "noise"] {
        let source = fs::read(machine.source().join(name)).unwrap();
        assert!(fs::read(below.join(name)).unwrap() == source, "{name}");
    }
}

/// A server that had two domains, and whose catalog is gone.
fn lost() -> Machine {
    let machine = Machine::bare();
    machine.write("noise", &random(500_000));
    let server = start(&machine);
    let words =
        [&["web", "--privacy", "hardened", "--parity", "3"][..], &["own", "--keys", "client"]];
    for words in words {
        let [url, token] = token(&machine, words);
        agent(&machine, words[0], &["enroll", &url, &token]).ends(0);
        back_up(&machine, words[0]);
    }
    drop(server);
    for entry in fs::read_dir(machine.path("data")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("catalog.sqlite") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    machine
}

#[test]
fn a_copy_alone_restores_after_the_pool_and_the_catalog_are_gone() {
    let machine = lost();
    let copy = machine.path("second");
    fs::rename(machine.path("data/pool/domains/web"), &copy).unwrap();
    fs::remove_dir_all(machine.path("data/pool")).unwrap();
    fs::remove_dir_all(machine.path("web")).unwrap();
    let copy = copy.to_str().unwrap();
    let key = govern(&machine, &["key", "web", "--copy", copy, "--quiet"]).ends(0).text();
    assert!(!machine.path("data/catalog.sqlite").exists(), "nothing is made by looking");
    fs::write(machine.path("key"), &key).unwrap();
    let (key, target) = (machine.path("key"), machine.path("target"));
    let [key, to] = [&key, &target].map(|path| path.to_str().unwrap());
    let words = ["restore", "latest", "--repo", copy, "--password-file", key, "--target", to];
    let mut command = machine.command(words);
    ended(command.env_remove("ICECORE_PASSWORD").env_remove("ICECORE_REPO")).ends(0);
    same(&machine, &target);
    // Of another domain it opens nothing, and without its master key nothing at all.
    govern(&machine, &["key", "own", "--copy", copy]).ends(12);
    fs::rename(machine.path("data/master.key"), machine.path("master.key")).unwrap();
    let refused = govern(&machine, &["key", "web", "--copy", copy]).ends(1);
    assert!(refused.stderr.contains("master.key is missing"), "{}", refused.stderr);
    assert!(!machine.path("data/master.key").exists());
}

/// It started, said that nodes were revoked, and sealed the keys of new domains with it.
#[test]
fn a_server_does_not_start_with_the_master_key_of_another_one() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, text] = token(&machine, &["web"]);
    agent(&machine, "web", &["enroll", &url, &text]).ends(0);
    drop(server);
    let (file, right) = (machine.path("data/master.key"), machine.path("right"));
    fs::copy(&file, &right).unwrap();
    fs::write(&file, "5".repeat(64)).unwrap();
    // No machine has this address: a server that took the key would end for another reason, and not run.
    for words in [&["--listen", "192.0.2.1:0"][..], &["key", "web"]] {
        let refused = govern(&machine, words);
        assert!(refused.stderr.contains("sealed with another one"), "{}", refused.stderr);
        refused.ends(1);
    }
    fs::copy(&right, &file).unwrap();
    govern(&machine, &["key", "web"]).ends(0);
    let _server = start(&machine);
}

#[test]
fn nodes_that_enroll_again_find_their_domains_as_they_were() {
    let machine = lost();
    let _server = start(&machine);
    // What the token says must fit what is there, and the server must have the keys that it is to manage.
    let refused = |words: &[&str], why: &str| {
        let [url, token] = token(&machine, words);
        let words = ["enroll", "--replace", &url, &token];
        let refused = agent(&machine, "stranger", &words).ends(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        let domains = govern(&machine, &["domains", "--json"]).ends(0).lines();
        assert_eq!(domains.len(), 1, "no domain was made: {domains:?}");
    };
    refused(&["web", "--privacy", "standard"], "has hardened privacy, 3 % parity");
    refused(&["own", "--keys", "managed"], "--domain own --keys client");
    for words in [&["web"][..], &["own", "--keys", "client"]] {
        let [url, token] = token(&machine, words);
        agent(&machine, words[0], &["enroll", "--replace", &url, &token]).ends(0);
        back_up(&machine, words[0]);
        let snapshots = node(&machine, words[0], &["snapshots", "--json"]).ends(0).lines();
        assert_eq!(snapshots.iter().filter(|line| line["message_type"] == "snapshot").count(), 2);
        let target = machine.path(&format!("{}-target", words[0]));
        let to = target.to_str().unwrap();
        node(&machine, words[0], &["restore", "latest~1", "--target", to]).ends(0);
        same(&machine, &target);
    }
    // The server has a key of its own there again: another node gets access.
    let [url, token] = token(&machine, &["new", "--domain", "web"]);
    agent(&machine, "new", &["enroll", &url, &token]).ends(0);
    node(&machine, "new", &["snapshots"]).ends(0);
    govern(&machine, &["key", "web"]).ends(0);
}

/// The storage server that has the domain is not known to the new catalog yet.
#[test]
fn a_domain_that_is_found_nowhere_is_made_only_once_somebody_confirms() {
    let machine = lost();
    let _server = start(&machine);
    let [url, new] = token(&machine, &["far"]);
    let words = ["enroll", &url, &new];
    let refused = agent(&machine, "far", &words).ends(13).stderr;
    assert!(refused.contains("'far' was not found") && refused.contains("storage"), "{refused}");
    assert!(govern(&machine, &["domains", "--json"]).ends(0).lines().len() < 2, "none was made");
    govern(&machine, &["catalog", "confirm"]).ends(0);
    agent(&machine, "far", &words).ends(0);
    back_up(&machine, "far");
}
