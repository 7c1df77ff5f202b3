//! Messages that named the wrong thing, or advised what does not help.

use crate::machine::{Machine, ended};
use std::fs;

#[test]
fn a_copy_names_the_copy_where_that_is_what_cannot_be_used() {
    let machine = Machine::new();
    machine.backup();
    let copy = machine.path("copy");
    let words = ["copy", "--to", copy.to_str().unwrap()];
    fs::create_dir(&copy).unwrap();
    machine.run(words).ends(0);
    for name in ["config", "config.copy"] {
        fs::write(copy.join(name), "x").unwrap();
    }
    let said = machine.run(words).ends(14).stderr;
    let is_named = said.contains(&format!("the copy in {}: ", copy.display()));
    assert!(is_named && said.contains(&format!("{}/config", copy.display())), "{said}");
}

#[test]
fn a_path_at_home_is_one_wherever_it_is_written() {
    let machine = Machine::new();
    machine.backup();
    fs::rename(machine.path("repository"), machine.path("home-repository")).unwrap();
    let config = machine.path("home/.config/icecore");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "repo = \"~/../home-repository\"\n").unwrap();
    let mut command = machine.command(["snapshots", "--json"]);
    command.env_remove("ICECORE_REPO").env_remove("XDG_CONFIG_HOME");
    command.env("HOME", machine.path("home"));
    ended(&mut command).ends(0);
    let mut command = machine.command(["snapshots"]);
    command.env("ICECORE_REPO", "~/../home-repository").env("HOME", machine.path("home"));
    ended(&mut command).ends(0);
}

/// A timer would have been green for ever.
#[test]
fn a_file_without_a_policy_for_this_machine_is_a_mistake() {
    let machine = Machine::new();
    let file = machine.path("empty.toml");
    fs::write(&file, "").unwrap();
    let refused = machine.run(["run", file.to_str().unwrap()]).ends(2).stderr;
    assert!(refused.contains("no policy in") && refused.contains("docs/SITE.md"), "{refused}");
}

/// To advise what has just failed helps nobody.
#[test]
fn where_no_directory_can_be_made_there_is_no_repository_to_create_either() {
    let machine = Machine::new();
    let refused = machine.run(["init", "--repo", "/proc/none/x"]).ends(1).stderr;
    assert!(refused.contains("cannot create the directory /proc/none/x: "), "{refused}");
    assert!(!refused.contains("icecore init"), "{refused}");
}

#[test]
fn a_repository_that_is_deleted_during_a_backup_is_said_to_be_gone() {
    let machine = Machine::new();
    machine.write("large", &crate::machine::random(4 << 20));
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap(), "--limit-read", "2M"];
    let mut child = machine.command(words);
    let child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    let containers = machine.path("repository/containers");
    let is_begun = || fs::read_dir(&containers).is_ok_and(|names| names.count() > 0);
    crate::waiting::found("container", || is_begun().then_some(()).ok_or_else(|| "none".into()));
    fs::remove_dir_all(machine.path("repository")).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!([10, 16].contains(&output.status.code().unwrap()), "{said}");
    assert!(!said.contains("nobody took over"), "{said}");
}

#[test]
fn snapshots_whose_files_are_lost_are_told_by_the_verdict() {
    let machine = Machine::new();
    machine.backup();
    machine.write("more", b"more");
    machine.backup();
    for file in fs::read_dir(machine.path("repository/snapshots")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let said = machine.run(["snapshots"]).ends(0).text();
    assert!(said.contains("If there were some: icecore check"), "{said}");
    // The newest may be of a backup that did not end. Nobody can have lost the other one in this way.
    let said = machine.run(["check"]).ends(14).text();
    assert!(said.contains("is missing and nobody forgot it"), "{said}");
    assert!(said.contains("the next backup, or the next copy, lists it"), "{said}");
    machine.backup();
    assert_eq!(machine.snapshots().len(), 2, "the one that was pending, and the new one");
    machine.run(["check"]).ends(14);
    machine.run(["rebuild"]).ends(0);
    assert_eq!(machine.snapshots().len(), 3);
    assert!(machine.run(["check"]).ends(0).text().starts_with("No damage found ("));
}

#[test]
fn a_newest_snapshot_that_lost_its_file_is_listed_again_by_the_next_backup() {
    let machine = Machine::new();
    machine.backup();
    let id = machine.snapshots()[0].clone();
    let file = fs::read_dir(machine.path("repository/snapshots")).unwrap().next().unwrap();
    fs::remove_file(file.unwrap().path()).unwrap();
    let said = machine.run(["check"]).ends(0).text();
    assert!(
        said.contains("1 snapshot is complete but not listed: the next backup lists it"),
        "{said}"
    );
    machine.backup();
    assert_eq!(machine.snapshots().len(), 2);
    assert!(machine.snapshots().contains(&id));
    machine.run(["check"]).ends(0);
}

#[test]
fn a_newest_snapshot_that_was_forgotten_does_not_come_back() {
    let machine = Machine::new();
    machine.backup();
    machine.write("more", b"more");
    machine.backup();
    let newest = machine.snapshots().pop().unwrap();
    machine.run(["forget", &newest]).ends(0);
    machine.backup();
    assert!(!machine.snapshots().contains(&newest));
    machine.run(["check"]).ends(0);
}

#[test]
fn a_directory_that_is_missing_is_damage_and_the_advice_brings_back_what_is_left() {
    for directory in ["snapshots", "keys", "containers"] {
        let machine = Machine::new();
        machine.backup();
        let lost = machine.path(&format!("repository/{directory}"));
        fs::rename(&lost, machine.path("away")).unwrap();
        for command in ["check", "snapshots"] {
            let said = machine.run([command]);
            assert!(said.code == 14 || directory == "containers", "{directory}: {}", said.stderr);
        }
        let told = machine.run(["check"]).ends(14).stderr;
        if directory == "snapshots" {
            assert!(told.contains("icecore rebuild"), "{told}");
            machine.run(["rebuild"]).ends(0);
        } else {
            fs::rename(machine.path("away"), &lost).unwrap();
        }
        machine.run(["check"]).ends(0);
        assert_eq!(machine.snapshots().len(), 1);
    }
}
