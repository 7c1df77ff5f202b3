//! Every kind of object and attribute comes back as recorded.

use crate::testing::*;
use crate::{
    Attribute, ContentMatch, Overwrite, RestoreOutcome, StartedFile, Target, TargetOptions,
};
use format::entry::{Entry, INODE_APPEND, INODE_IMMUTABLE, INODE_NODUMP, Kind, Time};
use std::os::unix::fs::FileExt;

fn assert_as_recorded(target: &Target, entry: &Entry) {
    assert_eq!(target.compare_metadata(entry), [], "{:?}", String::from_utf8_lossy(&entry.path));
    assert_eq!(target.match_metadata(entry), crate::ContentMatch::Equal);
}

#[test]
fn every_kind_comes_back_with_all_it_had() {
    for folder in TestFolder::both() {
        let target = folder.target(Overwrite::IfChanged);
        let mut all = vec![directory("d", 0o2751), symlink("d/link", b"/nowhere/\xff")];
        all.push(entry(Kind::Fifo, "d/fifo", 0o640));
        all.push(entry(Kind::Socket, "d/socket", 0o600));
        all.push(Entry { rdev: 0x1_0305, ..entry(Kind::CharDevice, "d/char", 0o666) });
        all.push(Entry { rdev: 0x0_0801, ..entry(Kind::BlockDevice, "d/block", 0o660) });
        all.iter_mut().for_each(|e| change(e, |a| (a.uid, a.gid) = (1_234, 4_321)));
        let parent = target.directory(&all[0]).unwrap();
        for entry in &all[1..] {
            let outcome = match entry.kind() {
                Kind::Symlink => target.symlink(&parent, entry, b"/nowhere/\xff"),
                _ => target.special(&parent, entry),
            };
            assert_eq!(outcome, Ok(RestoreOutcome::Created));
        }
        target.finish_directory(&all[0]).unwrap();
        all.iter().for_each(|entry| assert_as_recorded(&target, entry));
        assert_eq!(target.take_degraded().list, []);
    }
}

#[test]
fn names_are_bytes_of_any_length_up_to_255() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    for name in [&b"\xff\xfe\n\x1b[31m"[..], &[b'x'; 255], b"..."] {
        let file = file(name, 0o644);
        assert_eq!(restore(&target, &file, b""), RestoreOutcome::Created);
        assert_as_recorded(&target, &file);
    }
    let long = file([b'x'; 256], 0o644);
    let parent = target.parent_of(&long.path).unwrap();
    assert!(target.small_file(&parent, &long, b"").is_err());
}

#[test]
fn modes_come_back_whatever_the_umask_and_setuid_survives_the_owner() {
    for folder in TestFolder::both() {
        let target = folder.target(Overwrite::Always);
        for mode in [0o000, 0o400, 0o666, 0o777, 0o4755, 0o2755, 0o6711, 0o1644] {
            for uid in [0, 99] {
                let mut file = file(format!("{mode:o}-{uid}"), mode);
                change(&mut file, |a| (a.uid, a.gid) = (uid, uid));
                restore(&target, &file, b"#!/bin/sh");
                let entry = Entry { size: 9, ..file };
                assert_as_recorded(&target, &entry);
            }
        }
    }
}

#[test]
fn acls_capabilities_and_attributes_come_back() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let mut file = with_xattr(file("f", 0o660), "security.capability", &CAPABILITY);
    file = with_xattr(file, "system.posix_acl_access", &ACL);
    file = with_xattr(file, "user.binary", &[0, 255, 10]);
    change(&mut file, |a| a.uid = 77);
    restore(&target, &file, b"x");
    assert_as_recorded(&target, &Entry { size: 1, ..file });
    let mut folder = with_xattr(directory("d", 0o750), "system.posix_acl_default", &ACL);
    folder = with_xattr(folder, "user.a", b"");
    target.directory(&folder).unwrap();
    target.finish_directory(&folder).unwrap();
    assert_as_recorded(&target, &folder);
    assert_eq!(target.take_degraded().list, []);
}

/// Else who owns a program and has it restored gets the rights of who restores.
#[test]
fn without_owners_no_program_of_others_runs_as_who_restores() {
    let folder = TestFolder::new();
    let owners = crate::OwnerMapping::Caller;
    let target = folder.target_with(crate::TargetOptions { owners, ..options(Overwrite::Always) });
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    for (name, (uid, gid), mode) in [
        ("theirs", (77, 78), 0o0755),
        ("group", (me.0, 78), 0o4755),
        ("user", (77, me.1), 0o2755),
        ("mine", me, 0o6755),
    ] {
        let mut entry = file(name, 0o6755);
        change(&mut entry, |a| (a.uid, a.gid) = (uid, gid));
        for overwrite in [Overwrite::Always, Overwrite::IfChanged] {
            let target = folder.target_with(crate::TargetOptions { owners, ..options(overwrite) });
            restore(&target, &entry, b"x");
            assert_eq!(folder.look(name).stx_mode & 0o7777, mode, "{name}");
            let again = target.compare_metadata(&Entry { size: 1, ..entry.clone() });
            assert_eq!(again, [], "{name}");
        }
    }
    let mut shared = directory("d", 0o2770);
    change(&mut shared, |a| (a.uid, a.gid) = (77, 78));
    target.directory(&shared).unwrap();
    target.finish_directory(&shared).unwrap();
    assert_eq!(folder.look("d").stx_mode & 0o7777, 0o2770);
}

/// The snapshot and the target are of another party; who reaches the target would be root with what is in it.
#[test]
fn an_unprivileged_restore_gives_no_rights_of_others_and_says_so() {
    let folder = TestFolder::new();
    let options =
        |is_unprivileged| crate::TargetOptions { is_unprivileged, ..options(Overwrite::IfChanged) };
    let mut program = with_xattr(file("f", 0o6755), "security.capability", &CAPABILITY);
    program = with_xattr(program, "user.a", b"b");
    let shared = directory("d", 0o2770);
    let disk =
        Entry { rdev: rustix::fs::makedev(7, 99), ..entry(Kind::BlockDevice, "disk", 0o666) };
    let null = Entry { rdev: rustix::fs::makedev(1, 3), ..entry(Kind::CharDevice, "null", 0o666) };
    // Also in the place of what a restore with all rights has left there.
    restore(&folder.target_with(options(false)), &program, b"x");
    assert_eq!(folder.look("f").stx_mode & 0o7777, 0o6755);
    let target = folder.target_with(options(true));
    assert_eq!(target.match_metadata(&Entry { size: 1, ..program.clone() }), ContentMatch::Equal);
    let again = Entry { path: b"again".to_vec(), ..program };
    let parent = target.parent_of(b"again").unwrap();
    assert_eq!(target.small_file(&parent, &again, b"x"), Ok(RestoreOutcome::Created));
    target.directory(&shared).unwrap();
    target.finish_directory(&shared).unwrap();
    for name in ["f", "again"] {
        assert_eq!(folder.look(name).stx_mode & 0o7777, 0o755, "{name}");
        let mut value = [0; 64];
        let had = rustix::fs::getxattr(folder.at(name), "security.capability", &mut value[..]);
        assert_eq!(had, Err(rustix::io::Errno::NODATA), "{name}");
        assert_eq!(rustix::fs::getxattr(folder.at(name), "user.a", &mut value[..]), Ok(1));
    }
    assert_eq!(folder.look("d").stx_mode & 0o7777, 0o770);
    for device in [&disk, &null] {
        let refused = target.special(&parent, device).unwrap_err();
        assert_eq!(refused.error, crate::RestoreCause::DeviceWithheld);
    }
    assert_eq!(folder.names("").len(), 3, "no device");
    let told: Vec<_> = target.take_degraded().list.iter().map(|one| one.reason()).collect();
    assert_eq!(told.len(), 5, "two of each program, one of the directory: {told:?}");
    assert!(told.iter().all(|text| text.contains("restore_privileged = true")), "{told:?}");
}

#[test]
fn what_the_file_system_cannot_take_is_said_by_path() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let entry = with_xattr(file("f", 0o600), "nosuch.namespace", b"1");
    let parent = target.parent_of(b"f").unwrap();
    assert_eq!(target.small_file(&parent, &entry, b""), Ok(RestoreOutcome::Created));
    let degraded = target.take_degraded().list;
    assert_eq!(degraded.len(), 1);
    assert_eq!(degraded[0].path, b"f");
    assert_eq!(degraded[0].attribute, Attribute::Xattr(b"nosuch.namespace".to_vec()));
}

#[test]
fn times_reach_from_1901_to_2446_with_nanoseconds() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    // At the very ends of its range the kernel cuts the nanoseconds off.
    for (number, secs) in [-2_147_483_647, -1, 0, 4_294_967_296, 15_032_385_534].iter().enumerate()
    {
        let mtime = Time { secs: *secs, nanos: 999_999_999 };
        let file = Entry { mtime, ..file(format!("f{number}"), 0o644) };
        restore(&target, &file, b"");
        assert_as_recorded(&target, &file);
    }
}

/// The kernel takes the nearest time that the file system has, without an error.
#[test]
fn a_time_that_the_file_system_cannot_store_is_said_by_path() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    for (number, secs) in [-9_000_000_000_000, 40_000_000_000].into_iter().enumerate() {
        let mtime = Time { secs, nanos: 5 };
        let file = Entry { mtime, ..file(format!("f{number}"), 0o644) };
        let parent = target.parent_of(&file.path).unwrap();
        assert_eq!(target.small_file(&parent, &file, b""), Ok(RestoreOutcome::Created));
        let said: Vec<_> = target.take_degraded().list;
        let said: Vec<_> = said.into_iter().map(|one| (one.path, one.attribute)).collect();
        let kept = target.compare_metadata(&file).is_empty();
        let expected = if kept { vec![] } else { vec![(file.path, Attribute::Mtime)] };
        assert_eq!(said, expected);
    }
}

#[test]
fn a_file_of_a_terabyte_of_hole_takes_no_time_and_no_space() {
    for sparse in [true, false] {
        let folder = TestFolder::new();
        let target = folder.target_with(TargetOptions { sparse, ..options(Overwrite::Always) });
        let size = if sparse { 1 << 40 } else { 1 << 20 };
        let entry = Entry { size, ..file("f", 0o644) };
        let parent = target.parent_of(b"f").unwrap();
        let Ok(StartedFile::Open(open)) = target.start_file(&parent, &entry) else { panic!() };
        open.write_at(size - 4, b"tail").unwrap();
        open.write_at(0, b"head").unwrap();
        open.hole(4, size - 8).unwrap();
        assert!(open.write_at(size - 3, b"tail").is_err());
        assert!(open.write_at(u64::MAX, b"tail").is_err());
        assert_eq!(open.finish(&entry), Ok(RestoreOutcome::Created));
        assert_as_recorded(&target, &entry);
        assert_eq!(folder.look("f").stx_blocks * 512 >= size, !sparse);
        let mut tail = [0; 5];
        target.open_for_verify(b"f").unwrap().read_exact_at(&mut tail, size - 5).unwrap();
        assert_eq!(&tail, b"\0tail");
    }
}

#[test]
fn pieces_from_several_threads_make_one_file() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let entry = Entry { size: 400_000, ..file("f", 0o644) };
    let parent = target.parent_of(b"f").unwrap();
    let Ok(StartedFile::Open(open)) = target.start_file(&parent, &entry) else { panic!() };
    std::thread::scope(|scope| {
        for number in 0..4_u8 {
            let open = &open;
            scope.spawn(move || {
                open.write_at(u64::from(3 - number) * 100_000, &[number; 100_000]).unwrap();
            });
        }
    });
    open.finish(&entry).unwrap();
    let content = std::fs::read(folder.at("f")).unwrap();
    assert!(content.iter().enumerate().all(|(at, byte)| usize::from(*byte) == 3 - at / 100_000));
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing() {
    let folder = TestFolder::new();
    std::fs::write(folder.at("old"), "old").unwrap();
    let target = folder.target(Overwrite::Always);
    for name in ["new", "old"] {
        let entry = Entry { size: 3, ..file(name, 0o644) };
        let parent = target.parent_of(&entry.path).unwrap();
        let Ok(StartedFile::Open(open)) = target.start_file(&parent, &entry) else { panic!() };
        drop(open);
    }
    assert_eq!(std::fs::read(folder.at("old")).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 1);
}

#[test]
fn hard_links_are_one_inode_and_a_symlink_is_linked_itself() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::IfChanged);
    let locked = |name| {
        let mut locked = file(name, 0o644);
        change(&mut locked, |a| a.inode_flags = INODE_IMMUTABLE);
        locked
    };
    restore(&target, &file("a", 0o644), b"");
    restore(&target, &locked("locked"), b"");
    let parent = target.parent_of(b"a").unwrap();
    target.symlink(&parent, &symlink("link", b"../outside/canary"), b"../outside/canary").unwrap();
    for (from, to) in
        [("a", file("b", 0o644)), ("locked", locked("c")), ("link", symlink("l2", b""))]
    {
        assert_eq!(target.hard_link(&parent, &to, from.as_bytes()), Ok(RestoreOutcome::Created));
        assert_eq!(target.hard_link(&parent, &to, from.as_bytes()), Ok(RestoreOutcome::Unchanged));
        let name = String::from_utf8(to.path.clone()).unwrap();
        assert_eq!(folder.look(from).stx_ino, folder.look(&name).stx_ino);
    }
    assert_as_recorded(&target, &locked("c"));
    let missing = target.hard_link(&parent, &file("d", 0o644), b"nowhere/x");
    assert_eq!(missing, Ok(RestoreOutcome::NeedsCopy));
    assert!(target.hard_link(&parent, &file("d", 0o644), b"../outside/canary").is_err());
}

/// Seen: files got the flag of the directory that they were restored into, and the next backup left them out.
#[test]
fn what_a_directory_gives_to_new_files_is_taken_from_them() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.at("d")).unwrap();
    let chattr = std::process::Command::new("chattr").arg("+d").arg(folder.at("d")).status();
    assert!(chattr.unwrap().success());
    let target = folder.target(Overwrite::IfChanged);
    restore(&target, &file("d/f", 0o644), b"");
    assert_as_recorded(&target, &file("d/f", 0o644));
    // A link cannot lose it, nor be given it.
    let mut flagged = symlink("d/l", b"f");
    for bits in [0, INODE_NODUMP] {
        change(&mut flagged, |it| it.inode_flags = bits);
        let parent = target.parent_of(b"d/l").unwrap();
        target.symlink(&parent, &flagged, b"f").unwrap();
        assert_as_recorded(&target, &flagged);
        std::fs::remove_file(folder.at("d/l")).unwrap();
    }
}

#[test]
fn inode_flags_come_last_and_stand() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::IfChanged);
    for (name, bits) in [("i", INODE_IMMUTABLE), ("a", INODE_APPEND), ("n", INODE_NODUMP)] {
        let mut file = file(name, 0o644);
        change(&mut file, |a| (a.inode_flags, a.uid) = (bits, 5));
        restore(&target, &file, b"");
        assert_as_recorded(&target, &file);
    }
    let mut locked = directory("d", 0o755);
    change(&mut locked, |a| a.inode_flags = INODE_IMMUTABLE);
    let child = file("d/child", 0o644);
    target.directory(&locked).unwrap();
    restore(&target, &child, b"");
    target.finish_directory(&locked).unwrap();
    assert_as_recorded(&target, &locked);
    // Again, over what is locked now.
    let target = folder.target(Overwrite::Always);
    target.directory(&locked).unwrap();
    restore(&target, &child, b"longer");
    target.finish_directory(&locked).unwrap();
    assert_as_recorded(&target, &locked);
}
