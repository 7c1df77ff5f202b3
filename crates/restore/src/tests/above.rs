//! Directories above what was backed up, and others that a restore opens for a while.

use crate::testing::*;
use crate::{Overwrite, RestoreCause, RestoreOutcome, RestoreScope, Target, TargetOptions};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

/// Of a backup of `home/me`.
fn of_me(overwrite: Overwrite) -> TargetOptions {
    TargetOptions { sources: [b"home/me".to_vec()].into(), ..options(overwrite) }
}

fn set_mode(folder: &TestFolder, path: &str, mode: u32) {
    fs::set_permissions(folder.at(path), fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(folder: &TestFolder, path: &str) -> u16 {
    folder.look(path).stx_mode & 0o7777
}

fn lock(folder: &TestFolder, path: &str) {
    assert!(Command::new("chattr").arg("+i").arg(folder.at(path)).status().unwrap().success());
}

fn is_locked(folder: &TestFolder, path: &str) -> bool {
    crate::flags::are_locked(&folder.look(path))
}

/// Restores `home/me/f` and all above it, which the snapshot has with mode 0777.
fn restore_me(target: &Target) {
    restore(target, &file("home/me/f", 0o640), b"f");
    for path in ["home/me", "home"] {
        target.finish_directory(&directory(path, 0o777)).unwrap();
    }
}

fn wait_for_the_clock_of_files() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Seen: 0777 again for a directory that somebody had closed, once a restore into it had been interrupted.
#[test]
fn what_was_there_above_the_sources_keeps_its_mode_after_an_interrupted_restore() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("home")).unwrap();
    set_mode(&folder, "home", 0o700);
    std::thread::sleep(std::time::Duration::from_millis(1_100)); // markers have whole seconds
    for _ in 0..2 {
        let cut_short = folder.target_with(of_me(Overwrite::Always));
        cut_short.write_marker().unwrap();
        restore(&cut_short, &file("home/me/f", 0o640), b"");
    }
    let resumed = folder.target_with(of_me(Overwrite::Always));
    restore_me(&resumed);
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o700, 0o777));
}

#[test]
fn what_an_interrupted_restore_made_above_the_sources_gets_its_attributes() {
    let folder = TestFolder::new();
    let cut_short = folder.target_with(of_me(Overwrite::IfChanged));
    cut_short.write_marker().unwrap();
    restore(&cut_short, &file("home/me/f", 0o640), b"");
    drop(cut_short);
    assert_eq!(mode(&folder, "home"), 0o700);
    restore_me(&folder.target_with(of_me(Overwrite::IfChanged)));
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o777, 0o777));
}

/// Seen: they stayed 0700 of root for good, and their owner was locked out.
#[test]
fn what_an_interrupted_restore_made_is_finished_by_one_that_overwrites_nothing() {
    let folder = TestFolder::new();
    let cut_short = folder.target_with(of_me(Overwrite::IfChanged));
    cut_short.write_marker().unwrap();
    restore(&cut_short, &file("home/me/f", 0o640), b"f");
    drop(cut_short);
    fs::create_dir(folder.at("home/me/closed")).unwrap();
    set_mode(&folder, "home/me/closed", 0o750);
    let never = folder.target_with(of_me(Overwrite::Never));
    never.directory(&directory("home/me/closed", 0o777)).unwrap();
    never.finish_directory(&directory("home/me/closed", 0o777)).unwrap();
    restore_me(&never);
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o777, 0o777));
    assert_eq!(mode(&folder, "home/me/closed"), 0o750, "somebody changed it since");
}

/// Seen: whatever had mode 0700 and was younger than the marker got the mode of the snapshot, and could be read by all.
#[test]
fn what_somebody_made_and_closed_after_an_interrupted_restore_stays_closed() {
    let folder = TestFolder::new();
    let cut_short = folder.target_with(of_me(Overwrite::IfChanged));
    cut_short.write_marker().unwrap();
    restore(&cut_short, &file("home/me/f", 0o640), b"f");
    drop(cut_short);
    fs::remove_dir_all(folder.at("home")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_100)); // markers have whole seconds
    for path in ["home", "home/me"] {
        fs::create_dir(folder.at(path)).unwrap();
        set_mode(&folder, path, 0o700);
    }
    restore_me(&folder.target_with(of_me(Overwrite::Never)));
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o700, 0o700));
}

/// What a restore makes late is its own, too.
#[test]
fn the_marker_says_when_something_was_last_made() {
    let folder = TestFolder::new();
    let cut_short = folder.target_with(of_me(Overwrite::IfChanged));
    cut_short.write_marker().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_100)); // markers have whole seconds
    restore(&cut_short, &file("home/me/f", 0o640), b"f");
    drop(cut_short);
    restore_me(&folder.target_with(of_me(Overwrite::Never)));
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o777, 0o777));
}

/// Seen: the lock went with the first restore, and the second one deleted what it had left alone.
#[test]
fn a_directory_in_which_something_stays_for_its_lock_keeps_it() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock files");
    }
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    fs::write(folder.at("d/mine"), "mine").unwrap();
    lock(&folder, "d");
    for _ in 0..2 {
        let target = folder.target(Overwrite::IfChanged);
        let finish = || target.finish_directory(&directory("d", 0o755)).unwrap();
        restore(&target, &file("d/f", 0o640), b"f");
        target.keep_locks(b"d");
        finish();
        let refused = target.remove(b"d/mine", None).problem.unwrap();
        assert_eq!(refused.error, RestoreCause::InLocked);
        assert!(is_locked(&folder, "d") && folder.at("d/mine").exists());
        finish();
        assert!(is_locked(&folder, "d"), "however often it is finished");
    }
    let open = fs::File::open(folder.at("d")).unwrap();
    crate::flags::clear_locks(std::os::fd::AsFd::as_fd(&open)).unwrap();
}

/// Seen: a target that somebody had closed was given the mode and owner of another directory, or by anybody's marker.
#[test]
fn only_the_same_restore_or_one_of_the_same_path_has_made_the_target() {
    let scope = |what: &str| TargetOptions {
        scope: Some(RestoreScope { what: what.to_owned(), part: None }),
        ..options(Overwrite::IfChanged)
    };
    for (what, closed, mode_after) in
        [("b:x", 0o700, 0o777), ("a:x", 0o750, 0o750), ("a:y", 0o700, 0o700)]
    {
        let folder = TestFolder::new();
        let at = folder.at("new");
        let cut_short = Target::open(&at, scope("a:x")).unwrap();
        cut_short.write_marker().unwrap();
        drop(cut_short);
        set_mode(&folder, "new", closed);
        let again = Target::open(&at, scope(what)).unwrap();
        again.sync_as(Some(&directory("", 0o777))).unwrap();
        assert_eq!(mode(&folder, "new"), mode_after, "{what}");
    }
}

/// Seen: the lock of a file went for good when one of its names in the target was replaced.
#[test]
fn what_has_other_names_keeps_its_lock_when_one_of_them_is_replaced() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock files");
    }
    let folder = TestFolder::new();
    fs::create_dir(folder.at("outside")).unwrap();
    for name in ["file", "directory"] {
        let other = format!("outside/{name}");
        fs::write(folder.at(&other), "other").unwrap();
        fs::hard_link(folder.at(&other), folder.at(name)).unwrap();
        lock(&folder, &other);
    }
    wait_for_the_clock_of_files();
    let target = folder.target(Overwrite::IfChanged);
    restore(&target, &file("file", 0o640), b"new");
    target.directory(&directory("directory", 0o755)).unwrap();
    assert_eq!(fs::read(folder.at("file")).unwrap(), b"new");
    assert!(folder.at("directory").is_dir());
    let kept = ["file", "directory"].map(|name| is_locked(&folder, &format!("outside/{name}")));
    let _ = Command::new("chattr").args(["-R", "-i"]).arg(folder.at("outside")).status();
    assert_eq!(kept, [true, true]);
}

/// A marker may lie there for months, and whatever was made since is somebody's.
#[test]
fn what_another_restore_left_makes_nothing_above_the_sources_new() {
    let folder = TestFolder::new();
    let scope = |what: &str| Some(RestoreScope { what: what.to_owned(), part: None });
    let other =
        folder.target_with(TargetOptions { scope: scope("a:x"), ..of_me(Overwrite::Always) });
    other.write_marker().unwrap();
    drop(other);
    fs::create_dir(folder.at("home")).unwrap();
    set_mode(&folder, "home", 0o700);
    // Another snapshot of the same path is what somebody restores again that means the newest.
    for (what, mode_after) in [("a:y", 0o700), ("b:x", 0o777)] {
        let options = TargetOptions { scope: scope(what), ..of_me(Overwrite::Always) };
        restore_me(&folder.target_with(options));
        assert_eq!(mode(&folder, "home"), mode_after, "{what}");
    }
}

/// Seen: what a restore made there stayed 0700, and what was there got the mode of the snapshot.
#[test]
fn without_times_of_birth_directories_above_the_sources_are_told_apart() {
    let folder = TestFolder::new();
    let Some(_mount) = Mount::make(&["-t", "ramfs", "icecore-test"], &folder.root()) else {
        testkit::skip("ramfs cannot be mounted here");
        return;
    };
    wait_for_the_clock_of_files();
    restore_me(&folder.target_with(of_me(Overwrite::IfChanged)));
    assert_eq!(mode(&folder, "home"), 0o777);
    set_mode(&folder, "home", 0o700);
    fs::remove_dir_all(folder.at("home/me")).unwrap();
    wait_for_the_clock_of_files();
    restore_me(&folder.target_with(of_me(Overwrite::IfChanged)));
    assert_eq!((mode(&folder, "home"), mode(&folder, "home/me")), (0o700, 0o777));
}

/// Seen: each restore with `--verify` into a tree that was there ended with a difference.
#[test]
fn what_keeps_its_attributes_above_the_sources_is_no_difference() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("home")).unwrap();
    let target = folder.target_with(of_me(Overwrite::IfChanged));
    restore_me(&target);
    for path in ["home", "home/me"] {
        assert_eq!(target.compare_metadata(&directory(path, 0o777)), [], "{path}");
    }
    assert_eq!(target.compare_metadata(&file("home", 0o777)).len(), 1, "its kind is compared");
    assert_eq!(target.compare_metadata(&directory("home/me", 0o700)).len(), 1);
}

#[test]
fn what_an_unfinished_restore_opened_is_closed_again() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock directories");
    }
    let folder = TestFolder::new();
    fs::create_dir_all(folder.at("home/me/deep")).unwrap();
    ["home/me/deep", "home/me", "home"].iter().for_each(|path| lock(&folder, path));
    let target = folder.target_with(of_me(Overwrite::Never));
    restore(&target, &file("home/me/deep/f", 0o640), b"f");
    assert!(!is_locked(&folder, "home/me/deep"));
    drop(target);
    for path in ["home", "home/me", "home/me/deep"] {
        assert!(is_locked(&folder, path), "{path}");
    }
}

#[test]
fn an_own_directory_that_was_closed_to_its_owner_is_closed_again() {
    let folder = TestFolder::new();
    fs::create_dir_all(folder.at("home/me")).unwrap();
    std::os::unix::fs::chown(folder.folder.path(), Some(1_000), None).unwrap();
    for path in ["", "home", "home/me"] {
        std::os::unix::fs::chown(folder.at(path), Some(1_000), Some(1_000)).unwrap();
    }
    set_mode(&folder, "home", 0o300);
    let done = as_plain_user(|| {
        let target = folder.target_with(of_me(Overwrite::IfChanged));
        let mut entry = file("home/me/f", 0o640);
        change(&mut entry, |it| (it.uid, it.gid) = (1_000, 1_000));
        restore(&target, &entry, b"f");
        target.finish_directory(&directory("home", 0o777)).unwrap();
    });
    if done.is_some() {
        assert_eq!(mode(&folder, "home"), 0o300);
    }
}

/// Seen: nothing could be deleted where the snapshot has a lock, and each further restore failed again.
#[test]
fn a_lock_of_the_snapshot_keeps_nothing_from_being_deleted() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock directories");
    }
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    fs::write(folder.at("d/stray"), "").unwrap();
    let mut entry = directory("d", 0o755);
    change(&mut entry, |it| it.inode_flags = format::entry::INODE_IMMUTABLE);
    let target = folder.target(Overwrite::IfChanged);
    restore(&target, &file("d/f", 0o640), b"f");
    target.finish_directory(&entry).unwrap();
    // Opened once more for what came late.
    restore(&target, &file("d/late", 0o640), b"");
    target.finish_directory(&entry).unwrap();
    assert!(is_locked(&folder, "d"));
    assert_eq!(
        delete_extraneous(&target, b"d", |name| name != b"stray"),
        [Ok((b"d/stray".to_vec(), 1))]
    );
    assert!(is_locked(&folder, "d"));
    assert_eq!(folder.names("d").len(), 2);
    // What somebody had locked before stays, whatever the snapshot has.
    let other = folder.target(Overwrite::IfChanged);
    restore(&other, &file("d/more", 0o640), b"");
    other.finish_directory(&entry).unwrap();
    let refused = delete_extraneous(&other, b"d", |name| name != b"late").remove(0).unwrap_err();
    assert_eq!(refused.error, RestoreCause::InLocked);
}

/// Seen: a link whose content was backed up became a directory, and what else lies behind it was out of reach.
#[test]
fn a_link_in_the_place_of_a_source_is_replaced_only_when_that_was_asked_for() {
    let folder = TestFolder::new();
    fs::create_dir_all(folder.at("real/sub")).unwrap();
    symlink("real", folder.at("link")).unwrap();
    let sources = || [b"link".to_vec()].into();
    for overwrite in [Overwrite::IfChanged, Overwrite::IfNewer, Overwrite::Never] {
        let target = folder.target_with(TargetOptions { sources: sources(), ..options(overwrite) });
        let refused = target.directory(&directory("link", 0o755)).err().unwrap();
        assert_eq!(refused.error, RestoreCause::LinkToSource);
    }
    let always = TargetOptions { sources: sources(), ..options(Overwrite::Always) };
    folder.target_with(always).directory(&directory("link", 0o755)).unwrap();
    assert!(fs::symlink_metadata(folder.at("link")).unwrap().is_dir());
    // Where a link leads nowhere, a disk may be mounted later.
    symlink("nowhere", folder.at("dead")).unwrap();
    let dead =
        TargetOptions { sources: [b"dead".to_vec()].into(), ..options(Overwrite::IfChanged) };
    let refused = folder.target_with(dead).directory(&directory("dead", 0o755)).err().unwrap();
    assert_eq!(refused.error, RestoreCause::LinkToSource);
}

/// Seen: `cannot link it: too many levels of symbolic links`, and the second name was nowhere.
#[test]
fn a_first_name_behind_a_link_costs_no_other_name() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("real")).unwrap();
    symlink("real", folder.at("home")).unwrap();
    let target = folder.target_with(of_me(Overwrite::IfChanged));
    let parent = target.parent_of(b"srv/f").unwrap();
    let linked = target.hard_link(&parent, &file("srv/f", 0o640), b"home/me/f");
    assert_eq!(linked, Ok(RestoreOutcome::NeedsCopy));
}
