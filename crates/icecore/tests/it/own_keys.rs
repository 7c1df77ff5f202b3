//! Secrets of a node that enrolls again: what a server has seen opens nothing that it must not read, and what is
//! nowhere else is never written over.

use crate::administration::{agent, start, token};
use crate::hardened::node;
use crate::machine::{Machine, ended};
use std::fs;

/// The machine becomes a node of the domain `domain`.
fn enroll(machine: &Machine, domain: &str, keys: &str) {
    let [url, token] = token(machine, &["web", "--domain", domain, "--keys", keys]);
    agent(machine, "web", &["enroll", "--replace", &url, &token]).ends(0);
}

fn back_up(machine: &Machine) {
    node(machine, "web", &["backup", machine.source().to_str().unwrap()]).ends(0);
}

fn read(machine: &Machine, name: &str) -> String {
    fs::read_to_string(machine.path("web").join(name)).unwrap()
}

/// The text that opens a slot like a recovery key.
fn text_of(secret: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).unwrap();
    crypto::recovery_to_text(&std::array::from_fn(byte))
}

/// How `check` ends on the repository of `domain`, on the disk of the server, with this recovery key.
fn opens(machine: &Machine, domain: &str, key: &str) -> i32 {
    let repository = machine.path("data/pool/domains").join(domain);
    let words = ["check", "--repo", repository.to_str().unwrap()];
    ended(machine.command(words).env("ICECORE_PASSWORD", key)).code
}

/// Review finding: it went on with the `slot.key` that it had sent to the server.
#[test]
fn what_a_server_has_seen_opens_no_domain_whose_keys_only_nodes_know() {
    for is_older_version in [false, true] {
        let machine = Machine::bare();
        let _server = start(&machine);
        enroll(&machine, "theirs", "managed");
        back_up(&machine);
        let seen = read(&machine, "managed.key");
        if is_older_version {
            fs::rename(machine.path("web/managed.key"), machine.path("web/slot.key")).unwrap();
            back_up(&machine);
        }
        assert_eq!(opens(&machine, "theirs", &text_of(&seen)), 0);
        enroll(&machine, "ours", "client");
        back_up(&machine);
        let own = read(&machine, "slot.key");
        assert_ne!(own, seen);
        assert_eq!(opens(&machine, "ours", &text_of(&own)), 0);
        assert_eq!(opens(&machine, "ours", &text_of(&seen)), 12);
        // And back, and forth.
        for _ in 0..2 {
            enroll(&machine, "theirs", "managed");
            back_up(&machine);
            assert_eq!(read(&machine, "slot.key"), own);
            assert_ne!(read(&machine, "managed.key"), own);
            enroll(&machine, "ours", "client");
            back_up(&machine);
            assert_eq!(read(&machine, "slot.key"), own);
        }
    }
}

#[test]
fn the_recovery_key_of_another_domain_is_kept_under_its_name() {
    let machine = Machine::bare();
    let _server = start(&machine);
    enroll(&machine, "first", "client");
    let first = read(&machine, "recovery.key");
    let status = agent(&machine, "web", &["status", "--json"]).ends(0).last();
    enroll(&machine, "first", "client");
    assert_eq!(read(&machine, "recovery.key"), first, "the same domain has the same one");
    enroll(&machine, "second", "client");
    let second = read(&machine, "recovery.key");
    assert_ne!(first, second);
    let aside = format!("recovery.key.{}", status["repository"].as_str().unwrap());
    assert_eq!(read(&machine, &aside), first);
    assert_eq!(opens(&machine, "first", &first), 0);
    assert_eq!(opens(&machine, "second", &second), 0);
    assert_eq!(opens(&machine, "second", &first), 12);
    // With managed keys there is none to put away.
    enroll(&machine, "theirs", "managed");
    agent(&machine, "web", &["recovery"]).ends(1);
}
