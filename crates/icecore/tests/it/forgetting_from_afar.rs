//! `icecore forget` on a node, where the domain lies on a server; and what an administrator does for domains whose
//! keys the server has.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended};
use crate::storage_servers::Site;

/// A machine that is the node `web`, with a server.
struct Web {
    machine: Machine,
    _server: crate::administration::Running,
}

impl Web {
    fn enrolled(more: &[&str]) -> Self {
        let machine = Machine::bare();
        let _server = start(&machine);
        let words: Vec<_> = ["web"].iter().chain(more).copied().collect();
        let [url, token] = token(&machine, &words);
        agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
        Self { machine, _server }
    }

    /// What is typed on the node.
    fn types(&self, words: &[&str]) -> Ran {
        let mut command = self.machine.command(words);
        command.arg("--agent-dir").arg(self.machine.path("agent"));
        ended(command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD"))
    }

    fn backs_up(&self, content: &str) {
        self.machine.write("hello.txt", content.as_bytes());
        self.types(&["backup", self.machine.source().to_str().unwrap()]).ends(0);
    }

    fn snapshots(&self) -> usize {
        let told = self.types(&["snapshots", "--json"]).ends(0).lines();
        told.iter().filter(|line| line["message_type"] == "snapshot").count()
    }

    /// What a hint says after "On the server:".
    fn follows(&self, ran: &Ran) -> Ran {
        let (_, typed) = ran.stderr.split_once("server: icecore server ").unwrap();
        let words: Vec<_> = typed.split_whitespace().collect();
        govern(&self.machine, &words)
    }
}

#[test]
fn a_node_with_a_full_key_forgets_when_the_administrator_lets_it() {
    let web = Web::enrolled(&["--keys", "client"]);
    (1..=3).for_each(|day| web.backs_up(&format!("day {day}")));
    let told = web.types(&["forget", "--keep-last", "1", "--dry-run", "--json"]).ends(0).last();
    assert_eq!((told["removed"].as_u64(), told["kept"].as_u64()), (Some(2), Some(1)));
    let refused = web.types(&["forget", "--keep-last", "1"]).ends(13);
    assert_eq!(web.snapshots(), 3);
    web.follows(&refused).ends(0);
    let nodes = govern(&web.machine, &["nodes", "--json"]).ends(0).lines();
    assert_eq!(nodes[0]["forget"], "own");

    let refused = web.types(&["forget", "--keep-last", "1", "--prune"]).ends(13);
    assert!(refused.stderr.contains("nothing was forgotten"), "{}", refused.stderr);
    assert_eq!(web.snapshots(), 3);
    web.follows(&refused).ends(0);

    let told = web.types(&["forget", "--keep-last", "1"]).ends(0).text();
    assert!(told.contains("icecore server reclaim web"), "{told}");
    assert_eq!(web.snapshots(), 1);
    govern(&web.machine, &["reclaim", "web"]).ends(0);
    govern(&web.machine, &["check", "web"]).ends(0);
    let audit = govern(&web.machine, &["audit"]).ends(0).text();
    assert!(audit.contains("snapshot.forget") && audit.contains("node web"), "{audit}");

    govern(&web.machine, &["deny-forget", "web"]).ends(0);
    web.types(&["forget", "latest"]).ends(13);
    assert_eq!(web.snapshots(), 1);
}

#[test]
fn where_the_server_has_the_keys_it_forgets_itself() {
    let web = Web::enrolled(&[]);
    (1..=3).for_each(|day| web.backs_up(&format!("day {day}")));
    let refused = web.types(&["forget", "--keep-last", "1"]).ends(13);
    let told = web.follows(&refused).ends(0).text();
    assert!(told.contains("Would forget 1 snapshot"), "{told}");
    assert_eq!(web.snapshots(), 3);
    let refused = govern(&web.machine, &["allow-forget", "web"]).ends(13);
    let told = web.follows(&refused).ends(0).text();
    assert!(told.contains("Would forget 1 snapshot"), "{told}");

    let told = govern(&web.machine, &["forget", "web", "--keep-last", "2"]).ends(0).text();
    assert!(told.contains("icecore server reclaim web"), "{told}");
    assert_eq!(web.snapshots(), 2);
    let words = ["forget", "web", "--keep-last", "1", "--prune", "--json"];
    let told = govern(&web.machine, &words).ends(0).last();
    assert_eq!(told["removed"], 1, "{told}");
    assert_eq!(web.snapshots(), 1);
    let refused = govern(&web.machine, &["forget", "web"]).ends(2);
    assert!(refused.stderr.contains("nothing was forgotten"), "{}", refused.stderr);
    let audit = govern(&web.machine, &["audit"]).ends(0).text();
    assert!(audit.contains("domain.forget"), "{audit}");
    let refused = govern(&web.machine, &["forget", "nobody", "--keep-last", "1"]).ends(2);
    assert!(refused.stderr.contains("no domain 'nobody'"), "{}", refused.stderr);
}

/// It forgot them, and nobody said a word.
#[test]
fn what_a_hold_keeps_is_forgotten_by_no_command() {
    let web = Web::enrolled(&[]);
    (1..=3).for_each(|day| web.backs_up(&format!("day {day}")));
    let hold = ["hold", "create", "case-17", "--set", "node=web", "--set", "reason=court"];
    govern(&web.machine, &hold).ends(0);
    for flag in [&["--dry-run"][..], &[]] {
        let named = [&["forget", "web", "latest"], flag].concat();
        let refused = govern(&web.machine, &named).ends(13).stderr;
        assert!(refused.contains("the hold 'case-17' keeps it"), "{refused}");
    }
    let ruled = govern(&web.machine, &["forget", "web", "--keep-last", "1"]).ends(0).text();
    assert!(ruled.contains("the hold 'case-17' keeps it"), "{ruled}");
    assert_eq!(web.snapshots(), 3);
    govern(&web.machine, &["hold", "remove", "case-17", "--yes"]).ends(0);
    govern(&web.machine, &["forget", "web", "--keep-last", "1"]).ends(0);
    assert_eq!(web.snapshots(), 1);
}

/// A node that may forget may not forget that, here and on a storage server.
#[test]
fn what_a_hold_keeps_is_forgotten_by_no_node() {
    let hold = ["hold", "create", "case-17", "--set", "node=web", "--set", "reason=court"];
    let web = Web::enrolled(&["--keys", "client"]);
    (1..=2).for_each(|day| web.backs_up(&format!("day {day}")));
    govern(&web.machine, &["allow-forget", "web"]).ends(0);
    govern(&web.machine, &hold).ends(0);
    let refused = web.types(&["forget", "--keep-last", "1"]).ends(13).stderr;
    assert!(refused.contains("the hold 'case-17' keeps it"), "{refused}");
    assert_eq!(web.snapshots(), 2);

    let site = Site::new();
    site.enroll("web", &["--keys", "client"]);
    let source = site.folder("source");
    for day in ["one", "two"] {
        site.machine.write("hello.txt", day.as_bytes());
        site.node("web", &["backup", &source]).ends(0);
    }
    site.govern(&["allow-forget", "web"]).ends(0);
    site.govern(&hold).ends(0);
    let refused = site.node("web", &["forget", "--keep-last", "1"]).ends(13).stderr;
    assert!(refused.contains("the hold 'case-17' keeps it"), "{refused}");
    site.govern(&["hold", "remove", "case-17", "--yes"]).ends(0);
    site.node("web", &["forget", "--keep-last", "1"]).ends(0);
}

/// The storage server asks the control server, which notes it; while that one is away nothing is forgotten.
#[test]
fn a_node_forgets_on_a_storage_server() {
    let mut site = Site::new();
    site.enroll("web", &["--keys", "client"]);
    let source = site.folder("source");
    for day in ["one", "two"] {
        site.machine.write("hello.txt", day.as_bytes());
        site.node("web", &["backup", &source]).ends(0);
    }
    let snapshots = |site: &Site| {
        let told = site.node("web", &["snapshots", "--json"]).ends(0).lines();
        told.iter().filter(|line| line["message_type"] == "snapshot").count()
    };
    site.node("web", &["forget", "--keep-last", "1"]).ends(13);
    site.govern(&["allow-forget", "web"]).ends(0);
    assert_eq!(snapshots(&site), 2);
    site.node("web", &["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(snapshots(&site), 1);
    let audit = site.govern(&["audit"]).ends(0).text();
    assert!(audit.contains("snapshot.forget") && audit.contains("node web"), "{audit}");
    site.govern(&["revoke", "web"]).ends(0);
    site.node("web", &["forget", "latest"]).ends(13);
    site.server = None;
}
