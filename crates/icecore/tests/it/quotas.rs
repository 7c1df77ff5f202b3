//! Quotas as one types them: a backup ends at them, and everything else goes on.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended, random};
use crate::storage_servers::Site;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The server goes by a new quota after a second.
const HEARD_WITHIN: Duration = Duration::from_millis(1_200);

/// Long before the server would notice by itself that a node is gone.
const AT_ONCE: Duration = Duration::from_secs(20);

fn node(machine: &Machine, words: &[&str]) -> Ran {
    let mut command = machine.command(words);
    command.arg("--agent-dir").arg(machine.path("agent"));
    ended(command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD"))
}

fn set(machine: &Machine, bytes: &str) {
    govern(machine, &["quota", "set", "web", bytes, "--node", "web"]).ends(0);
    sleep(HEARD_WITHIN);
}

#[test]
fn a_backup_ends_at_its_quota_and_goes_on_when_there_is_more() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let source = machine.source();
    let backup = ["backup", source.to_str().unwrap()];
    machine.write("first", &random(4 << 20));
    node(&machine, &backup).ends(0);
    set(&machine, "10M");
    machine.write("more", &random(24 << 20));
    let refused = node(&machine, &backup).ends(15);
    // Its session ends at once: nobody waits for a node that can do nothing more.
    assert!(refused.stderr.contains("the quota 'web' has no room"), "{}", refused.stderr);
    assert!(refused.stderr.contains("icecore server quota status"), "{}", refused.stderr);
    let (begun, mut job) = (Instant::now(), Value::Null);
    while job["state"] != "failed" {
        assert!(begun.elapsed() < AT_ONCE, "{job}");
        sleep(Duration::from_millis(100));
        job = govern(&machine, &["jobs", "--json"]).ends(0).lines()[0].clone();
    }
    assert!(job["error"].as_str().unwrap().contains("has no room"), "{job}");
    let status = govern(&machine, &["quota", "status", "--json"]).ends(0).lines();
    let used = status[0]["used_bytes"].as_u64().unwrap();
    assert!((4 << 20..=10 << 20).contains(&used), "{used}");
    assert_eq!(status[0]["domains"][0]["domain"], "web");
    let target = machine.path("target");
    let stored = format!("latest:{}", source.display());
    node(&machine, &["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
    set(&machine, "100M");
    let report = node(&machine, &[&backup[..], &["--json"]].concat()).ends(0).last();
    // What was stored before it was refused is not sent once more.
    let sent = report["report"]["bytes_transferred"].as_u64().expect("a figure");
    assert!((1..21 << 20).contains(&sent), "{report}");
    set(&machine, "1M");
    node(&machine, &backup).ends(15);
    govern(&machine, &["forget", "web", "--keep-last", "1"]).ends(0);
    govern(&machine, &["reclaim", "web"]).ends(0);
    govern(&machine, &["quota", "remove", "web"]).ends(0);
    sleep(HEARD_WITHIN);
    node(&machine, &backup).ends(0);
}

#[test]
fn a_quota_is_part_of_the_site() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    govern(&machine, &["quota", "set", "web", "5G", "--node", "web", "--domain", "web"]).ends(0);
    let exported = govern(&machine, &["export"]).ends(0).text();
    assert!(exported.contains("[quota.web]"), "{exported}");
    machine.write("site.toml", exported.replace("5G", "6G").as_bytes());
    let site = machine.source().join("site.toml");
    let site = site.to_str().unwrap();
    let plan = govern(&machine, &["apply", site, "--dry-run"]).ends(0).text();
    assert!(plan.contains("quota web") && plan.contains("6G"), "{plan}");
    govern(&machine, &["apply", site]).ends(0);
    let status = govern(&machine, &["quota", "status", "--json"]).ends(0).lines();
    assert_eq!((&status[0]["bytes"], &status[0]["state"]), (&(6u64 << 30).into(), &"open".into()));
    let wrong = govern(&machine, &["quota", "set", "no", "1G"]).ends(2);
    assert!(wrong.stderr.contains("names nothing"), "{}", wrong.stderr);
}

#[test]
fn a_storage_server_keeps_the_quotas_of_its_control_server() {
    let site = Site::new();
    site.enroll("web", &[]);
    let source = site.folder("source");
    site.machine.write("first", &random(4 << 20));
    site.node("web", &["backup", &source]).ends(0);
    site.govern(&["quota", "set", "web", "10M", "--node", "web"]).ends(0);
    let used = |site: &Site| {
        site.govern(&["quota", "status", "--json"]).ends(0).lines()[0]["used_bytes"].as_u64()
    };
    site.wait_for("what the storage server stores", |site| used(site) > Some(4 << 20));
    // The storage server hears it with the next reply, one second later at most.
    sleep(2 * HEARD_WITHIN);
    site.machine.write("more", &random(24 << 20));
    let refused = site.node("web", &["backup", &source]).ends(15);
    assert!(refused.stderr.contains("the quota 'web' has no room"), "{}", refused.stderr);
    let stored = used(&site).expect("it is known");
    assert!((4 << 20..=10 << 20).contains(&stored), "{stored}");
    std::fs::remove_file(site.machine.source().join("more")).unwrap();
    site.restores("web", &[]);
}
