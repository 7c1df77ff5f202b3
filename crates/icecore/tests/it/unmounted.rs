//! A source that is not mounted: its directory is there, and empty.

use crate::full_disk::Small;
use crate::machine::{Machine, Ran, around, ended};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

struct Source {
    machine: Machine,
    disk: Option<Small>,
}

impl Source {
    /// Whether somebody may mount here, as root.
    fn mounted() -> Option<Self> {
        let machine = Machine::new();
        let disk = Small::mount(machine.path("disk"), "4m")?;
        let source = Self { machine, disk: Some(disk) };
        fs::write(source.folder().join("file"), "content").unwrap();
        Some(source)
    }

    fn folder(&self) -> PathBuf {
        self.machine.path("disk")
    }

    fn backup(&self, flags: &[&str]) -> Ran {
        let (disk, beside) = (self.folder(), self.machine.source());
        let words = ["backup", disk.to_str().unwrap(), beside.to_str().unwrap()];
        self.machine.run([&words[..], flags].concat())
    }
}

#[test]
fn a_source_that_is_not_mounted_pushes_no_good_backup_out() {
    let Some(mut source) = Source::mounted() else { return };
    source.backup(&[]).ends(0);
    let good = source.machine.snapshots();
    source.disk = None;
    assert!(source.folder().is_dir());
    // Also the second time, when the last backup has no files either.
    for flags in [&["--dry-run"][..], &[], &[], &["--quiet"]] {
        let ran = source.backup(flags);
        let said = format!("cannot find the files of {}: it is empty", source.folder().display());
        let is_told = ran.stderr.contains(&said) || flags == ["--dry-run"];
        assert!(is_told && ran.stderr.contains("is it mounted?"), "{ran:?}");
        ran.ends(3);
    }
    source.machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert!(source.machine.snapshots().contains(&good[0]), "the newest complete one stays");
    // Mounted again: a disk of its own kind, as after a start of the machine.
    source.disk = Small::mount(source.folder(), "4m");
    fs::write(source.folder().join("file"), "content").unwrap();
    source.backup(&[]).ends(0);
}

/// With `table` in the place of the machine's table of file systems.
fn with_table(machine: &Machine, table: &str, words: &[&str]) -> Ran {
    let file = machine.path("fstab");
    fs::write(&file, table).unwrap();
    let command = machine.command(words);
    let mut shell = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/fstab && exec \"$@\"";
    shell.args(["--mount", "sh", "-c", script]).arg(file);
    shell.arg(command.get_program()).args(command.get_args());
    ended(&mut around(shell, &command))
}

/// Docs: `docs/GUIDE-ONE-MACHINE.md`, the repository.
#[test]
fn what_should_be_mounted_inside_a_source_and_is_not_pushes_no_good_backup_out() {
    let machine = Machine::new();
    let disk = machine.source().join("disk");
    let Some(mounted) = Small::mount(disk.clone(), "4m") else { return };
    fs::write(disk.join("file"), "content").unwrap();
    let table = format!("/dev/none {} ext4 nofail\n", disk.display());
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap()];
    with_table(&machine, &table, &words).ends(0);
    let good = machine.snapshots();
    drop(mounted);
    // Also the second time, when the last backup has no files either.
    for _ in 0..2 {
        let ran = with_table(&machine, &table, &words);
        let said = format!("cannot find the files of {}: it is empty", disk.display());
        assert!(ran.stderr.contains(&said), "{ran:?}");
        ran.ends(3);
    }
    machine.run(["forget", "--keep-last", "1"]).ends(0);
    assert!(machine.snapshots().contains(&good[0]), "the newest complete one stays");
    // It is mounted again, and nothing in there is wanted.
    let all = format!("{}/*", disk.display());
    let flags: [&[&str]; 2] = [&["--exclude", &all], &["--one-file-system"]];
    for flags in flags {
        let mounted = Small::mount(disk.clone(), "4m");
        fs::write(disk.join("file"), "content").unwrap();
        with_table(&machine, &table, &[&words[..], flags].concat()).ends(0);
        with_table(&machine, &table, &words).ends(0);
        drop(mounted);
        with_table(&machine, &table, &words).ends(3);
    }
    // Nobody wants anything there any more: it is backed up as it is.
    with_table(&machine, "", &words).ends(0);
}

/// Docs: `docs/GUIDE-ONE-MACHINE.md`, the repository.
#[test]
fn a_disk_that_was_mounted_by_hand_inside_a_source_is_missed_once() {
    let machine = Machine::new();
    let disk = machine.source().join("disk");
    let Some(mounted) = Small::mount(disk.clone(), "4m") else { return };
    fs::create_dir(disk.join("inner")).unwrap();
    let inner = Small::mount(disk.join("inner"), "4m").unwrap();
    fs::write(disk.join("inner/file"), "content").unwrap();
    fs::write(disk.join("file"), "content").unwrap();
    let source = machine.source();
    let backup = || machine.run(["backup", source.to_str().unwrap()]);
    backup().ends(0);
    let misses = |path: PathBuf| {
        let ran = backup();
        let said = format!("cannot find the files of {}: it is empty", path.display());
        assert!(ran.stderr.contains(&said), "{ran:?}");
        assert_eq!(ran.stderr.matches("cannot find the files").count(), 1, "{ran:?}");
        ran.ends(3);
        // Whoever wants it so has it so.
        backup().ends(0);
    };
    drop(inner);
    misses(disk.join("inner"));
    drop(mounted);
    misses(disk);
}

/// The directories of a disk that takes the place of another one are as empty as they are.
#[test]
fn a_disk_that_is_another_one_may_have_empty_directories() {
    let Some(mut source) = Source::mounted() else { return };
    let directory = source.folder().join("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), "content").unwrap();
    source.backup(&[]).ends(0);
    source.disk = None;
    source.disk = Small::mount(source.folder(), "4m");
    fs::create_dir(&directory).unwrap();
    source.backup(&[]).ends(0);
}

/// What an automounter serves is of a file system of the kernel while nothing is mounted. This stands for it.
///
/// Docs: `docs/GUIDE-ONE-MACHINE.md`, what is backed up.
#[test]
fn what_an_automounter_has_not_mounted_is_told() {
    let machine = Machine::new();
    let disk = machine.source().join("disk");
    let Some(mounted) = Small::mount(disk.clone(), "4m") else { return };
    fs::write(disk.join("file"), "content").unwrap();
    let source = machine.source();
    let backup = || machine.run(["backup", source.to_str().unwrap()]);
    backup().ends(0);
    drop(mounted);
    let run = |program: &str, words: &[&str]| {
        let status = Command::new(program).args(words).arg(&disk).status();
        assert!(status.is_ok_and(|status| status.success()), "{program}");
    };
    run("mount", &["-t", "proc", "none"]);
    let ran = [backup(), backup()];
    run("umount", &[]);
    for ran in ran {
        let said = format!("cannot find the files of {}: it is empty", disk.display());
        assert!(ran.stderr.contains(&said), "{ran:?}");
        ran.ends(3);
    }
    let _mounted = Small::mount(disk.clone(), "4m");
    fs::write(disk.join("file"), "content").unwrap();
    backup().ends(0);
}

#[test]
fn a_directory_that_somebody_emptied_is_backed_up_as_it_is() {
    let Some(mut source) = Source::mounted() else { return };
    source.backup(&[]).ends(0);
    fs::remove_file(source.folder().join("file")).unwrap();
    source.backup(&[]).ends(0);
    // It was empty before: nothing is missed.
    source.disk = None;
    source.backup(&[]).ends(0);
    fs::write(source.folder().join("new"), "content").unwrap();
    source.backup(&[]).ends(0);
    // Files of another file system: they moved.
    source.disk = Small::mount(source.folder(), "4m");
    fs::write(source.folder().join("new"), "content").unwrap();
    source.backup(&[]).ends(0);
}
