//! An agent whose certificate has to be renewed and cannot be.

use crate::storage_servers::{Running, Site};
use pki::{CertificateAuthority, NodeKey};
use std::path::Path;

const DAY_SECS: i64 = 86_400;

/// Gives the node `name` in `folder` a certificate that ends in so many seconds, as the server would have.
fn ends_in(data: &Path, folder: &Path, name: &str, secs: i64) {
    let file = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let ca = CertificateAuthority::load(&file("ca/ca.pem"), &file("ca/ca.key")).unwrap();
    let key = NodeKey::generate().unwrap();
    let long_ago =
        jiff::Timestamp::now().as_second() + secs - pki::certificate_authority::NODE_SECS;
    let issued = ca.issue_node(&key.request_pem, name, long_ago).unwrap();
    let known = catalog::certificates::Certificate {
        serial: issued.serial.clone(),
        not_before: issued.not_before_secs,
        not_after: issued.not_after_secs,
    };
    let pem = std::fs::read_to_string(folder.join("node.pem")).unwrap();
    let shown =
        pki::client::certificate_of(&pem).and_then(|der| pki::inspect(&der)).unwrap().serial;
    let by = catalog::By { who: "test", now_secs: long_ago };
    let catalog =
        catalog::Catalog::open(&catalog::Location::file(data.join("catalog.sqlite"))).unwrap();
    let asked = catalog::certificates::Renewal {
        of: catalog::certificates::Holder::Node,
        holder: &name.parse().unwrap(),
        predecessor: &shown,
        key: &[0; 32],
        next: &known,
        pem: &issued.pem,
        version: "1",
    };
    catalog.renew(by, asked).unwrap();
    std::fs::write(folder.join("node.pem"), format!("{}{}", issued.pem, key.key_pem)).unwrap();
}

#[test]
fn an_agent_that_cannot_renew_stays_connected_and_asks_now_and_then() {
    let site = Site::new();
    let [url, token] = site.token(&["web"]);
    site.node("web", &["agent", "enroll", &url, &token]).ends(0);
    let (data, folder) = (site.machine.path("data"), site.machine.path("web"));
    ends_in(&data, &folder, "web", 5 * DAY_SECS);
    // In the way of what is written.
    std::fs::create_dir(folder.join("node.pem.part")).unwrap();
    let (out, log) = (site.machine.path("out"), site.machine.path("log"));
    let mut command = site.node_command("web", &["agent"]);
    command.stdout(std::fs::File::create(&out).unwrap());
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut agent = Running(command.spawn().unwrap());
    // It looks after itself every five seconds.
    assert_eq!(agent.ends_within(7), None);
    let count = |file: &Path, words: &str| {
        std::fs::read_to_string(file).unwrap().lines().filter(|line| line.contains(words)).count()
    };
    assert_eq!(count(&out, "connected to"), 1);
    let failed = count(&log, "cannot renew the certificate");
    assert!((1..=2).contains(&failed), "it was tried {failed} times");
    assert_eq!(site.govern(&["nodes", "--json"]).ends(0).lines()[0]["connected"], true);
}

/// Seen: `agent renew` said that the server cannot be reached, and a backup five times that it cannot renew.
#[test]
fn a_certificate_that_has_expired_is_told_as_such_with_the_way_to_another_one() {
    let site = Site::new();
    site.enroll_in("web", &[]);
    let (data, folder) = (site.machine.path("data"), site.machine.path("web"));
    ends_in(&data, &folder, "web", -DAY_SECS);
    let source = site.folder("source");
    for words in [&["agent", "renew"][..], &["snapshots"], &["backup", &source]] {
        let refused = site.node("web", words).ends(13);
        assert!(refused.stderr.contains("has expired"), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("icecore agent enroll --replace"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("cannot renew"), "{}", refused.stderr);
    }
    let [url, token] = site.token(&["web"]);
    site.node("web", &["agent", "enroll", "--replace", &url, &token]).ends(0);
    site.node("web", &["backup", &source]).ends(0);
}

#[test]
fn a_second_agent_of_a_machine_does_not_start() {
    let site = Site::new();
    site.enroll_in("web", &[]);
    let mut agent = site.start_agent("web");
    site.wait_for("the agent", |site| {
        site.govern(&["nodes", "--json"]).ends(0).lines()[0]["connected"] == true
    });
    let refused = site.node("web", &["agent"]).ends(11);
    assert!(refused.stderr.contains("another agent uses"), "{}", refused.stderr);
    agent.kill();
    let mut next = site.start_agent("web");
    assert_eq!(next.ends_within(3), None, "the lock ended with the first one");
}
