//! What `restore` says, and how it ends.

#[path = "../../../pipeline/tests/it/volume.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
pub(crate) mod volume;

use crate::full_disk::Small;
use crate::machine::{Machine, ended, length, random};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use volume::Volume;

/// Review finding U1: a dry run said "112 removed" and named nothing; there was no guard.
#[test]
fn restore_delete_names_what_goes_and_never_works_in_the_root_directory() {
    let machine = Machine::new();
    machine.backup();
    for flags in [&["--dry-run"][..], &[]] {
        let mut arguments = vec!["restore", "latest", "--target", "/", "--delete"];
        arguments.extend(flags);
        let ran = machine.run(arguments).ends(2);
        assert!(ran.stderr.contains("--delete"), "{}", ran.stderr);
    }
    let (stored, target) = (machine.stored("latest", ""), machine.path("target"));
    std::fs::create_dir_all(target.join("stranger/a")).unwrap();
    std::fs::write(target.join("stranger/a/b"), [0; 1024]).unwrap();
    std::fs::write(target.join("folder"), "in the way").unwrap();
    let restore = |flags: &[&str]| {
        let common = ["restore", &stored, "--target", target.to_str().unwrap(), "--delete"];
        machine.run(common.iter().chain(flags)).ends(0)
    };
    let would = restore(&["--dry-run"]).text();
    assert!(would.contains("would delete  stranger/  with 2 objects in it, 1.00 KiB\n"), "{would}");
    assert!(would.contains("to delete  3 "), "{would}");
    let lines = restore(&["--dry-run", "--json"]).lines();
    let removed = lines.iter().find(|line| line["message_type"] == "removed").unwrap();
    assert_eq!(
        (removed["path"].as_str(), removed["objects"].as_u64(), removed["bytes"].as_u64()),
        (Some("stranger"), Some(3), Some(1024))
    );
    let did = restore(&[]).text();
    assert!(did.contains("deleted  stranger/  with 2 objects in it, 1.00 KiB\n"), "{did}");
    assert!(did.contains("deleted    3 not in the snapshot, 1.00 KiB (--delete)"), "{did}");
    assert!(!target.join("stranger").exists(), "{did}");
}

/// Review finding U8: it was exit code 3, and a line with an empty path.
#[test]
fn a_restore_of_which_nothing_came_back_is_no_partial_one() {
    let machine = Machine::new();
    machine.backup();
    let container = machine.container_over(0);
    let mut bytes = std::fs::read(&container).unwrap();
    let quarter = length(&container) as usize / 4;
    bytes[quarter..].fill(0);
    bytes[300..quarter].fill(0);
    std::fs::write(&container, bytes).unwrap();
    let target = machine.path("target");
    let ran = machine.run(["restore", "latest", "--target", target.to_str().unwrap()]).ends(14);
    assert!(ran.stderr.starts_with("/: nothing from here on can be read"), "{}", ran.stderr);
    assert!(ran.text().contains("icecore check"), "{}", ran.text());
}

/// The repository lay in the folder that was backed up, and no snapshot has it: it went with what else was new.
#[test]
fn restore_delete_leaves_repositories_alone_and_says_so() {
    let machine = Machine::new();
    let home = machine.source();
    let [repo, other] = ["backup", "disk/other"].map(|name| home.join(name));
    std::fs::create_dir(home.join("disk")).unwrap();
    for place in [&repo, &other] {
        machine.run(["init", "--repo", place.to_str().unwrap()]).ends(0);
    }
    let run = |words: &[&str]| machine.run([words, &["--repo", repo.to_str().unwrap()]].concat());
    run(&["backup", home.to_str().unwrap(), "--exclude", "disk"]).ends(0);
    std::fs::write(home.join("new"), "new").unwrap();
    std::fs::write(home.join("disk/new"), "new").unwrap();
    let source = format!("latest:{}", home.display());
    let restore = ["restore", &source, "--target", home.to_str().unwrap(), "--delete"];
    for flags in [&["--dry-run"][..], &[]] {
        let ran = run(&[&restore[..], flags].concat()).ends(0);
        for name in ["backup", "disk/other"] {
            let said = format!("{name} is a repository: --delete leaves it alone");
            assert!(ran.stderr.contains(&said), "{}", ran.stderr);
        }
        assert!(ran.text().contains(" 2 not in the snapshot"), "{}", ran.text());
    }
    assert!(!home.join("new").exists() && !home.join("disk/new").exists());
    run(&["check", "--read-data"]).ends(0);
    machine.run(["check", "--repo", other.to_str().unwrap()]).ends(0);
    // Nor in another repository.
    let inside = other.join("snapshots");
    let ran = run(&["restore", &source, "--target", inside.to_str().unwrap(), "--delete"]).ends(2);
    assert!(ran.stderr.contains("lies in a repository"), "{}", ran.stderr);
}

#[test]
fn nothing_is_restored_over_what_it_is_read_from() {
    let machine = Machine::new();
    machine.write("config", b"of somebody else");
    machine.backup();
    let copy = machine.path("copy");
    std::fs::create_dir(&copy).unwrap();
    machine.run(["copy", "--to", copy.to_str().unwrap()]).ends(0);
    let link = machine.path("link");
    std::os::unix::fs::symlink(machine.path("repository"), &link).unwrap();
    let stored = machine.stored("latest", "");
    let before = std::fs::read(machine.path("repository").join("config")).unwrap();
    for target in [
        machine.path("repository"),
        machine.path("repository").join("new/below"),
        link,
        copy.clone(),
    ] {
        let words = ["restore", &stored, "--copies", copy.to_str().unwrap()];
        let ran = machine.run([&words[..], &["--target", target.to_str().unwrap()]].concat());
        assert!(ran.ends(2).stderr.contains("lies in the repository"), "{}", target.display());
    }
    assert_eq!(std::fs::read(machine.path("repository").join("config")).unwrap(), before);
    assert!(!machine.path("repository").join("new").exists());
    let beside = machine.path("repo-beside");
    machine.run(["restore", &stored, "--target", beside.to_str().unwrap()]).ends(0);
}

/// Each run stored all earlier ones.
#[test]
fn a_repository_is_neither_backed_up_into_itself_nor_copied_there() {
    let machine = Machine::new();
    machine.backup();
    for named in [machine.path("repository"), machine.path("repository").join("containers")] {
        let refused = machine.run(["backup", named.to_str().unwrap()]).ends(2);
        assert!(refused.stderr.contains("icecore copy --to"), "{}", refused.stderr);
    }
    let inside = machine.path("repository").join("copy");
    machine.run(["copy", "--to", inside.to_str().unwrap()]).ends(2);
    assert!(!inside.exists());
}

#[test]
fn a_pattern_of_a_restore_that_matches_nothing_is_said_and_a_broken_one_is_refused() {
    let machine = Machine::new();
    machine.backup();
    let (stored, target) = (machine.stored("latest", ""), machine.path("target"));
    let restore = |flags: &[&str]| {
        let _ = std::fs::remove_dir_all(&target);
        let words = ["restore", &stored, "--target", target.to_str().unwrap()];
        machine.run(words.iter().chain(flags))
    };
    let is_there = |name: &str| target.join(name).exists();
    let said = restore(&["--exclude", "folder/large"]).ends(0).stderr;
    assert!(said.contains("--exclude 'folder/large' matched nothing"), "{said}");
    assert!(said.contains("--exclude '**/folder/large'") && is_there("folder/large"), "{said}");
    let said = restore(&["--exclude", "**/folder/large", "--exclude", "lar*"]).ends(0).stderr;
    assert!(said.is_empty() && !is_there("folder/large") && is_there("folder"), "{said}");
    let said = restore(&["--include", "hello.txt", "--include", "helo.txt"]).ends(0).stderr;
    let count = said.matches("matched nothing").count();
    assert!(count == 1 && said.contains("--include 'helo.txt'"), "{said}");
    let lines = restore(&["--exclude", "other", "--json", "--dry-run"]).ends(0).lines();
    assert!(lines[0]["message"].as_str().unwrap().contains("'other' matched nothing"), "{lines:?}");
    for flag in ["--include", "--exclude"] {
        for pattern in ["[", "a[b", ""] {
            let said = restore(&[flag, pattern]).ends(2).stderr;
            assert!(said.contains(&format!("'{pattern}'")) && !target.exists(), "{said}");
        }
    }
    // What it spares in the target is matched, too.
    restore(&[]).ends(0);
    std::fs::write(target.join("other"), "other").unwrap();
    let words = ["restore", &stored, "--target", target.to_str().unwrap(), "--delete"];
    let said = machine.run(words.iter().chain(&["--exclude", "other"])).ends(0).stderr;
    assert!(said.is_empty() && is_there("other"), "{said}");
}

#[test]
fn a_repository_is_not_made_among_files_of_others() {
    let machine = Machine::bare();
    let place = machine.path("repository");
    let make = |place: &str| machine.run(["init", "--repo", place]);
    std::fs::create_dir_all(place.join("lost+found")).unwrap();
    std::fs::write(place.join("letter"), "dear").unwrap();
    let refused = make(place.to_str().unwrap()).ends(2).stderr;
    assert!(refused.contains("it contains letter"), "{refused}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2, "nothing was made");
    // As the message says.
    let own = place.join("icecore");
    assert!(refused.contains(&format!("--repo {}", own.display())), "{refused}");
    make(own.to_str().unwrap()).ends(0);
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::remove_file(place.join("letter")).unwrap();
    machine.run(["init"]).ends(0);
    machine.backup();
    let among = machine.path("among");
    std::fs::create_dir(&among).unwrap();
    std::fs::write(among.join("letter"), "dear").unwrap();
    let refused = machine.run(["copy", "--to", among.to_str().unwrap()]).ends(2).stderr;
    assert!(refused.contains("it contains letter") && refused.contains("--to"), "{refused}");
    assert_eq!(std::fs::read_dir(&among).unwrap().count(), 1);
    std::fs::remove_file(among.join("letter")).unwrap();
    machine.run(["copy", "--to", among.to_str().unwrap()]).ends(0);
    machine.run(["copy", "--to", among.to_str().unwrap()]).ends(0);
    // Of an init that was interrupted.
    let begun = machine.path("begun");
    make(begun.to_str().unwrap()).ends(0);
    for name in ["config", "config.copy"] {
        std::fs::remove_file(begun.join(name)).unwrap();
    }
    std::fs::remove_dir_all(begun.join("keys")).unwrap();
    make(begun.to_str().unwrap()).ends(0);
}

#[test]
fn what_a_beginning_of_an_id_can_mean_is_named_and_a_filter_that_takes_nothing_too() {
    let machine = Machine::new();
    (0..18).for_each(|_| drop(machine.backup()));
    let ids = machine.snapshots();
    let beginnings: Vec<_> = ids.iter().map(|id| &id[..1]).collect();
    let shared = beginnings.iter().find(|one| beginnings.iter().filter(|it| it == one).count() > 1);
    let refused = machine.run(["restore", shared.unwrap(), "--target", "/nowhere"]);
    assert_ne!(refused.code, 0);
    let named = ids.iter().filter(|id| refused.stderr.contains(&id[..8])).count();
    assert!(named > 1 && !refused.stderr.contains(&ids[0]), "{}", refused.stderr);
    let forget = ["forget", "--keep-last", "1", "--node", "typo"];
    let said = machine.run(forget).ends(0);
    assert!(said.stderr.contains("no snapshot matches --node typo"), "{}", said.stderr);
    assert!(said.text().contains("no snapshot was chosen"), "{}", said.text());
}

/// Where two trees differ, by `diff`.
fn difference(one: &Path, other: &Path) -> String {
    ended(Command::new("diff").args(["-r", "--no-dereference"]).args([one, other])).text()
}

/// Seen: with `never`, parts of files were kept, the restore ended well, and temporary names stayed for ever.
#[test]
fn restores_that_are_killed_and_run_again_bring_everything_whatever_they_may_overwrite() {
    let machine = Machine::new();
    for number in 0..400u32 {
        let bytes = random(1000 + number as usize * 40);
        machine.write(&format!("d{}/{number}", number % 7), &bytes);
    }
    machine.write("huge", &random(24 << 20));
    machine.write("theirs", b"as it was backed up");
    machine.backup();
    let stored = machine.stored("latest", "");
    for mode in ["if-changed", "always", "never", "if-newer"] {
        let (keeps, target) = (["never", "if-newer"].contains(&mode), machine.path(mode));
        std::fs::create_dir(&target).unwrap();
        if keeps {
            std::fs::write(target.join("theirs"), "what they made of it").unwrap();
        }
        let words = ["restore", &stored, "--target", target.to_str().unwrap(), "--overwrite", mode];
        let mut was_cut_short = 0;
        for millis in [40, 80, 120, 160, 200, 240, 280] {
            let quiet = |command: &mut Command| {
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            };
            let mut restore = quiet(&mut machine.command(words));
            std::thread::sleep(Duration::from_millis(millis));
            was_cut_short += u32::from(restore.try_wait().unwrap().is_none());
            let _ = restore.kill();
            restore.wait().unwrap();
        }
        assert!(was_cut_short > 0, "{mode}: each was faster than its end");
        machine.run(words).ends(0);
        if keeps {
            let theirs = std::fs::read_to_string(target.join("theirs")).unwrap();
            assert_eq!(theirs, "what they made of it");
            std::fs::copy(machine.source().join("theirs"), target.join("theirs")).unwrap();
        }
        assert_eq!(difference(&machine.source(), &target), "", "{mode}");
    }
}

/// Seen: a home that was restored to its place belonged to root, and its user could not enter it.
#[test]
fn a_directory_that_is_restored_to_where_it_was_has_its_attributes() {
    let machine = Machine::new();
    let home = machine.source();
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    std::os::unix::fs::chown(&home, Some(1234), Some(1235)).unwrap();
    set(&home, 0o2750);
    let flag = ["-n", "user.flag", "-v", "1"];
    assert_eq!(ended(Command::new("setfattr").args(flag).arg(&home)).code, 0);
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    std::fs::File::open(&home).unwrap().set_modified(before).unwrap();
    let look = |path: &Path| {
        let seen = path.metadata().unwrap();
        let flags = ended(Command::new("getfattr").args(["-d", "--absolute-names"]).arg(path));
        let flags = flags.text().lines().skip(1).collect::<Vec<_>>().join("\n");
        (seen.mode(), seen.uid(), seen.gid(), seen.mtime(), flags)
    };
    let was = look(&home);
    machine.backup();
    let (stored, moved) = (machine.stored("latest", ""), machine.path("moved"));
    std::fs::rename(&home, &moved).unwrap();
    let restore = |target: &Path, more: &[&str]| {
        let words = ["restore", &stored, "--target", target.to_str().unwrap()];
        machine.run([&words[..], more].concat())
    };
    for flags in [&["--verify"][..], &["--overwrite", "never"], &["--include", "hello.txt"]] {
        restore(&home, flags).ends(0);
        assert_eq!(look(&home), was, "{flags:?}");
        std::fs::remove_dir_all(&home).unwrap();
    }
    // One that was killed had made it.
    restore(&home, &[]).ends(0);
    set(&home, 0o700);
    std::os::unix::fs::chown(&home, Some(0), Some(0)).unwrap();
    let (id, path) = (machine.snapshots().remove(0), &home.to_str().unwrap()[1..]);
    let text = format!(
        "An icecore restore into this folder is under way or was cut short. Files changed since 5 (seconds since 1970)\nThe restore made this folder.\nRestored: {id}:{path}\n"
    );
    std::fs::write(home.join(".icecore-restore-1-5"), text).unwrap();
    restore(&home, &[]).ends(0);
    assert_eq!(look(&home), was);
    assert_eq!(difference(&moved, &home), "");
    // Whoever made the target chose who may read it.
    let other = machine.path("other");
    std::fs::create_dir(&other).unwrap();
    set(&other, 0o700);
    restore(&other, &[]).ends(0);
    assert_eq!(look(&other).0 & 0o7777, 0o700);
    assert_eq!((look(&other).1, look(&other).4.as_str()), (0, ""));
}

/// Seen: what was in the way of a directory was told once for each object in it.
#[test]
fn what_is_in_the_way_of_a_directory_is_told_once_and_counted_for_each_object() {
    let machine = Machine::new();
    for number in 0..8 {
        machine.write(&format!("folder/{number}"), b"of the snapshot");
    }
    machine.backup();
    let target = machine.path("target");
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink("/nowhere", target.join("folder")).unwrap();
    let stored = machine.stored("latest", "");
    let to = ["restore", &stored, "--target", target.to_str().unwrap(), "--overwrite", "never"];
    let refused = machine.run(to).ends(3);
    let told = refused.stderr.lines().filter(|line| line.starts_with("folder:")).count();
    assert!((1..3).contains(&told), "{}", refused.stderr);
    let failed =
        machine.run([&to[..], &["--json"]].concat()).ends(3).last()["report"]["failed"].as_u64();
    assert!(failed >= Some(9), "{failed:?}");
}

/// Seen: a newer file went because the snapshot has a directory of its name, and the dry run did not say so.
#[test]
fn if_newer_and_never_keep_what_lies_in_the_place_of_a_directory() {
    let machine = Machine::new();
    machine.backup();
    let target = machine.path("target");
    std::fs::create_dir(&target).unwrap();
    let (stored, newer) = (machine.stored("latest", ""), target.join("folder"));
    for what in ["file", "link"] {
        match what {
            "file" => std::fs::write(&newer, "newer").unwrap(),
            _ => std::os::unix::fs::symlink("hello.txt", &newer).unwrap(),
        }
        for mode in ["if-newer", "never"] {
            for more in [&["--dry-run"][..], &[], &["--delete"]] {
                let to = ["restore", &stored, "--target", target.to_str().unwrap()];
                let words = [&to[..], &["--overwrite", mode], more].concat();
                let ran = machine.run(&words);
                assert!([1, 3].contains(&ran.code), "{words:?}: {ran:?}");
                assert!(ran.stderr.contains("folder: "), "{words:?}: {}", ran.stderr);
                assert!(!newer.is_dir() || newer.is_symlink(), "{words:?}");
            }
        }
        std::fs::remove_file(&newer).unwrap();
    }
    machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
    assert_eq!(difference(&machine.source(), &target), "");
}

/// Seen: what somebody had made immutable went, and what lay in a subvolume that no backup had entered.
#[test]
fn restore_delete_leaves_what_is_locked_and_what_lies_in_other_subvolumes() {
    let machine = Machine::new();
    let mount = machine.path("mount");
    let Some(_volume) = Volume::make("btrfs", &machine.path(""), &mount) else { return };
    let home = mount.join("home");
    let subvolume = |path: &Path| {
        let made = ended(Command::new("btrfs").args(["subvolume", "create"]).arg(path));
        assert_eq!(made.code, 0, "{made:?}");
    };
    subvolume(&home);
    std::fs::write(home.join("own"), "own").unwrap();
    subvolume(&home.join("sub"));
    std::fs::write(home.join("sub/precious"), "precious").unwrap();
    // Empty in the snapshot, and a subvolume since.
    std::fs::create_dir(home.join("later")).unwrap();
    machine.run(["backup", home.to_str().unwrap(), "--one-file-system"]).ends(0);
    std::fs::write(home.join("goes"), "").unwrap();
    std::fs::remove_dir(home.join("later")).unwrap();
    subvolume(&home.join("later"));
    std::fs::write(home.join("later/precious"), "precious").unwrap();
    for locked in ["locked", "folder/locked"] {
        let locked = home.join(locked);
        std::fs::create_dir_all(locked.parent().unwrap()).unwrap();
        std::fs::write(&locked, "locked").unwrap();
        assert_eq!(ended(Command::new("chattr").arg("+i").arg(&locked)).code, 0);
    }
    let stored = format!("latest:{}", home.display());
    for more in [&["--dry-run"][..], &[]] {
        let to = ["restore", &stored, "--target", home.to_str().unwrap(), "--delete"];
        let told = machine.run([&to[..], more].concat()).ends(3).stderr;
        assert!(told.contains("locked: ") && told.contains("chattr -i"), "{told}");
    }
    for locked in ["locked", "folder/locked"] {
        assert_eq!(std::fs::read_to_string(home.join(locked)).unwrap(), "locked");
        assert_eq!(ended(Command::new("chattr").arg("-i").arg(home.join(locked))).code, 0);
    }
    assert!(!home.join("goes").exists());
    for of_another in ["sub/precious", "later/precious"] {
        assert_eq!(std::fs::read_to_string(home.join(of_another)).unwrap(), "precious");
    }
    // Named itself, too: it was emptied.
    let (stored, sub) = (format!("{stored}/sub"), home.join("sub"));
    for more in [&["--dry-run"][..], &[]] {
        let to = ["restore", &stored, "--target", sub.to_str().unwrap(), "--delete"];
        let told = machine.run([&to[..], more].concat()).ends(0);
        assert!(told.stderr.contains("which the backup did not enter"), "{told:?}");
    }
    assert_eq!(std::fs::read_to_string(sub.join("precious")).unwrap(), "precious");
}

/// Seen: whatever restore ended next in the same target removed the marker of one that was killed, and parts of files
/// were kept in silence from then on; and a marker counted only for restores into the directory in which it lay.
#[test]
fn only_who_restores_the_same_again_ends_what_was_begun_and_all_others_are_warned() {
    let machine = Machine::new();
    machine.write("other/file", b"other");
    machine.write("folder/file", b"0123456789");
    let old = machine.backup();
    machine.write("other/more", b"more");
    let new = machine.backup();
    let target = machine.path("target");
    let restore = |what: &str, to: &Path, more: &[&str]| {
        let words = ["restore", what, "--target", to.to_str().unwrap()];
        machine.run([&words[..], more].concat())
    };
    let stored = |name: &str| machine.stored("latest", name);
    // As it is when the restore is killed in the middle of a file.
    let cut_short = |below: &str, name: &str| {
        let into = target.join(below);
        restore(&stored(below), &into, &[]).ends(0);
        std::fs::write(target.join(name), "0123").unwrap();
        let path = machine.source().join(below);
        let path = path.to_str().unwrap().trim_start_matches('/').trim_end_matches('/');
        let text = format!(
            "An icecore restore into this folder is under way or was cut short. Files changed since 5\nRestored: {new}:{path}\n"
        );
        let marker = into.join(".icecore-restore-1-5");
        std::fs::write(&marker, text).unwrap();
        marker
    };
    let part = "folder/file";
    let marker = cut_short("", part);
    for (what, more) in [
        (stored("other/file"), &[][..]),
        (stored("other"), &[]),
        (stored(""), &["--include", "more"]),
        (machine.stored(&old, ""), &["--exclude", "folder"]),
        (stored(""), &["--no-sync", "--exclude", "folder"]),
        (stored(""), &["--dry-run"]),
    ] {
        let done = restore(&what, &target, more).ends(0);
        assert!(marker.exists(), "{what} {more:?}");
        assert!(done.stderr.contains("was not finished"), "{what} {more:?}: {}", done.stderr);
    }
    for mode in ["never", "if-newer"] {
        let told = restore(&stored(""), &target, &["--overwrite", mode]).ends(3).stderr;
        assert!(told.contains("folder/file: ") && marker.exists(), "{mode}: {told}");
        // Of a part of it, into its place.
        let to = target.join("folder");
        let told = restore(&stored("folder"), &to, &["--overwrite", mode]).ends(3).stderr;
        assert!(told.contains("file: ") && told.contains("was not finished"), "{mode}: {told}");
        assert!(marker.exists());
    }
    let done = restore(&stored(""), &target, &[]).ends(0);
    assert!(!marker.exists() && !done.stderr.contains("was not finished"), "{}", done.stderr);
    for stray in ["file", "more"] {
        std::fs::remove_file(target.join(stray)).unwrap();
    }
    assert_eq!(difference(&machine.source(), &target), "");

    let marker = cut_short("folder", part);
    let told = restore(&stored(""), &target, &["--overwrite", "never"]).ends(3).stderr;
    assert!(told.contains("folder/file: ") && told.contains("was not finished"), "{told}");
    restore(&stored("folder"), &target.join("folder"), &[]).ends(0);
    assert!(!marker.exists());
    restore(&stored(""), &target, &["--overwrite", "never"]).ends(0);
    assert_eq!(difference(&machine.source(), &target), "");
}

/// Seen: the copy had its length in zeros. Content of up to some KiB lies in the entry itself, and more elsewhere.
#[test]
fn what_cannot_be_linked_is_copied_with_its_content() {
    let machine = Machine::new();
    let target = machine.path("target");
    let Some(_mounted) = Small::mount(target.join("sub"), "16m") else { return };
    std::fs::create_dir(machine.source().join("sub")).unwrap();
    for length in [1, 700, 100_000, 3 << 20] {
        let name = format!("of-{length}");
        machine.write(&name, &random(length));
        let [first, second] = ["", "sub/"].map(|below| machine.source().join(below).join(&name));
        std::fs::hard_link(first, second).unwrap();
    }
    machine.backup();
    let stored = machine.stored("latest", "");
    let words = ["restore", &stored, "--target", target.to_str().unwrap()];
    let told = machine.run(words).ends(3).stderr;
    assert!(told.contains("separate copy"), "{told}");
    assert_eq!(difference(&machine.source(), &target), "");
}
