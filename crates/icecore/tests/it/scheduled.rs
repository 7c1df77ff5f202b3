//! Backups that a server starts by itself on a real agent: by a schedule, and by hand.

use crate::administration::govern;
use crate::node_commands::Ordered;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A schedule of every minute: the shortest there is.
const SITE: &str = r#"
[unit.disk]
max_jobs = 1

[schedule.often]
every = "1 minute"
window = "00:00-24:00"

[policy.source]
unit = "disk"
nodes = ["web"]
paths = ["{}/source"]
excludes = ["*.tmp"]
schedules = ["often"]
"#;

/// A node whose server has a policy for its source.
fn with_policy() -> Ordered {
    let ordered = Ordered::new("backup_below = [\"{}\"]\nrestore_below = [\"{}/allowed\"]\n");
    let machine = &ordered.machine;
    std::fs::write(machine.path("source/kept"), b"content").unwrap();
    std::fs::write(machine.path("source/left.tmp"), b"content").unwrap();
    let file = machine.path("site.toml");
    let folder = machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    std::fs::write(&file, SITE.replace("{}", &folder)).unwrap();
    govern(machine, &["apply", file.to_str().unwrap()]).ends(0);
    ordered
}

/// Waits for jobs of the policy that have ended.
fn ended(ordered: &Ordered, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let jobs = govern(&ordered.machine, &["jobs", "--json"]).ends(0).lines();
        let of_policy = jobs.iter().filter(|job| job["plan"]["policy"] == "source");
        let ended: Vec<_> = of_policy
            .filter(|job| !["queued", "running"].contains(&job["state"].as_str().unwrap()))
            .cloned()
            .collect();
        if ended.len() >= count {
            return ended;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{jobs:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_server_starts_the_backups_of_a_policy_by_hand_and_by_schedule() {
    let ordered = with_policy();
    let tried = govern(&ordered.machine, &["start", "source", "--dry-run", "--json"]).ends(0);
    assert!(tried.last()["jobs"][0]["job"].is_null(), "{}", tried.last());
    govern(&ordered.machine, &["start", "source"]).ends(0);
    let first = ended(&ordered, 1);
    assert_eq!(first[0]["state"], "complete", "{}", first[0]);
    assert!(first[0]["plan"]["schedule"].is_null(), "{}", first[0]);

    let both = ended(&ordered, 2);
    let by_schedule = both.iter().find(|job| job["plan"]["schedule"] == "often").unwrap();
    assert_eq!(by_schedule["state"], "complete", "{by_schedule}");
    let snapshots = govern(&ordered.machine, &["snapshots", "web", "--json"]).ends(0).lines();
    assert!(snapshots.len() >= 2, "{snapshots:?}");

    assert!(ordered.restore("allowed/back", &[]).0);
    let found = |name: &str| {
        let mut find = std::process::Command::new("find");
        find.arg(ordered.machine.path("allowed/back")).args(["-name", name]);
        !find.output().unwrap().stdout.is_empty()
    };
    assert_eq!((found("kept"), found("left.tmp")), (true, false), "the policy's excludes");
}
