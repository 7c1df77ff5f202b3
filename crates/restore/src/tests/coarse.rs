//! File systems that keep less than a snapshot has: no times of birth, no modes, times that are less exact.

use crate::testing::*;
use crate::{Overwrite, RestoreOutcome};
use std::fs;
use std::process::Command;

/// An NTFS as a driver in user space mounts it by default: it says that modes are set, and keeps none.
fn ntfs(folder: &TestFolder) -> Option<Mount> {
    let image = folder.folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkntfs").args(["-q", "-F"]).arg(&image).output().ok()?;
    made.status.success().then_some(())?;
    Mount::with("ntfs-3g", &[image.to_str()?], &folder.root())
}

/// A file system that records no times of birth.
fn ramfs(folder: &TestFolder) -> Option<Mount> {
    Mount::make(&["-t", "ramfs", "icecore-test"], &folder.root())
}

/// Restores a file of three names.
fn restore_linked(folder: &TestFolder, mode: u16, content: &[u8]) -> [RestoreOutcome; 3] {
    // The clock that files get their times from.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let target = folder.target(Overwrite::Always);
    let parent = target.parent_of(b"one").unwrap();
    let first = target.small_file(&parent, &sized(file("hard", mode), content), content).unwrap();
    let link = |name: &str| target.hard_link(&parent, &file(name, mode), b"hard").unwrap();
    [first, link("one"), link("third")]
}

fn sized(entry: format::entry::Entry, content: &[u8]) -> format::entry::Entry {
    format::entry::Entry { size: content.len() as u64, ..entry }
}

/// Seen on NTFS: with the first name gone, the change of the file made the others seem new, and they kept the old
/// content.
#[test]
fn all_names_of_a_file_are_replaced_where_no_time_of_birth_is_recorded() {
    let mounts: [fn(&TestFolder) -> Option<Mount>; 2] = [ramfs, ntfs];
    for mount in mounts {
        let folder = TestFolder::new();
        let Some(_mount) = mount(&folder) else {
            testkit::skip("ramfs or ntfs-3g cannot be mounted here");
            continue;
        };
        assert_eq!(restore_linked(&folder, 0o777, b"abc"), [RestoreOutcome::Created; 3]);
        for content in [b"xyz", b"123"] {
            assert_eq!(restore_linked(&folder, 0o777, content), [RestoreOutcome::Replaced; 3]);
            for name in ["hard", "one", "third"] {
                assert_eq!(fs::read(folder.at(name)).unwrap(), content);
                assert_eq!(folder.look(name).stx_ino, folder.look("hard").stx_ino);
            }
        }
    }
}
