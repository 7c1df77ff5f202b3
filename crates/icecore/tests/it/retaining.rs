//! Retention that a server carries out on the backups of a real agent: what goes, what comes back, what stays.

use crate::administration::govern;
use crate::machine::Ran;
use crate::node_commands::Ordered;
use serde_json::Value;
use std::time::{Duration, Instant};

const SITE: &str = r#"
[retention.short.class.standard]
keep_last = 2

[policy.source]
nodes = ["web"]
paths = ["{}/source"]
retention = "short"
"#;

struct Rig(Ordered);

impl Rig {
    /// A node whose server has a policy for its source.
    fn new() -> Self {
        let ordered = Ordered::new("backup_below = [\"{}\"]\nrestore_below = [\"{}/allowed\"]\n");
        let rig = Self(ordered);
        let folder = rig.0.machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let file = rig.0.machine.path("site.toml");
        std::fs::write(&file, SITE.replace("{}", &folder)).unwrap();
        rig.govern(&["apply", file.to_str().unwrap()]).ends(0);
        rig
    }

    fn govern(&self, words: &[&str]) -> Ran {
        govern(&self.0.machine, words)
    }

    /// A backup of the policy, with this content.
    fn back_up(&self, number: usize) {
        std::fs::write(self.0.machine.path("source/file"), format!("content {number}")).unwrap();
        self.govern(&["start", "source"]).ends(0);
        let begun = Instant::now();
        loop {
            let jobs = self.govern(&["jobs", "--state", "complete", "--json"]).ends(0).lines();
            let of_policy = jobs.iter().filter(|job| job["plan"]["policy"] == "source");
            if of_policy.count() >= number {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(240), "{jobs:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ids of the snapshots in a state, newest first.
    fn ids(&self, state: &str) -> Vec<String> {
        let list = self.govern(&["snapshot", "list", "--state", state, "--json"]).ends(0).lines();
        let id = |line: &Value| line["id"].as_str().map(str::to_owned);
        list.iter().filter_map(id).collect()
    }
}

#[test]
fn what_no_rule_keeps_goes_comes_back_by_name_and_is_deleted() {
    let rig = Rig::new();
    (1..=4).for_each(|number| rig.back_up(number));
    let kept = rig.ids("kept");
    assert_eq!((kept.len(), rig.ids("trash").len()), (2, 2), "what the next expiry does");
    let explained = rig.govern(&["retention", "explain", "source"]).ends(0).text();
    assert!(explained.contains("last snapshot: until there are 2 newer snapshots"), "{explained}");

    let tried = rig.govern(&["expire", "--dry-run"]).ends(0).text();
    assert!(tried.contains("Would put 2 snapshots into the trash"), "{tried}");
    let done = rig.govern(&["expire", "--json"]).ends(0).last();
    assert_eq!(done["domains"][0]["trashed"].as_array().unwrap().len(), 2, "{done}");
    let [third, fourth] = &rig.ids("trash")[..] else { panic!("two lie in the trash") };

    // One is held, and comes back; the other is deleted for good.
    let hold = format!("snapshot={third}");
    rig.govern(&["hold", "create", "case", "--set", &hold, "--set", "reason=court"]).ends(0);
    let back = rig.govern(&["snapshot", "undelete", &third[..8]]).ends(0).text();
    assert!(back.contains("Brought back 1 snapshot."), "{back}");
    let refused = rig.govern(&["snapshot", "delete", third, "--yes"]).ends(3);
    assert!(refused.stderr.contains("the hold 'case' keeps it"), "{}", refused.stderr);
    let asked = rig.govern(&["snapshot", "delete", fourth, "--now"]).ends(2);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    let deleted = rig.govern(&["snapshot", "delete", fourth, "--now", "--yes"]).ends(0).text();
    assert!(deleted.contains("Deleted 1 snapshot for good."), "{deleted}");
    assert_eq!((rig.ids("kept"), rig.ids("held")), (kept, vec![third.clone()]));
    assert_eq!(rig.govern(&["snapshots", "web", "--json"]).ends(0).lines().len(), 4, "3 and a sum");

    rig.govern(&["reclaim", "web", "--wait", "1m"]).ends(0);
    rig.govern(&["check", "web"]).ends(0);
    assert!(rig.0.restore("allowed/back", &[]).0, "what is kept restores");
    let audit = rig.govern(&["audit", "--json", "--limit", "100"]).ends(0).lines();
    let count = |action: &str| audit.iter().filter(|line| line["action"] == action).count();
    let counts = ["snapshot.trash", "snapshot.undelete", "snapshot.expire"].map(count);
    assert_eq!(counts, [2, 1, 1]);
}

#[test]
fn a_change_says_what_goes_and_asks() {
    let rig = Rig::new();
    (1..=2).for_each(|number| rig.back_up(number));
    let words = ["retention", "change", "short", "--set", "class.standard.keep_last=1"];
    let tried = rig.govern(&[&words[..], &["--dry-run"]].concat()).ends(0).text();
    assert!(tried.contains("snapshots of the policy source: 1 go"), "{tried}");
    let refused = rig.govern(&words).ends(2);
    assert!(
        refused.stderr.contains("1 snapshot would go: nothing was changed"),
        "{}",
        refused.stderr
    );
    rig.govern(&[&words[..], &["--yes"]].concat()).ends(0);
    assert_eq!((rig.ids("kept").len(), rig.ids("trash").len()), (1, 1));
    let days = rig.govern(&["retention", "simulate", "source", "--days", "9"]).ends(0).text();
    assert_eq!(days.lines().count(), 10, "{days}");
}
