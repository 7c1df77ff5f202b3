//! Restores among what no snapshot has: links, locked objects, other file systems.

use crate::full_disk::Small;
use crate::machine::{Machine, ended};
use crate::restoring::volume::Volume;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

fn chattr(change: &str, path: &Path) {
    assert_eq!(ended(Command::new("chattr").arg(change).arg(path)).code, 0, "{}", path.display());
}

fn is_locked(path: &Path) -> bool {
    let listed = ended(Command::new("lsattr").arg("-d").arg(path)).text();
    listed.split_whitespace().next().is_some_and(|flags| flags.contains('i'))
}

/// Seen: `/lib` was a link to `usr/lib`, `/lib/modules` was backed up, and a restore into `/` made `lib` a directory of its
/// own.
#[test]
fn a_link_above_what_was_backed_up_is_not_replaced() {
    let machine = Machine::new();
    let root = machine.path("root");
    std::fs::create_dir_all(root.join("data/home/me")).unwrap();
    std::fs::create_dir_all(root.join("data/home/other")).unwrap();
    std::fs::write(root.join("data/home/me/f"), "mine").unwrap();
    symlink("data/home", root.join("home")).unwrap();
    let me = root.join("home/me");
    machine.run(["backup", me.to_str().unwrap()]).ends(0);
    std::fs::remove_file(me.join("f")).unwrap();
    let whole = format!("latest:{}", root.display());
    let to = ["restore", &whole, "--target", root.to_str().unwrap()];
    for more in [&["--dry-run"][..], &[], &["--overwrite", "always"]] {
        let ran = machine.run([&to[..], more].concat());
        assert!([1, 3].contains(&ran.code), "{ran:?}");
        assert!(ran.stderr.contains("home: ") && ran.stderr.contains("--target DIR"), "{ran:?}");
        assert!(root.join("home").is_symlink() && root.join("home/other").is_dir());
    }
    // As the message says.
    let part = format!("latest:{}", me.display());
    machine.run(["restore", &part, "--target", me.to_str().unwrap()]).ends(0);
    assert_eq!(std::fs::read_to_string(root.join("data/home/me/f")).unwrap(), "mine");
    // What was backed up itself is replaced when that is asked for.
    std::fs::remove_dir_all(root.join("data/home/me")).unwrap();
    symlink("other", root.join("data/home/me")).unwrap();
    let home = format!("latest:{}", root.join("home").display());
    let target = root.join("data/home");
    let to = ["restore", &home, "--target", target.to_str().unwrap()];
    let refused = machine.run(to).ends(1);
    assert!(refused.stderr.contains("--overwrite always"), "{refused:?}");
    assert!(target.join("me").is_symlink() && !target.join("other/f").exists());
    machine.run([&to[..], &["--overwrite", "always"]].concat()).ends(0);
    assert!(!target.join("me").is_symlink() && target.join("me/f").is_file());
}

/// Seen: with `-x`, what another file system had been at the time of the backup was a directory without content; on a
/// machine with one file system, `--delete` emptied it.
#[test]
fn restore_delete_leaves_alone_what_no_backup_entered() {
    let machine = Machine::new();
    let system = machine.path("system");
    std::fs::create_dir_all(system.join("etc")).unwrap();
    std::fs::write(system.join("etc/f"), "etc").unwrap();
    let Some(home) = Small::mount(system.join("home"), "1m") else { return };
    std::fs::write(system.join("home/doc"), "mine").unwrap();
    for path in [&system, &system.join("home")] {
        machine.run(["backup", "-x", path.to_str().unwrap()]).ends(0);
    }
    drop(home);
    let new = machine.path("new");
    let restore = |path: &Path, target: &Path, more: &[&str]| {
        let from = format!("latest:{}", path.display());
        let words = ["restore", &from, "--path", path.to_str().unwrap(), "--target"];
        machine.run([&words[..], &[target.to_str().unwrap()], more].concat()).ends(0)
    };
    restore(&system, &new, &[]);
    restore(&system.join("home"), &new.join("home"), &[]);
    std::fs::write(new.join("etc/stranger"), "goes").unwrap();
    for more in [&["--delete", "--dry-run"][..], &["--delete"]] {
        let told = restore(&system, &new, more);
        assert!(told.stderr.contains("home was another file system"), "{}", told.stderr);
        assert!(!told.text().contains("home"), "{}", told.text());
    }
    assert!(!new.join("etc/stranger").exists());
    assert_eq!(std::fs::read_to_string(new.join("home/doc")).unwrap(), "mine");
    let map = machine.run(["map", "latest", "--path", system.to_str().unwrap()]).ends(0).text();
    assert!(
        map.lines().any(|line| line.contains("/home,") && line.contains("not-entered")),
        "{map}"
    );
    // Entered again, it is a directory like others.
    machine.run(["backup", "-x", system.to_str().unwrap()]).ends(0);
    let told = restore(&system, &new, &["--delete"]);
    assert!(!told.stderr.contains("another file system"), "{}", told.stderr);
    assert!(!new.join("home/doc").exists());
}

/// Nothing of the directory itself changes when the option goes.
#[test]
fn what_is_entered_by_a_later_backup_is_no_longer_marked() {
    let machine = Machine::new();
    let system = machine.path("system");
    std::fs::create_dir(&system).unwrap();
    let Some(_home) = Small::mount(system.join("home"), "1m") else { return };
    std::fs::write(system.join("home/doc"), "mine").unwrap();
    let system = system.to_str().unwrap();
    for (more, is_marked) in [(&["-x"][..], true), (&[], false), (&["-x"], true)] {
        machine.run([&["backup", system], more].concat()).ends(0);
        let map = machine.run(["map", "latest"]).ends(0).text();
        assert_eq!(map.contains("not-entered"), is_marked, "{map}");
        assert_eq!(map.contains("/home/doc,"), !is_marked, "{map}");
    }
}

/// Seen: whatever was locked in the target was open afterwards, though `never` keeps what is there as it is.
#[test]
fn never_leaves_directories_as_locked_as_they_were() {
    let machine = Machine::new();
    machine.write("folder/sub/f", b"new");
    machine.backup();
    let target = machine.path("target");
    std::fs::create_dir_all(target.join("folder/sub")).unwrap();
    for locked in ["folder/sub", "folder"] {
        chattr("+i", &target.join(locked));
    }
    let stored = machine.stored("latest", "");
    for _ in 0..2 {
        let to = ["restore", &stored, "--target", target.to_str().unwrap()];
        machine.run([&to[..], &["--overwrite", "never"]].concat()).ends(0);
        let locked = ["folder", "folder/sub"].map(|path| is_locked(&target.join(path)));
        for unlocked in ["folder", "folder/sub"] {
            chattr("-i", &target.join(unlocked));
        }
        assert_eq!(locked, [true; 2]);
        assert!(target.join("folder/sub/f").is_file());
        chattr("+i", &target.join("folder/sub"));
        chattr("+i", &target.join("folder"));
    }
    for unlocked in ["folder", "folder/sub"] {
        chattr("-i", &target.join(unlocked));
    }
}

/// Seen: only an own lock kept a file, and the lock of its directory was lifted by the restore itself.
#[test]
fn restore_delete_leaves_alone_what_lies_in_a_locked_directory() {
    let machine = Machine::new();
    machine.write("kept/f", b"of the snapshot");
    machine.backup();
    let kept = machine.source().join("kept");
    std::fs::write(kept.join("mine"), "mine").unwrap();
    std::fs::write(machine.source().join("goes"), "goes").unwrap();
    let (stored, source) = (machine.stored("latest", ""), machine.source());
    for (lock, unlock) in [("+i", "-i"), ("+a", "-a")] {
        chattr(lock, &kept);
        for more in [&["--dry-run"][..], &[]] {
            let to = ["restore", &stored, "--target", source.to_str().unwrap(), "--delete"];
            let told = machine.run([&to[..], more].concat()).ends(3);
            let said = told.stderr + &String::from_utf8_lossy(&told.stdout);
            assert!(said.contains("kept/mine") && said.contains("its directory was"), "{said}");
        }
        chattr(unlock, &kept);
        assert_eq!(std::fs::read_to_string(kept.join("mine")).unwrap(), "mine");
        assert!(!source.join("goes").exists());
    }
}

/// Seen: what came late into a directory opened those above it, too, and only the innermost was locked again.
#[test]
fn what_waits_for_a_removal_leaves_all_locks_above_it() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock directories");
    }
    let machine = Machine::new();
    machine.write("above/deep/x", b"x");
    let (above, target) = (machine.source().join("above"), machine.path("target"));
    chattr("+i", &above);
    machine.backup();
    chattr("-i", &above);
    let stored = machine.stored("latest", "");
    let to = ["restore", stored.trim_end_matches('/'), "--target", target.to_str().unwrap()];
    machine.run(to).ends(0);
    let above = target.join("above");
    chattr("-i", &above);
    std::fs::remove_file(above.join("deep/x")).unwrap();
    std::fs::create_dir_all(above.join("deep/x/full")).unwrap();
    chattr("+i", &above);
    machine.run([&to[..], &["--delete"]].concat()).ends(0);
    let (is_locked, is_file) = (is_locked(&above), above.join("deep/x").is_file());
    chattr("-i", &above);
    assert!(is_locked && is_file, "{is_locked} {is_file}");
}

/// Seen: the temporary name was locked with the file, could neither become the final one nor go, and stayed for ever.
#[test]
fn names_of_a_locked_file_are_joined_again_and_leave_nothing_behind() {
    let machine = Machine::new();
    let names = ["a/f", "a/h", "z/g"];
    machine.write("a/f", b"locked");
    std::fs::create_dir(machine.source().join("z")).unwrap();
    for name in &names[1..] {
        std::fs::hard_link(machine.source().join("a/f"), machine.source().join(name)).unwrap();
    }
    chattr("+i", &machine.source().join("a/f"));
    machine.backup();
    let target = machine.path("target");
    let (stored, at) = (machine.stored("latest", ""), |name: &str| target.join(name));
    let restore = |more: &[&str]| {
        let to = ["restore", &stored, "--target", target.to_str().unwrap()];
        machine.run([&to[..], more].concat()).ends(0);
        let inodes = names.map(|name| at(name).metadata().unwrap().ino());
        assert_eq!(inodes, [inodes[0]; 3], "{more:?}");
        assert!(is_locked(&at("z/g")), "{more:?}");
        let listed = std::fs::read_dir(at("a")).unwrap().count();
        assert_eq!(listed, 2, "{more:?}");
    };
    restore(&[]);
    restore(&["--overwrite", "always"]);
    restore(&[]);
    // One name is missing, another one is a file of its own.
    chattr("-i", &at("a/f"));
    std::fs::remove_file(at("z/g")).unwrap();
    std::fs::remove_file(at("a/h")).unwrap();
    std::fs::write(at("a/h"), "separate").unwrap();
    restore(&[]);
    for path in [machine.source().join("a/f"), at("a/f")] {
        chattr("-i", &path);
    }
}

/// Seen: what was kept under the first name of a file got its further names; the content of the snapshot was nowhere.
#[test]
fn further_names_are_not_linked_to_what_was_kept_under_the_first() {
    let machine = Machine::new();
    machine.write("a", b"of the snapshot");
    for name in ["b", "c"] {
        std::fs::hard_link(machine.source().join("a"), machine.source().join(name)).unwrap();
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(1 << 20);
    let file = std::fs::File::options().write(true).open(machine.source().join("a")).unwrap();
    file.set_modified(old).unwrap();
    machine.backup();
    let stored = machine.stored("latest", "");
    for mode in ["never", "if-newer"] {
        for kept in ["a file", "a link"] {
            let target = machine.path("target");
            std::fs::create_dir(&target).unwrap();
            match kept {
                "a file" => std::fs::write(target.join("a"), "mine").unwrap(),
                _ => symlink("/etc/passwd", target.join("a")).unwrap(),
            }
            let to =
                ["restore", &stored, "--target", target.to_str().unwrap(), "--overwrite", mode];
            let would = machine.run([&to[..], &["--dry-run"]].concat()).ends(0);
            let did = machine.run(to).ends(0);
            assert_eq!(would.text().contains("kept 1"), did.text().contains("kept 1"), "{did:?}");
            let [b, c] = ["b", "c"].map(|name| target.join(name));
            assert_eq!(std::fs::read_to_string(&b).unwrap(), "of the snapshot", "{mode} {kept}");
            let inodes = [&b, &c].map(|path| path.symlink_metadata().unwrap().ino());
            assert_eq!(inodes[0], inodes[1], "{mode} {kept}");
            assert_eq!(b.symlink_metadata().unwrap().nlink(), 2);
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
}

/// Seen: a further name of a damaged file replaced what the user had there by what had stood under the first.
#[test]
fn further_names_of_what_is_damaged_are_damaged_and_replace_nothing() {
    let machine = Machine::new();
    machine.write("a", &crate::machine::random(300_000));
    std::fs::hard_link(machine.source().join("a"), machine.source().join("b")).unwrap();
    machine.backup();
    let container = machine.container_over(250_000);
    let mut bytes = std::fs::read(&container).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle - 10_000..middle + 10_000].fill(0);
    std::fs::write(&container, bytes).unwrap();
    let target = machine.path("target");
    std::fs::create_dir(&target).unwrap();
    for name in ["a", "b"] {
        std::fs::write(target.join(name), name).unwrap();
    }
    let stored = machine.stored("latest", "");
    let ran = machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(3);
    for name in ["a", "b"] {
        let said = ran.text() + &ran.stderr;
        assert!(said.lines().any(|line| line.trim_start().starts_with(name)), "{said}");
        assert_eq!(std::fs::read_to_string(target.join(name)).unwrap(), name);
    }
}

/// Seen: into a directory that only grows everything was restored, and the marker of the restore stayed; into an
/// immutable one nothing was, while immutable directories below it were opened unasked.
#[test]
fn a_locked_target_is_opened_for_the_restore_alone() {
    let machine = Machine::new();
    machine.backup();
    let stored = machine.stored("latest", "");
    for (lock, unlock) in [("+i", "-i"), ("+a", "-a")] {
        let target = machine.path("target");
        std::fs::create_dir(&target).unwrap();
        chattr(lock, &target);
        machine
            .run(["restore", &stored, "--target", target.to_str().unwrap(), "--dry-run"])
            .ends(0);
        machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
        let flags = ended(Command::new("lsattr").arg("-d").arg(&target)).text();
        let flags = flags.split_whitespace().next().unwrap().to_owned();
        chattr(unlock, &target);
        assert!(flags.contains(&lock[1..]), "{flags}");
        let names = std::fs::read_dir(&target).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["folder", "hello.txt"]);
        std::fs::remove_dir_all(&target).unwrap();
    }
}

/// Seen in a rescue system: links, FIFOs and devices were missing in a backup that ended well.
#[test]
fn without_proc_a_backup_is_partial_and_says_what_to_mount() {
    let machine = Machine::new();
    symlink("hello.txt", machine.source().join("link")).unwrap();
    let source = machine.source();
    let without = |words: &[&str]| {
        let command = machine.command(words);
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        ended(&mut shell)
    };
    if without(&["version"]).code != 0 {
        return testkit::skip("/proc cannot be hidden: not root");
    }
    let ran = without(&["backup", source.to_str().unwrap()]).ends(3);
    assert!(ran.stderr.contains("mount -t proc proc /proc"), "{}", ran.stderr);
    let target = machine.path("target");
    let stored = machine.stored("latest", "");
    machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(3);
    assert_eq!(std::fs::read_link(target.join("link")).unwrap(), Path::new("hello.txt"));
    let restored = machine.path("restored");
    let ran = without(&["restore", &stored, "--target", restored.to_str().unwrap()]);
    assert!(ran.stderr.contains("mount -t proc proc /proc"), "{}", ran.stderr);
    // All is read again where it can be.
    machine.backup();
    machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
}

/// Seen: a backup of one directory, restored to where it was, took back what had been forbidden above it since.
#[test]
fn what_is_only_above_a_source_keeps_its_attributes() {
    let machine = Machine::new();
    let above = machine.path("above");
    std::fs::create_dir_all(above.join("source")).unwrap();
    std::fs::write(above.join("source/f"), "f").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    let set = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    set(&above, 0o775);
    set(&above.join("source"), 0o751);
    machine.run(["backup", above.join("source").to_str().unwrap()]).ends(0);
    set(&above, 0o700);
    set(&above.join("source"), 0o700);
    let whole = format!("latest:{}", machine.path("").display());
    let restore = |target: &Path| {
        machine.run(["restore", &whole, "--target", target.to_str().unwrap()]).ends(0);
    };
    restore(&machine.path(""));
    assert_eq!((mode(&above), mode(&above.join("source"))), (0o700, 0o751));
    // What the restore makes has the attributes of the snapshot.
    let new = machine.path("new");
    restore(&new);
    assert_eq!(mode(&new.join("above")), 0o775);
}

/// Seen on an overlay over btrfs, where a subvolume and its snapshot have the same inodes, born at the same time: one
/// of two states of a file with two names was nowhere.
#[test]
fn two_states_of_a_file_beside_each_other_are_two_files() {
    let machine = Machine::new();
    let mount = machine.path("mount");
    let Some(_volume) = Volume::make("btrfs", &machine.path(""), &mount) else { return };
    let [below, upper, work, merged] =
        ["below", "upper", "work", "merged"].map(|it| mount.join(it));
    for folder in [&below, &upper, &work, &merged] {
        std::fs::create_dir(folder).unwrap();
    }
    let btrfs = |words: &[&str]| {
        assert_eq!(ended(Command::new("btrfs").current_dir(&below).args(words)).code, 0);
    };
    btrfs(&["subvolume", "create", "v"]);
    std::fs::write(below.join("v/f"), "old").unwrap();
    std::fs::hard_link(below.join("v/f"), below.join("v/g")).unwrap();
    btrfs(&["subvolume", "snapshot", "v", "snap"]);
    std::fs::write(below.join("v/f"), "newer state").unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        below.display(),
        upper.display(),
        work.display()
    );
    let mut overlay = Command::new("mount");
    overlay.args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged);
    if ended(&mut overlay).code != 0 {
        return testkit::skip("no overlay can be mounted");
    }
    machine.run(["backup", merged.to_str().unwrap()]).ends(0);
    let target = machine.path("target");
    let stored = format!("latest:{}", merged.display());
    machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
    for (folder, content) in [("v", "newer state"), ("snap", "old")] {
        for name in ["f", "g"] {
            let found = std::fs::read_to_string(target.join(folder).join(name)).unwrap();
            assert_eq!(found, content, "{folder}/{name}");
        }
    }
    assert_eq!(ended(Command::new("umount").arg(&merged)).code, 0);
}
