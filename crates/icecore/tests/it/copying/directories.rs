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
        let ran = two.machine.run(words.iter().chain(&[target.to_str().unwrap()]));
        // The copy may lack the newest.
        ran.ends(if name == "snapshots" { 14 } else { 0 });
        assert!(is_same(&two.machine.source(), &target), "{name}");
    }
}

/// The newest snapshot of the copy was taken for the newest of all, and what is newer was deleted.
#[test]
fn nothing_is_deleted_because_of_the_list_of_a_copy() {
    let two = copied();
    two.machine.write("new", b"new");
    two.machine.backup();
    lost(&two, "snapshots");
    let (source, latest) = (two.machine.source(), two.machine.stored("latest", ""));
    let words = ["restore", &latest, "--copies", &two.second, "--delete", "--target"];
    let ran = two.machine.run(words.iter().chain(&[source.to_str().unwrap()])).ends(14);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    assert_eq!(std::fs::read(source.join("new")).unwrap(), b"new");
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

/// The command that the last line of `said` names, with the names of this test.
fn advised(two: &Two, said: &str) -> Vec<String> {
    let (_, command) = said.trim_end().rsplit_once("icecore ").unwrap();
    let command = command.replace("COPY", &two.second);
    let here = two.machine.path("repository").display().to_string();
    let new = two.machine.path("new").display().to_string();
    let command = command.replace("REPOSITORY", &here).replace("NEW", &new);
    command.split(' ').map(str::to_owned).collect()
}

/// A repair made an empty list, and was content with it.
#[test]
fn where_data_and_list_are_lost_nothing_is_made_of_the_rest() {
    let two = copied();
    lost(&two, "containers");
    lost(&two, "snapshots");
    for words in [&["check", "--repair", "--copies", &two.second][..], &["rebuild"]] {
        let ran = two.machine.run(words).ends(14);
        let words = advised(&two, &ran.stderr);
        assert_eq!(words[0], "copy", "{}", ran.stderr);
        if !two.machine.path("new").exists() {
            two.machine.run(&words).ends(0);
        }
    }
    let mut check = two.machine.command(["check", "--read-data"]);
    let ran = crate::machine::ended(check.env("ICECORE_REPO", two.machine.path("new")));
    assert!(ran.ends(0).text().contains("1 snapshot"), "of the new one");
}

fn chattr(change: &str, files: &[PathBuf]) {
    let ran = std::process::Command::new("chattr").arg(change).args(files).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

/// A rebuild knows only what is left, and a repair looked only for what the index knew.
#[test]
fn what_a_rebuild_did_not_find_comes_back_from_the_copy() {
    let two = copied();
    two.machine.write("more", b"more");
    two.machine.backup();
    two.copy(&[]).ends(0);
    lost(&two, "containers");
    let files = std::fs::read_dir(two.machine.path("repository/snapshots")).unwrap();
    let snapshots: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let ran = two.machine.run(["rebuild"]).ends(14);
    let said = ran.text();
    let line = said.lines().find(|line| line.contains("From a copy: icecore ")).unwrap();
    // Files of locked snapshots cannot be replaced.
    chattr("+i", &snapshots);
    let ran = two.machine.run(advised(&two, line));
    chattr("-i", &snapshots);
    let text = ran.ends(0).text();
    assert!(text.contains("that it lacked, from a copy"), "{text}");
    two.machine.run(["check", "--read-data"]).ends(0);
    let target = two.machine.path("target");
    let from = two.machine.stored("latest", "");
    two.machine.run(["restore", &from, "--target", target.to_str().unwrap()]).ends(0);
    assert!(is_same(&two.machine.source(), &target));
}

/// A repair and a rebuild said the same again.
#[test]
fn lost_keys_come_back_as_the_advice_says() {
    let two = copied();
    lost(&two, "keys");
    let ran = two.machine.run(["check"]).ends(14);
    let words =
        advised(&two, &ran.stderr.replace(". Without one, nobody can open what is stored", ""));
    two.machine.run(&words).ends(0);
    two.machine.run(["check", "--read-data"]).ends(0);
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
