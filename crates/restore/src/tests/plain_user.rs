//! Restored by somebody who is not root.

use crate::testing::*;
use crate::{Attribute, Overwrite, RestoreOutcome};
use std::os::unix::fs::{PermissionsExt, chown};

fn place_of_plain_user() -> TestFolder {
    let folder = TestFolder::new();
    std::fs::set_permissions(folder.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let _ = chown(folder.root(), Some(1_000), Some(1_000));
    folder
}

fn mine(mut entry: format::entry::Entry) -> format::entry::Entry {
    change(&mut entry, |a| (a.uid, a.gid) = (1_000, 1_000));
    entry
}

#[test]
fn read_only_directories_and_files_finish_and_are_restored_again() {
    let folder = place_of_plain_user();
    as_plain_user(|| {
        for (overwrite, outcome) in [
            (Overwrite::IfChanged, RestoreOutcome::Created),
            (Overwrite::IfChanged, RestoreOutcome::Unchanged),
            (Overwrite::Always, RestoreOutcome::Replaced),
        ] {
            let target = folder.target(overwrite);
            let folders = [("a", 0o500), ("a/b", 0o300), ("a/b/c", 0o000)];
            let folders = folders.map(|(path, mode)| mine(directory(path, mode)));
            let file = with_xattr(mine(file("a/b/c/f", 0o400)), "user.x", b"1");
            folders.iter().for_each(|folder| _ = target.directory(folder).unwrap());
            assert_eq!(restore(&target, &file, b""), outcome);
            assert_eq!(target.compare_metadata(&file), []);
            for folder in folders.iter().rev() {
                target.finish_directory(folder).unwrap();
                assert_eq!(target.take_degraded().list, []);
            }
        }
    });
    if rustix::process::geteuid().is_root() {
        let modes = ["a", "a/b", "a/b/c"].map(|path| folder.look(path).stx_mode & 0o777);
        assert_eq!(modes, [0o500, 0o300, 0o000]);
    }
}

#[test]
fn owners_are_one_degradation_and_setuid_is_dropped() {
    let folder = place_of_plain_user();
    as_plain_user(|| {
        let target = folder.target(Overwrite::Always);
        for number in 0..5 {
            let mut foreign = file(format!("f{number}"), 0o6755);
            change(&mut foreign, |a| (a.uid, a.gid) = (0, 0));
            let parent = target.parent_of(&foreign.path).unwrap();
            assert_eq!(target.small_file(&parent, &foreign, b""), Ok(RestoreOutcome::Created));
            assert_eq!(target.compare_metadata(&foreign), []);
        }
        let degraded = target.take_degraded();
        assert_eq!((degraded.list.len(), degraded.owners.count), (0, 5));
        assert_eq!(degraded.owners.first.unwrap().attribute, Attribute::Owner);
        assert_eq!(folder.look("f0").stx_mode & 0o7777, 0o755);
        let own = mine(file("own", 0o6755));
        restore(&target, &own, b"");
        assert_eq!(folder.look("own").stx_mode & 0o7777, 0o6755);
    });
}

#[test]
fn devices_are_a_problem_and_fifos_are_not() {
    let folder = place_of_plain_user();
    as_plain_user(|| {
        let target = folder.target(Overwrite::Always);
        let root = target.parent_of(b"x").unwrap();
        let fifo = mine(entry(format::entry::Kind::Fifo, "p", 0o644));
        assert_eq!(target.special(&root, &fifo), Ok(RestoreOutcome::Created));
        let mut device = mine(entry(format::entry::Kind::CharDevice, "c", 0o644));
        device.rdev = 0x103; // 0 would be a whiteout, which everybody may make
        assert!(target.special(&root, &device).is_err());
    });
}

#[test]
fn what_a_plain_user_may_delete_goes_even_when_unreadable() {
    let folder = place_of_plain_user();
    as_plain_user(|| {
        std::fs::create_dir_all(folder.at("a/b")).unwrap();
        std::fs::write(folder.at("a/b/f"), "").unwrap();
        for path in ["a/b", "a"] {
            std::fs::set_permissions(folder.at(path), PermissionsExt::from_mode(0o0)).unwrap();
        }
        let removed = delete_extraneous(&folder.target(Overwrite::Always), b"", |_| false);
        assert_eq!(removed[0].as_ref().unwrap().1, 3);
    });
}

/// Seen: what may be kept in it had to be looked for, and it stayed open.
#[test]
fn an_own_directory_that_is_not_deleted_is_closed_again() {
    let folder = place_of_plain_user();
    let modes = as_plain_user(|| {
        let directories = ["extra", "extra/kept", "extra/other"];
        directories.iter().for_each(|path| std::fs::create_dir(folder.at(path)).unwrap());
        std::fs::write(folder.at("extra/kept/keep"), "").unwrap();
        let close = |path: &str| {
            std::fs::set_permissions(folder.at(path), PermissionsExt::from_mode(0o300)).unwrap();
        };
        close("extra/kept");
        let target = folder.target(Overwrite::IfChanged);
        let removed = target.remove(b"extra", Some(&|path, _| path.ends_with(b"keep")));
        assert_eq!((removed.objects, removed.problem), (1, None));
        (folder.look("extra/kept").stx_mode & 0o777, folder.at("extra/other").exists())
    });
    if let Some(modes) = modes {
        assert_eq!(modes, (0o300, false));
    }
}
