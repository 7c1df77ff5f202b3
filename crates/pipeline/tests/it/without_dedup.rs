//! Repositories without deduplication: no object belongs to two backups.

use crate::interrupted::cancelled_at;
use crate::testkit::build::{noise, set_xattr, small_tree};
use crate::testkit::{
    Heard, PASSWORD, TestFolder, Tree, assert_clean, assert_same, checked, init, init_as,
    leftovers, options, rebuilt, reclaimed, restore_to, snapshot,
};
use pipeline::UnlockedRepository;
use pipeline::backup::{BackupOptions, BackupOutcome, Progress, run_stream};
use pipeline::browse::{diff, find};
use pipeline::copy::{self, CopyOptions};
use pipeline::pages::PageReader;
use pipeline::unlocked::InitOptions;
use repository::Repository;
use repository::local::LocalStorage;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use store::SnapshotRef;

const MIB: usize = 1 << 20;

fn made() -> (TestFolder, UnlockedRepository) {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    folder.write("large", &noise(9, 700_000));
    folder.write("attributed", b"x");
    set_xattr(&folder.source().join("attributed"), "user.large", &noise(4, 3_000));
    let repository =
        init_as(folder.storage(), InitOptions { dedup: false, ..InitOptions::default() });
    (folder, repository)
}

fn containers(folder: &TestFolder) -> BTreeSet<String> {
    folder.files().into_iter().filter(|name| name.starts_with("containers/")).collect()
}

/// A backup, the tree that it saw, and the containers that it wrote.
fn backed_up(
    folder: &TestFolder,
    repository: &UnlockedRepository,
) -> (BackupOutcome, Tree, BTreeSet<String>) {
    let (before, tree) = (containers(folder), folder.state());
    let done = folder.backup(repository);
    let written = containers(folder).difference(&before).cloned().collect();
    (done, tree, written)
}

#[test]
fn each_backup_stores_all_of_its_data_and_needs_no_other() {
    let (folder, repository) = made();
    let (first, _, of_first) = backed_up(&folder, &repository);
    let (second, tree, _) = backed_up(&folder, &repository);
    for done in [&first, &second] {
        assert!(done.report.bytes_transferred > 700_000, "{:#?}", done.report);
        assert!(done.report.adds_up() && done.report.chunks_new > 0, "{:#?}", done.report);
    }
    assert_clean(&repository);
    drop(repository);
    for name in &of_first {
        std::fs::remove_file(folder.repository().join(name)).unwrap();
    }
    let repository = folder.open();
    folder.assert_restores(&repository, second.snapshot, &tree);
    assert!(!checked(&repository).unwrap().damages.is_empty());
}

#[test]
fn what_is_forgotten_goes_with_its_containers_and_nothing_is_moved() {
    let (folder, repository) = made();
    let (first, _, of_first) = backed_up(&folder, &repository);
    let (second, tree, of_second) = backed_up(&folder, &repository);
    repository.forget(&[first.snapshot]).unwrap();
    let report = reclaimed(&repository);
    assert_eq!(report.containers_removed, of_first.len() as u64, "{report:#?}");
    let left = containers(&folder);
    assert!(left.is_superset(&of_second) && left.is_disjoint(&of_first), "{left:?}");
    folder.assert_restores(&repository, second.snapshot, &tree);
    assert_clean(&repository);
}

#[test]
fn an_interrupted_backup_is_gone_on_with() {
    let (folder, repository) = made();
    let (first, ..) = backed_up(&folder, &repository);
    for number in 0..16 {
        folder.write(&format!("files/{number}"), &noise(number, MIB / 2));
    }
    drop(repository);
    let before = folder.bytes();
    cancelled_at(&folder, 4);
    let stored = folder.bytes() - before;
    let repository = folder.open();
    let (next, tree, _) = backed_up(&folder, &repository);
    folder.assert_restores(&repository, next.snapshot, &tree);
    assert_clean(&repository);
    assert_ne!(first.snapshot, next.snapshot);
    let (last, ..) = backed_up(&folder, &repository);
    let [next, whole] = [next, last].map(|done| done.report.bytes_transferred);
    assert!(stored > MIB as u64 && whole > 8 * MIB as u64, "{stored} of {whole}");
    assert!(next < whole - stored + MIB as u64, "{next}, although {stored} of {whole} were there");
}

#[test]
fn only_what_changed_differs_and_versions_are_those_of_the_content() {
    let (folder, repository) = made();
    let (first, ..) = backed_up(&folder, &repository);
    let (second, ..) = backed_up(&folder, &repository);
    folder.write("large", &noise(10, 700_000));
    let (third, ..) = backed_up(&folder, &repository);
    let pages = PageReader::new(&repository).unwrap();
    let named = |done: &BackupOutcome| snapshot(&repository, done.snapshot).unwrap();
    let [first, second, third] = [named(&first), named(&second), named(&third)];
    let paths = |from, to| {
        let mut found = Vec::new();
        diff::run(&pages, (from, to), b"", &mut diff::Unread::default(), |difference| {
            found.push(String::from_utf8_lossy(difference.path()).into_owned());
            Ok(())
        })
        .unwrap();
        found
    };
    assert_eq!(paths(&first, &second), Vec::<String>::new());
    assert_eq!(paths(&second, &third), ["tree/large"]);
    let all = [first, second, third];
    let is_wanted = |entry: &format::entry::Entry| entry.path.starts_with(b"tree/");
    let versions = find::versions(&pages, &all, &is_wanted, &mut Vec::new()).unwrap();
    let of = |path: &[u8]| -> Vec<usize> {
        let found = versions.iter().filter(|version| version.entry.path == path);
        found.map(|version| version.snapshots.len()).collect()
    };
    assert_eq!((of(b"tree/large"), of(b"tree/attributed")), (vec![2, 1], vec![3]));
}

#[test]
fn a_copy_a_rebuilt_index_and_a_second_restore_know_the_objects() {
    let (folder, repository) = made();
    let (done, tree, _) = backed_up(&folder, &repository);
    drop(repository);
    let copied = folder.at("copy");
    std::fs::create_dir(&copied).unwrap();
    let target: Arc<dyn repository::storage::Storage> =
        Arc::new(LocalStorage::create(&copied).unwrap());
    let source = Arc::new(Repository::open(folder.storage()).unwrap());
    let report = copy::run(&source, &target, &CopyOptions::default(), &Progress::default());
    assert_eq!(report.unwrap().snapshots.len(), 1);
    drop(source);
    rebuilt(&folder);
    for repository in [folder.open(), UnlockedRepository::open(target, PASSWORD).unwrap()] {
        folder.assert_restores(&repository, done.snapshot, &tree);
        assert_clean(&repository);
        restores_twice(&folder, &repository, done.snapshot, &tree);
    }
    assert_eq!(leftovers(&folder), Vec::<String>::new());
}

/// What is there already is compared with the ids of the snapshot.
fn restores_twice(
    folder: &TestFolder,
    repository: &UnlockedRepository,
    name: SnapshotRef,
    tree: &Tree,
) {
    let target = tempfile::tempdir_in(folder.temp.path()).unwrap();
    restore_to(repository, name, target.path()).unwrap();
    std::fs::write(target.path().join("tree/large"), noise(1, 700_000)).unwrap();
    let report = restore_to(repository, name, target.path()).unwrap();
    assert!(report.unchanged > 1 && report.failed == 0, "{report:#?}");
    assert_same(tree, &Tree::of(&target.path().join("tree")));
}

#[test]
fn two_streams_share_nothing_but_where_data_is_deduplicated() {
    let bytes = noise(1, MIB);
    let store = |repository: &UnlockedRepository| {
        let (options, heard) = (options(Path::new("/unused")), Heard::default());
        let input = &mut &bytes[..];
        let options: BackupOptions = options;
        let progress = Progress::default();
        run_stream(repository, &options, b"dump", input, &mut || Ok(()), &progress, &heard)
            .unwrap()
            .report
            .bytes_transferred
    };
    let (_folder, apart) = made();
    assert!(store(&apart) > MIB as u64 && store(&apart) > MIB as u64);
    let folder = TestFolder::new();
    let shared = init(folder.storage(), crate::testkit::SMALL_CHUNKS);
    assert!(store(&shared) > MIB as u64 && store(&shared) < MIB as u64 / 2);
}
