//! A source that is not mounted: its directory is there, and empty.

use crate::full_disk::Small;
use crate::machine::{Machine, Ran};
use std::fs;
use std::path::PathBuf;

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
