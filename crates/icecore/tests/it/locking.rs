//! Locks of snapshots on a real server with a real agent: what somebody with root on the server's host, and with every
//! key, cannot do.

use crate::administration::govern;
use crate::machine::{Machine, Ran, ended};
use crate::node_commands::Ordered;
use crate::waiting::found;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::faketime;

/// A policy whose snapshots are locked for so long.
const SITE: &str = r#"
[retention.safe.class.default]
keep_last = 3
immutable = "LOCK"

[policy.source]
nodes = ["web"]
paths = ["{}/source"]
retention = "safe"
"#;

/// What the node allows.
pub(crate) const ALLOW: &str = "backup_below = [\"{}\"]\nrestore_below = [\"{}/allowed\"]\n";

fn with_lock(lock: &str) -> Ordered {
    let ordered = Ordered::new(ALLOW);
    lock_for(&ordered.machine, lock);
    ordered
}

/// A policy of the server of `machine` locks its snapshots for so long.
pub(crate) fn lock_for(machine: &Machine, lock: &str) {
    std::fs::write(machine.path("source/kept"), b"content").unwrap();
    let file = machine.path("site.toml");
    let folder = machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    std::fs::write(&file, SITE.replace("{}", &folder).replace("LOCK", lock)).unwrap();
    govern(machine, &["apply", file.to_str().unwrap(), "--yes"]).ends(0);
}

/// The snapshot that a backup by the policy makes.
pub(crate) fn back_up(machine: &Machine, before: usize) -> String {
    govern(machine, &["start", "source"]).ends(0);
    found("backup", || {
        let jobs = govern(machine, &["jobs", "--json"]).ends(0).lines();
        let ended: Vec<_> = jobs
            .iter()
            .filter(|job| job["plan"]["policy"] == "source" && job["state"] == "complete")
            .collect();
        let newest = ended.iter().max_by_key(|job| job["id"].as_u64());
        match newest.filter(|_| ended.len() > before) {
            Some(newest) => Ok(newest["snapshot"].as_str().unwrap().to_owned()),
            None => Err(jobs.into()),
        }
    })
}

/// Somebody with root on the host: the folder of the domain, and the key that the server has of it.
struct Host<'a> {
    machine: &'a Machine,
    key: String,
}

impl<'a> Host<'a> {
    fn of(machine: &'a Machine) -> Self {
        let printed = govern(machine, &["key", "web", "--quiet"]).ends(0).text();
        let key = printed.trim();
        Self { machine, key: key.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.machine.path("data/pool/domains/web").join(name)
    }

    /// `icecore WORDS` in the folder, under a clock that is `ahead`.
    fn run(&self, ahead: Option<&str>, words: &[&str]) -> Ran {
        let mut command = self.machine.command(words);
        command.env("ICECORE_REPO", self.file("")).env("ICECORE_PASSWORD", &self.key);
        if let (Some(ahead), Some(library)) = (ahead, faketime()) {
            command.env("LD_PRELOAD", library).env("FAKETIME", ahead).env("NO_FAKE_STAT", "1");
        }
        ended(&mut command)
    }
}

#[test]
fn nobody_on_the_host_removes_a_locked_snapshot_through_the_program() {
    let ordered = with_lock("30 days");
    let machine = &ordered.machine;
    let id = back_up(machine, 0);
    let host = Host::of(machine);
    let shown = host.run(None, &["snapshots", "--json"]).ends(0).lines();
    let shown = shown.iter().find(|line| line["snapshot_id"] == id.as_str()).unwrap();
    assert_eq!((&shown["policy"], &shown["source"]), (&json!("source"), &json!("main")), "{shown}");
    assert!(shown["locked_until"].is_string(), "{shown}");

    if faketime().is_none() {
        testkit::skip("clock years ahead: no libfaketime");
    }
    let tries: [&[&str]; 3] =
        [&["forget", &id], &["forget", "--damaged", &id], &["tag", "add", &id, "x"]];
    let refused = |ahead| {
        for words in tries {
            let told = host.run(ahead, words).ends(13).stderr;
            assert!(told.contains("is locked until"), "{words:?}: {told}");
        }
        let told = host.run(ahead, &["forget", &id, "--dry-run"]).ends(13).stderr;
        assert!(told.contains("is locked until"), "{told}");
    };
    refused(None);
    refused(Some("+3650d"));
    for file in ["lock-clock", "receipts"] {
        std::fs::remove_file(host.file(file)).unwrap();
        refused(Some("+3650d"));
    }
    // By rules it stays, and says why.
    let newer = back_up(machine, 1);
    let kept = host.run(None, &["forget", "--keep-last", "1", "--json"]).ends(0).lines();
    let kept = kept.iter().find(|line| line["snapshot_id"] == id.as_str()).unwrap();
    assert_eq!(kept["action"], "keep", "{kept}");
    govern(machine, &["forget", "web", "--keep-last", "1"]).ends(0);
    host.run(Some("+3650d"), &["rebuild"]).ends(0);
    host.run(Some("+3650d"), &["reclaim", "--accept-damage"]).ends(0);
    let left = host.run(None, &["snapshots", "--json"]).ends(0).lines();
    let ids: Vec<_> = left.iter().filter_map(|line| line["snapshot_id"].as_str()).collect();
    assert_eq!(ids, [id.as_str(), newer.as_str()]);
    assert!(ordered.restore("allowed/back", &[]).0);
}

#[test]
fn a_lock_that_has_ended_holds_nobody() {
    let ordered = with_lock("2 seconds");
    let id = back_up(&ordered.machine, 0);
    let host = Host::of(&ordered.machine);
    let begun = Instant::now();
    while host.run(None, &["forget", &id]).code != 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it has ended long ago");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Nobody may forget it, and without it nobody knows what lives.
#[test]
fn the_advice_for_a_damaged_file_of_a_locked_snapshot_makes_reclaim_work_again() {
    let ordered = with_lock("30 days");
    let id = back_up(&ordered.machine, 0);
    let host = Host::of(&ordered.machine);
    let mut files =
        std::fs::read_dir(host.file("snapshots")).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|path| path.to_string_lossy().contains(&id)).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    for words in [&["reclaim"][..], &["reclaim", "--accept-damage"]] {
        let told = host.run(None, words).ends(14).stderr;
        assert!(told.contains(&id) && told.contains("icecore rebuild"), "{told}");
    }
    host.run(None, &["rebuild"]).ends(0);
    host.run(None, &["reclaim"]).ends(0);
    assert_eq!(host.run(None, &["snapshots", "--json"]).ends(0).lines()[0]["snapshot_id"], id);
    assert!(ordered.restore("allowed/back", &[]).0);
}
