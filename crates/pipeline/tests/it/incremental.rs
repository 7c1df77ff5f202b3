//! The second backup and all after it.

use crate::testkit::build::{noise, set_mtime, small_tree, write};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{Heard, NAME, PASSWORD, TestFolder, Tree, assert_clean, snapshot};
use pipeline::backup::{BackupOptions, BackupOutcome, Progress};
use pipeline::report::BackupReport;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn begin() -> (TestFolder, pipeline::UnlockedRepository, BackupOutcome) {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    let first = folder.backup(&repository);
    (folder, repository, first)
}

fn root_of(repository: &pipeline::UnlockedRepository, done: &BackupOutcome) -> ids::ObjectId {
    snapshot(repository, done.snapshot).unwrap().head.root
}

/// Backed up, updated, unchanged, expired.
fn counts(report: &BackupReport) -> [u64; 4] {
    [
        report.objects_backed_up,
        report.objects_updated,
        report.objects_unchanged,
        report.objects_expired,
    ]
}

#[test]
fn nothing_changed_means_nothing_is_read_and_the_tree_is_the_same() {
    let (folder, repository, first) = begin();
    let again = folder.backup(&repository);
    assert_eq!(counts(&again.report), [0, 0, first.report.objects_inspected, 0]);
    assert_eq!(again.report.bytes_processed, 0);
    assert!(again.report.bytes_transferred < 4096, "{:#?}", again.report);
    assert_eq!(root_of(&repository, &again), root_of(&repository, &first));
}

#[test]
fn a_full_backup_of_the_same_files_makes_the_same_tree() {
    let (folder, repository, first) = begin();
    let options = BackupOptions { full: true, ..folder.options() };
    let full =
        pipeline::backup::run(&repository, &options, &Progress::default(), &Heard::default())
            .unwrap();
    assert!(full.report.adds_up());
    assert_eq!(full.report.objects_unchanged, 0);
    assert_eq!(full.report.chunks_new, 0);
    assert_eq!(root_of(&repository, &full), root_of(&repository, &first));
}

/// The last entry of the first page that ends within `dir`.
fn end_of_a_page(repository: &pipeline::UnlockedRepository, done: &BackupOutcome) -> String {
    let head = snapshot(repository, done.snapshot).unwrap().head;
    let pages = pipeline::pages::PageReader::new(repository).unwrap();
    let mut cursor = tree::Cursor::new(&pages, head.root, head.level);
    let mut entries = Vec::new();
    while cursor.next_leaf(&mut entries).unwrap().is_some() {
        let last = String::from_utf8(entries.last().unwrap().path.clone()).unwrap();
        if let Some(file) = last.strip_prefix(&format!("{NAME}/"))
            && file.contains("/of")
        {
            return file.to_owned();
        }
    }
    panic!("no page ends at a file");
}

/// What made the page before end where it did is gone: no page begins there any more.
#[test]
fn an_unchanged_page_behind_one_that_lost_its_end_is_put_together_anew() {
    let folder = TestFolder::new();
    (0..6_000).for_each(|n| folder.write(&format!("dir{}/of{n}", n / 50), b""));
    let repository = folder.init();
    let first = folder.backup(&repository);
    let all = first.report.objects_inspected;
    std::fs::remove_file(folder.source().join(end_of_a_page(&repository, &first))).unwrap();
    let state = folder.state();
    let second = folder.backup(&repository);
    assert_eq!(counts(&second.report), [0, 1, all - 2, 1]);
    folder.assert_restores(&repository, second.snapshot, &state);
    let full = BackupOptions { full: true, ..folder.options() };
    let full = pipeline::backup::run(&repository, &full, &Progress::default(), &Heard::default());
    assert_eq!(root_of(&repository, &full.unwrap()), root_of(&repository, &second));
}

#[test]
fn every_kind_of_change_is_seen_and_counted() {
    let (folder, repository, first) = begin();
    let at = |name: &str| folder.source().join(name);
    let all = first.report.objects_inspected;
    let see = |what: &str, change: &dyn Fn(), expected: [u64; 3]| {
        change();
        let before = folder.state();
        let done = folder.backup(&repository);
        let [backed_up, updated, _, expired] = counts(&done.report);
        assert_eq!([backed_up, updated, expired], expected, "{what}: {:#?}", done.report);
        folder.assert_restores(&repository, done.snapshot, &before);
    };
    // A directory whose mtime moved is an object whose attributes changed.
    see("touch", &|| set_mtime(&at("dir0/file0"), 1_234_567_890, 1), [0, 1, 0]);
    see(
        "chmod",
        &|| std::fs::set_permissions(at("dir0/file0"), PermissionsExt::from_mode(0o600)).unwrap(),
        [0, 1, 0],
    );
    see("modify", &|| write(&folder.source(), "dir0/file0", &noise(7, 3_000)), [1, 0, 0]);
    see(
        "same size and mtime, other content",
        &|| {
            let mtime = std::fs::metadata(at("dir0/file0")).unwrap().modified().unwrap();
            write(&folder.source(), "dir0/file0", &noise(8, 3_000));
            std::fs::File::open(at("dir0/file0")).unwrap().set_modified(mtime).unwrap();
        },
        [1, 0, 0],
    );
    see("add", &|| write(&folder.source(), "dir0/new", b"new"), [1, 1, 0]);
    see("rename", &|| std::fs::rename(at("dir0/new"), at("dir0/renamed")).unwrap(), [1, 1, 1]);
    see("delete", &|| std::fs::remove_file(at("dir0/renamed")).unwrap(), [0, 1, 1]);
    see(
        "kind",
        &|| {
            std::fs::remove_file(at("tiny")).unwrap();
            std::fs::create_dir(at("tiny")).unwrap();
        },
        [1, 1, 0],
    );
    see("xattr", &|| crate::testkit::build::set_xattr(&at("empty"), "user.x", b"y"), [0, 1, 0]);
    let last = folder.backup(&repository);
    assert_eq!(counts(&last.report), [0, 0, all, 0]);
    assert_clean(&repository);
}

#[test]
fn a_name_more_of_a_file_and_a_name_less_are_seen() {
    let (folder, repository, _) = begin();
    let at = |name: &str| folder.source().join(name);
    std::fs::hard_link(at("dir2/file2"), at("dir2/again")).unwrap();
    let before = folder.state();
    folder.assert_restores(&repository, folder.backup(&repository).snapshot, &before);
    std::fs::remove_file(at("dir2/file2")).unwrap();
    let before = folder.state();
    folder.assert_restores(&repository, folder.backup(&repository).snapshot, &before);
}

#[test]
fn a_young_file_is_read_again_next_time_whatever_its_times_say() {
    let (folder, repository, _) = begin();
    let options = BackupOptions { read: Default::default(), ..folder.options() };
    let run = || {
        pipeline::backup::run(&repository, &options, &Progress::default(), &Heard::default())
            .unwrap()
    };
    folder.write("young", b"more bytes than what lies in an entry by itself: 48 of them");
    run();
    let second = run();
    assert!(second.report.adds_up());
    assert!(second.report.bytes_processed > 0, "{:#?}", second.report);
    assert_eq!(second.report.chunks_new, 0);
}

#[test]
fn sources_of_other_paths_do_not_disturb_each_other() {
    let (folder, repository, first) = begin();
    let other = BackupOptions { paths: vec!["/other".into()], ..folder.options() };
    let done = pipeline::backup::run(&repository, &other, &Progress::default(), &Heard::default())
        .unwrap();
    assert_eq!(done.report.objects_unchanged, 0, "another source has no snapshot before");
    assert_eq!(done.report.chunks_new, 0);
    let again = folder.backup(&repository);
    assert_eq!(again.report.objects_unchanged, first.report.objects_inspected);
}

#[test]
fn a_dry_run_changes_nothing_and_counts_the_same() {
    let (folder, repository, _) = begin();
    folder.write("dir0/file0", b"other");
    let before = folder.files();
    let mut would = Vec::new();
    let report =
        pipeline::backup::dry_run(&repository, &folder.options(), &Heard::default(), |entry| {
            would.push((entry.path.clone(), entry.size))
        })
        .unwrap();
    assert_eq!(folder.files(), before);
    assert!(report.adds_up(), "{report:#?}");
    assert!(would.contains(&(format!("{NAME}/dir0/file0").into_bytes(), 5)), "{would:?}");
    let done = folder.backup(&repository);
    assert_eq!(done.report.objects_unchanged, report.objects_unchanged);
}

/// One change of a tree; names are drawn from few, so that changes meet.
#[derive(Clone, Debug)]
enum Change {
    Write(u8, u16),
    Append(u8),
    Remove(u8),
    Rename(u8, u8),
    Directory(u8),
    Symlink(u8),
    Link(u8, u8),
    Mode(u8, u16),
    Touch(u8, i32),
}

fn change() -> impl Strategy<Value = Change> {
    use Change::*;
    let name = 0..40u8;
    prop_oneof![
        4 => (name.clone(), any::<u16>()).prop_map(|(n, size)| Write(n, size)),
        1 => name.clone().prop_map(Append),
        2 => name.clone().prop_map(Remove),
        2 => (name.clone(), name.clone()).prop_map(|(a, b)| Rename(a, b)),
        2 => name.clone().prop_map(Directory),
        1 => name.clone().prop_map(Symlink),
        2 => (name.clone(), name.clone()).prop_map(|(a, b)| Link(a, b)),
        1 => (name.clone(), 0o400..0o7777u16).prop_map(|(n, mode)| Mode(n, mode)),
        1 => (name, any::<i32>()).prop_map(|(n, secs)| Touch(n, secs)),
    ]
}

/// `3`, `3/4`, `3/4/5`: what is a directory in one state is a file in another.
fn path_of(root: &Path, name: u8) -> std::path::PathBuf {
    match name {
        0..8 => root.join(name.to_string()),
        8..24 => root.join((name % 4).to_string()).join((name / 4).to_string()),
        _ => root.join((name % 3).to_string()).join((name % 2).to_string()).join(name.to_string()),
    }
}

/// What does not fit the tree as it is does nothing.
fn apply(root: &Path, change: &Change, seed: u64) {
    let at = |name: &u8| path_of(root, *name);
    let _ = match change {
        Change::Write(name, size) => std::fs::write(at(name), noise(seed, *size as usize)),
        Change::Append(name) => std::fs::read(at(name)).and_then(|mut bytes| {
            bytes.extend(noise(seed, 100));
            std::fs::write(at(name), bytes)
        }),
        Change::Remove(name) => {
            std::fs::remove_dir_all(at(name)).or_else(|_| std::fs::remove_file(at(name)))
        }
        Change::Rename(from, to) => std::fs::rename(at(from), at(to)),
        Change::Directory(name) => std::fs::create_dir_all(at(name)),
        Change::Symlink(name) => std::os::unix::fs::symlink(format!("to {name}"), at(name)),
        Change::Link(from, to) => std::fs::hard_link(at(from), at(to)),
        Change::Mode(name, mode) => match std::fs::symlink_metadata(at(name)) {
            Ok(found) if !found.is_symlink() => std::fs::set_permissions(
                at(name),
                PermissionsExt::from_mode(u32::from(*mode) | 0o700),
            ),
            _ => Ok(()),
        },
        Change::Touch(name, secs) => {
            if std::fs::symlink_metadata(at(name)).is_ok() {
                set_mtime(&at(name), i64::from(*secs), i64::from(seed as u32 % 1_000_000_000));
            }
            Ok(())
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_one_of_four_snapshots_restores_as_the_tree_was(
        rounds in prop::collection::vec(prop::collection::vec(change(), 0..25), 4),
    ) {
        let folder = TestFolder::new();
        let repository = folder.init();
        let mut model: Vec<(store::SnapshotRef, Tree)> = Vec::new();
        for (round, changes) in rounds.iter().enumerate() {
            for (number, change) in changes.iter().enumerate() {
                apply(&folder.source(), change, (round * 1000 + number) as u64);
            }
            let before = folder.state();
            let done = folder.backup(&repository);
            prop_assert_eq!(done.report.objects_inspected as usize, before.0.len());
            model.push((done.snapshot, before));
        }
        for (name, tree) in &model {
            folder.assert_restores(&repository, *name, tree);
        }
        assert_clean(&repository);
    }
}

/// Else a thousand nodes of one repository read all its snapshots a thousand times, each night.
#[test]
fn a_snapshot_is_read_once_to_find_of_which_source_it_is() {
    let (folder, repository, first) = begin();
    let later = folder.backup(&repository).snapshot;
    let own = snapshot(&repository, later).unwrap().head.source;
    let root = root_of(&repository, &first);
    let plan = Plan::none();
    let repository = pipeline::UnlockedRepository::open(
        FaultyStorage::new(&folder.repository(), &plan),
        PASSWORD,
    )
    .unwrap();
    let reads = || {
        let calls = plan.calls().into_iter();
        calls.filter(|call| call.verb == "open" && call.name.starts_with("snapshots/")).count()
    };
    let newest =
        |source| repository.store.latest_snapshot(&source).unwrap().map(|stored| stored.name);
    // No source has the name of a page.
    assert_eq!((newest(root), reads()), (None, 2));
    assert_eq!((newest(root), reads()), (None, 2));
    assert_eq!((newest(own), reads()), (Some(later), 3));
    // What comes later is seen.
    let last = folder.backup(&folder.open()).snapshot;
    assert_eq!((newest(own), reads()), (Some(last), 4));
    assert_eq!((newest(root), reads()), (None, 5));
}
