//! What a node sees of the keys of its domain, and what helps it when its own is gone.

use crate::administration::{agent, start, token};
use crate::hardened::node;
use crate::machine::Machine;
use std::fs;

/// A server sees all keys; a node only its own one, of which none is missing.
#[test]
fn a_node_whose_key_is_lost_is_told_to_enroll_again_and_no_key_of_others_is_missed() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, new] = token(&machine, &["web", "--write-only"]);
    agent(&machine, "web", &["enroll", &url, &new]).ends(0);
    let source = machine.source();
    let back_up = || node(&machine, "web", &["backup", source.to_str().unwrap()]);
    back_up().ends(0);
    let listed = node(&machine, "web", &["key", "list"]).ends(0);
    assert!(!listed.stderr.contains("no file any more"), "{}", listed.stderr);

    let toml = fs::read_to_string(machine.path("web/agent.toml")).unwrap();
    let own = toml.lines().find_map(|line| line.strip_prefix("key = ")).unwrap().trim_matches('"');
    fs::remove_file(machine.path("data/pool/domains/web/keys").join(own)).unwrap();
    let refused = back_up().ends(12).stderr;
    assert!(!refused.contains("are missing"), "{refused}");
    assert!(refused.contains("icecore server token web --write-only"), "{refused}");
    assert!(refused.contains("icecore agent enroll --replace"), "{refused}");
    let [url, new] = token(&machine, &["web", "--write-only"]);
    agent(&machine, "web", &["enroll", "--replace", &url, &new]).ends(0);
    back_up().ends(0);
}
