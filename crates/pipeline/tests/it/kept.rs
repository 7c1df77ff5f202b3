//! File systems that take what is set and keep something else, or nothing.

use crate::testkit::{NAME, TestFolder, restore_with};
use crate::volume::Volume;
use pipeline::restore::RestoreOptions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const FILES: u64 = 100;
const SECS: u64 = 1_700_000_000;

fn fill(source: &Path) {
    for number in 0..FILES {
        let path = source.join(format!("f{number:03}"));
        std::fs::write(&path, "text").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(SECS + number, 123_456_789)).unwrap();
    }
}

/// Restores 100 files to `at`. What was complained about, and how many attributes of objects were not restored.
fn restored_to(folder: &TestFolder, at: &Path) -> (Vec<String>, u64) {
    fill(&folder.source());
    let repository = folder.init();
    let done = folder.backup(&repository);
    let options = RestoreOptions::default();
    let (report, heard) = restore_with(&repository, done.snapshot, b"", at, &options).unwrap();
    (heard, report.degraded)
}

/// NTFS-3G has tenths of a microsecond, and without its options neither modes nor owners.
#[test]
fn what_the_file_system_does_not_keep_is_said_once_for_all_objects() {
    let outside = TestFolder::on_disk();
    let at = outside.at("ntfs");
    let Some(_volume) = Volume::make("ntfs", outside.temp.path(), &at) else { return };
    let (heard, degraded) = restored_to(&outside, &at);
    let said = |what: &str| heard.iter().filter(|line| line.contains(what)).count();
    assert_eq!(said("modes not restored: 101, the first of"), 1, "{heard:?}");
    assert_eq!(said("differ by less than a second: "), 1, "{heard:?}");
    assert_eq!((heard.len(), degraded), (2, 101), "a rounded time is no failure: {heard:?}");
    let last = at.join(NAME).join("f099").metadata().unwrap();
    assert_eq!((last.mtime(), last.mtime_nsec()), (SECS as i64 + 99, 123_456_700));
}

/// File systems on libfuse 2 set no time at all if they are to leave the other one alone.
#[test]
fn times_are_set_where_only_both_can_be() {
    let outside = TestFolder::on_disk();
    let (below, at) = (outside.at("below"), outside.at("bindfs"));
    for folder in [&below, &at] {
        std::fs::create_dir(folder).unwrap();
    }
    let mut mount = std::process::Command::new("bindfs");
    if !mount.args([&below, &at]).status().is_ok_and(|status| status.success()) {
        return testkit::skip("needs bindfs and FUSE");
    }
    let (heard, degraded) = restored_to(&outside, &at);
    let times: Vec<_> = (0..FILES)
        .map(|number| at.join(NAME).join(format!("f{number:03}")).metadata().unwrap())
        .map(|file| (file.mtime(), file.mtime_nsec()))
        .collect();
    assert!(
        std::process::Command::new("umount").arg("--lazy").arg(&at).status().unwrap().success()
    );
    let expected: Vec<_> = (0..FILES).map(|number| ((SECS + number) as i64, 123_456_789)).collect();
    assert!(times == expected, "{times:?}");
    assert_eq!((heard, degraded), (vec![], 0));
}
