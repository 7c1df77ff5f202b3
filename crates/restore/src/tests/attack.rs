//! Hostile snapshots and hostile neighbors: the canary beside the target stays.

use crate::testing::*;
use crate::{ContentMatch, Overwrite, RestoreCause};
use format::entry::Kind;
use std::fs;
use std::os::unix::fs::symlink as link;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn hostile_paths_are_refused_by_every_call() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let root = target.parent_of(b"x").unwrap();
    for path in [&b"../outside/canary"[..], b"/etc/x", b"..", b".", b"a/../../x", b"a\0b", b"a//b"]
    {
        assert_eq!(target.parent_of(path).map(|_| ()).unwrap_err().error, RestoreCause::UnsafePath);
        assert!(target.directory(&directory(path, 0o755)).is_err());
        assert!(target.hard_link(&root, &file("x", 0o644), path).is_err());
        assert!(target.open_for_verify(path).is_err());
        assert_eq!(target.match_metadata(&file(path, 0o644)), ContentMatch::Different);
        assert!(target.finish_directory(&directory(path, 0o755)).is_err());
        assert!(delete_extraneous(&target, path, |_| false).iter().all(Result::is_err));
        assert!(target.remove(path, None).problem.is_some());
    }
    for path in [&b".."[..], b".", b"a/..", b"a\0b", b"a/"] {
        assert!(target.small_file(&root, &file(path, 0o644), b"").is_err());
        assert!(target.start_file(&root, &file(path, 0o644)).is_err());
        assert!(target.special(&root, &entry(Kind::Fifo, path, 0o644)).is_err());
    }
    folder.assert_canary_alive();
}

#[test]
fn what_lies_below_a_symlink_of_the_snapshot_is_not_followed_out() {
    for overwrite in [Overwrite::Always, Overwrite::IfChanged, Overwrite::Never] {
        let folder = TestFolder::new();
        let target = folder.target(overwrite);
        let root = target.parent_of(b"x").unwrap();
        target.symlink(&root, &symlink("a", b"../outside"), b"../outside").unwrap();
        assert_eq!(
            target.parent_of(b"a/x").map(|_| ()).unwrap_err().error,
            RestoreCause::Collision
        );
        assert!(target.directory(&directory("a", 0o755)).is_err());
        assert!(target.finish_directory(&directory("a", 0o700)).is_err());
        assert!(target.open_for_verify(b"a/canary").is_err());
        assert!(delete_extraneous(&target, b"a", |_| false).iter().all(Result::is_err));
        folder.assert_canary_alive();
    }
}

#[test]
fn a_symlink_that_was_there_is_replaced_not_followed() {
    let folder = TestFolder::new();
    link("../outside/canary", folder.at("f")).unwrap();
    let target = folder.target(Overwrite::Always);
    restore(&target, &file("f", 0o644), b"evil");
    assert!(folder.look("f").stx_mode & 0o170000 == 0o100000);
    folder.assert_canary_alive();
}

#[test]
fn deleting_stays_inside_follows_nothing_and_spares_what_is_kept() {
    for folder in TestFolder::both() {
        fs::create_dir_all(folder.at("gone/deep/er")).unwrap();
        fs::write(folder.at("gone/deep/er/f"), "").unwrap();
        link("../../outside", folder.at("gone/out")).unwrap();
        link("../outside", folder.at("out")).unwrap();
        fs::write(folder.at("kept"), "").unwrap();
        let target = folder.target(Overwrite::Always);
        let mut removed = delete_extraneous(&target, b"", |name| name == b"kept");
        removed.sort_by_key(|removed| removed.as_ref().unwrap().0.clone());
        let counts: Vec<u64> = removed.into_iter().map(|removed| removed.unwrap().1).collect();
        assert_eq!(counts, [5, 1]);
        assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1);
        folder.assert_canary_alive();
    }
}

#[test]
fn deleting_does_not_enter_a_mount() {
    let folder = TestFolder::new();
    fs::create_dir_all(folder.at("d/mount")).unwrap();
    let mount = |call: &str, arguments: &[&std::path::Path]| {
        std::process::Command::new(call).args(arguments).output().is_ok_and(|o| o.status.success())
    };
    let (outside, at) = (folder.folder.path().join("outside"), folder.at("d/mount"));
    if !mount("mount", &["--bind".as_ref(), &outside, &at]) {
        return testkit::skip("mounting is not permitted here");
    }
    let removed = delete_extraneous(&folder.target(Overwrite::Always), b"", |_| false);
    assert!(mount("umount", &[&at]));
    let problem = removed[0].as_ref().unwrap_err();
    assert_eq!((&problem.path[..], problem.error), (&b"d/mount"[..], RestoreCause::MountPoint));
    folder.assert_canary_alive();
}

/// Swaps `d` for a symlink that leads out, and back, as fast as it can.
fn race(folder: &TestFolder, stop: &AtomicBool) {
    let (real, aside, out) = (folder.at("d"), folder.at("aside"), folder.at("out"));
    while !stop.load(Ordering::Relaxed) {
        let _ = fs::rename(&real, &aside).and_then(|()| fs::rename(&out, &real));
        std::thread::yield_now();
        let _ = fs::rename(&real, &out).and_then(|()| fs::rename(&aside, &real));
    }
}

#[test]
fn a_directory_swapped_for_a_symlink_while_files_are_created_leads_nowhere() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    link("../outside", folder.at("out")).unwrap();
    let stop = AtomicBool::new(false);
    let mut created = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| race(&folder, &stop));
        for round in 0..100 {
            let target = folder.target(Overwrite::IfChanged);
            for number in 0..20 {
                target.0.cache.lock().forget(b"d"); // opened anew each time: the race is in here
                let entry = file(format!("d/{round}-{number}"), 0o644);
                let Ok(parent) = target.parent_of(&entry.path) else {
                    continue;
                };
                created += usize::from(target.small_file(&parent, &entry, b"x").is_ok());
                let _ = target.special(
                    &parent,
                    &self::entry(Kind::Fifo, format!("d/p{round}-{number}"), 0o666),
                );
            }
            let _ = target.finish_directory(&directory("d", 0o700));
            let _ = delete_extraneous(&target, b"d", |name| name.starts_with(b"p"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(created > 0);
    folder.assert_canary_alive();
    let outside = fs::metadata(folder.folder.path().join("outside")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&outside) & 0o777, 0o755);
}
