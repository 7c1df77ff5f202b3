//! What a node sees of the keys of its domain, and what helps it when its own is gone.

use crate::administration::{agent, govern, start, token};
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

/// What it might do before is known no more.
#[test]
fn a_token_for_a_domain_that_is_there_says_that_its_node_will_read() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, new] = token(&machine, &["web", "--domain", "team", "--write-only"]);
    agent(&machine, "web", &["enroll", &url, &new]).ends(0);
    node(&machine, "web", &["backup", machine.source().to_str().unwrap()]).ends(0);
    let says = |words: &[&str]| {
        let made = govern(&machine, &[&["token"], words].concat()).ends(0);
        format!("{}{}", made.text(), made.stderr).contains("able to read all")
    };
    assert!(!says(&["web"]), "it stays write-only");
    assert!(!says(&["new"]), "in a domain of its own");
    govern(&machine, &["revoke", "web"]).ends(0);
    govern(&machine, &["remove", "web"]).ends(0);
    assert!(says(&["web", "--domain", "team"]));
    assert!(!says(&["web", "--domain", "team", "--write-only"]));
    assert!(!says(&["web", "--domain", "team", "--read-write"]));
}
