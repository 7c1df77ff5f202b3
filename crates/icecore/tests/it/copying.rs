//! `icecore copy`: a second place that is a repository of its own.

mod advised;
mod directories;
mod keys;

use crate::full_disk::Small;
use crate::machine::{Machine, PASSWORD, Ran, ended, random};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::s3::Gateway;

/// A machine with a repository and a place for a copy.
struct Two {
    machine: Machine,
    second: String,
}

impl Two {
    fn new() -> Self {
        let machine = Machine::new();
        let second = machine.path("second").to_str().unwrap().to_owned();
        Self { machine, second }
    }

    /// `icecore copy` as somebody types it who knows no password.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.machine.command(["copy", "--to", &self.second]);
        command.args(flags).env_remove("ICECORE_PASSWORD").envs(Gateway::shared().variables());
        command
    }

    fn copy(&self, flags: &[&str]) -> Ran {
        ended(&mut self.command(flags))
    }

    /// A command on the copy.
    fn on_copy(&self, arguments: &[&str]) -> Ran {
        let mut command = self.machine.command(arguments);
        command.env("ICECORE_REPO", &self.second).envs(Gateway::shared().variables());
        ended(&mut command)
    }

    fn snapshots(&self) -> Vec<String> {
        let lines = self.on_copy(&["snapshots", "--json"]).ends(0).lines();
        lines.iter().filter_map(|line| line["snapshot_id"].as_str().map(str::to_owned)).collect()
    }

    /// Restores `snapshot` from the copy; it has to be as the source is now.
    fn restores(&self, snapshot: &str) {
        let target = self.machine.path("target");
        let _ = std::fs::remove_dir_all(&target);
        let source = self.machine.stored(snapshot, "");
        self.on_copy(&["restore", &source, "--target", target.to_str().unwrap()]).ends(0);
        assert!(is_same(&self.machine.source(), &target), "{snapshot}");
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    Command::new("diff").arg("-r").arg(one).arg(other).status().unwrap().success()
}

#[test]
fn a_copy_restores_everything_after_the_first_place_is_gone_and_makes_it_again() {
    let two = Two::new();
    two.machine.write("large", &random(5 << 20));
    let first = two.machine.backup();
    two.machine.write("large", &random(3 << 20));
    two.machine.write("more", b"more");
    let plan = two.copy(&["--dry-run"]).ends(10);
    assert!(plan.stderr.contains("mkdir"), "{}", plan.stderr);
    let told = two.copy(&["--json"]).ends(0).last();
    assert_eq!(
        (told["created"].as_bool(), told["snapshots"][0].as_str()),
        (Some(true), Some(&first[..]))
    );
    let second = two.machine.backup();
    let plan = two.copy(&["--dry-run", "--json"]).ends(0).last();
    assert_eq!(plan["snapshots"][0], second, "{plan}");
    let told = two.copy(&["--json"]).ends(0).last();
    assert_eq!((&told["bytes"], &told["objects"]), (&plan["bytes"], &plan["objects"]));
    assert!(told["bytes"].as_u64().unwrap() < 4 << 20, "only what is new: {told}");
    let nothing = two.copy(&[]).ends(0);
    assert!(nothing.text().contains("Nothing to copy"), "{}", nothing.text());
    std::fs::remove_dir_all(two.machine.path("repository")).unwrap();
    assert_eq!(two.snapshots(), [first.as_str(), &second]);
    two.on_copy(&["check", "--read-data"]).ends(0);
    two.restores(&second);
    let first_place = two.machine.path("repository");
    let mut back = two.machine.command(["copy", "--repo", &two.second, "--to"]);
    ended(back.arg(&first_place).env_remove("ICECORE_PASSWORD")).ends(0);
    assert_eq!(two.machine.snapshots(), [first, second]);
    two.machine.run(["check", "--read-data"]).ends(0);
    two.machine.backup();
}

#[test]
fn a_copy_has_its_own_retention() {
    let two = Two::new();
    let first = two.machine.backup();
    two.machine.write("more", &random(1 << 20));
    let second = two.machine.backup();
    two.copy(&[]).ends(0);
    two.on_copy(&["forget", &first]).ends(0);
    two.on_copy(&["reclaim", "--max-waste", "0%"]).ends(0);
    let told = two.copy(&["--json"]).ends(0).last();
    assert_eq!((&told["forgotten_there"], &told["present"]), (&1.into(), &1.into()), "{told}");
    assert_eq!(two.snapshots(), [second.as_str()], "what was forgotten there stays so");
    two.machine.run(["forget", &second]).ends(0);
    two.machine.run(["reclaim", "--max-waste", "0%"]).ends(0);
    two.copy(&[]).ends(0);
    assert_eq!(two.snapshots(), [second.as_str()], "and what was forgotten here stays there");
    two.copy(&["--again"]).ends(0);
    assert_eq!(two.snapshots(), [first, second]);
    two.on_copy(&["check", "--read-data"]).ends(0);
}

#[test]
fn chosen_snapshots_make_a_repository_that_is_whole() {
    let two = Two::new();
    two.machine.backup();
    two.machine.write("more", b"1");
    let kept = two.machine.backup_with(&["--tag", "monthly"]);
    two.machine.write("more", b"2");
    let last = two.machine.backup();
    let refused = two.copy(&["--tag", "monthly"]);
    assert_ne!(refused.code, 0, "tags are sealed");
    let mut chosen = two.command(&["--tag", "monthly"]);
    ended(chosen.env("ICECORE_PASSWORD", PASSWORD)).ends(0);
    assert_eq!(two.snapshots(), [kept.as_str()]);
    let checked = two.on_copy(&["check", "--read-data"]).ends(0);
    assert!(!checked.text().contains("missing"), "{}", checked.text());
    two.copy(&[&last[..8]]).ends(0);
    assert_eq!(two.snapshots(), [kept, last.clone()]);
    two.on_copy(&["check", "--read-data"]).ends(0);
    two.restores(&last);
}

#[test]
fn another_repository_and_the_same_place_are_refused() {
    let two = Two::new();
    two.machine.backup();
    two.on_copy(&["init"]).ends(0);
    let refused = two.copy(&[]).ends(2);
    assert!(refused.stderr.contains("another repository"), "{}", refused.stderr);
    let itself = two.machine.path("repository");
    ended(&mut two.machine.command(["copy", "--to", itself.to_str().unwrap()])).ends(2);
}

#[test]
fn keys_follow_and_those_that_were_removed_go() {
    let two = Two::new();
    two.machine.backup();
    two.copy(&[]).ends(0);
    std::fs::write(two.machine.path("other"), "another password").unwrap();
    let other = two.machine.path("other");
    let added =
        two.machine.run(["key", "add", "--new-password-file", other.to_str().unwrap(), "--json"]);
    let key = added.ends(0).last()["key"].as_str().unwrap().to_owned();
    two.copy(&[]).ends(0);
    let with = |code: i32| {
        let mut list = two.machine.command(["snapshots", "--repo", &two.second]);
        ended(list.env("ICECORE_PASSWORD", "another password")).ends(code);
    };
    with(0);
    two.machine.run(["key", "remove", &key]).ends(0);
    two.copy(&[]).ends(0);
    with(12);
    two.on_copy(&["check"]).ends(0);
}

#[test]
fn a_copy_that_is_killed_goes_on() {
    let two = Two::new();
    two.machine.write("large", &random(300 << 20));
    let snapshot = two.machine.backup();
    let mut killed = two.command(&[]).stdout(Stdio::null()).spawn().unwrap();
    let containers = two.machine.path("second/containers");
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(20));
        if size(&containers) > 150 << 20 {
            break;
        }
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let told = two.copy(&["--json"]).ends(0).last();
    assert!(told["bytes"].as_u64().unwrap() < 250 << 20, "it goes on: {told}");
    assert_eq!(two.snapshots(), [snapshot.as_str()]);
    two.restores(&snapshot);
    two.on_copy(&["check", "--read-data"]).ends(0);
}

fn size(folder: &Path) -> u64 {
    let Ok(names) = std::fs::read_dir(folder) else { return 0 };
    let size = |path: &Path| {
        if path.is_dir() { size(path) } else { path.metadata().map_or(0, |it| it.len()) }
    };
    names.map(|name| size(&name.unwrap().path())).sum()
}

#[test]
fn damage_is_told_and_costs_only_the_snapshots_that_need_it() {
    let two = Two::new();
    // What the good ones need lies in another container, wherever workers put it.
    let first = two.machine.backup();
    two.machine.write("large", &random(9 << 20));
    let damaged = two.machine.backup();
    std::fs::remove_file(two.machine.source().join("large")).unwrap();
    let good = two.machine.backup();
    damage(&two.machine);
    let told = two.copy(&[]).ends(14);
    assert!(told.stderr.contains(&damaged[..8]), "{}", told.stderr);
    assert_eq!(two.snapshots(), [first.as_str(), good.as_str()]);
    two.on_copy(&["check", "--read-data"]).ends(0);
    two.copy(&["--accept-damage"]).ends(14);
    assert_eq!(two.snapshots(), [first, damaged, good]);
}

#[test]
fn a_bucket_takes_a_copy_and_gives_it_back() {
    let mut two = Two::new();
    two.machine.write("large", &random(3 << 20));
    let first = two.machine.backup();
    two.second = format!("s3://{}/some/copy", Gateway::shared().bucket());
    two.copy(&[]).ends(0);
    two.machine.write("more", b"more");
    let second = two.machine.backup();
    two.copy(&[]).ends(0);
    std::fs::remove_dir_all(two.machine.path("repository")).unwrap();
    assert_eq!(two.snapshots(), [first, second.clone()]);
    two.restores(&second);
    two.on_copy(&["check", "--read-data"]).ends(0);
    let mut back = two.machine.command(["copy", "--repo", &two.second, "--to"]);
    back.arg(two.machine.path("third")).envs(Gateway::shared().variables());
    ended(&mut back).ends(0);
    two.second = two.machine.path("third").to_str().unwrap().to_owned();
    two.restores(&second);
}

/// Flips a bit of the container that is larger than 1 MiB.
fn damage(machine: &Machine) {
    let container = machine.container_over(1 << 20);
    let mut bytes = std::fs::read(&container).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(container, bytes).unwrap();
}

impl Two {
    /// A command on the first place, which knows its copy from the config file.
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.machine.command(arguments);
        ended(command.env("ICECORE_COPIES", &self.second))
    }

    /// Restores `snapshot` from the first place, whatever it has lost.
    fn restores_from_both(&self, snapshot: &str) -> Ran {
        let target = self.machine.path("target");
        let _ = std::fs::remove_dir_all(&target);
        let source = self.machine.stored(snapshot, "");
        let ran = self.run(&["restore", &source, "--target", target.to_str().unwrap()]).ends(0);
        assert!(is_same(&self.machine.source(), &target), "{snapshot}");
        ran
    }
}

#[test]
fn what_the_first_place_has_lost_is_read_from_the_copy_and_repaired() {
    let two = Two::new();
    let content = random(2 << 20);
    two.machine.write("large", &content);
    let snapshot = two.machine.backup();
    two.copy(&[]).ends(0);
    let whole = two.restores_from_both(&snapshot);
    assert!(!whole.stderr.contains("copy"), "nothing is lost: {}", whole.stderr);
    damage(&two.machine);
    let advice = two.machine.run(["check", "--read-data"]).ends(14).text();
    assert!(advice.contains("icecore check --repair --copies REPOSITORY\n"), "{advice}");
    let ran = two.restores_from_both(&snapshot);
    assert!(ran.stderr.contains("from the copy"), "{}", ran.stderr);
    let ran = two.run(&["cat", &two.machine.stored(&snapshot, "large")]).ends(0);
    assert_eq!(ran.stdout, content);
    std::fs::remove_file(two.machine.container_over(1 << 20)).unwrap();
    two.restores_from_both(&snapshot);
    let advice = two.run(&["check", "--read-data"]).ends(14).text();
    assert!(
        advice.contains("Repair from the copies first:\n  icecore check --repair\n"),
        "{advice}"
    );
    let repaired = two.run(&["check", "--repair"]).ends(0);
    assert!(repaired.text().contains("repaired"), "{}", repaired.text());
    two.machine.run(["check", "--read-data"]).ends(0);
    two.machine.run(["rebuild"]).ends(0);
    assert_eq!(two.machine.snapshots(), [snapshot.as_str()]);
    let whole = two.restores_from_both(&snapshot);
    assert!(!whole.stderr.contains("copy"), "nothing is lost any more: {}", whole.stderr);
}

/// The file of the password that is used.
fn damage_key(machine: &Machine) {
    let mut files = std::fs::read_dir(machine.path("repository/keys")).unwrap();
    let is_slot = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.len() == 16);
    let slot = files.find_map(|file| file.ok().map(|it| it.path()).filter(is_slot)).unwrap();
    let mut bytes = std::fs::read(&slot).unwrap();
    bytes[40] ^= 0x55;
    std::fs::write(slot, bytes).unwrap();
}

#[test]
fn a_key_whose_file_is_damaged_comes_from_the_copy_and_goes_into_none_unsaid() {
    let two = Two::new();
    let snapshot = two.machine.backup();
    two.copy(&[]).ends(0);
    damage_key(&two.machine);
    let told = two.machine.run(["snapshots"]).ends(14).stderr;
    assert!(told.contains("icecore copy --repo COPY --to REPOSITORY"), "{told}");
    let third = two.machine.path("third");
    let told = two.machine.run(["copy", "--to", third.to_str().unwrap()]).ends(14).stderr;
    assert!(told.contains("has no file in the copy"), "{told}");
    let ran = two.restores_from_both(&snapshot);
    assert!(ran.stderr.contains("reading from the copy"), "{}", ran.stderr);
    let back = [
        "copy",
        "--repo",
        &two.second,
        "--to",
        &two.machine.path("repository").display().to_string(),
    ];
    two.machine.run(back).ends(0);
    two.machine.run(["check"]).ends(0);
    two.machine.run(["copy", "--to", third.to_str().unwrap()]).ends(0);
}

#[test]
fn the_copy_stands_in_for_a_first_place_that_does_not_open() {
    let two = Two::new();
    let snapshot = two.machine.backup();
    two.copy(&[]).ends(0);
    let repository = two.machine.path("repository");
    for run in std::fs::read_dir(repository.join("index")).unwrap() {
        std::fs::write(run.unwrap().path(), b"damaged").unwrap();
    }
    let ran = two.restores_from_both(&snapshot);
    assert!(ran.stderr.contains("from the copy"), "{}", ran.stderr);
    std::fs::remove_dir_all(&repository).unwrap();
    two.restores_from_both(&snapshot);
    let ran = two.run(&["ls", &snapshot]).ends(0);
    assert!(ran.text().contains("hello.txt"), "{}", ran.text());
    let other = Machine::new();
    let mut wrong = other.command(["snapshots", "--copies", &two.second]);
    ended(&mut wrong).ends(0);
}

#[test]
fn a_copy_onto_a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let two = Two::new();
    let Some(disk) = Small::mount(two.machine.path("second"), "16m") else { return };
    let first = two.machine.backup();
    two.copy(&[]).ends(0);
    two.machine.write("more", &random(24 << 20));
    let second = two.machine.backup();
    for _ in 0..2 {
        let ran = two.copy(&[]).ends(15);
        assert!(ran.stderr.contains("space"), "{}", ran.stderr);
    }
    assert_eq!(two.snapshots(), [first.as_str()]);
    two.on_copy(&["check", "--read-data"]).ends(0);
    disk.grow("64m");
    two.copy(&[]).ends(0);
    assert_eq!(two.snapshots(), [first, second.clone()]);
    two.restores(&second);
    drop(disk);
}

/// Seen: a copy of what had gone on from an older copy got two snapshots of one number, and a node could list none of
/// them any more.
#[test]
fn places_that_went_on_apart_are_not_mixed_and_both_can_be_restored() {
    let machine = Machine::new();
    let [old, new] = ["old", "new"].map(|name| machine.path(name).to_str().unwrap().to_owned());
    let repository = machine.path("repository");
    machine.backup();
    machine.run(["copy", "--to", &old]).ends(0);
    machine.write("second", b"of the first history");
    let second = machine.backup();
    machine.run(["copy", "--to", &new]).ends(0);
    std::fs::remove_dir_all(&repository).unwrap();
    let back = ["copy", "--repo", &old, "--to", repository.to_str().unwrap()];
    machine.run(back).ends(0);
    machine.write("second", b"of the other one");
    let other = machine.backup();
    for words in [
        &["copy", "--to", &new][..],
        &["copy", "--to", &new, "--dry-run"],
        &["copy", "--repo", &new, "--to", repository.to_str().unwrap()],
    ] {
        let refused = machine.run(words).ends(1);
        for said in [&second, &other, "the snapshot number 2", "icecore copy", "--to OTHER-PLACE"] {
            assert!(refused.stderr.contains(said), "{words:?}: {}", refused.stderr);
        }
    }
    for (place, id) in [(new.as_str(), &second), (repository.to_str().unwrap(), &other)] {
        machine.run(["check", "--read-data", "--repo", place]).ends(0);
        machine.run(["cat", &machine.stored(id, "second"), "--repo", place]).ends(0);
    }
    let third = machine.path("third");
    machine.run(["copy", "--to", third.to_str().unwrap()]).ends(0);
}

/// What the message says to do ends it.
#[test]
fn a_tag_in_the_copy_and_a_backup_in_the_first_place_wait_for_a_decision() {
    let machine = Machine::new();
    let second = machine.path("second").to_str().unwrap().to_owned();
    let first = machine.backup();
    machine.run(["copy", "--to", &second]).ends(0);
    machine.run(["tag", "add", &first, "x", "--repo", &second]).ends(0);
    let tagged = machine.run(["snapshots", "--repo", &second, "--json"]).ends(0).lines();
    let tagged = tagged.iter().find(|line| line["message_type"] == "snapshot").unwrap();
    let tagged = tagged["snapshot_id"].as_str().unwrap();
    machine.write("more", b"more");
    let next = machine.backup();
    let refused = machine.run(["copy", "--to", &second]).ends(1).stderr;
    assert!(refused.contains(tagged) && refused.contains(&next), "{refused}");
    assert!(refused.contains("icecore forget SNAPSHOT --repo PLACE"), "{refused}");
    machine.run(["forget", tagged, "--repo", &second]).ends(0);
    machine.run(["copy", "--to", &second]).ends(0);
    machine.run(["cat", &machine.stored(&next, "more"), "--repo", &second]).ends(0);
}
