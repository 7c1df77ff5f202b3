//! Backups that end in the middle.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{
    Heard, PASSWORD, TestFolder, assert_clean, copy_tree, leftovers, reclaimed, reclaimed_with,
};
use pipeline::backup::{self, BackupOptions, Progress, TransactionLimits};
use pipeline::{Error, UnlockedRepository};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

/// 24 MiB that do not compress, in files of all sizes, one of them large.
fn source(folder: &TestFolder) {
    for number in 0..16 {
        folder.write(&format!("files/{number}"), &noise(number, MIB / 2));
    }
    folder.write("large", &noise(99, 16 * MIB));
}

/// Cancels at the write number `at` of a backup.
pub(crate) fn cancelled_at(folder: &TestFolder, at: usize) {
    let progress = Arc::new(Progress::default());
    let (mut appends, cancel) = (0, progress.clone());
    let plan = Plan::watched(Box::new(move |call| {
        appends += usize::from(call.verb == "append" && call.name.ends_with(".part"));
        if appends == at {
            cancel.cancel.store(true, Ordering::Relaxed);
        }
    }));
    let repository =
        UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
            .unwrap();
    let ended = backup::run(&repository, &folder.options(), &progress, &Heard::default());
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
}

#[test]
fn a_cancelled_backup_publishes_nothing_and_costs_nothing_twice() {
    let folder = TestFolder::new();
    source(&folder);
    drop(folder.init());
    cancelled_at(&folder, 8);
    let repository = folder.open();
    assert!(repository.local().unwrap().snapshots().unwrap().is_empty());
    let stored = folder.bytes();
    assert!(stored > 6 * MIB as u64, "{stored}");
    let tree = folder.state();
    let done = folder.backup(&repository);
    let rest = (24 * MIB as u64).saturating_sub(stored) + MIB as u64;
    assert!(
        done.report.bytes_transferred <= rest,
        "{stored} were stored, {} sent again",
        done.report.bytes_transferred
    );
    folder.assert_restores(&repository, done.snapshot, &tree);
    assert_eq!(leftovers(&folder), Vec::<String>::new());
    assert_clean(&repository);
}

#[test]
fn the_same_process_goes_on_after_a_cancelled_backup() {
    let folder = TestFolder::new();
    source(&folder);
    let repository = folder.init();
    let progress = Progress::default();
    progress.cancel.store(true, Ordering::Relaxed);
    let ended = backup::run(&repository, &folder.options(), &progress, &Heard::default());
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    let tree = folder.state();
    let done = folder.backup(&repository);
    folder.assert_restores(&repository, done.snapshot, &tree);
    assert_eq!(leftovers(&folder), Vec::<String>::new());
    assert_clean(&repository);
}

#[test]
fn cancelled_many_times_it_comes_to_its_end() {
    let folder = TestFolder::new();
    source(&folder);
    drop(folder.init());
    for _ in 0..4 {
        cancelled_at(&folder, 4);
        assert_clean(&folder.open());
    }
    let done = folder.backup(&folder.open());
    assert!(done.report.bytes_transferred < 20 * MIB as u64, "{:#?}", done.report);
    assert_clean(&folder.open());
    assert_eq!(leftovers(&folder), Vec::<String>::new());
}

/// A reclaim after a backup was cancelled leaves what it stored to its next run, or takes it away when it is told to.
#[test]
fn reclaim_after_a_cancelled_backup_leaves_what_it_stored_or_gives_its_space_back() {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    let tree = folder.state();
    let first = folder.backup(&repository);
    drop(repository);
    let before = folder.bytes();
    folder.write("large", &noise(5, 8 * MIB));
    cancelled_at(&folder, 2);
    let left = reclaimed(&folder.open());
    assert!(
        left.bytes_interrupted > MIB as u64 && folder.bytes() > before + MIB as u64,
        "{left:?}"
    );
    let freed = reclaimed_with(&folder.open(), true);
    assert!(freed.bytes_freed > MIB as u64 && freed.bytes_interrupted == 0, "{freed:?}");
    assert!(
        folder.bytes() < before + 100_000,
        "{} after {before}: {:?}",
        folder.bytes(),
        folder.files()
    );
    folder.assert_restores(&folder.open(), first.snapshot, &tree);
    assert_clean(&folder.open());
}

/// A first backup that takes days is interrupted each night, and a reclaim runs: it makes progress all the same.
#[test]
fn a_first_backup_that_is_interrupted_each_night_by_a_reclaim_comes_to_its_end() {
    let folder = TestFolder::new();
    source(&folder);
    drop(folder.init());
    let mut stored = folder.bytes();
    for night in 0..5 {
        cancelled_at(&folder, 3);
        reclaimed(&folder.open());
        assert!(folder.bytes() >= stored, "night {night}: {} after {stored}", folder.bytes());
        stored = folder.bytes();
    }
    let tree = folder.state();
    let done = folder.backup(&folder.open());
    let rest = (24 * MIB as u64).saturating_sub(stored) + MIB as u64;
    assert!(done.report.bytes_transferred <= rest, "{stored} were stored: {:#?}", done.report);
    folder.assert_restores(&folder.open(), done.snapshot, &tree);
    assert_clean(&folder.open());
}

/// How often a backup with these limits replaces the state of the index.
fn states_written(limits: TransactionLimits) -> usize {
    let folder = TestFolder::new();
    source(&folder);
    drop(folder.init());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let plan = Plan::watched(Box::new(move |call| {
        let is_state = call.verb == "put" && call.name == "index/state";
        counted.fetch_add(usize::from(is_state), Ordering::Relaxed);
    }));
    let repository =
        UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
            .unwrap();
    let options = BackupOptions { checkpoint_after: limits, ..folder.options() };
    backup::run(&repository, &options, &Progress::default(), &Heard::default()).unwrap();
    assert_clean(&folder.open());
    count.load(Ordering::Relaxed)
}

#[test]
fn a_backup_makes_checkpoints_after_so_many_bytes_and_objects() {
    let none = states_written(TransactionLimits::default());
    let bytes = states_written(TransactionLimits { bytes: 4 * MIB as u64, objects: 0 });
    assert!(bytes >= none + 3, "{none} and {bytes}");
    let objects = states_written(TransactionLimits { bytes: 0, objects: 1 });
    assert!(objects > none, "{none} and {objects}");
}

/// The repository as it is at any moment of a backup is what a power cut may leave.
#[test]
fn a_copy_taken_while_a_backup_runs_is_a_sound_repository() {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    drop(folder.init());
    let first = folder.backup(&folder.open());
    let tree = folder.state();
    for number in 0..12 {
        folder.write(&format!("more/{number}"), &noise(number, 300_000));
    }
    let (from, to) = (folder.repository(), folder.at("images"));
    let (mut calls, images) = (0u32, to.clone());
    let plan = Plan::watched(Box::new(move |call| {
        calls += u32::from(!matches!(call.verb, "read" | "length" | "open"));
        if calls % 5 == 0 {
            copy_tree(&from, &images.join(format!("{calls:03}/repository")));
        }
    }));
    folder.backup(
        &UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
            .unwrap(),
    );
    let now = folder.state();
    let images: Vec<_> =
        std::fs::read_dir(&to).unwrap().map(|image| image.unwrap().path()).collect();
    assert!(images.len() > 3, "{}", images.len());
    for image in images {
        let copy = TestFolder::new();
        copy_tree(&image.join("repository"), &copy.repository());
        let repository = copy.open();
        assert_clean(&repository);
        folder.assert_restores(&repository, first.snapshot, &tree);
        let done = folder.backup(&repository);
        folder.assert_restores(&repository, done.snapshot, &now);
        assert_clean(&repository);
        assert_eq!(leftovers(&copy), Vec::<String>::new(), "{}", image.display());
    }
}
