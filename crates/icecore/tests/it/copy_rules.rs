//! Copies that keep by rules of their own what expired in their domain.

use crate::administration::govern;
use crate::locking::{ALLOW, back_up};
use crate::machine::{Machine, ended};
use crate::node_commands::Ordered;
use crate::waiting::ended_job;
use serde_json::Value;
use std::time::Duration;

/// A policy that keeps two, whose copies keep three.
const SITE: &str = r#"
[retention.short.class.default]
keep_last = 2
trash = "1 second"

[retention.long.class.default]
keep_last = 3

[policy.source]
nodes = ["web"]
paths = ["{}/source"]
retention = "short"

[upkeep.second]
tasks = ["copy"]
to = "{}/second"
retention = "long"
"#;

fn declared(text: &str, machine: &Machine) -> String {
    let folder = machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let file = machine.path("site.toml");
    std::fs::write(&file, text.replace("{}", &folder)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The report of a copy.
fn copied(machine: &Machine) -> Value {
    let started = govern(machine, &["upkeep", "start", "second", "--json"]).ends(0).lines();
    let job = ended_job(machine, started[0]["job"].as_u64().unwrap());
    assert_eq!(job["state"], "complete", "{job}");
    serde_json::from_str(job["report"].as_str().unwrap()).unwrap()
}

/// Ids of the snapshots in the copy.
fn there(machine: &Machine, key: &str) -> Vec<String> {
    let copy = machine.path("second/web");
    let mut command = machine.command(["snapshots", "--json", "--repo", copy.to_str().unwrap()]);
    let lines = ended(command.env("ICECORE_PASSWORD", key)).ends(0).lines();
    let ids = lines.iter().filter_map(|line| line["snapshot_id"].as_str());
    ids.map(str::to_owned).collect()
}

#[test]
fn a_copy_keeps_by_rules_of_its_own_what_expired_in_the_domain() {
    let ordered = Ordered::new(ALLOW);
    let machine = &ordered.machine;
    std::fs::create_dir(machine.path("second")).unwrap();
    std::fs::write(machine.path("second/icecore-copies"), "").unwrap();
    govern(machine, &["apply", &declared(SITE, machine), "--yes"]).ends(0);
    let mut made = Vec::new();
    for number in 0..5_u8 {
        machine.write("file", &[number; 5000]);
        made.push(back_up(machine, number.into()));
    }
    let first = copied(machine);
    assert_eq!((&first["snapshots"], &first["expired"]), (&5.into(), &0.into()), "{first}");
    // Into the trash, and out of it.
    let expire = || {
        govern(machine, &["expire"]).ends(0);
        std::thread::sleep(Duration::from_secs(3));
        govern(machine, &["expire"]).ends(0);
        // A copy follows what expired in a second before its own.
        std::thread::sleep(Duration::from_secs(1));
    };
    expire();
    let key = govern(machine, &["key", "web", "--quiet"]).ends(0).text();
    let second = copied(machine);
    assert_eq!(second["expired"], 2, "{second}");
    let left = there(machine, key.trim());
    assert_eq!(left, made[2..], "the domain has two of them");

    // A retention without this class keeps all that is left; one that is used cannot be removed.
    let other = SITE.replace("[retention.long.class.default]", "[retention.long.class.other]");
    govern(machine, &["apply", &declared(&other, machine), "--yes"]).ends(0);
    machine.write("file", &[9; 5000]);
    back_up(machine, 5);
    expire();
    let third = copied(machine);
    assert_eq!((&third["snapshots"], &third["expired"]), (&1.into(), &0.into()), "{third}");
    let without = SITE.replace("retention = \"long\"", "retention = \"none\"");
    let refused = govern(machine, &["apply", &declared(&without, machine), "--yes"]).ends(2);
    assert!(refused.stderr.contains("none"), "{}", refused.stderr);
}
