//! What tells that a file is the one that it was: over mounts, restarts, and inodes that are used
//! again.

use crate::testkit::build::noise;
use crate::testkit::forge::{Forge, file, linked};
use crate::testkit::{NAME, TestFolder, restore_to, restore_with};
use crate::volume::Volume;
use format::entry::{Attributes, Entry, Time};
use pipeline::backup::BackupOutcome;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

fn fill(folder: &Path, files: u64) {
    (0..files)
        .for_each(|at| std::fs::write(folder.join(format!("f{at:03}")), noise(at, 300)).unwrap());
}

fn unchanged_of(done: &BackupOutcome) -> (u64, u64) {
    (done.report.objects_unchanged, done.report.bytes_processed)
}

/// A folder whose source has two file systems in it: `m` and `z`.
fn with_two_volumes(outside: &TestFolder) -> Option<(TestFolder, Volume, Volume)> {
    let test_folder = TestFolder::below(outside.temp.path());
    let (m, z) = (test_folder.source().join("m"), test_folder.source().join("z"));
    let (m, z) = (
        Volume::make("ext4", outside.temp.path(), &m)?,
        Volume::make("xfs", outside.temp.path(), &z)?,
    );
    fill(&test_folder.source().join("m"), 40);
    fill(&test_folder.source().join("z"), 40);
    std::fs::hard_link(test_folder.source().join("z/f000"), test_folder.source().join("z/g000"))
        .unwrap();
    Some((test_folder, m, z))
}

#[test]
fn a_mount_that_appears_or_goes_makes_no_other_file_system_be_read_again() {
    let outside = TestFolder::on_disk();
    let Some((test_folder, m, z)) = with_two_volumes(&outside) else { return };
    let repository = test_folder.init();
    let first = test_folder.backup(&repository);
    assert_eq!(
        test_folder.backup(&repository).report.objects_unchanged,
        first.report.objects_inspected
    );

    // A third one, which the walk meets before the others.
    let b = Volume::make("ext4", outside.temp.path(), &test_folder.source().join("b")).unwrap();
    fill(&test_folder.source().join("b"), 5);
    let done = test_folder.backup(&repository);
    assert_eq!(done.report.bytes_processed, 5 * 300, "{:#?}", done.report);
    test_folder.assert_restores(&repository, done.snapshot, &test_folder.state());

    // It goes, and the others come back under other numbers of devices.
    [&b, &m, &z].iter().for_each(|volume| volume.unmount());
    assert!(z.mount() && m.mount());
    let done = test_folder.backup(&repository);
    assert_eq!(unchanged_of(&done).1, 0, "{:#?}", done.report);
    test_folder.assert_restores(&repository, done.snapshot, &test_folder.state());
}

/// A snapshot of a volume has another identity, and the same files: their times of birth say so.
#[test]
fn a_file_system_with_another_identity_and_the_same_files_is_not_read_again() {
    let outside = TestFolder::on_disk();
    let Some((test_folder, m, _z)) = with_two_volumes(&outside) else { return };
    let repository = test_folder.init();
    test_folder.backup(&repository);
    m.unmount();
    m.renew_uuid();
    assert!(m.mount());
    let done = test_folder.backup(&repository);
    assert_eq!(done.report.objects_unchanged, done.report.objects_inspected, "{:#?}", done.report);
    test_folder.assert_restores(&repository, done.snapshot, &test_folder.state());
    assert_eq!(test_folder.backup(&repository).report.bytes_processed, 0);
}

/// Another file system in its place, whose files look alike: inode, size and times are the same.
#[test]
fn another_file_system_in_its_place_is_read() {
    let outside = TestFolder::on_disk();
    let Some((test_folder, m, _z)) = with_two_volumes(&outside) else { return };
    let repository = test_folder.init();
    test_folder.backup(&repository);
    m.unmount();
    drop(m);
    let at = test_folder.source().join("m");
    let _new = Volume::make("ext4", outside.temp.path(), &at).unwrap();
    fill(&at, 40);
    let done = test_folder.backup(&repository);
    assert_eq!(done.report.bytes_processed, 40 * 300, "{:#?}", done.report);
}

fn born(entry: Entry, secs: i64) -> Entry {
    let attributes = Attributes { file_system: 5, ..entry.attributes.as_ref().clone() };
    let birth = Some(Time { secs, nanos: 1 });
    Entry { birth, attributes: Arc::new(attributes), ..entry }
}

/// The second pair has the inode that the first one had when the walk met it.
#[test]
fn two_files_that_had_one_inode_after_the_other_are_not_linked() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    let entries = [("a", "one", 7), ("b", "two", 8), ("c", "one", 7), ("d", "two", 8)]
        .map(|(path, bytes, secs)| born(linked(file(path, bytes.as_bytes()), 66), secs));
    let name = Forge::new(&repository).publish_leaf(&entries);
    let target = test_folder.at("target");
    let (report, heard) =
        restore_with(&repository, name, b"", &target, &Default::default()).unwrap();
    assert_eq!(report.failed, 0, "{heard:?}");
    let inode = |name: &str| std::fs::metadata(target.join(name)).unwrap().ino();
    assert!(inode("a") == inode("c") && inode("b") == inode("d") && inode("a") != inode("b"));
    assert_eq!(std::fs::read(target.join("d")).unwrap(), b"two");
}

/// NTFS-3G has a cache of pages for each name of a file: under one name everybody reads what was there before somebody
/// wrote through another one, until the system needs the memory.
#[test]
fn what_was_written_through_another_name_of_a_file_is_read() {
    let outside = TestFolder::on_disk();
    let test_folder = TestFolder::below(outside.temp.path());
    let source = test_folder.source();
    // What was learned of another file system does not hold for the next one on its device.
    if let Some(_before) = Volume::make("ext4", outside.temp.path(), &source) {
        std::fs::write(source.join("a"), "a").unwrap();
        std::fs::hard_link(source.join("a"), source.join("b")).unwrap();
        test_folder.backup(&TestFolder::new().init());
    }
    let Some(_volume) = Volume::make("ntfs", outside.temp.path(), &source) else { return };
    let small_and_large = [("a", 9000), ("large", 20 << 20)];
    for (name, length) in small_and_large {
        std::fs::write(source.join(name), noise(1, length)).unwrap();
        std::fs::hard_link(source.join(name), source.join(format!("{name}-further"))).unwrap();
    }
    let repository = test_folder.init();
    test_folder.backup(&repository);
    for (name, length) in small_and_large {
        std::fs::read(source.join(name)).unwrap();
        std::fs::write(source.join(format!("{name}-further")), noise(2, length)).unwrap();
    }
    let done = test_folder.backup(&repository);
    let target = tempfile::tempdir_in(outside.temp.path()).unwrap();
    restore_to(&repository, done.snapshot, target.path()).unwrap();
    for (name, length) in small_and_large {
        for name in [name.to_owned(), format!("{name}-further")] {
            let restored = std::fs::read(target.path().join(NAME).join(&name)).unwrap();
            assert!(restored == noise(2, length), "{name} has what was there before");
        }
    }
}
