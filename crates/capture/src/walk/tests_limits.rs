//! Tests of what a walk begins with and what it leaves out.

use super::tests::make;
use super::*;
use crate::excludes::{ExcludeTag, Excludes};
use crate::testing::{WalkResult, bytes, walk, walk_folder};
use format::entry::Time;
use rustix::fs::{Mode, OFlags, openat};
use std::fs;
use std::process::Command;

fn patterns(patterns: &[&str]) -> Arc<Excludes> {
    let mut builder = Excludes::builder();
    for pattern in patterns {
        builder.pattern(pattern).unwrap();
    }
    Arc::new(builder.build().unwrap())
}

#[test]
fn parents_of_a_root_are_told_without_what_else_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"p/top/f", b"p/other"]);
    let root = folder.path().join("p/top");
    let result = walk(&[SourceRoot::at(bytes(&root))], WalkOptions::default());
    assert_eq!(result.below(folder.path()), ["p", "p/top", "p/top/f"]);
    assert!(result.row(&bytes(&folder.path().join("p"))[1..]).is_parent_of_root);
    assert!(!result.row(&bytes(&root)[1..]).is_parent_of_root);
}

#[test]
fn a_root_that_does_not_exist_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"good/f"]);
    let at = |name: &str| SourceRoot::at(bytes(&folder.path().join(name)));
    let result = walk(&[at("gone"), at("good"), at("no/such")], WalkOptions::default());
    assert_eq!(result.below(folder.path()), ["good", "good/f", "no"]);
    assert_eq!(result.problems.len(), 2);
    assert!(
        result.problems[0].0.ends_with(b"/gone") && result.problems[1].0.ends_with(b"/no/such")
    );
    let nested = walk(
        &[SourceRoot::at(bytes(folder.path())), at("good"), at("gone")],
        WalkOptions::default(),
    );
    assert_eq!(nested.problems.len(), 1);
    assert_eq!(nested.below(folder.path()), ["good", "good/f"]);
}

#[test]
fn a_strict_walk_follows_no_link_on_the_way_to_its_roots() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    make(&base, &[b"secret/deep/f", b"open/g"]);
    std::os::unix::fs::symlink("../secret", base.join("open/way")).unwrap();
    let strict = || WalkOptions { refuse_links_to_roots: true, ..WalkOptions::default() };
    let at = |name: &str| SourceRoot::at(bytes(&base.join(name)));
    let result = walk(&[at("open/way/deep"), at("open/g")], strict());
    assert_eq!(result.problems.len(), 1);
    assert!(result.problems[0].0.ends_with(b"/open/way/deep"));
    let below = result.below(&base);
    assert!(below.iter().any(|path| path == "open/g"));
    assert!(!below.iter().any(|path| path.ends_with("/f")), "{below:?}");
    let followed = walk(&[at("open/way/deep")], WalkOptions::default());
    assert!(followed.below(&base).iter().any(|path| path.ends_with("/deep/f")));
}

#[test]
fn a_root_can_be_shown_elsewhere_and_still_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"data/f", b"lone"]);
    let mapped = |name: &str, shown: &str| SourceRoot {
        source: bytes(&folder.path().join(name)).to_vec(),
        shown_as: Some(shown.into()),
    };
    let result = walk(&[mapped("data", "/")], WalkOptions::default());
    assert_eq!(result.paths, [&b""[..], b"f"]);
    let result = walk(&[mapped("data", "x/y"), mapped("lone", "x/file")], WalkOptions::default());
    let shown: Vec<_> = result.paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
    assert_eq!(shown, ["x", "x/file", "x/y", "x/y/f"]);
    assert!(result.rows[0].made_up && result.rows[0].is_parent_of_root);
    let (directory, name) = &result.objects[1];
    openat(&*directory.handle().unwrap(), name, OFlags::RDONLY, Mode::empty()).unwrap();
}

#[test]
fn a_root_in_an_excluded_directory_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"a", b"out/no", b"out/in/yes", b"out/in/x.o", b"out/x/y"]);
    let roots = [
        SourceRoot::at(bytes(folder.path())),
        SourceRoot::at(bytes(&folder.path().join("out/in"))),
    ];
    let options = WalkOptions { excludes: patterns(&["out", "*.o"]), ..WalkOptions::default() };
    let result = walk(&roots, options);
    assert_eq!(result.below(folder.path()), ["a", "out", "out/in", "out/in/yes"]);
    assert_eq!(result.skipped.by_pattern, 2);
    assert!(result.row(&bytes(&folder.path().join("out"))[1..]).is_parent_of_root);
}

/// Seen: of a directory that leads to what the user named, all was taken, whatever excludes it.
#[test]
fn nothing_else_of_an_excluded_directory_that_leads_to_a_root_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"d/deep/in/yes", b"d/deep/no", b"d/no", b"out/file", b"out/no"]);
    fs::write(folder.path().join(".gitignore"), "d/\nout/\n").unwrap();
    let at = |name: &str| SourceRoot::at(bytes(&folder.path().join(name)));
    let roots = [SourceRoot::at(bytes(folder.path())), at("d/deep/in"), at("out/file")];
    let options = WalkOptions { gitignore: true, ..WalkOptions::default() };
    let expected = [".gitignore", "d", "d/deep", "d/deep/in", "d/deep/in/yes", "out", "out/file"];
    let result = walk(&roots, options);
    assert_eq!(result.below(folder.path()), expected);
    fs::remove_file(folder.path().join(".gitignore")).unwrap();
    let marked = ["d", "out"].iter().all(|name| {
        let directory = fs::File::open(folder.path().join(name)).unwrap();
        mark_nodump(&directory).is_ok()
    });
    let plain = walk_folder(folder.path(), WalkOptions::default());
    if !marked || plain.row(&bytes(&folder.path().join("d"))[1..]).inode_flags == 0 {
        return testkit::skip("the file system of /tmp has no such mark, or does not tell");
    }
    let result = walk(&roots, WalkOptions { nodump: true, ..WalkOptions::default() });
    assert_eq!(result.below(folder.path()), expected[1..]);
    assert_eq!(result.skipped.by_nodump, 2);
}

/// Seen: cargo writes such a file into `target`, and what was named in there was "No such file" in each backup.
#[test]
fn what_the_user_named_in_a_directory_with_a_tag_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let names: &[&[u8]] =
        &[b"t/.skip", b"t/a", b"t/file", b"t/in/.skip", b"t/in/x", b"t/way/in/y", b"t/way/no"];
    make(folder.path(), names);
    let at = |name: &str| SourceRoot::at(bytes(&folder.path().join(name)));
    let named = ["t/file", "t/in", "t/way/in", "t/gone"].map(at);
    let roots = [&[SourceRoot::at(bytes(folder.path()))][..], &named].concat();
    let tags = vec![ExcludeTag::parse(".skip".as_ref()).unwrap()];
    let result = walk(&roots, WalkOptions { tags, ..WalkOptions::default() });
    let expected = [
        "t",
        "t/.skip",
        "t/file",
        "t/in",
        "t/in/.skip",
        "t/in/x",
        "t/way",
        "t/way/in",
        "t/way/in/y",
    ];
    assert_eq!(result.below(folder.path()), expected);
    assert_eq!(result.skipped.tagged_directories, 1);
    let missing: Vec<_> = result.problems.iter().map(|(_, problem)| problem.path.clone()).collect();
    assert_eq!(missing, [bytes(&folder.path().join("t/gone"))]);
}

#[test]
fn limits_tags_and_gitignore_files_leave_out_what_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let names: &[&[u8]] = &[
        b"cache/x/y",
        b"fake/CACHEDIR.TAG",
        b"big",
        b"repo/.gitignore",
        b"repo/a.o",
        b"repo/in/b.o",
    ];
    make(folder.path(), names);
    fs::write(
        folder.path().join("cache/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55 x",
    )
    .unwrap();
    fs::write(folder.path().join("big"), vec![0; 5000]).unwrap();
    fs::write(folder.path().join("repo/.gitignore"), "*.o\n!b.o\n").unwrap();
    let options = WalkOptions {
        tags: vec![ExcludeTag::of_caches()],
        gitignore: true,
        larger_than: Some(4999),
        ..WalkOptions::default()
    };
    let result = walk_folder(folder.path(), options);
    let expected = [
        "cache",
        "cache/CACHEDIR.TAG",
        "fake",
        "fake/CACHEDIR.TAG",
        "repo",
        "repo/.gitignore",
        "repo/in",
        "repo/in/b.o",
    ];
    assert_eq!(result.below(folder.path()), expected);
    let counts = SkippedCounts {
        by_pattern: 1,
        by_size: 1,
        tagged_directories: 1,
        ..SkippedCounts::default()
    };
    assert_eq!(result.skipped, counts);
    let options = WalkOptions {
        older_than: Some(Time { secs: i64::MAX, nanos: 0 }),
        ..WalkOptions::default()
    };
    assert_eq!(walk_folder(folder.path(), options).skipped.by_age, 7);
}

#[test]
fn a_directory_with_a_tag_file_keeps_only_that_file() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"a/.skip", b"a/x", b"a/in/y", b"b/tag", b"b/z", b"c/tag", b"c/z"]);
    fs::write(folder.path().join("c/tag"), "keep out").unwrap();
    let tags = [".skip", "tag:keep"].map(|text| ExcludeTag::parse(text.as_ref()).unwrap()).to_vec();
    let result =
        walk_folder(folder.path(), WalkOptions { tags: tags.clone(), ..WalkOptions::default() });
    assert_eq!(result.below(folder.path()), ["a", "a/.skip", "b", "b/tag", "b/z", "c", "c/tag"]);
    assert_eq!(result.skipped.tagged_directories, 2);
    // A directory that the user named is in, tag or not.
    let named = [SourceRoot::at(bytes(&folder.path().join("a")))];
    let result = walk(&named, WalkOptions { tags, ..WalkOptions::default() });
    assert_eq!(result.below(folder.path()), ["a", "a/.skip", "a/in", "a/in/y", "a/x"]);
}

#[test]
fn mounts_are_seen_and_cycles_are_not_entered() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"a/b/", b"c/d", b"m/"]);
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path()).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !run("mount", &["--bind", ".", "a/b"]) {
        return testkit::skip("mounting is not permitted here");
    }
    let bound = run("mount", &["--bind", "c", "m"]);
    let everywhere = walk_folder(folder.path(), WalkOptions::default());
    let one =
        walk_folder(folder.path(), WalkOptions { one_file_system: true, ..WalkOptions::default() });
    let roots =
        [SourceRoot::at(bytes(folder.path())), SourceRoot::at(bytes(&folder.path().join("m")))];
    let named = walk(&roots, WalkOptions { one_file_system: true, ..WalkOptions::default() });
    // Lazily: whoever walks the whole machine at this moment may be in there.
    run("umount", &["--lazy", "m"]);
    run("umount", &["--lazy", "a/b"]);
    assert!(bound);
    assert_eq!(everywhere.below(folder.path()), ["a", "a/b", "c", "c/d", "m", "m/d"]);
    let reason = |result: &WalkResult, name: &str| {
        result.row(&bytes(&folder.path().join(name))[1..]).not_entered
    };
    assert_eq!(reason(&everywhere, "a/b"), Some(NotEntered::Cycle));
    assert_eq!(reason(&one, "m"), Some(NotEntered::OtherFileSystem));
    assert_eq!(one.skipped.not_entered, 2);
    assert_eq!(named.below(folder.path()), ["a", "a/b", "c", "c/d", "m", "m/d"]);
}

/// Seen: a repository that was also mounted elsewhere was backed up into itself, and doubled with every run.
#[test]
fn a_directory_that_is_excluded_is_out_where_else_it_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"own/x", b"seen/", b"wanted/", b"y"]);
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path()).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !run("mount", &["--bind", "own", "seen"]) {
        return testkit::skip("mounting is not permitted here");
    }
    let bound = run("mount", &["--bind", "own", "wanted"]);
    let mut builder = crate::excludes::Excludes::builder();
    builder.directory(bytes(&folder.path().join("own")));
    builder.pattern("!wanted/").unwrap();
    let excludes = Arc::new(builder.build().unwrap());
    let options = WalkOptions { excludes: excludes.clone(), ..WalkOptions::default() };
    let result = walk_folder(folder.path(), options);
    let explained = ["own/x", "seen/x", "wanted/x", "y"].map(|name| {
        let path = folder.path().join(name);
        crate::excludes::explain(&excludes, false, bytes(folder.path()), bytes(&path)).included
    });
    run("umount", &["--lazy", "wanted"]);
    run("umount", &["--lazy", "seen"]);
    assert!(bound);
    assert_eq!(result.below(folder.path()), ["wanted", "wanted/x", "y"]);
    assert_eq!((result.skipped.by_pattern, explained), (2, [false, false, true, true]));
}

/// An automount that nothing serves: whoever triggers it is told that there is nothing. What the group of processes
/// `served_by` does triggers nothing.
fn automount(at: &std::path::Path, served_by: rustix::process::Pid) -> rustix::io::Result<()> {
    let (_, served_through) = std::io::pipe().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&served_through);
    let group = served_by.as_raw_nonzero();
    let options = format!("fd={descriptor},pgrp={group},minproto=5,maxproto=5,direct");
    let options = std::ffi::CString::new(options).unwrap();
    rustix::mount::mount("test", at, "autofs", rustix::mount::MountFlags::empty(), &*options)
}

/// Seen: looking whether to enter it mounted a file server, and waited for one that was down.
#[test]
fn an_automount_is_not_triggered_unless_it_is_named() {
    use rustix::process::{Pid, getpgrp};
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"idle/", b"mounted/", b"x"]);
    let (idle, mounted) = (folder.path().join("idle"), folder.path().join("mounted"));
    if automount(&idle, Pid::INIT).is_err() {
        return testkit::skip("mounting is not permitted here");
    }
    automount(&mounted, getpgrp()).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("test", &mounted, "tmpfs", flags, None).unwrap();
    fs::write(mounted.join("f"), "x").unwrap();
    let result = walk_folder(folder.path(), WalkOptions::default());
    let roots = [SourceRoot::at(bytes(folder.path())), SourceRoot::at(bytes(&idle))];
    let named = walk(&roots, WalkOptions::default());
    for place in [&idle, &mounted, &mounted] {
        let _ = Command::new("umount").arg("--lazy").arg(place).status();
    }
    assert_eq!(result.problems.len(), 0, "{:?}", result.problems);
    assert_eq!(result.below(folder.path()), ["idle", "mounted", "mounted/f", "x"]);
    let reason = |place| result.row(&bytes(place)[1..]).not_entered;
    assert_eq!(reason(&idle), Some(NotEntered::PseudoFileSystem));
    assert_eq!((reason(&mounted), result.skipped.not_entered), (None, 1));
    // What is named is mounted for that, before its attributes are asked for.
    let [(_, problem)] = named.problems.as_slice() else { panic!("{:?}", named.problems) };
    assert_eq!(problem.operation, crate::CaptureOperation::Inspect);
}

#[test]
fn pseudo_file_systems_are_passed_by_unless_named() {
    let result = walk(&[SourceRoot::at(b"/proc/sys/vm")], WalkOptions::default());
    assert!(result.paths.iter().any(|path| path.ends_with(b"/dirty_expire_centisecs")));
    let mut walk = Walk::start(
        &[SourceRoot::at(b"/")],
        WalkOptions { excludes: patterns(&["/*", "!/proc", "!/sys"]), ..WalkOptions::default() },
    )
    .unwrap();
    while let Some(event) = walk.next() {
        if let WalkEvent::Entry(found) = event {
            assert!(
                found.path.is_empty()
                    || found.row.not_entered == Some(NotEntered::PseudoFileSystem)
            );
        }
    }
}

/// Its other flags stay: to take them away is refused at times, and then there is no mark.
fn mark_nodump(file: &fs::File) -> rustix::io::Result<()> {
    let flags = rustix::fs::ioctl_getflags(file)? | rustix::fs::IFlags::NODUMP;
    rustix::fs::ioctl_setflags(file, flags)
}

#[test]
fn what_is_marked_nodump_is_told_so_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &[b"a", b"b"]);
    let file = fs::File::open(folder.path().join("a")).unwrap();
    let marked = mark_nodump(&file).is_ok();
    let result = walk_folder(folder.path(), WalkOptions::default());
    let flags = result.row(&bytes(&folder.path().join("a"))[1..]).inode_flags;
    if !marked || flags == 0 {
        return testkit::skip("the file system of /tmp has no such mark, or does not tell");
    }
    assert_eq!(flags, format::entry::INODE_NODUMP);
    let options = WalkOptions { nodump: true, ..WalkOptions::default() };
    let result = walk_folder(folder.path(), options);
    assert_eq!(result.below(folder.path()), ["b"]);
    assert_eq!(result.skipped.by_nodump, 1);
}
