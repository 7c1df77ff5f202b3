//! A directory of the repository is lost, and a copy has what was in it.

use super::{Two, is_same};
use std::path::PathBuf;

fn copied() -> Two {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    two
}

fn lost(two: &Two, name: &str) -> PathBuf {
    let path = two.machine.path("repository").join(name);
    std::fs::remove_dir_all(&path).unwrap();
    path
}

/// Without `snapshots`, "There are no snapshots" was said, and the command ended with 0.
#[test]
fn what_was_in_a_lost_directory_is_read_from_the_copy_that_is_named() {
    for name in ["snapshots", "containers", "index", "keys"] {
        let two = copied();
        lost(&two, name);
        let listed = two.machine.run(["snapshots", "--json", "--copies", &two.second]).ends(0);
        assert_eq!(listed.lines().iter().filter(|it| it["snapshot_id"].is_string()).count(), 1);
        let target = two.machine.path("target");
        let _ = std::fs::remove_dir_all(&target);
        let from = two.machine.stored("latest", "");
        let words = ["restore", &from, "--copies", &two.second, "--target"];
        two.machine.run(words.iter().chain(&[target.to_str().unwrap()])).ends(0);
        assert!(is_same(&two.machine.source(), &target), "{name}");
    }
}

/// The directory is there, and nothing is in it: no key opened.
#[test]
fn keys_that_are_gone_are_read_from_the_copy_that_is_named() {
    let two = copied();
    let keys = lost(&two, "keys");
    std::fs::create_dir(keys).unwrap();
    let listed = two.machine.run(["ls", "latest", "--copies", &two.second]).ends(0);
    assert!(listed.stderr.contains("read from the copy"), "{}", listed.stderr);
    two.machine.run(["ls", "latest"]).ends(12);
}

/// To rebuild was advised, which said the same again.
#[test]
fn a_lost_directory_comes_back_from_the_copy() {
    for name in ["snapshots", "containers", "keys"] {
        let two = copied();
        let repository = two.machine.path("repository");
        let repository = repository.to_str().unwrap();
        let path = lost(&two, name);
        let ran = two.on_copy(&["copy", "--to", repository]);
        ran.ends(if name == "containers" { 14 } else { 0 });
        if name == "containers" {
            // All snapshots are listed there: what they need comes by a repair.
            two.machine.run(["check", "--repair", "--copies", &two.second]).ends(0);
        }
        assert!(path.is_dir(), "{name}");
        two.machine.run(["check", "--read-data"]).ends(0);
        if name != "keys" {
            let two = copied();
            lost(&two, name);
            two.machine.run(["check", "--repair", "--copies", &two.second]).ends(0);
            two.machine.run(["check", "--read-data"]).ends(0);
        }
    }
}

#[test]
fn a_rebuild_makes_a_directory_that_is_lost() {
    for name in ["snapshots", "index"] {
        let two = copied();
        lost(&two, name);
        two.machine.run(["rebuild"]).ends(0);
        two.machine.run(["check", "--read-data"]).ends(0);
    }
}
