//! What a removed key can no longer read, and servers that would bring it back.

use crate::administration::{agent, govern, start, token};
use crate::hardened::node;
use crate::machine::{Machine, Ran, ended};
use crate::storage_servers::Site;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The domain of all nodes here.
const DOMAIN: &str = "team";

/// Two nodes of one domain that lies on a storage server.
fn team() -> Site {
    let site = Site::new();
    site.enroll("web", &["--domain", DOMAIN]);
    site.enroll_in("thief", &["--domain", DOMAIN]);
    site
}

/// The files of the domain below `name`.
fn files(site: &Site, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = site.machine.path("disk/pool/domains").join(DOMAIN).join(name);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.is_file())
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect()
}

fn put_back(files: &BTreeMap<PathBuf, Vec<u8>>) {
    files.iter().for_each(|(file, bytes)| std::fs::write(file, bytes).unwrap());
}

fn back_up(site: &Site, text: &str) -> String {
    site.machine.write("letter", text.as_bytes());
    let source = site.folder("source");
    let ran = site.node("web", &["backup", "--json", &source]).ends(0);
    ran.last()["snapshot_id"].as_str().unwrap().to_owned()
}

/// What the key of `node` opens in the files of the storage server, without asking any server.
fn read_by_key_of(site: &Site, node: &str, snapshot: &str) -> Ran {
    let identity = access::Identity::load(&site.machine.path(node)).unwrap();
    let secret = crypto::recovery_to_text(&identity.slot_secret.unwrap());
    let repository = site.machine.path("disk/pool/domains").join(DOMAIN);
    let letter = site.machine.stored(snapshot, "letter");
    let mut command = site.machine.command(["cat", &letter]);
    ended(command.env("ICECORE_REPO", repository).env("ICECORE_PASSWORD", &*secret))
}

#[test]
fn a_revoked_node_with_all_files_of_a_storage_server_reads_nothing_later() {
    let site = team();
    let before = back_up(&site, "known to all");
    let keys = files(&site, "keys");
    assert_eq!(read_by_key_of(&site, "thief", &before).ends(0).stdout, b"known to all");
    site.govern(&["revoke", "thief"]).ends(0);
    let after = back_up(&site, "of those who stayed");
    assert_eq!(read_by_key_of(&site, "web", &after).ends(0).stdout, b"of those who stayed");
    // Its slot is gone. It has a copy, and puts it back beside the list of today.
    let gone: BTreeMap<_, _> = keys.into_iter().filter(|(file, _)| !file.exists()).collect();
    assert_eq!(gone.len(), 1, "the slot of the thief");
    put_back(&gone);
    assert_eq!(read_by_key_of(&site, "thief", &before).ends(0).stdout, b"known to all");
    let closed = read_by_key_of(&site, "thief", &after).ends(13);
    assert!(closed.stdout.is_empty() && closed.stderr.contains("key epoch 1"), "{}", closed.stderr);
}

/// The list of yesterday names the thief's key as live, and its epoch: what is sealed to that, the thief reads.
#[test]
fn a_node_stores_nothing_for_a_server_that_shows_an_older_key_list_than_before() {
    let mut site = team();
    back_up(&site, "known to all");
    let old = files(&site, "keys");
    site.govern(&["revoke", "thief"]).ends(0);
    back_up(&site, "of those who stayed");
    site.restart_storage(|| put_back(&old));
    let source = site.folder("source");
    for words in [&["backup", &source][..], &["snapshots"]] {
        let refused = site.node("web", words).ends(14);
        assert!(refused.stderr.contains("this machine has seen number"), "{}", refused.stderr);
        assert!(refused.stderr.contains("rm "), "{}", refused.stderr);
    }
    let listed = site.govern(&["snapshots", DOMAIN, "--json"]).ends(0).lines();
    assert_eq!(listed.len(), 3, "two snapshots and the summary: {listed:?}");
    // A person decides.
    let folder = std::fs::read_dir(site.machine.path("web")).unwrap();
    let remembered = folder.map(|entry| entry.unwrap().path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("key-list-"))
    });
    std::fs::remove_file(remembered.unwrap()).unwrap();
    back_up(&site, "accepted");
}

/// The domain was lost, and comes back as it was before the thief was found out.
#[test]
fn a_key_that_was_removed_and_comes_back_with_an_older_copy_is_removed_again() {
    let mut site = team();
    back_up(&site, "known to all");
    let old = files(&site, "keys");
    site.govern(&["revoke", "thief"]).ends(0);
    let slot = old.keys().find(|file| !file.exists()).expect("the slot of the thief").clone();
    back_up(&site, "of those who stayed");
    site.restart_storage(|| put_back(&old));
    assert!(slot.exists());
    site.server.as_mut().unwrap().kill();
    site.start_server();
    site.wait_for("removal", |_| !slot.exists());
    let after = back_up(&site, "of those who stay");
    put_back(&old.into_iter().filter(|(file, _)| *file == slot).collect());
    let closed = read_by_key_of(&site, "thief", &after).ends(13);
    assert!(closed.stdout.is_empty() && closed.stderr.contains("key epoch 1"), "{}", closed.stderr);
    let audit = site.govern(&["audit", "--json"]).ends(0).lines();
    let again = |entry: &serde_json::Value| {
        entry["action"] == "node.unkey.again" && entry["subject"] == "thief in team"
    };
    assert!(audit.iter().any(again), "{audit:?}");
}

/// Before it serves anybody: a node that was told to accept the copy would store for the thief.
#[test]
fn a_server_that_starts_removes_a_key_that_came_back_before_it_serves_nodes() {
    let machine = Machine::bare();
    let server = start(&machine);
    for name in ["web", "thief"] {
        let [url, token] = token(&machine, &[name, "--domain", DOMAIN]);
        agent(&machine, name, &["enroll", &url, &token]).ends(0);
        node(&machine, name, &["backup", machine.source().to_str().unwrap()]).ends(0);
    }
    let keys = machine.path("data/pool/domains").join(DOMAIN).join("keys");
    let read = |file: std::fs::DirEntry| (file.path(), std::fs::read(file.path()).unwrap());
    let files = || std::fs::read_dir(&keys).unwrap().map(|file| read(file.unwrap()));
    let old: BTreeMap<_, _> = files().collect();
    govern(&machine, &["revoke", "thief"]).ends(0);
    let begun = std::time::Instant::now();
    let gone = || old.keys().find(|file| !file.exists());
    while gone().is_none() {
        assert!(begun.elapsed().as_secs() < 60, "the slot of the thief");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let slot = gone().unwrap();
    drop(server);
    put_back(&old);
    let _server = start(&machine);
    govern(&machine, &["nodes"]).ends(0); // the first that it serves
    assert!(!slot.exists());
}
