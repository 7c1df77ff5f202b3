//! Files of a repository that the disk does not give: a bad sector, or rot below a file system with checksums. They
//! cost what the same files cost with other bytes in them.

use crate::failing_disk::Disk;
use crate::machine::{Machine, around, ended};
use std::path::{Path, PathBuf};
use std::process::Command;

const OPTIONS: &str = "loop,max_inline=0";

/// Names of the files of the repository in `directory`.
fn names(machine: &Machine, directory: &str) -> Vec<String> {
    let listed = std::fs::read_dir(machine.path("repository").join(directory)).unwrap();
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = listed.map(|entry| name(entry.unwrap().path())).collect();
    names.sort();
    names
}

/// Seen: one such file of a key locked out every password, one of a snapshot kept all sources from being restored, and
/// the lease stopped every backup for good. None of the printed advice helped.
#[test]
fn what_the_disk_does_not_give_costs_no_more_than_what_rots() {
    let machine = Machine::bare();
    let Some(disk) = Disk::mount_as(&machine, ["mkfs.btrfs", "-q", "-f"], OPTIONS) else { return };
    machine.run(["init"]).ends(0);
    machine.backup();
    let before = names(&machine, "snapshots");
    let other = machine.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("file"), "of another source").unwrap();
    machine.run(["backup", other.to_str().unwrap()]).ends(0);
    let keys = names(&machine, "keys");
    machine.run(["key", "recovery"]).ends(0);
    let restored = |what: &str, code| {
        let target = machine.path(what);
        let path = machine.source();
        let words = ["restore", "latest", "--path", path.to_str().unwrap(), "--target"];
        machine.run(words.iter().copied().chain([target.to_str().unwrap()])).ends(code);
        assert!(target.join(path.strip_prefix("/").unwrap()).join("hello.txt").exists());
    };

    let all = names(&machine, "keys");
    let key = all.iter().find(|name| !keys.contains(name)).unwrap();
    disk.rots(&machine, &format!("keys/{key}"), OPTIONS);
    restored("without a key", 0);
    let told = machine.run(["check"]).ends(14);
    assert!(told.text().contains(&format!("icecore key remove {key}")), "{}", told.text());
    machine.run(["key", "remove", key]).ends(0);
    machine.run(["check"]).ends(0);

    let known = names(&machine, "keys");
    machine.run(["key", "recovery"]).ends(0);
    let lost = names(&machine, "keys").into_iter().find(|name| !known.contains(name)).unwrap();
    std::fs::remove_file(machine.path("repository/keys").join(&lost)).unwrap();
    for words in [&["check"][..], &["key", "list"]] {
        let told = machine.run(words).ends(0);
        let said = told.stderr.clone() + &told.text();
        assert!(said.contains(&format!("key {lost}")) && said.contains("has no file"), "{said}");
    }
    machine.run(["key", "remove", &lost]).ends(0);
    assert!(!machine.run(["check"]).ends(0).text().contains(&lost));

    let snapshots = names(&machine, "snapshots");
    let snapshot = snapshots.iter().find(|name| !before.contains(name)).unwrap();
    disk.rots(&machine, &format!("snapshots/{snapshot}"), OPTIONS);
    // Of which source the other one was, nobody knows.
    restored("without a snapshot", 14);
    machine.run(["check"]).ends(14);
    machine.run(["rebuild"]).ends(0);
    machine.run(["check", "--read-data"]).ends(0);
    let path = other.to_str().unwrap();
    machine
        .run(["restore", "latest", "--path", path, "--target", machine.path("o").to_str().unwrap()])
        .ends(0);

    disk.rots(&machine, "lease", OPTIONS);
    machine.backup();
    disk.rots(&machine, "index/state", OPTIONS);
    rebuilds(&machine, &["restore", "latest", "--target", machine.path("t").to_str().unwrap()]);
    for run in names(&machine, "index").iter().filter(|name| name.starts_with("run")) {
        disk.rots(&machine, &format!("index/{run}"), OPTIONS);
    }
    rebuilds(&machine, &["check", "--read-data"]);
    restored("in the end", 0);
}

/// The advice of the command helps.
fn rebuilds(machine: &Machine, words: &[&str]) {
    let told = ended(&mut machine.command(words)).ends(14);
    let said = told.stderr.clone() + &told.text();
    assert!(said.contains("icecore rebuild"), "{said}");
    machine.run(["rebuild"]).ends(0);
    machine.run(words).ends(0);
}

/// Files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    listed.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Seen: every command waited for ever for whoever would write into it, a server's for all nodes of a domain.
#[test]
fn nothing_waits_for_a_pipe_in_the_place_of_a_file() {
    let machine = Machine::new();
    machine.backup();
    let source = machine.source();
    let commands: [&[&str]; 3] =
        [&["snapshots"], &["check", "--read-data"], &["backup", source.to_str().unwrap()]];
    let (repository, whole) = (machine.path("repository"), machine.path("whole"));
    std::fs::rename(&repository, &whole).unwrap();
    for file in files(&whole) {
        ended(Command::new("cp").arg("-a").arg(&whole).arg(&repository)).ends(0);
        let place = repository.join(file.strip_prefix(&whole).unwrap());
        std::fs::remove_file(&place).unwrap();
        ended(Command::new("mkfifo").arg(&place)).ends(0);
        for words in commands {
            let mut limited = Command::new("timeout");
            limited.args(["--signal=KILL", "60", env!("CARGO_BIN_EXE_icecore")]).args(words);
            let ran = ended(&mut around(limited, &machine.command(words)));
            // 137: it was killed, since it waited.
            let is_told = [0, 1, 3, 12, 13, 14].contains(&ran.code);
            let said = ran.text() + &ran.stderr;
            assert!(is_told, "{}: {words:?}: {} {said}", place.display(), ran.code);
        }
        std::fs::remove_dir_all(&repository).unwrap();
    }
}
