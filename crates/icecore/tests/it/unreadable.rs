//! Files of a repository that the disk does not give: a bad sector, or rot below a file system with checksums. They
//! cost what the same files cost with other bytes in them.

use crate::failing_disk::Disk;
use crate::machine::{Machine, ended};
use std::path::PathBuf;

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
