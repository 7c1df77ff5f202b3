//! Paths that a backup is given: in each other, through links, with a slash at the end. Whatever two or three of them
//! are named together, all files behind them are in the snapshot, and come back.

use crate::machine::Machine;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

/// With a slash at the end, a link means what is behind it.
const SPELLINGS: [&str; 14] = [
    "s",
    "s/",
    "s/real",
    "s/link",
    "s/link/",
    "s/link/deep",
    "s/out/",
    "s/out/far",
    "s/sub/up/",
    "r",
    "r/back/",
    "l",
    "l/",
    "l/sub",
];

fn make(world: &Path) {
    for folder in ["s/real", "s/sub", "r"] {
        std::fs::create_dir_all(world.join(folder)).unwrap();
    }
    for file in ["s/real/deep", "s/sub/file", "r/far"] {
        std::fs::write(world.join(file), file).unwrap();
    }
    for (link, to) in [
        ("s/link", "real"),
        ("s/out", "../r"),
        ("s/sub/up", ".."),
        ("r/back", "../s/real"),
        ("l", "s"),
    ] {
        symlink(to, world.join(link)).unwrap();
    }
}

/// Names of the files below a path; of a link, only with a slash at its end.
fn files(path: &Path, found: &mut BTreeSet<String>) {
    let is_named_so = path.as_os_str().to_str().unwrap().ends_with('/');
    let stat = if is_named_so { path.metadata() } else { path.symlink_metadata() }.unwrap();
    if stat.is_file() {
        found.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
    } else if stat.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|name| files(&name.unwrap().path(), found));
    }
}

#[test]
fn whatever_paths_are_named_together_all_that_is_behind_them_comes_back() {
    let machine = Machine::new();
    let (world, target) = (machine.path("world"), machine.path("target"));
    make(&world);
    for (at, one) in SPELLINGS.iter().enumerate() {
        for (more, other) in SPELLINGS.iter().enumerate().skip(at + 1) {
            // A third one, another for each pair.
            let third = SPELLINGS[(at * 5 + more * 3) % SPELLINGS.len()];
            let named = [*one, *other, third].map(|path| format!("{}/{path}", world.display()));
            let named = &named[..if more % 2 == 0 { 2 } else { 3 }];
            comes_back(&machine, named, &target);
        }
    }
}

fn comes_back(machine: &Machine, named: &[String], target: &Path) {
    machine.run([&["backup".to_owned()], named].concat()).ends(0);
    let _ = std::fs::remove_dir_all(target);
    machine.run(["restore", "latest", "--target", target.to_str().unwrap()]).ends(0);
    let (mut wanted, mut found) = (BTreeSet::new(), BTreeSet::new());
    named.iter().for_each(|path| files(Path::new(path), &mut wanted));
    files(target, &mut found);
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "{named:?}: {missing:?} did not come back");
}

/// Seen: with `--as` above the source, the real path in a pattern was taken for one in a link.
#[test]
fn a_pattern_may_begin_with_the_path_that_is_walked_or_the_one_that_was_named() {
    let machine = Machine::new();
    let world = machine.path("world");
    make(&world);
    let at = |path: &str| format!("{}/{path}", world.display());
    let listed = || machine.run(["ls", "-R", "latest"]).ends(0).text();
    machine
        .run(["backup", &at("s/real"), "--as", &at(""), "--exclude", &at("s/real/deep")])
        .ends(0);
    assert!(!listed().contains("deep"), "{}", listed());
    machine.run(["backup", &at("s"), &at("s/out/"), "--exclude", &at("s/out/far")]).ends(0);
    assert!(listed().contains("file") && !listed().contains("far"), "{}", listed());
}

/// Seen: what is above a source that was named through a link was no directory above a source, and was replaced.
#[test]
fn what_is_above_a_source_stays_where_it_was_named_through_a_link() {
    let machine = Machine::new();
    let (world, target) = (machine.path("world"), machine.path("target"));
    make(&world);
    let named = ["s", "s/out/"].map(|path| format!("{}/{path}", world.display()));
    std::fs::create_dir_all(world.join("disk/r")).unwrap();
    std::fs::rename(world.join("r/far"), world.join("disk/r/far")).unwrap();
    std::fs::remove_file(world.join("s/out")).unwrap();
    symlink("../disk/r", world.join("s/out")).unwrap();
    machine.run([&["backup".to_owned()], &named[..]].concat()).ends(0);
    let there = target.join(world.strip_prefix("/").unwrap());
    std::fs::create_dir_all(there.join("elsewhere")).unwrap();
    symlink("elsewhere", there.join("disk")).unwrap();
    let ran = machine.run(["restore", "latest", "--target", target.to_str().unwrap()]).ends(3);
    assert!(there.join("disk").is_symlink() && ran.stderr.contains("disk: "), "{ran:?}");
}
