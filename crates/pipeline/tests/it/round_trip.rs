//! What went in comes out.

use crate::testkit::build::{self, node, noise, set_mtime, set_xattr, write};
use crate::testkit::{NAME, TestFolder, Tree, assert_clean, assert_same, init, restore_with};
use pipeline::restore;
use rustix::fs::{self, FileType, IFlags, Mode, OFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// u::rw-, u:1000:rw-, g::r--, m::rw-, o::---
#[rustfmt::skip]
const ACL: [u8; 44] = [
    2, 0, 0, 0,
    0x01, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
    0x02, 0, 6, 0, 0xe8, 0x03, 0, 0,
    0x04, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
    0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
    0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];
/// cap_net_raw, effective, version 2.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const MIB: usize = 1 << 20;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What only root can make is missing without, and that is said.
fn is_root_or_said() -> bool {
    if !is_root() {
        testkit::skip("devices, owners, capabilities and inode flags need root");
    }
    is_root()
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Not by `chattr`: a child that is born while another test lets go of its lease holds it on.
fn set_flags(path: &Path, flags: IFlags) {
    let file = fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    let kept = fs::ioctl_getflags(&file).unwrap() - IFlags::IMMUTABLE - IFlags::APPEND;
    fs::ioctl_setflags(&file, kept | flags).unwrap();
}

fn kinds(root: &Path) {
    write(root, "kinds/file", b"content");
    let at = |name: &str| root.join("kinds").join(name);
    symlink("file", at("link")).unwrap();
    symlink("../nowhere/at all", at("dangling")).unwrap();
    symlink(OsStr::from_bytes(b"bytes \xff\xfe\n"), at("link to bytes")).unwrap();
    symlink("x".repeat(4000), at("long link")).unwrap();
    node(&at("fifo"), FileType::Fifo, 0);
    node(&at("socket"), FileType::Socket, 0);
    if is_root_or_said() {
        node(&at("null"), FileType::CharacterDevice, rustix::fs::makedev(1, 3));
        node(&at("disk"), FileType::BlockDevice, rustix::fs::makedev(259, 300_000));
    }
    for empty in ["empty", "empty/in", "empty/in/empty", "other"] {
        std::fs::create_dir_all(at(empty)).unwrap();
    }
}

fn names(root: &Path) {
    for name in [
        &b"\xff\xfe not text"[..],
        b"new\nline",
        b"\x1b[31mred",
        b" ",
        b"-rf",
        b"*",
        b"a\\b",
        b".hidden",
    ] {
        write(root, [b"names/", name].concat(), name);
    }
    write(root, ["names/", &"n".repeat(255)].concat(), b"longest");
    write(
        root,
        ["names/", &"d".repeat(255), "/", &"e".repeat(255), "/", &"f".repeat(255)].concat(),
        b"deep",
    );
    // In the order of bytes `a.` comes before `a/b`.
    for name in ["sort/a/b", "sort/a.", "sort/a0", "sort/a b", "sort/A"] {
        write(root, name, name.as_bytes());
    }
}

fn links(root: &Path) {
    write(root, "links/one/first", &noise(1, 100_000));
    for other in ["links/one/second", "links/two-away", "z-last"] {
        std::fs::hard_link(root.join("links/one/first"), root.join(other)).unwrap();
    }
    write(root, "links/empty", b"");
    std::fs::hard_link(root.join("links/empty"), root.join("links/empty too")).unwrap();
    write(root, "links/tiny", b"tiny");
    std::fs::hard_link(root.join("links/tiny"), root.join("links/tiny too")).unwrap();
}

fn sizes(root: &Path) {
    let (k128, m1) = (128 << 10, MIB);
    for size in [0, 1, 47, 48, 49, k128 - 1, k128, k128 + 1, m1 - 1, m1, m1 + 1, 3 * MIB] {
        write(root, format!("sizes/{size}"), &noise(size as u64, size));
        write(root, format!("sizes/zeros {size}"), &vec![0; size]);
    }
}

/// Holes in front, in the middle, at the end, and nothing but a hole.
fn sparse(root: &Path) {
    let layouts: [(&str, u64, &[u64]); 5] = [
        ("front", 8 << 20, &[7 << 20]),
        ("middle", 8 << 20, &[0, 5 << 20]),
        ("end", 8 << 20, &[0]),
        ("nothing", 4 << 20, &[]),
        ("huge", 1 << 40, &[1 << 30, (1 << 40) - 4096]),
    ];
    std::fs::create_dir(root.join("sparse")).unwrap();
    for (name, size, data) in layouts {
        let file = std::fs::File::create(root.join("sparse").join(name)).unwrap();
        file.set_len(size).unwrap();
        data.iter().for_each(|at| file.write_all_at(&noise(*at, 4096), *at).unwrap());
    }
}

fn attributes(root: &Path) {
    for name in ["setuid", "acl", "user", "old", "ancient", "odd", "locked", "log"] {
        write(root, ["attributes/", name].concat(), name.as_bytes());
    }
    let at = |name: &str| root.join("attributes").join(name);
    std::fs::create_dir(at("shared")).unwrap();
    if is_root_or_said() {
        chown(at("odd"), Some(12_345), Some(54_321)).unwrap();
        set_xattr(&at("odd"), "security.capability", &CAPABILITY);
        set_xattr(&at("odd"), "trusted.secret", b"\0\x01\xff");
    }
    mode(&at("setuid"), 0o6755);
    mode(&at("shared"), 0o3770);
    mode(&at("old"), 0);
    set_xattr(&at("acl"), "system.posix_acl_access", &ACL);
    set_xattr(&at("shared"), "system.posix_acl_default", &ACL);
    set_xattr(&at("user"), "user.empty", b"");
    set_xattr(&at("user"), "user.bytes", &noise(9, 900));
    set_mtime(&at("old"), -1, 999_999_999);
    set_mtime(&at("ancient"), -2_000_000_000, 1);
    set_mtime(&at("user"), 4_000_000_000, 123_456_789);
    if is_root() {
        set_flags(&at("locked"), IFlags::IMMUTABLE);
        set_flags(&at("log"), IFlags::APPEND);
    }
}

fn unlock(root: &Path) {
    for name in ["attributes/locked", "attributes/log"].map(|name| root.join(name)) {
        if is_root() && name.exists() {
            set_flags(&name, IFlags::empty());
        }
    }
}

fn nasty_tree(root: &Path) {
    for part in [kinds, names, links, attributes] {
        part(root);
    }
    for path in ["kinds/empty/in", "kinds", "names", "links/one", ""] {
        set_mtime(&root.join(path), 1_000_000_000, 5);
    }
}

/// Backs up, restores with `--verify`, and compares.
fn assert_round_trip(folder: &TestFolder, repository: &pipeline::UnlockedRepository) -> Tree {
    let before = folder.state();
    let done = folder.backup(repository);
    assert!(!done.partial);
    assert_eq!(done.report.objects_inspected as usize, before.0.len());
    let target = folder.at("target");
    let options = restore::RestoreOptions { verify: true, ..restore::RestoreOptions::default() };
    let (report, heard) = restore_with(repository, done.snapshot, b"", &target, &options).unwrap();
    let found = Tree::of(&target.join(NAME));
    unlock(&target.join(NAME));
    unlock(&folder.source());
    assert_eq!(heard, Vec::<String>::new());
    assert_eq!((report.failed, report.degraded, report.differing), (0, 0, 0), "{report:#?}");
    assert_eq!(report.verified, done.report.objects_inspected);
    assert_same(&before, &found);
    before
}

#[test]
fn every_kind_name_link_and_attribute_comes_back() {
    let folder = TestFolder::on_disk();
    nasty_tree(&folder.source());
    let repository = folder.init();
    assert_round_trip(&folder, &repository);
    assert_clean(&repository);
}

#[test]
fn files_at_the_borders_of_every_size_come_back() {
    let folder = TestFolder::new();
    sizes(&folder.source());
    let repository = init(folder.storage(), chunker::Params::DEFAULT);
    assert_round_trip(&folder, &repository);
}

#[test]
fn holes_come_back_as_holes() {
    let folder = TestFolder::on_disk();
    sparse_but_huge(&folder);
    let repository = folder.init();
    assert_round_trip(&folder, &repository);
}

/// Hashing the state of a terabyte of nothing would take long: that one has a test of its own.
fn sparse_but_huge(folder: &TestFolder) {
    sparse(&folder.source());
    std::fs::remove_file(folder.source().join("sparse/huge")).unwrap();
}

#[test]
fn a_terabyte_of_nothing_takes_no_time() {
    let folder = TestFolder::on_disk();
    sparse(&folder.source());
    let repository = folder.init();
    let done = folder.backup(&repository);
    assert!(done.report.bytes_processed < 1 << 20, "{:#?}", done.report);
    let target = folder.at("target");
    let options = restore::RestoreOptions {
        verify: true,
        include: vec!["huge".into()],
        ..restore::RestoreOptions::default()
    };
    let (report, heard) = restore_with(&repository, done.snapshot, b"", &target, &options).unwrap();
    assert_eq!((report.failed, report.differing, heard), (0, 0, Vec::new()));
    let file = std::fs::File::open(target.join(NAME).join("sparse/huge")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 40);
    for at in [1 << 30, (1 << 40) - 4096] {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(bytes, noise(at, 4096));
    }
    assert_clean(&repository);
}

#[test]
fn a_small_file_with_a_hole_comes_back() {
    let folder = TestFolder::on_disk();
    let file = std::fs::File::create(folder.source().join("small")).unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(b"end", (1 << 20) - 3).unwrap();
    let repository = folder.init();
    assert_round_trip(&folder, &repository);
}

#[test]
fn a_file_of_thousands_of_chunks_comes_back_through_its_lists() {
    let folder = TestFolder::new();
    folder.write("huge", &noise(1, 40 * MIB));
    let chunks = chunker::Params { min: 4 << 10, average: 16 << 10, max: 64 << 10 };
    let repository = init(folder.storage(), chunks);
    let before = folder.state();
    let done = folder.backup(&repository);
    assert!(done.report.chunks_total > 1024, "{:#?}", done.report);
    folder.assert_restores(&repository, done.snapshot, &before);
    assert_clean(&repository);
    // A byte in front of it: nearly all is found again.
    let mut bytes = noise(1, 40 * MIB);
    bytes.insert(0, 7);
    folder.write("huge", &bytes);
    let before = folder.state();
    let done = folder.backup(&repository);
    assert!(done.report.bytes_transferred < 1 << 20, "{:#?}", done.report);
    folder.assert_restores(&repository, done.snapshot, &before);
}

#[test]
fn a_source_of_nothing_but_a_directory_comes_back() {
    let folder = TestFolder::new();
    set_mtime(&folder.source(), 1_500_000_000, 7);
    let repository = folder.init();
    assert_round_trip(&folder, &repository);
}

#[test]
fn a_single_file_can_be_a_source() {
    let folder = TestFolder::new();
    folder.write("one", &noise(3, 50_000));
    let repository = folder.init();
    let mut options = folder.options();
    options.roots = crate::testkit::options(&folder.source().join("one")).roots;
    let heard = crate::testkit::Heard::default();
    let done = pipeline::backup::run(&repository, &options, &Default::default(), &heard).unwrap();
    let target = folder.at("target");
    crate::testkit::restore_to(&repository, done.snapshot, &target).unwrap();
    assert_eq!(std::fs::read(target.join(NAME)).unwrap(), noise(3, 50_000));
}

#[test]
fn a_hardened_repository_brings_everything_back_too() {
    let folder = TestFolder::new();
    build::small_tree(&folder.source(), 1);
    folder.write("large", &noise(5, 2 * MIB));
    let options = pipeline::unlocked::InitOptions {
        privacy: crypto::Privacy::Hardened,
        kdf: crate::testkit::CHEAP,
        ..Default::default()
    };
    let repository =
        pipeline::UnlockedRepository::init(folder.storage(), crate::testkit::PASSWORD, options)
            .unwrap();
    assert_round_trip(&folder, &repository);
    assert_clean(&repository);
}
