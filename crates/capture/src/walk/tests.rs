//! Tests of the whole walk on real trees.

use super::schedule::LOOKAHEAD;
use super::*;
use crate::testing::{WalkResult, bytes, fast_folder, is_root, remove_deep, walk_folder};
use format::entry::{Kind, compare_paths};
use rustix::fs::{FileType, Mode, OFlags, mkdirat, mknodat, openat};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn assert_in_order(result: &WalkResult) {
    for pair in result.paths.windows(2) {
        assert!(compare_paths(&pair[0], &pair[1]).is_lt(), "{:?}", pair);
    }
}

pub(super) fn make(folder: &Path, names: &[&[u8]]) {
    for name in names {
        let path =
            folder.join(std::ffi::OsStr::from_bytes(name.strip_suffix(b"/").unwrap_or(name)));
        if name.ends_with(b"/") {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }
}

#[test]
fn not_one_name_is_missed_and_all_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let long = [b'n'; 255];
    let names: &[&[u8]] = &[
        b"a/b",
        b"a/c/d",
        b"a-b",
        b"a.b",
        b"a!/x",
        b"a b",
        b"a\n",
        b"\x01\x02",
        b"\xff\xfe/\x80",
        b"\xc3\xa9",
        b"aa/",
        b"a0/z",
        b"...",
        b"-rf",
        b"*",
        b"empty/",
        &long,
    ];
    make(folder.path(), names);
    for threads in [1, 2, 5] {
        let result = walk_folder(folder.path(), WalkOptions { threads, ..WalkOptions::default() });
        assert_in_order(&result);
        assert!(result.problems.is_empty());
        let below =
            result.paths.len() - bytes(folder.path()).iter().filter(|byte| **byte == b'/').count();
        assert_eq!(below, names.len() + 5); // a, a/c, a!, a0, \xff\xfe are directories besides
    }
}

#[test]
fn a_tree_deeper_than_any_path_is_walked() {
    let folder = tempfile::tempdir().unwrap();
    let mut here = rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..3000 {
        mkdirat(&here, c"dd", Mode::RWXU).unwrap();
        openat(&here, c"e", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        here = openat(&here, c"dd", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let result = walk_folder(folder.path(), WalkOptions::default());
    assert_eq!(result.problems.len(), 0);
    assert_eq!(result.below(folder.path()).len(), 6000);
    assert_in_order(&result);
    let (directory, name) = result.objects.last().unwrap(); // topmost "e", long evicted
    openat(&*directory.handle().unwrap(), name, OFlags::RDONLY, Mode::empty()).unwrap();
    remove_deep(folder.path());
}

#[test]
fn a_huge_directory_does_not_fill_the_memory() {
    const FILES: usize = 200_000;
    let folder = fast_folder();
    let handle = rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for number in 0..FILES {
        let name = CString::new(format!("{number}")).unwrap();
        mknodat(&handle, &*name, FileType::RegularFile, Mode::RUSR, 0).unwrap();
    }
    let mut walk =
        Walk::start(&[SourceRoot::at(bytes(folder.path()))], WalkOptions::default()).unwrap();
    let (mut entries, mut last) = (0, Vec::new());
    while let Some(WalkEvent::Entry(found)) = walk.next() {
        assert!(entries == 0 || compare_paths(&last, found.path).is_lt());
        last = found.path.to_vec();
        entries += 1;
        if entries % 10_000 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5)); // let the workers run ahead
        }
    }
    assert!(entries > FILES);
    assert!(walk.most_rows_ahead() <= LOOKAHEAD + 4 * batch::BATCH_ROWS_MAX);
}

#[test]
fn a_walk_can_be_dropped_half_way() {
    let mut walk = Walk::start(&[SourceRoot::at(b"/usr")], WalkOptions::default()).unwrap();
    for _ in 0..100 {
        assert!(walk.next().is_some());
    }
}

#[test]
fn special_files_are_told_by_kind_with_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let handle = rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    mknodat(&handle, c"fifo", FileType::Fifo, Mode::RUSR, 0).unwrap();
    mknodat(&handle, c"socket", FileType::Socket, Mode::RUSR, 0).unwrap();
    symlink("fifo", folder.path().join("link")).unwrap();
    let number = rustix::fs::makedev(1, 3);
    let may_make = mknodat(&handle, c"null", FileType::CharacterDevice, Mode::RUSR, number).is_ok();
    let result = walk_folder(folder.path(), WalkOptions::default());
    let row = |name: &str| result.row(&bytes(&folder.path().join(name))[1..]);
    assert_eq!(row("fifo").kind, Kind::Fifo);
    assert_eq!(row("socket").kind, Kind::Socket);
    assert_eq!(row("link").kind, Kind::Symlink);
    if !may_make {
        testkit::skip("only root may make devices");
    } else {
        assert_eq!((row("null").kind, row("null").rdev), (Kind::CharDevice, number));
    }
}

#[test]
fn an_unreadable_directory_does_not_cost_its_neighbors() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"a/f", b"locked/f", b"z/f"]);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder.path().join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let result = std::thread::scope(|scope| {
        let walk = scope.spawn(|| {
            if is_root() {
                become_nobody(); // only this thread, and the workers that it starts
            }
            walk_folder(folder.path(), WalkOptions::default())
        });
        walk.join().unwrap()
    });
    assert_eq!(result.below(folder.path()), ["a", "a/f", "locked", "z", "z/f"]);
    assert_eq!(result.problems.len(), 1);
    assert!(result.problems[0].0.ends_with(b"/locked"));
    assert!(!result.problems[0].1.vanished());
    fs::set_permissions(folder.path().join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn become_nobody() {
    crate::syscalls::become_user(65534);
}

#[test]
fn what_vanishes_is_told_as_vanished_and_the_rest_stays() {
    let folder = fast_folder();
    make(folder.path(), &[b"stay/1", b"stay/2", b"zz/3"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                make(folder.path(), &[b"m/a/b", b"m/c", b"m/d/e/f"]);
                fs::remove_dir_all(folder.path().join("m")).unwrap();
            }
        });
        for _ in 0..200 {
            let result = walk_folder(folder.path(), WalkOptions::default());
            assert_in_order(&result);
            assert!(
                result.problems.iter().all(|(_, problem)| problem.vanished()),
                "{:?}",
                result.problems
            );
            let kept =
                result.below(folder.path()).into_iter().filter(|path| !path.starts_with('m'));
            assert_eq!(kept.collect::<Vec<_>>(), ["stay", "stay/1", "stay/2", "zz", "zz/3"]);
        }
    });
}

/// Also when a test fails: what waits for it would go on for ever.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_link_swapped_in_for_a_directory_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"d/", b"secret/s"]);
    let top = Directory::starting_at(bytes(folder.path()), &DirectoryHandles::new());
    let directory = Directory::child(&top, c"d", (0, 0));
    fs::remove_dir(folder.path().join("d")).unwrap();
    symlink("secret", folder.path().join("d")).unwrap();
    assert!(directory.handle().is_err());
}
