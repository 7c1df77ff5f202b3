//! What a check asks for, done step by step, ends in a check without damage.

use crate::testkit::{Heard, TestFolder, options, rebuilt, snapshot, stride};
use capture::walk::SourceRoot;
use pipeline::backup::{self, BackupOptions, Progress};
use pipeline::check::{self, CheckOptions, CheckReport};
use pipeline::reclaim::{self, ReclaimOptions};
use pipeline::{UnlockedRepository, restore};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Rounds of advice that a person may be asked for.
const ROUNDS_MAX: usize = 4;
/// The container of the only backup of `b`.
const OF_B: &str = "containers/00000000/0000000002.ice";

/// Two sources of many small files; of `b` there is one snapshot, whose names lie in one record.
fn lab() -> TestFolder {
    let folder = TestFolder::new();
    for which in ["a", "b"] {
        (0..300)
            .for_each(|number| folder.write(&format!("{which}/file{number}"), which.as_bytes()));
    }
    let repository = folder.init();
    ["a", "b", "a"].iter().for_each(|which| back_up(&folder.source(), &repository, which));
    folder
}

fn back_up(source: &Path, repository: &UnlockedRepository, which: &str) {
    let shown_as = Some(format!("/{which}").into_bytes());
    let root = SourceRoot { source: source.join(which).as_os_str().as_bytes().to_vec(), shown_as };
    let paths = vec![format!("/{which}")];
    let options = BackupOptions { roots: vec![root], paths, ..options(source) };
    backup::run(repository, &options, &Progress::default(), &Heard::default()).unwrap();
}

fn checked(folder: &TestFolder, read_data_percent: Option<f64>) -> CheckReport {
    let options = CheckOptions { read_data_percent, threads: 2, repair: false };
    check::run(&folder.open(), &options, &Progress::default()).unwrap()
}

/// Does what is asked for, as somebody who has only `a` still.
fn follow(folder: &TestFolder, source: &Path, percent: Option<f64>, what: &str) {
    let mut told = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let report = checked(folder, percent);
        if report.damages.is_empty() {
            return;
        }
        if report.needs_rebuild {
            rebuilt(folder);
            back_up(source, &folder.open(), "a");
        } else {
            give_up(&folder.open(), &report);
        }
        told.push(report);
    }
    panic!("no end after {what}: {told:#?}");
}

/// `forget --damaged` and `reclaim --accept-damage`.
fn give_up(repository: &UnlockedRepository, report: &CheckReport) {
    let damaged = report.damaged_snapshots();
    let mut listed = repository.local().unwrap().snapshots().unwrap();
    listed.retain(|name| damaged.contains(&name.id.to_string()));
    if !listed.is_empty() {
        repository.forget(&listed).unwrap();
    }
    let options = ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: true,
        free_interrupted: false,
    };
    reclaim::run(repository, &options).unwrap();
}

/// Every file of every snapshot of `a`.
fn assert_a_restores(folder: &TestFolder, what: &str) {
    let repository = folder.open();
    let names = repository.local().unwrap().snapshots().unwrap();
    let is_of_a = |name: &store::SnapshotRef| {
        snapshot(&repository, *name).unwrap().body.paths == vec!["/a".to_owned()]
    };
    let of_a: Vec<_> = names.into_iter().filter(is_of_a).collect();
    assert!(of_a.len() >= 2, "{what}: {of_a:?}");
    for name in of_a {
        let target = tempfile::tempdir_in(folder.temp.path()).unwrap();
        let done = crate::testkit::restore_with(
            &repository,
            name,
            b"a",
            target.path(),
            &Default::default(),
        );
        let (restore::RestoreReport { failed, .. }, heard) = done.unwrap();
        let files = std::fs::read_dir(target.path()).unwrap().count();
        assert_eq!((failed, files), (0, 300), "{what}: {heard:?}");
    }
}

/// The advice was to rebuild, and after that to rebuild, for ever: the head of the damaged record named what is
/// missing, and no rebuild takes such a record.
#[test]
fn the_advice_ends_wherever_the_only_record_of_a_container_is_damaged() {
    let lab = lab();
    let length = std::fs::metadata(lab.repository().join(OF_B)).unwrap().len();
    for (number, at) in (0..length).step_by(stride(61) as usize).chain([900]).enumerate() {
        let (folder, what) = (lab.copied(), format!("a flip of byte {at} of {length}"));
        let path = folder.repository().join(OF_B);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at as usize] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let percent = [None, Some(100.0)][number % 2];
        follow(&folder, &lab.source(), percent, &what);
        assert_a_restores(&folder, &what);
    }
}
