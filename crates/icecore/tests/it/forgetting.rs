//! Forgetting never takes more than was asked for.

use crate::machine::{Machine, random};

#[test]
fn without_a_policy_nothing_is_forgotten() {
    let machine = Machine::new();
    machine.backup();
    for arguments in [
        &["forget"][..],
        &["forget", "--keep-tag", ""],
        &["forget", "--keep-tag", "typo"],
        &["forget", "--keep-last", "0"],
        &["forget", "--keep-last", "x"],
        &["forget", "--keep-within", "soon"],
        &["forget", "--tag", "nothing-has-it"],
        &["forget", "latest", "--keep-last", "1"],
    ] {
        machine.run(arguments).ends(2);
    }
    assert_eq!(machine.snapshots().len(), 1);
}

#[test]
fn a_policy_keeps_the_newest_of_each_source() {
    let machine = Machine::new();
    let first = machine.backup();
    let other = machine.backup_with(&["--node", "other"]);
    let last = machine.backup();
    let plan = machine.run(["forget", "--keep-last", "1", "--dry-run", "--json"]).ends(0).lines();
    let removed: Vec<_> = plan
        .iter()
        .filter(|line| line["action"] == "remove")
        .map(|line| line["snapshot_id"].as_str().unwrap())
        .collect();
    assert_eq!(removed, [first]);
    let kept = plan.iter().find(|line| line["action"] == "keep").unwrap();
    assert_eq!(kept["reasons"][0], "last snapshot");
    assert_eq!(machine.snapshots().len(), 3);
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(machine.snapshots(), [other, last]);
    machine.run(["check"]).ends(0);
}

/// Twelve months were 360 days, so snapshots younger than a year were forgotten.
#[test]
fn a_span_of_months_is_never_shorter_than_the_calendars() {
    for (span, oldest) in [("12m", "2024-02-29"), ("1y", "2024-02-29"), ("1m", "2025-01-29")] {
        let machine = Machine::new();
        machine.backup_with(&["--time", "2024-02-28 11:00:00"]);
        let within = machine.backup_with(&["--time", &format!("{oldest} 12:00:00")]);
        let last = machine.backup_with(&["--time", "2025-03-01 12:00:00"]);
        machine.run(["forget", "--keep-within", span]).ends(0);
        assert_eq!(machine.snapshots(), [within, last], "{span}");
    }
}

/// A policy that keeps one must not keep the one that is lost and forget the one that is whole.
#[test]
fn a_policy_relies_on_no_snapshot_whose_tree_is_lost() {
    let machine = Machine::new();
    let mut all = Vec::new();
    for text in ["one", "two", "three"] {
        machine.write("changes", text.as_bytes());
        all.push(machine.backup());
    }
    std::fs::remove_file(machine.containers().last().unwrap()).unwrap();
    let dry = machine.run(["forget", "--keep-last", "1", "--dry-run", "--json"]).ends(0);
    let lost = dry.lines().into_iter().find(|line| line["snapshot_id"] == all[2].as_str()).unwrap();
    assert_eq!(lost["reasons"][0], "suspect: its tree cannot be read", "{lost}");
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(machine.snapshots(), all[1..]);
    machine.run(["restore", &all[1], "--target", machine.path("back").to_str().unwrap()]).ends(0);
    // Once a newer one is whole, both go.
    machine.write("changes", b"four");
    let newest = machine.backup();
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(machine.snapshots(), [newest]);
}

#[test]
fn a_filter_chooses_what_latest_names() {
    let machine = Machine::new();
    let ours = machine.backup_with(&["--node", "ours", "--tag", "one"]);
    let other = machine.backup_with(&["--node", "other", "--tag", "two"]);
    let kept = machine.backup_with(&["--node", "other", "--tag", "two"]);
    for filter in [["--node", "nobody"], ["--tag", "three"], ["--path", "/elsewhere"]] {
        machine.run([&["forget", "latest"], &filter[..]].concat()).ends(1);
        machine.run([&["forget", &kept], &filter[..]].concat()).ends(1);
    }
    machine.run(["forget", "latest~1", "--node", "ours"]).ends(1);
    assert_eq!(machine.snapshots().len(), 3);
    let source = machine.source();
    let said = machine.run(["forget", "latest", "--node", "ours", "--dry-run"]).ends(0).text();
    assert!(said.contains(&ours[..8]) && said.contains(" of ours"), "{said}");
    assert!(said.contains(source.to_str().unwrap()), "{said}");
    machine.run(["forget", "latest", "--node", "ours"]).ends(0);
    machine.run(["forget", "latest~1", "--tag", "two"]).ends(0);
    assert_eq!(machine.snapshots(), [kept], "{other}");
}

#[test]
fn a_key_that_is_bound_to_a_node_does_nothing_for_another() {
    let machine = Machine::new();
    let first = machine.backup_with(&["--node", "db"]);
    let new = machine.path("new");
    std::fs::write(&new, "new\n").unwrap();
    let new = new.to_str().unwrap();
    machine
        .run(["key", "add", "--read-write", "--node", "web", "--new-password-file", new])
        .ends(0);
    let with = |words: &[&str]| {
        let mut command = machine.command(words);
        crate::machine::ended(command.env_remove("ICECORE_PASSWORD").args(["--password-file", new]))
    };
    let source = machine.source();
    let source = source.to_str().unwrap();
    let refused = with(&["backup", source, "--node", "db"]).ends(13);
    assert!(refused.stderr.contains("icecore backup --node web PATH"), "{}", refused.stderr);
    with(&["forget", &first]).ends(13);
    assert_eq!(machine.snapshots(), [first], "nothing was stored, and nothing is gone");
    with(&["backup", source, "--node", "web"]).ends(0);
    assert_eq!(machine.snapshots().len(), 2);
    machine.run(["check"]).ends(0);
}

#[test]
fn named_snapshots_are_forgotten_and_reclaim_gives_space_back() {
    let machine = Machine::new();
    machine.write("random", &random(400_000));
    let first = machine.backup();
    std::fs::remove_file(machine.source().join("random")).unwrap();
    let second = machine.backup();
    machine.run(["forget", &first[..8]]).ends(0);
    assert_eq!(machine.snapshots(), [second]);
    let report = machine.run(["reclaim", "--max-waste", "0%", "--json"]).ends(0).last();
    assert!(report["bytes_freed"].as_u64().unwrap() > 300_000, "{report}");
    machine.run(["check", "--read-data"]).ends(0);
    assert_eq!(
        machine.run(["cat", &machine.stored("latest", "hello.txt")]).ends(0).stdout,
        b"hello"
    );
}

#[test]
fn tags_protect_and_can_be_changed() {
    let machine = Machine::new();
    machine.backup_with(&["--tag", "daily"]);
    machine.backup();
    machine.run(["tag", "add", "2020-01-01", "release"]).ends(1);
    let first = machine.snapshots()[0].clone();
    let tagged = machine.run(["tag", "add", &first, "release", "--json"]).ends(0).last();
    let tagged = tagged["snapshot_id"].as_str().unwrap().to_owned();
    machine.backup();
    machine.run(["forget", "--keep-last", "1", "--keep-tag", "daily,release"]).ends(0);
    let kept = machine.snapshots();
    assert_eq!((kept.len(), &kept[0]), (2, &tagged));
    machine.run(["cat", &machine.stored(&tagged, "hello.txt")]).ends(0);
    machine.run(["check"]).ends(0);
}

/// Snapshots of two nodes, each with two sources and two tags; the newest of each kind last.
fn of_many_kinds(machine: &Machine) -> Vec<(String, String)> {
    let (source, other) = (machine.source(), machine.path("other"));
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("file"), b"of another source").unwrap();
    let mut made = Vec::new();
    for round in ["old", "new"] {
        for node in ["a", "b"] {
            for (source_name, path) in [("source", &source), ("other", &other)] {
                for tag in ["x", "y"] {
                    let words = ["backup", "--json", "--node", node, "--tag", tag];
                    let ran = machine.run(words.iter().chain([&path.to_str().unwrap()])).ends(0);
                    let id = ran.last()["snapshot_id"].as_str().unwrap().to_owned();
                    made.push((id, format!("{round} {node} {source_name} {tag}")));
                }
            }
        }
    }
    made
}

/// Names of what a policy would keep.
fn kept(machine: &Machine, made: &[(String, String)], words: &[&str]) -> Vec<String> {
    let command = ["forget", "--keep-last", "1", "--dry-run", "--json"];
    let plan = machine.run(command.iter().chain(words)).ends(0).lines();
    let kept = plan.iter().filter(|line| line["action"] == "keep");
    let name = |line: &serde_json::Value| {
        let id = line["snapshot_id"].as_str().unwrap();
        made.iter().find(|(other, _)| other == id).unwrap().1.clone()
    };
    kept.map(name).collect()
}

#[test]
fn a_policy_looks_at_the_groups_that_were_asked_for() {
    let machine = Machine::new();
    let made = of_many_kinds(&machine);
    let table: [(&[&str], &[&str]); 6] = [
        (&[], &["new a other y", "new a source y", "new b other y", "new b source y"]),
        (
            &["--group-by", "source"],
            &["new a other y", "new a source y", "new b other y", "new b source y"],
        ),
        (&["--group-by", "node"], &["new a other y", "new b other y"]),
        (&["--group-by", "paths"], &["new b other y", "new b source y"]),
        (&["--group-by", "tags"], &["new b other x", "new b other y"]),
        (
            &["--group-by", "host,tag"],
            &["new a other x", "new a other y", "new b other x", "new b other y"],
        ),
    ];
    for (words, names) in table {
        let mut kept = kept(&machine, &made, words);
        kept.sort_unstable();
        assert_eq!(kept, names, "{words:?}");
    }
    let words = ["forget", "--keep-last", "1", "--group-by", "node,tags", "--dry-run"];
    let text = machine.run(words).ends(0).text();
    let headings: Vec<_> = text.lines().filter(|line| line.contains(": keep ")).collect();
    let groups = ["node a, tags x", "node a, tags y", "node b, tags x", "node b, tags y"];
    let groups = groups.map(|group| format!("{group}: keep 1, remove 3"));
    assert_eq!(headings, groups);
    let plan = machine.run(words.iter().chain(&["--json"])).ends(0).lines();
    assert_eq!(plan[0]["group"], serde_json::json!({"node": "a", "tags": ["x"]}));
    assert_eq!(machine.snapshots().len(), made.len(), "a dry run removes nothing");
    machine.run(["forget", "--keep-last", "1", "--group-by", "node"]).ends(0);
    assert_eq!(machine.snapshots().len(), 2);
    machine.run(["forget", "latest", "--group-by", "node"]).ends(2);
    machine.run(["forget", "--keep-last", "1", "--group-by", "day"]).ends(2);
}
