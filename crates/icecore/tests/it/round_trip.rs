//! What goes in comes out, by every way out.

use crate::machine::{Machine, ended, random};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

#[test]
fn what_was_backed_up_is_restored_and_verified() {
    let machine = Machine::new();
    symlink("hello.txt", machine.source().join("link")).unwrap();
    std::fs::hard_link(machine.source().join("hello.txt"), machine.source().join("second name"))
        .unwrap();
    std::fs::set_permissions(machine.source().join("hello.txt"), PermissionsExt::from_mode(0o640))
        .unwrap();
    machine.backup();
    let out = machine.path("out");
    let stored = machine.stored("latest", "");
    let restored = machine
        .run(["restore", &stored, "--verify", "--json", "--target", out.to_str().unwrap()])
        .ends(0);
    assert_eq!(restored.last()["report"]["differing"], 0);
    let diff = ended(
        Command::new("diff").args(["-r", "--no-dereference"]).args([&machine.source(), &out]),
    );
    assert_eq!(diff.code, 0, "{}", diff.text());
    let (one, two) = (
        std::fs::metadata(out.join("hello.txt")).unwrap(),
        std::fs::metadata(out.join("second name")).unwrap(),
    );
    assert_eq!((one.ino(), one.mode() & 0o7777), (two.ino(), 0o640));
}

#[test]
fn further_names_of_links_and_fifos_are_one_object_again() {
    let machine = Machine::new();
    let at = |name: &str| machine.source().join(name);
    symlink("hello.txt", at("link")).unwrap();
    assert_eq!(ended(Command::new("mkfifo").arg(at("fifo"))).code, 0);
    let pairs = [("link", "link 2"), ("fifo", "fifo 2")];
    pairs.iter().for_each(|(one, two)| std::fs::hard_link(at(one), at(two)).unwrap());
    machine.backup();
    let out = machine.path("out");
    let stored = machine.stored("latest", "");
    // The second restore meets what the first has made.
    for _ in 0..2 {
        machine.run(["restore", &stored, "--verify", "--target", out.to_str().unwrap()]).ends(0);
        for (one, two) in pairs {
            let inode = |name| std::fs::symlink_metadata(out.join(name)).unwrap().ino();
            assert_eq!(inode(one), inode(two), "{one}");
        }
    }
}

#[test]
fn a_second_backup_stores_next_to_nothing() {
    let machine = Machine::new();
    machine.backup();
    let source = machine.source();
    let ran = machine.run(["backup", "--json", source.to_str().unwrap()]).ends(0);
    let report = &ran.last()["report"];
    assert_eq!(report["chunks_new"], 0);
    assert!(report["bytes_transferred"].as_u64().unwrap() < 20_000, "{report}");
}

#[test]
fn a_file_is_printed_as_it_was() {
    let machine = Machine::new();
    let first = machine.backup();
    machine.write("hello.txt", b"other");
    machine.backup();
    assert_eq!(
        machine.run(["cat", &machine.stored("latest", "hello.txt")]).ends(0).stdout,
        b"other"
    );
    assert_eq!(machine.run(["cat", &machine.stored(&first, "hello.txt")]).ends(0).stdout, b"hello");
    assert_eq!(
        machine.run(["cat", &machine.stored("latest", "folder/large")]).ends(0).stdout,
        [7; 300_000]
    );
}

#[test]
fn names_of_one_object_are_one_object_in_an_archive_whatever_it_is() {
    let machine = Machine::new();
    let at = |name: &str| machine.source().join(name);
    std::os::unix::fs::symlink("hello.txt", at("a-link")).unwrap();
    assert_eq!(ended(Command::new("mkfifo").arg(at("b-fifo"))).code, 0);
    for name in ["a-link", "b-fifo", "hello.txt"] {
        std::fs::hard_link(at(name), at(&format!("{name}-again"))).unwrap();
    }
    machine.backup();
    let (archive, out) = (machine.path("archive.tar"), machine.path("out"));
    std::fs::create_dir(&out).unwrap();
    let stored = machine.stored("latest", "");
    let file = std::fs::File::create(&archive).unwrap();
    assert!(machine.command(["dump", &stored]).stdout(file).status().unwrap().success());
    ended(Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(&out)).ends(0);
    let unpacked = |name: &str| {
        let found =
            ended(Command::new("find").arg(&out).args(["-name", name, "-printf", "%i %n %l"]));
        found.ends(0).text()
    };
    for name in ["a-link", "b-fifo", "hello.txt"] {
        let first = unpacked(name);
        assert_eq!(first, unpacked(&format!("{name}-again")), "{name}");
        assert!(first.contains(" 2 "), "{name}: {first}");
    }
    assert!(unpacked("a-link-again").ends_with("hello.txt"));
}

#[test]
fn a_dump_is_an_archive_that_tar_unpacks() {
    let machine = Machine::new();
    machine.write(&format!("{}/deep", "long name ".repeat(15)), b"deep");
    symlink("x".repeat(200), machine.source().join("long link")).unwrap();
    std::fs::hard_link(machine.source().join("hello.txt"), machine.source().join("second name"))
        .unwrap();
    machine.backup();
    let archive = machine.path("archive.tar");
    let mut dump = machine.command(["dump", &machine.stored("latest", "")]);
    assert!(dump.stdout(std::fs::File::create(&archive).unwrap()).status().unwrap().success());
    let out = machine.path("out");
    std::fs::create_dir(&out).unwrap();
    let tar = ended(Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(&out));
    assert_eq!((tar.code, tar.stderr.as_str()), (0, ""));
    let unpacked = out.join(machine.source().strip_prefix("/").unwrap());
    let diff = ended(
        Command::new("diff").args(["-r", "--no-dereference"]).args([&machine.source(), &unpacked]),
    );
    assert_eq!(diff.code, 0, "{}", diff.text());
    let time = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(time(machine.source().join("hello.txt")), time(unpacked.join("hello.txt")));
}

#[test]
fn a_damaged_file_of_a_dump_costs_no_other_one() {
    let machine = Machine::new();
    machine.write("a first", &random(5_000_000));
    machine.backup();
    let file = machine.container_over(1_000_000);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1_000_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    machine.write("last", b"behind it");
    machine.backup();
    let archive = machine.path("archive.tar");
    let mut dump = machine.command(["dump", "latest", "--json"]);
    let dump = ended(dump.stdout(std::fs::File::create(&archive).unwrap()));
    assert_eq!(dump.code, 14, "{}", dump.text());
    let summary = dump.stderr.lines().last().unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    assert_eq!(summary["damaged"].as_array().unwrap().len(), 1, "{summary}");
    assert!(summary["damaged"][0]["path"].as_str().unwrap().ends_with("/a first"), "{summary}");
    let out = machine.path("out");
    std::fs::create_dir(&out).unwrap();
    let tar = ended(Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(&out));
    assert_eq!((tar.code, tar.stderr.as_str()), (0, ""));
    let unpacked = out.join(machine.source().strip_prefix("/").unwrap());
    assert_eq!(std::fs::read(unpacked.join("last")).unwrap(), b"behind it");
    let (was, is) = (random(5_000_000), std::fs::read(unpacked.join("a first")).unwrap());
    assert_eq!(was.len(), is.len());
    let differs = was.iter().zip(&is).filter(|(was, is)| was != is);
    let zeros = differs.inspect(|(_, is)| assert_eq!(**is, 0)).count();
    assert!(0 < zeros && zeros < 4_000_000, "{zeros} bytes are lost with one");
}

/// The owning group of a file with an ACL never gets the rights of the mask, however the archive is unpacked.
#[test]
fn acls_of_a_dump_come_back_in_each_way_in_which_tar_has_them() {
    let machine = Machine::new();
    let (file, folder) = (machine.source().join("hello.txt"), machine.path("source/shared"));
    std::fs::create_dir(&folder).unwrap();
    for (acl, path) in [("u::rw,u:77:rw,g::-,o::-", &file), ("d:u:77:rwx,u:77:rx,g::-", &folder)] {
        assert_eq!(ended(Command::new("setfacl").args(["-m", acl]).arg(path)).code, 0);
    }
    machine.backup();
    let archive = machine.path("archive.tar");
    let mut dump = machine.command(["dump", &machine.stored("latest", "")]);
    assert!(dump.stdout(std::fs::File::create(&archive).unwrap()).status().unwrap().success());
    let acl =
        |path: &std::path::Path| ended(Command::new("getfacl").args(["-cnp"]).arg(path)).text();
    let ways: [&[&str]; 4] = [
        &[],
        &["--acls"],
        &["--xattrs", "--xattrs-include=*"],
        &["--acls", "--xattrs", "--xattrs-include=*"],
    ];
    for way in ways {
        let out = machine.path("out");
        std::fs::create_dir(&out).unwrap();
        let tar =
            ended(Command::new("tar").args(way).arg("-xpf").arg(&archive).arg("-C").arg(&out));
        assert_eq!((tar.code, tar.stderr.as_str()), (0, ""), "{way:?}");
        let unpacked = out.join(machine.source().strip_prefix("/").unwrap());
        for (name, source) in [("hello.txt", &file), ("shared", &folder)] {
            let (found, meant) = (acl(&unpacked.join(name)), acl(source));
            match way {
                [] => assert!(found.contains("group::---"), "{name}: {found}"),
                way => assert_eq!(found, meant, "{way:?} {name}"),
            }
        }
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// Seen: `user.a=b` came back as `user.a`, with `b=` in front of its value.
#[test]
fn any_name_of_an_attribute_is_told_in_a_dump() {
    let machine = Machine::new();
    let file = machine.source().join("hello.txt");
    let listed = |path: &std::path::Path| {
        ended(Command::new("getfattr").args(["-d", "--absolute-names"]).arg(path)).text()
    };
    for (name, value) in [("user.a=b", "1"), ("user.p%3D", "2"), ("user.100%", "3")] {
        assert_eq!(
            ended(Command::new("setfattr").args(["-n", name, "-v", value]).arg(&file)).code,
            0
        );
    }
    machine.backup();
    let (archive, out) = (machine.path("archive.tar"), machine.path("out"));
    let mut dump = machine.command(["dump", &machine.stored("latest", "")]);
    assert!(dump.stdout(std::fs::File::create(&archive).unwrap()).status().unwrap().success());
    std::fs::create_dir(&out).unwrap();
    let mut tar = Command::new("tar");
    let tar = ended(tar.args(["--xattrs", "-xpf"]).arg(&archive).arg("-C").arg(&out));
    assert_eq!((tar.code, tar.stderr.as_str()), (0, ""));
    let unpacked = out.join(file.strip_prefix("/").unwrap());
    let attributes = |text: String| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(attributes(listed(&unpacked)), attributes(listed(&file)));
    assert_eq!(attributes(listed(&file)).len(), 4);
}

#[test]
fn a_path_can_be_stored_as_another_one() {
    let machine = Machine::new();
    machine.backup_with(&["--as", "/elsewhere//data/"]);
    assert_eq!(machine.run(["cat", "latest:/elsewhere/data/hello.txt"]).ends(0).stdout, b"hello");
    let listed = machine.run(["snapshots", "--json"]).lines();
    assert_eq!(listed[0]["paths"][0], "/elsewhere/data");
}

/// Docs: `docs/GUIDE-ONE-MACHINE.md`, what is backed up.
#[test]
fn what_a_tag_leaves_out_is_counted() {
    let machine = Machine::new();
    machine.write("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    machine.write("cache/data", b"left out");
    let source = machine.source();
    let backup = |flags: &[&str]| {
        machine.run([&["backup", source.to_str().unwrap()], flags].concat()).ends(0).text()
    };
    assert!(backup(&[]).contains("1 directory whose content a tag leaves out"));
    assert!(!backup(&["--no-cache-tags"]).contains("a tag leaves out"));
    let summary = machine.run(["backup", "--json", source.to_str().unwrap()]).ends(0).last();
    let report = &summary["report"];
    assert_eq!(report["directories_tagged"], 1, "{summary}");
}

#[test]
fn excludes_of_every_source_hold() {
    let machine = Machine::new();
    for name in ["a.tmp", "b.log", "keep", "c.bak", "build/x", "cache/CACHEDIR.TAG", "cache/data"] {
        machine.write(name, b"Signature: 8a477f597d28d172789f06886806bc55\n");
    }
    machine.write(".gitignore", b"build/\n");
    std::fs::write(machine.path("patterns"), "# logs\n*.log\n").unwrap();
    std::fs::create_dir_all(machine.path("home/.config/icecore")).unwrap();
    std::fs::write(machine.path("home/.config/icecore/config.toml"), "exclude = ['*.bak']\n")
        .unwrap();
    let patterns = machine.path("patterns");
    machine.backup_with(&[
        "--exclude",
        "*.tmp",
        "--exclude-from",
        patterns.to_str().unwrap(),
        "--gitignore",
        "--exclude-larger-than",
        "100K",
    ]);
    let listed = machine.run(["ls", "-R", &machine.stored("latest", "")]).ends(0).text();
    for (name, is_in) in [
        ("a.tmp", false),
        ("b.log", false),
        ("c.bak", false),
        ("build", false),
        ("cache/data", false),
        ("keep", true),
        ("CACHEDIR.TAG", true),
        ("hello.txt", true),
        ("large", false),
    ] {
        assert_eq!(listed.contains(name), is_in, "{name}\n{listed}");
    }
    let path = machine.source().join("a.tmp");
    let explained = machine
        .run(["explain", path.to_str().unwrap(), "--exclude", "*.tmp", "--json"])
        .ends(0)
        .last();
    assert_eq!((&explained["included"], &explained["pattern"]), (&false.into(), &"*.tmp".into()));
}

#[test]
fn a_dry_run_stores_nothing() {
    let machine = Machine::new();
    let source = machine.source();
    let ran = machine.run(["backup", "--dry-run", "--json", source.to_str().unwrap()]).ends(0);
    assert!(ran.lines().iter().any(|line| line["message_type"] == "would_read"));
    assert!(machine.snapshots().is_empty());
}

#[test]
fn a_rebuild_finds_everything_in_the_containers() {
    let machine = Machine::new();
    machine.backup();
    for file in std::fs::read_dir(machine.path("repository/index")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    machine.run(["ls", "latest"]).ends(14);
    machine.run(["rebuild"]).ends(0);
    assert_eq!(
        machine.run(["cat", &machine.stored("latest", "hello.txt")]).ends(0).stdout,
        b"hello"
    );
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_repository_is_never_in_its_own_backup() {
    let machine = Machine::bare();
    for name in ["source/my repo", "source/[a]*? b!", "source/plain"] {
        let repository = machine.path(name);
        let run = |arguments: &[&str]| {
            ended(machine.command(arguments).env("ICECORE_REPO", &repository)).ends(0)
        };
        run(&["init"]);
        run(&["backup", machine.source().to_str().unwrap()]);
        let listed = run(&["ls", "-R", "latest"]).text();
        assert!(listed.contains("hello.txt"), "{listed}");
        let inside = format!("{}/", repository.display());
        assert!(!listed.contains(&inside), "{listed}");
        let config = repository.join("config");
        assert!(run(&["explain", config.to_str().unwrap()]).text().starts_with("out: "));
        std::fs::remove_dir_all(&repository).unwrap();
    }
}
