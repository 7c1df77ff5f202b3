//! A repository on a file system that was mounted, or became, read-only. Needs root; is skipped without, and said so.

use crate::full_disk::Small;
use crate::machine::{Machine, ended};
use std::process::Command;

/// The permissions were to be looked at, which were as they should be.
#[test]
fn who_writes_to_a_read_only_mount_is_told_which_and_what_to_do() {
    let machine = Machine::bare();
    let mount = machine.path("mount");
    let Some(_disk) = Small::mount(mount.clone(), "32m") else { return };
    let [repository, copy] = ["repository", "copy"].map(|name| mount.join("disk").join(name));
    std::fs::create_dir(mount.join("disk")).unwrap();
    let run = |words: &[&str]| ended(machine.command(words).env("ICECORE_REPO", &repository));
    let (source, copy) = (machine.source(), copy.to_str().unwrap());
    let backup = ["backup", source.to_str().unwrap()];
    run(&["init"]).ends(0);
    run(&backup).ends(0);
    run(&["copy", "--to", copy]).ends(0);
    let [new, other] = ["new", "other"].map(|name| mount.join(name));
    let writes: [&[&str]; 8] = [
        &backup,
        &["forget", "latest"],
        &["reclaim"],
        &["check", "--repair"],
        &["rebuild"],
        &["copy", "--to", copy],
        &["copy", "--to", new.to_str().unwrap()],
        &["init", "--repo", other.to_str().unwrap()],
    ];
    let remount = |how: &str| {
        let mut command = Command::new("mount");
        ended(command.args(["-o", &format!("remount,{how}")]).arg(&mount)).ends(0);
    };
    for words in writes {
        remount("ro");
        let told = run(words).ends(13).stderr;
        assert!(told.contains(&format!("mounted at {} is read-only", mount.display())), "{told}");
        assert!(!told.contains("permissions"), "{told}");
        let advised = told.split_once("fixed: ").unwrap().1.split_once(". ").unwrap().0;
        let mut mend = advised.split(' ');
        ended(Command::new(mend.next().unwrap()).args(mend)).ends(0);
        run(words).ends(0);
    }
    remount("ro");
    for words in [&["check"][..], &["snapshots"], &["forget", "--keep-last", "1", "-n"]] {
        run(words).ends(0);
    }
    remount("rw");
}
