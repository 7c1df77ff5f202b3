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
