//! What `check` advises, followed to the letter, ends in a clean `check`: whatever was damaged.

use crate::machine::{Machine, Ran, ended, length, random};
use std::path::PathBuf;

/// Rounds of advice that a person may be asked for.
const ROUNDS_MAX: usize = 4;

/// Three snapshots, the last of which has all that is in the source.
fn lab() -> (Machine, Vec<String>) {
    lab_with(&[])
}

/// The same, made with these options.
fn lab_with(options: &[&str]) -> (Machine, Vec<String>) {
    let machine = Machine::bare();
    machine.run([&["init"], options].concat()).ends(0);
    let bytes = random(9 << 20);
    let mut made = Vec::new();
    for (number, part) in bytes.chunks(3 << 20).enumerate() {
        machine.write(&format!("part{number}"), part);
        machine.write("changes", &part[..1 << 20]);
        made.push(machine.backup());
    }
    (machine, made)
}

fn snapshot_file(machine: &Machine, id: &str) -> PathBuf {
    let mut files = std::fs::read_dir(machine.path("repository/snapshots")).unwrap();
    files
        .find_map(|file| {
            file.ok().map(|it| it.path()).filter(|path| path.to_string_lossy().contains(id))
        })
        .unwrap()
}

/// Writes zeros over a part of a file.
fn zero(file: &PathBuf, from_eighth: usize, to_eighth: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let eighth = length(file) as usize / 8;
    bytes[from_eighth * eighth..to_eighth * eighth].fill(0);
    std::fs::write(file, bytes).unwrap();
}

/// Does what `check` says until it has nothing to say; what it printed.
fn follow(machine: &Machine) -> Vec<String> {
    follow_with(machine, &["check", "--read-data"], &|words| machine.run(words))
}

fn follow_with(machine: &Machine, check: &[&str], run: &dyn Fn(&[&str]) -> Ran) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let ran = run(check);
        told.push(ran.text());
        if ran.code == 0 {
            return told;
        }
        assert_eq!(ran.code, 14, "{told:#?}\n{}", ran.stderr);
        let commands: Vec<_> = ran
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix("  icecore ").map(str::to_owned))
            // That is for who has a copy.
            .filter(|command| !command.ends_with(" REPOSITORY"))
            .collect();
        assert!(!commands.is_empty(), "{told:#?}");
        for command in commands {
            let source = machine.source();
            let words = command.split_whitespace().map(|word| match word {
                "PATH..." => source.to_str().unwrap(),
                word => word,
            });
            let ran = run(&words.collect::<Vec<_>>());
            // Commands that look say what is still damaged.
            let looks = command.starts_with("check") || command.starts_with("rebuild");
            assert!(ran.code == 0 || looks && ran.code == 14, "{command}: {ran:#?}\n{told:#?}");
            told.push(format!("{command}\n{}", ran.text()));
        }
    }
    panic!("no end: {told:#?}");
}

/// Who names a repository gets commands that name it: another one is that of the environment.
#[test]
fn advice_is_for_the_repository_that_was_named() {
    let (machine, made) = lab();
    zero(&snapshot_file(&machine, &made[1]), 2, 6);
    zero(&machine.containers()[0], 3, 4);
    let repository = machine.path("repository");
    let repository = repository.to_str().unwrap();
    let elsewhere =
        |words: &[&str]| ended(machine.command(words).env("ICECORE_REPO", machine.path("another")));
    elsewhere(&["init"]).ends(0);
    let check = ["check", "--read-data", "--repo", repository];
    let told = follow_with(&machine, &check, &elsewhere);
    assert!(told.len() > 2, "{told:#?}");
    let forgotten = elsewhere(&["forget", "latest", "--repo", repository]).ends(0).text();
    assert!(forgotten.contains(&format!("icecore reclaim --repo {repository}")), "{forgotten}");
    let listed = elsewhere(&["snapshots", "--json"]).ends(0).lines();
    assert_eq!(listed.len(), 1, "only the summary: nothing came to the other one: {listed:?}");
}

/// The source can be restored from the newest snapshot.
fn assert_latest_is_whole(machine: &Machine) {
    machine.backup();
    let (stored, target) = (machine.stored("latest", ""), machine.path("target"));
    let restore = ["restore", &stored, "--target", target.to_str().unwrap(), "--verify"];
    machine.run(restore).ends(0);
}

/// A container that was cut short has lost its parity with its end: parity heals nothing, and nobody is sent to it.
#[test]
fn the_advice_after_a_container_was_cut_short_ends_in_a_clean_check_with_parity_too() {
    let (machine, _) = lab_with(&["--parity", "3"]);
    let all = machine.containers();
    let last = all.iter().rev().find(|file| length(file) > 1 << 20).unwrap();
    let file = std::fs::File::options().write(true).open(last).unwrap();
    file.set_len(100_000).unwrap();
    follow(&machine);
    assert_latest_is_whole(&machine);
}

/// Review findings U7, E9: only `reclaim --max-waste 0%` ended in a clean check.
#[test]
fn the_advice_after_rot_in_a_container_ends_in_a_clean_check() {
    let (machine, _) = lab();
    for file in machine.containers().iter().filter(|file| length(file) > 1 << 20) {
        zero(file, 3, 4);
    }
    follow(&machine);
    assert_latest_is_whole(&machine);
}

#[test]
fn the_advice_after_the_loss_of_a_container_ends_in_a_clean_check() {
    let (machine, _) = lab();
    std::fs::remove_file(&machine.containers()[0]).unwrap();
    follow(&machine);
    assert_latest_is_whole(&machine);
}

/// Review finding S6: a snapshot that is damaged in both places could be forgotten by nobody.
#[test]
fn the_advice_for_a_snapshot_that_is_damaged_in_both_places_ends_in_a_clean_check() {
    let (machine, made) = lab();
    zero(&snapshot_file(&machine, &made[1]), 4, 8);
    let large = machine.containers();
    zero(&large[1], 1, 8);
    let told = follow(&machine);
    assert!(told.iter().any(|text| text.contains("forget --damaged")), "{told:#?}");
    assert!(!machine.snapshots().contains(&made[1]));
    assert_latest_is_whole(&machine);
}

#[test]
fn the_advice_where_nothing_of_the_containers_is_left_ends_in_a_clean_check() {
    let (machine, made) = lab();
    for file in machine.containers() {
        zero(&file, 0, 8);
    }
    std::fs::remove_file(machine.source().join("part0")).unwrap();
    follow(&machine);
    assert!(!machine.snapshots().contains(&made[0]), "what cannot be had any more is forgotten");
    assert_latest_is_whole(&machine);
}

/// Seen: each backup ended with "File exists", and no next command.
#[test]
fn the_advice_for_older_files_that_were_copied_over_newer_ones_ends_in_a_clean_check() {
    let machine = Machine::new();
    machine.backup();
    let [place, older] = ["repository", "older"].map(|name| machine.path(name));
    let copy = |from: PathBuf, to: &PathBuf| {
        ended(std::process::Command::new("cp").arg("-aT").args([&from, to])).ends(0);
    };
    copy(place.clone(), &older);
    for name in ["b", "c"] {
        machine.write(name, &random(3 << 20));
        machine.backup();
    }
    let made = machine.snapshots();
    copy(older, &place);
    let refused = machine.run(["backup", machine.source().to_str().unwrap()]).ends(14);
    let said = ["index/state is older than index/run-", "icecore rebuild\n"];
    said.iter().for_each(|text| assert!(refused.stderr.contains(text), "{}", refused.stderr));
    machine.run(["rebuild"]).ends(0);
    machine.backup();
    machine.run(["check", "--read-data"]).ends(0);
    let left = machine.snapshots();
    assert!(made.iter().all(|id| left.contains(id)), "{left:?}");
}

/// Seen: it named another file and no next command.
#[test]
fn a_directory_in_the_place_of_a_file_is_named_and_gone_once_it_is_moved() {
    let machine = Machine::new();
    machine.backup();
    let place = machine.path("repository");
    for name in ["lease", "lock"] {
        std::fs::remove_file(place.join(name)).unwrap();
        std::fs::create_dir(place.join(name)).unwrap();
        let refused = machine.run(["backup", machine.source().to_str().unwrap()]).ends(1);
        let told = format!("{name}: a directory is in its place");
        let hint = format!("Move it out of {}", place.display());
        assert!(refused.stderr.contains(&told), "{}", refused.stderr);
        assert!(refused.stderr.contains(&hint), "{}", refused.stderr);
        std::fs::rename(place.join(name), machine.path(name)).unwrap();
        machine.backup();
        machine.run(["check"]).ends(0);
    }
}

/// `key remove` knew no key whose slot nobody vouches for, and check named no command.
#[test]
fn the_advice_for_a_damaged_key_slot_ends_in_a_clean_check() {
    let machine = Machine::new();
    let slots = || {
        let files = std::fs::read_dir(machine.path("repository/keys")).unwrap();
        let names = files.map(|file| file.unwrap().path());
        names.filter(|path| path.extension().is_none()).collect::<Vec<_>>()
    };
    let first: Vec<_> = slots();
    let file = machine.path("other");
    std::fs::write(&file, "another password").unwrap();
    let add = ["key", "add", "--new-password-file", file.to_str().unwrap(), "--json"];
    let id = machine.run(add).ends(0).last()["key"].as_str().unwrap().to_owned();
    let mut command = machine.command(["backup", machine.source().to_str().unwrap()]);
    crate::machine::ended(command.env("ICECORE_PASSWORD", "another password")).ends(0);
    let signed = machine.snapshots();
    let slot = machine.path("repository/keys").join(&id);
    zero(&slot, 2, 3);
    let listed = machine.run(["key", "list"]).ends(0);
    assert!(listed.stderr.contains(&format!("icecore key remove {id}")), "{}", listed.stderr);
    let told = follow(&machine);
    assert!(told.iter().any(|text| text.contains("a new one (icecore key add)")), "{told:#?}");
    assert!(!slot.exists());
    assert_eq!(slots(), first);
    assert_eq!(machine.snapshots(), signed, "what it signed is good");
    machine.run(["key", "remove", &id]).ends(1);
}

/// Writes zeros over both session records of a container.
fn lose_session_records(file: &PathBuf) {
    const HEADER_BYTES: usize = 64;
    const SESSION_BYTES: usize = 96;
    let mut bytes = std::fs::read(file).unwrap();
    let record = bytes[HEADER_BYTES..HEADER_BYTES + SESSION_BYTES].to_vec();
    assert!(record.starts_with(b"IREC"));
    let found = |bytes: &[u8]| bytes.windows(SESSION_BYTES).position(|part| part == record);
    let mut count = 0;
    while let Some(at) = found(&bytes) {
        bytes[at..at + SESSION_BYTES].fill(0);
        count += 1;
    }
    assert_eq!(count, 2);
    std::fs::write(file, bytes).unwrap();
}

/// Records that nobody can open any more: their checksums are good, and what opens them is gone.
#[test]
fn the_advice_for_a_container_that_lost_what_opens_it_ends_in_a_clean_check() {
    let (machine, made) = lab();
    // The snapshot file of the session has a third copy: with it nothing would be lost.
    machine.run(["forget", &made[0]]).ends(0);
    let first = machine.containers().remove(0);
    lose_session_records(&first);
    let told = follow(&machine);
    assert!(told.iter().any(|text| text.contains("cannot be opened")), "{told:#?}");
    assert!(!first.exists(), "its space came back");
    assert_latest_is_whole(&machine);
}

#[test]
fn what_opens_a_container_is_taken_from_the_snapshot_when_both_session_records_are_lost() {
    let (machine, made) = lab();
    let first = machine.containers().remove(0);
    lose_session_records(&first);
    machine.run(["check", "--read-data"]).ends(14);
    machine.run(["rebuild"]);
    machine.run(["reclaim", "--accept-damage"]).ends(0);
    machine.run(["check", "--read-data"]).ends(0);
    assert!(!first.exists(), "it was written anew");
    assert_eq!(machine.snapshots(), made, "nothing was given up");
    for (number, id) in made.iter().enumerate() {
        let target = machine.path(&format!("target{number}"));
        machine.run(["restore", id, "--target", target.to_str().unwrap(), "--verify"]).ends(0);
    }
}

/// A forgotten snapshot stays forgotten although the container of its tombstone lost its session records.
#[test]
fn a_tombstone_outlives_the_session_records_of_its_container() {
    let (machine, made) = lab();
    machine.run(["forget", &made[1]]).ends(0);
    let tombstone = machine.containers().pop().unwrap();
    assert!(length(&tombstone) < 1 << 20);
    lose_session_records(&tombstone);
    follow(&machine);
    assert!(!tombstone.exists(), "it was written anew");
    machine.run(["rebuild"]).ends(0);
    machine.run(["reclaim", "--max-waste", "0%"]).ends(0);
    machine.run(["rebuild"]).ends(0);
    assert!(!machine.snapshots().contains(&made[1]));
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn reclaim_gives_up_nothing_unless_it_is_told_to_and_nothing_that_a_rebuild_finds() {
    let (machine, made) = lab();
    let (first, aside) = (machine.containers().remove(0), machine.path("aside"));
    std::fs::rename(&first, &aside).unwrap();
    machine.run(["rebuild"]);
    std::fs::rename(&aside, &first).unwrap();
    machine.run(["forget", &made[1]]).ends(0);
    let before = machine.containers();
    assert!(machine.run(["reclaim"]).ends(14).stderr.contains("--accept-damage"));
    let ran = machine.run(["reclaim", "--accept-damage"]).ends(14);
    assert!(ran.stderr.contains("icecore rebuild"), "{}", ran.stderr);
    assert_eq!(machine.containers(), before, "what was there is there");
    machine.run(["rebuild"]).ends(0);
    machine.run(["check", "--read-data"]).ends(0);
    machine.run(["reclaim"]).ends(0);
    assert_eq!(machine.snapshots(), [made[0].as_str(), &made[2]]);
}
