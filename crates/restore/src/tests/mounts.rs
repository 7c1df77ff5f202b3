//! File systems that are mounted inside the target: one that takes nothing ends no restore.

use crate::testing::*;
use crate::{Overwrite, RestoreProblem, StartedFile, Target};
use format::entry::{Entry, Kind};
use rustix::io::Errno;
use std::fs;
use std::path::Path;

static CONTENT: [u8; 100_000] = [7; 100_000];

/// A tmpfs that is too small for [`CONTENT`].
fn small_tmpfs(at: &Path) -> Option<Mount> {
    Mount::make(&["-t", "tmpfs", "-o", "size=16k", "icecore-test"], at)
}

/// The directory itself, read-only: the file system, and its number, are those of the target.
fn read_only_bind(at: &Path) -> Option<Mount> {
    let mount = Mount::make(&["--bind", at.to_str()?], at)?;
    std::process::Command::new("mount").args(["-o", "remount,ro,bind"]).arg(at).status().ok()?;
    Some(mount)
}

fn try_file(target: &Target, path: &str) -> Result<(), RestoreProblem> {
    let entry = Entry { size: CONTENT.len() as u64, ..file(path, 0o644) };
    let parent = target.parent_of(&entry.path)?;
    target.small_file(&parent, &entry, &CONTENT).map(drop)
}

/// Every call that creates something at `path`, each with its problem.
fn try_all(target: &Target, path: &str) -> Vec<RestoreProblem> {
    let entry = Entry { size: CONTENT.len() as u64, ..file(path, 0o644) };
    let parent = target.parent_of(&entry.path).unwrap();
    let pieces = target.start_file(&parent, &entry).and_then(|started| match started {
        StartedFile::Open(file) => file.write_at(0, &CONTENT).and_then(|()| file.finish(&entry)),
        StartedFile::Settled(outcome) => Ok(outcome),
    });
    let pipe = self::entry(Kind::Fifo, path, 0o644);
    let below = directory(format!("{path}/sub"), 0o755);
    let tried = [
        target.small_file(&parent, &entry, &CONTENT).map(drop),
        pieces.map(drop),
        target.special(&parent, &pipe).map(drop),
        target.symlink(&parent, &symlink(path, b"x"), b"x").map(drop),
        target.directory(&below).map(drop),
    ];
    tried.into_iter().filter_map(Result::err).collect()
}

/// Seen: one full tmpfs inside the target ended the restore with "no storage space" for all of it.
#[test]
fn a_full_file_system_inside_the_target_ends_no_restore() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d0")).unwrap();
    let Some(_mount) = small_tmpfs(&folder.at("d0")) else {
        return testkit::skip("mounting is not permitted here");
    };
    let target = folder.target(Overwrite::Always);
    let problems = try_all(&target, "d0/f");
    let full = problems.iter().filter(|problem| problem.error == Errno::NOSPC.into());
    assert_eq!(full.clone().count(), 2, "the file at once and in pieces: {problems:?}");
    assert!(full.clone().all(|problem| !problem.no_space() && problem.path == b"d0/f"));
    assert_eq!(try_file(&target, "f"), Ok(()));
}

#[test]
fn a_full_target_ends_the_restore_also_below_its_root() {
    let folder = TestFolder::new();
    let Some(_mount) = small_tmpfs(&folder.root()) else {
        return testkit::skip("mounting is not permitted here");
    };
    let target = folder.target(Overwrite::Always);
    for path in ["f", "d/f"] {
        let problem = try_file(&target, path).unwrap_err();
        assert!(problem.no_space() && !problem.is_read_only(), "{problem:?}");
    }
}

/// Seen: a read-only mount inside the target ended the restore with "read-only filesystem" for all
/// of it, also where it was a part of the same file system.
#[test]
fn a_read_only_mount_inside_the_target_ends_no_restore() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d0")).unwrap();
    let Some(_mount) = read_only_bind(&folder.at("d0")) else {
        return testkit::skip("mounting is not permitted here");
    };
    let target = folder.target(Overwrite::Always);
    let problems = try_all(&target, "d0/f");
    assert_eq!(problems.len(), 5, "{problems:?}");
    for problem in problems {
        assert_eq!((&problem.path[..], problem.error), (&b"d0/f"[..], Errno::ROFS.into()));
        assert!(!problem.no_space() && !problem.is_read_only(), "{problem:?}");
    }
    assert_eq!(try_file(&target, "f"), Ok(()));
    let parent = target.parent_of(b"d0/x").unwrap();
    // Not even a copy is possible there, and the caller finds that out.
    let linked = target.hard_link(&parent, &file("d0/x", 0o644), b"f");
    assert!(linked.as_ref().map_or_else(|problem| !problem.no_space(), |_| true), "{linked:?}");
}

#[test]
fn a_read_only_target_ends_the_restore_also_below_its_root() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    let Some(_mount) = read_only_bind(&folder.root()) else {
        return testkit::skip("mounting is not permitted here");
    };
    let target = folder.target(Overwrite::Always);
    for path in ["f", "d/f", "new/f"] {
        let problem = try_file(&target, path).unwrap_err();
        assert!(problem.no_space() && problem.is_read_only(), "{problem:?}");
    }
}

/// The root of a mount that its owner cannot even make writable: its directory is outside of it.
#[test]
fn a_read_only_mount_of_a_plain_user_ends_no_restore() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d0")).unwrap();
    fs::set_permissions(folder.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    for path in [folder.root(), folder.at("d0")] {
        let _ = std::os::unix::fs::chown(path, Some(1_000), Some(1_000));
    }
    fs::set_permissions(folder.at("d0"), std::os::unix::fs::PermissionsExt::from_mode(0o500))
        .unwrap();
    let Some(_mount) = read_only_bind(&folder.at("d0")) else {
        return testkit::skip("mounting is not permitted here");
    };
    as_plain_user(|| {
        let problem = try_file(&folder.target(Overwrite::Always), "d0/f").unwrap_err();
        assert_eq!(problem.error, Errno::ROFS.into());
        assert!(!problem.no_space(), "{problem:?}");
    });
}
