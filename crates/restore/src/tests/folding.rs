//! Where names fold: what the snapshot has may be listed under another name, and what is found may belong to another
//! entry.

use crate::testing::*;
use crate::{ContentMatch, Overwrite, RestoreCause, RestoreOutcome, SnapshotNames, Target};
use crate::{TargetOptions, system};
use format::entry::{Entry, Kind};
use rustix::fd::AsFd;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// An NTFS whose driver lists all names in lower case, and finds them in any; `None` where that is
/// not possible.
fn folding(folder: &TestFolder) -> Option<Mount> {
    let image = folder.folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkntfs").args(["-q", "-F"]).arg(&image).output().ok()?;
    made.status.success().then_some(())?;
    let arguments = ["-o", "ignore_case,permissions", image.to_str()?];
    Mount::with("lowntfs-3g", &arguments, &folder.root())
}

/// What is extraneous in a directory if the snapshot has these names there; taken out of it, or
/// only looked at in a dry run. Each path, and how many objects went with it.
fn deleted(target: &Target, directory: &str, of_snapshot: &[&str]) -> BTreeSet<(String, u64)> {
    let mut names = SnapshotNames::default();
    of_snapshot.iter().for_each(|name| names.insert(name.as_bytes()));
    let others = target.extraneous_beside(directory.as_bytes(), &names).unwrap();
    let others: Vec<_> = others.map(|path| path.unwrap()).collect();
    let remove = |path: Vec<u8>| {
        let removed = target.remove(&path, None);
        assert_eq!(removed.problem, None);
        (String::from_utf8(path).unwrap(), removed.objects)
    };
    others.into_iter().map(remove).collect()
}

fn set<const N: usize>(all: [(&str, u64); N]) -> BTreeSet<(String, u64)> {
    all.map(|(path, objects)| (path.to_owned(), objects)).into()
}

/// Seen: `README` was restored, listed as `readme`, and deleted because the snapshot has no `readme`.
#[test]
fn what_was_restored_and_is_listed_in_another_case_is_not_deleted() {
    let folder = TestFolder::new();
    let Some(_mount) = folding(&folder) else {
        return testkit::skip("lowntfs-3g cannot be mounted here");
    };
    let target = folder.target(Overwrite::Always);
    let parent = target.parent_of(b"README").unwrap();
    target.small_file(&parent, &file("README", 0o644), b"").unwrap();
    target.directory(&directory("Docs", 0o755)).unwrap();
    let below = target.parent_of(b"Docs/Guide").unwrap();
    target.small_file(&below, &file("Docs/Guide", 0o644), b"").unwrap();
    for path in ["STRANGER", "docs/Stranger", "More/x"] {
        fs::create_dir_all(folder.at(path).parent().unwrap()).unwrap();
        fs::write(folder.at(path), "").unwrap();
    }
    assert!(folder.names("").contains("readme"), "{:?}", folder.names(""));
    let rehearsal =
        folder.target_with(TargetOptions { dry_run: true, ..options(Overwrite::Always) });
    for target in [rehearsal, target] {
        let below = deleted(&target, "Docs", &["Guide"]);
        assert_eq!(below, set([("Docs/stranger", 1)]));
        let top = deleted(&target, "", &["Docs", "README", "not selected"]);
        assert_eq!(top, set([("more", 2), ("stranger", 1)]));
    }
    assert_eq!(folder.names(""), ["docs", "readme"].map(str::to_owned).into());
    assert_eq!(folder.names("docs"), ["guide"].map(str::to_owned).into());
}

#[test]
fn a_further_link_of_a_restored_file_is_deleted_where_names_do_not_fold() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    restore(&target, &file("README", 0o644), b"abc");
    fs::hard_link(folder.at("README"), folder.at("readme")).unwrap();
    let gone = set([("readme", 1)]);
    assert_eq!(deleted(&target, "", &["README", "not there"]), gone);
    assert_eq!(folder.names(""), ["README"].map(str::to_owned).into());
    assert_eq!(deleted(&target, "missing", &["x"]), set([]));
}

/// An exFAT, whose driver has neither times of birth nor a type that says that names fold; `None` where it cannot be
/// mounted.
pub(super) fn exfat(folder: &TestFolder) -> Option<Mount> {
    let image = folder.folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.exfat").arg(&image).output().ok()?;
    made.status.success().then_some(())?;
    let device = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().ok()?;
    let device = String::from_utf8(device.stdout).unwrap();
    let mount = Mount::with("mount.exfat-fuse", &[device.trim()], &folder.root());
    Command::new("losetup").args(["-d", device.trim()]).output().ok()?; // once it is not mounted
    mount
}

/// Seen: the second one replaced the first, and all was well; a repeated restore found both equal.
#[test]
fn of_two_names_that_are_one_on_exfat_the_second_is_a_problem_in_each_run() {
    let folder = TestFolder::new();
    let Some(_mount) = exfat(&folder) else {
        return testkit::skip("exFAT cannot be mounted here");
    };
    let whole = |path: &str| Entry { mtime: whole_second(), size: 3, ..file(path, 0o777) };
    for (run, overwrite) in
        [Overwrite::Always, Overwrite::IfChanged, Overwrite::Always].into_iter().enumerate()
    {
        let target = folder.target(overwrite);
        let parent = target.parent_of(b"README").unwrap();
        let restored = target.small_file(&parent, &whole("README"), b"abc").unwrap();
        assert_eq!(
            restored == RestoreOutcome::Unchanged,
            overwrite == Overwrite::IfChanged,
            "{run}"
        );
        assert_eq!(target.match_metadata(&whole("README")), ContentMatch::Equal);
        assert_eq!(target.match_metadata(&whole("readme")), ContentMatch::Different);
        let refused = target.small_file(&parent, &whole("readme"), b"xyz").unwrap_err();
        assert_eq!(refused.error, RestoreCause::Collision);
        assert_eq!(fs::read(folder.at("README")).unwrap(), b"abc");
        assert_eq!(folder.names(""), ["README"].map(str::to_owned).into());
    }
}

fn whole_second() -> format::entry::Time {
    format::entry::Time { nanos: 0, ..MTIME }
}

/// What a restore says of a process or a thread in /proc, as of an object that is there: of its
/// entry, of a new one, and of a further name of it.
fn found_in_proc(id: i32) -> (ContentMatch, [Option<RestoreCause>; 2]) {
    let target = Target::open("/proc".as_ref(), options(Overwrite::IfChanged)).unwrap();
    let parent = target.parent_of(b"x").unwrap();
    let (directory, name) = (parent.fd().unwrap(), id.to_string());
    let stat = system::stat_at(directory, name.as_bytes()).unwrap();
    let mtime = system::mtime(&stat);
    let entry = Entry { mtime, ..entry(Kind::Directory, &name, stat.stx_mode & 0o7777) };
    let taken = target.refuse_other_spelling(&parent, directory, entry.name(), &entry.path);
    let linked = target.hard_link(&parent, &entry, &entry.path).map(|_| ());
    let refused = [taken, linked].map(|result| result.err().map(|problem| problem.error));
    (target.match_metadata(&entry), refused)
}

/// There a thread is found by its number and not listed, as a name in another spelling is elsewhere.
#[test]
fn what_is_found_and_not_listed_is_another_object() {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    assert_eq!(found_in_proc(process), (ContentMatch::Equal, [None, None]));
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let refused = [Some(RestoreCause::Collision); 2];
    assert_eq!(found_in_proc(thread), (ContentMatch::Different, refused));
}

/// Where no name is listed as it was spelled, a list says nothing, and a restore can be run again.
#[test]
fn a_restore_is_run_again_where_all_names_are_listed_in_lower_case() {
    let folder = TestFolder::new();
    let Some(_mount) = folding(&folder) else {
        return testkit::skip("lowntfs-3g cannot be mounted here");
    };
    let entry = Entry { mtime: whole_second(), size: 3, ..file("README", 0o644) };
    restore(&folder.target(Overwrite::IfChanged), &entry, b"abc");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let again = folder.target(Overwrite::IfChanged);
    assert_eq!(again.match_metadata(&entry), ContentMatch::Equal);
    assert_eq!(restore(&again, &entry, b"abc"), RestoreOutcome::Unchanged);
    assert_eq!(folder.names(""), ["readme"].map(str::to_owned).into());
    let root = fs::File::open(folder.root()).unwrap();
    assert_eq!(again.is_spelled_so(root.as_fd(), b"README", b"README"), Ok(true));
    let usual = TestFolder::new();
    let root = fs::File::open(usual.root()).unwrap();
    let target = usual.target(Overwrite::IfChanged);
    assert_eq!(target.is_spelled_so(root.as_fd(), b"README", b"README"), Ok(false));
    assert_eq!(usual.names("").len(), 0);
}
