//! Into a tree that is there already.

use crate::testing::*;
use crate::{ContentMatch, Overwrite, RestoreCause, RestoreOutcome, Target, TargetOptions};
use format::entry::{Entry, Kind};
use std::fs;

fn try_file(
    target: &Target,
    entry: &Entry,
    content: &[u8],
) -> Result<RestoreOutcome, crate::RestoreProblem> {
    let parent = target.parent_of(&entry.path)?;
    target.small_file(&parent, &Entry { size: content.len() as u64, ..entry.clone() }, content)
}

#[test]
fn never_keeps_always_replaces_if_changed_compares() {
    let folder = TestFolder::new();
    let entry = file("f", 0o640);
    fs::write(folder.at("f"), "old").unwrap();
    let restored = |overwrite, content: &[u8]| try_file(&folder.target(overwrite), &entry, content);
    assert_eq!(restored(Overwrite::Never, b"new"), Ok(RestoreOutcome::Kept));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"old");
    assert_eq!(restored(Overwrite::IfChanged, b"new"), Ok(RestoreOutcome::Replaced)); // mtime differs
    assert_eq!(restored(Overwrite::IfChanged, b"NEW"), Ok(RestoreOutcome::Unchanged));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"new");
    assert_eq!(restored(Overwrite::Always, b"NEW"), Ok(RestoreOutcome::Replaced));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"NEW");
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1);
}

#[test]
fn if_newer_keeps_what_is_as_young_as_the_snapshot_or_younger() {
    let folder = TestFolder::new();
    let entry = file("f", 0o640);
    let restored = |content: &[u8]| try_file(&folder.target(Overwrite::IfNewer), &entry, content);
    assert_eq!(restored(b"first"), Ok(RestoreOutcome::Created));
    assert_eq!(restored(b"same time"), Ok(RestoreOutcome::Kept));
    fs::write(folder.at("f"), "edited since").unwrap(); // now: later than any entry of these tests
    assert_eq!(restored(b"older"), Ok(RestoreOutcome::Kept));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"edited since");
    let before = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(folder.at("f")).unwrap().set_modified(before).unwrap();
    assert_eq!(restored(b"newer"), Ok(RestoreOutcome::Replaced));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"newer");
}

#[test]
fn after_a_restore_that_was_cut_short_if_newer_believes_no_time() {
    let folder = TestFolder::new();
    cut_short(&folder, Overwrite::IfChanged);
    let resumed = folder.target(Overwrite::IfNewer);
    assert_eq!(try_file(&resumed, &file("f", 0o640), b"abc"), Ok(RestoreOutcome::Replaced));
    let told = try_file(&resumed, &file("g", 0o640), b"half a file").unwrap_err();
    assert_eq!(told.error, RestoreCause::MaybeIncomplete);
    assert_eq!(fs::read(folder.at("g")).unwrap(), b"half a fi", "it may be somebody's work");
}

/// Leaves what a restore has when it is killed: a marker, a file without its data, and a part of one.
fn cut_short(folder: &TestFolder, overwrite: Overwrite) {
    let unfinished = folder.target(overwrite);
    unfinished.write_marker().unwrap();
    restore(&unfinished, &file("f", 0o640), b"\0\0\0");
    fs::write(folder.at("g"), "half a fi").unwrap();
}

fn names(folder: &TestFolder) -> Vec<String> {
    let names = fs::read_dir(folder.root()).unwrap();
    let mut names: Vec<_> =
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Seen: it kept files of which a part was there, ended well, and removed the marker.
#[test]
fn after_a_restore_that_was_cut_short_never_keeps_no_part_of_a_file_in_silence() {
    let folder = TestFolder::new();
    cut_short(&folder, Overwrite::IfChanged);
    for _ in 0..2 {
        let resumed = folder.target(Overwrite::Never);
        resumed.write_marker().unwrap();
        assert_eq!(try_file(&resumed, &file("f", 0o640), b"abc"), Ok(RestoreOutcome::Replaced));
        let told = try_file(&resumed, &file("g", 0o640), b"half a file").unwrap_err();
        assert_eq!(told.error, RestoreCause::MaybeIncomplete);
        assert_eq!(fs::read(folder.at("f")).unwrap(), b"abc");
        assert_eq!(fs::read(folder.at("g")).unwrap(), b"half a fi");
        resumed.sync().unwrap();
        assert_eq!(names(&folder).len(), 3, "the marker stays: {:?}", names(&folder));
    }
    let always = folder.target(Overwrite::Always);
    try_file(&always, &file("g", 0o640), b"half a file").unwrap();
    always.sync().unwrap();
    assert_eq!(names(&folder), ["f", "g"]);
    let entry = file("g", 0o640);
    assert_eq!(try_file(&folder.target(Overwrite::Never), &entry, b"x"), Ok(RestoreOutcome::Kept));
}

/// What such a restore has begun when it is killed has no name, so that what has one was there before.
#[test]
fn a_restore_that_keeps_files_names_them_when_they_are_complete() {
    for overwrite in [Overwrite::Never, Overwrite::IfNewer] {
        let folder = TestFolder::new();
        let unfinished = folder.target(overwrite);
        unfinished.write_marker().unwrap();
        fs::create_dir(folder.at("d")).unwrap();
        let entry = Entry { size: 11, ..file("d/g", 0o640) };
        let parent = unfinished.parent_of(&entry.path).unwrap();
        let crate::StartedFile::Open(begun) = unfinished.start_file(&parent, &entry).unwrap()
        else {
            panic!("it is new");
        };
        begun.write_at(0, b"half a fi").unwrap();
        std::mem::forget(begun);
        assert!(!folder.at("d/g").exists());
        let left = || fs::read_dir(folder.at("d")).unwrap().count();
        assert_eq!(left(), 1, "a temporary name");
        let own = fs::read_dir(folder.at("d")).unwrap().next().unwrap().unwrap().file_name();
        let own = own.into_string().unwrap();
        for other in [format!("{own}x"), own.replace('-', "-0-"), ".icecore-1-0.part".to_owned()] {
            fs::write(folder.at("d").join(other), "of somebody else").unwrap();
        }
        fs::write(folder.at("other"), "of a user, meanwhile").unwrap();

        let beside = folder.target(overwrite);
        beside.parent_of(&entry.path).unwrap();
        assert_eq!(left(), 4, "it runs still");
        drop(unfinished.0.marker.lock().take());
        // Programs that other tests start at this moment have a copy of the lock until they run.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let resumed = folder.target(overwrite);
        resumed.write_marker().unwrap();
        let made = try_file(&resumed, &entry, b"half a file");
        assert_eq!(made, Ok(RestoreOutcome::Created));
        assert_eq!(left(), 4, "the temporary name is gone, those of others are not");
        let other = try_file(&resumed, &file("other", 0o640), b"of the snapshot");
        assert_eq!(other, Ok(RestoreOutcome::Kept));
        resumed.sync().unwrap();
        assert_eq!(names(&folder), ["d", "other"]);
    }
}

/// The name that a new file takes at its end must be free still.
#[test]
fn what_somebody_makes_meanwhile_is_not_replaced_by_a_restore_that_keeps_files() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Never);
    let entry = Entry { size: 3, ..file("f", 0o640) };
    let parent = target.parent_of(&entry.path).unwrap();
    let crate::StartedFile::Open(begun) = target.start_file(&parent, &entry).unwrap() else {
        panic!("it is new");
    };
    begun.write_at(0, b"abc").unwrap();
    fs::write(folder.at("f"), "of somebody else").unwrap();
    let refused = begun.finish(&entry).unwrap_err();
    assert_eq!(refused.error, RestoreCause::System(rustix::io::Errno::EXIST));
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"of somebody else");
    assert_eq!(names(&folder), ["f"]);
}

#[test]
fn an_equal_file_gets_its_mode_and_owner_back() {
    let folder = TestFolder::new();
    restore(&folder.target(Overwrite::Always), &file("f", 0o640), b"abc");
    fs::set_permissions(folder.at("f"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    std::os::unix::fs::chown(folder.at("f"), Some(3), Some(3)).unwrap();
    let target = folder.target(Overwrite::IfChanged);
    let before = folder.look("f").stx_ino;
    assert_eq!(restore(&target, &file("f", 0o640), b"abc"), RestoreOutcome::Unchanged);
    assert_eq!(target.compare_metadata(&Entry { size: 3, ..file("f", 0o640) }), []);
    assert_eq!(folder.look("f").stx_ino, before);
}

/// Review: `put_right` changed a file that has names elsewhere through its name in the target.
#[test]
fn an_equal_file_with_names_elsewhere_is_replaced_and_not_changed() {
    let folder = TestFolder::new();
    restore(&folder.target(Overwrite::Always), &file("f", 0o640), b"abc");
    let other = folder.folder.path().join("outside/canary2");
    fs::hard_link(folder.at("f"), &other).unwrap();
    let wanted = with_xattr(file("f", 0o600), "user.new", b"1");
    assert_eq!(
        restore(&folder.target(Overwrite::IfChanged), &wanted, b"ABC"),
        RestoreOutcome::Replaced
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&other).unwrap());
    assert_eq!((mode & 0o777, fs::read(&other).unwrap()), (0o640, b"abc".to_vec()));
    // Nothing to put right: it stays.
    fs::remove_file(&other).unwrap();
    fs::hard_link(folder.at("f"), &other).unwrap();
    assert_eq!(
        restore(&folder.target(Overwrite::IfChanged), &wanted, b"ABC"),
        RestoreOutcome::Unchanged
    );
    fs::remove_file(other).unwrap();
    folder.assert_canary_alive();
}

/// A file as a power cut leaves it: its length and its times are there, its data is not.
#[test]
fn what_an_unfinished_restore_wrote_is_not_believed_by_its_size_and_time() {
    let folder = TestFolder::new();
    let unfinished = folder.target(Overwrite::IfChanged);
    unfinished.write_marker().unwrap();
    restore(&unfinished, &file("f", 0o640), b"\0\0\0");
    drop(unfinished);
    let entry = Entry { size: 3, ..file("f", 0o640) };
    let resumed = folder.target(Overwrite::IfChanged);
    assert_eq!(resumed.match_metadata(&entry), ContentMatch::Uncertain);
    assert_eq!(resumed.match_after_comparison(&entry), ContentMatch::Equal);
    assert_eq!(restore(&resumed, &entry, b"abc"), RestoreOutcome::Replaced);
    assert_eq!(
        fs::read_dir(folder.root()).unwrap().count(),
        2,
        "the marker stays until all is safe"
    );
    resumed.sync().unwrap();
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1);
    let third = folder.target(Overwrite::IfChanged);
    assert_eq!(third.match_metadata(&entry), ContentMatch::Equal);
}

#[test]
fn a_restore_takes_no_marker_away_that_is_of_one_that_runs() {
    let folder = TestFolder::new();
    let (first, second) = (folder.target(Overwrite::Always), folder.target(Overwrite::Always));
    first.write_marker().unwrap();
    let third = folder.target(Overwrite::Always);
    second.write_marker().unwrap();
    third.sync().unwrap();
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 2);
    let listed = delete_extraneous(&first, b"", |_| false);
    assert_eq!(listed, [], "a marker is none of the names that the snapshot lacks");
    first.sync().unwrap();
    second.sync().unwrap();
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 0);
}

#[test]
fn a_marker_that_makes_no_sense_doubts_everything() {
    let folder = TestFolder::new();
    restore(&folder.target(Overwrite::Always), &file("f", 0o640), b"abc");
    let entry = Entry { size: 3, ..file("f", 0o640) };
    let of_text = "An icecore restore into this folder";
    for torn in ["", "\0\0\0", of_text, &format!("{of_text}\0\0\0\0")] {
        fs::write(folder.at(".icecore-restore-12-5f"), torn).unwrap();
        let target = folder.target(Overwrite::IfChanged);
        assert_eq!(target.match_metadata(&entry), ContentMatch::Uncertain, "{torn:?}");
        target.sync().unwrap();
        assert!(!folder.at(".icecore-restore-12-5f").exists(), "{torn:?}");
    }
}

/// Names that begin like those of markers, and files that have the name of one.
#[test]
fn a_file_of_somebody_else_is_no_marker_whatever_its_name() {
    let folder = TestFolder::new();
    restore(&folder.target(Overwrite::Always), &file("f", 0o640), b"abc");
    let names =
        ["log", "notes-1", "12", "12-", "-5f", "1a-5f", "12-5g", "12-5f.txt", "", "12-5f-1"];
    let others = names.map(|name| format!(".icecore-restore-{name}"));
    others.iter().for_each(|name| fs::write(folder.at(name), "").unwrap());
    let long = "An icecore restore into this folder is under way, it said. ".repeat(9);
    for (name, text) in
        [("1-a", "my notes"), ("1-b", "An icecore restore of mine"), ("1-c", &*long)]
    {
        fs::write(folder.at(&format!(".icecore-restore-{name}")), text).unwrap();
    }
    std::os::unix::fs::symlink("f", folder.at(".icecore-restore-1-d")).unwrap();
    fs::create_dir(folder.at(".icecore-restore-1-e")).unwrap();
    let count = |folder: &TestFolder| fs::read_dir(folder.root()).unwrap().count();
    let before = count(&folder);
    let target = folder.target(Overwrite::IfChanged);
    let entry = Entry { size: 3, ..file("f", 0o640) };
    assert_ne!(target.match_metadata(&entry), ContentMatch::Uncertain, "nothing is in doubt");
    target.write_marker().unwrap();
    target.sync().unwrap();
    assert_eq!(count(&folder), before, "nothing of it is removed");
    // Where the snapshot does not have them, they go as everything else, by name.
    let listed = delete_extraneous(&folder.target(Overwrite::Always), b"", |name| name == b"f");
    assert_eq!(listed.len(), before - 1);
}

#[test]
fn removing_a_name_leaves_its_directory_as_it_was() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let entry = directory("d", 0o555);
    target.directory(&entry).unwrap();
    restore(&target, &file("d/stranger", 0o644), b"");
    target.finish_directory(&entry).unwrap();
    assert_eq!(target.remove(b"d/stranger", None).objects, 1);
    assert_eq!(target.compare_metadata(&entry), []);
}

#[test]
fn replacing_one_name_of_a_hard_link_leaves_the_other() {
    let folder = TestFolder::new();
    fs::write(folder.at("f"), "old").unwrap();
    fs::hard_link(folder.at("f"), folder.folder.path().join("outside/canary2")).unwrap();
    restore(&folder.target(Overwrite::Always), &file("f", 0o640), b"new");
    let other = folder.folder.path().join("outside/canary2");
    assert_eq!(fs::read(&other).unwrap(), b"old");
    fs::remove_file(other).unwrap();
    folder.assert_canary_alive();
}

#[test]
fn linked_names_of_an_older_tree_are_linked_anew() {
    let folder = TestFolder::new();
    for overwrite in [Overwrite::Always, Overwrite::Always, Overwrite::IfChanged] {
        let target = folder.target(overwrite);
        restore(&target, &file("a", 0o644), b"abc");
        let parent = target.parent_of(b"b").unwrap();
        target.hard_link(&parent, &file("b", 0o644), b"a").unwrap();
        assert_eq!(folder.look("a").stx_ino, folder.look("b").stx_ino);
    }
    // Equal, but a file of its own: becomes a link.
    fs::remove_file(folder.at("b")).unwrap();
    restore(&folder.target(Overwrite::Always), &file("b", 0o644), b"abc");
    let target = folder.target(Overwrite::IfChanged);
    let parent = target.parent_of(b"b").unwrap();
    let linked = target.hard_link(&parent, &file("b", 0o644), b"a");
    assert_eq!(linked, Ok(RestoreOutcome::Replaced));
    assert_eq!(folder.look("a").stx_ino, folder.look("b").stx_ino);
}

#[test]
fn kinds_replace_each_other_but_full_directories_are_removed_first() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("empty")).unwrap();
    fs::create_dir_all(folder.at("full/deep")).unwrap();
    fs::write(folder.at("file"), "").unwrap();
    std::os::unix::fs::symlink("../outside", folder.at("link")).unwrap();
    let target = folder.target(Overwrite::Always);
    restore(&target, &file("empty", 0o644), b"1");
    let full = try_file(&target, &file("full", 0o644), b"1").unwrap_err();
    assert_eq!(full.error, RestoreCause::NotEmpty);
    let names = fs::read_dir(folder.root()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert_eq!(left, [""; 0], "what was to take its place");
    for name in ["file", "link"] {
        target.directory(&directory(name, 0o755)).unwrap();
        restore(&target, &file(format!("{name}/x"), 0o644), b"1");
    }
    let rehearsed =
        folder.target_with(TargetOptions { dry_run: true, ..options(Overwrite::Always) });
    fs::write(folder.at("full/deep/file"), [0; 700]).unwrap();
    std::os::unix::fs::symlink("long target of no weight", folder.at("full/link")).unwrap();
    // The whole outcome, rehearsed as it then is.
    let removed = crate::RemovalOutcome { objects: 4, bytes: 700, ..Default::default() };
    assert_eq!(rehearsed.remove(b"full", None), removed);
    assert!(target.is_full_directory(b"full"));
    assert_eq!(target.remove(b"full", None), removed);
    restore(&target, &file("full", 0o644), b"1");
    folder.assert_canary_alive();
    let never = folder.target(Overwrite::Never).directory(&directory("full", 0o755));
    assert_eq!(never.map(|_| ()).unwrap_err().error, RestoreCause::Occupied);
}

#[test]
fn what_this_run_restored_is_never_overwritten_by_it() {
    for folder in TestFolder::both() {
        let target = folder.target(Overwrite::Always);
        restore(&target, &file("f", 0o644), b"first");
        let second = try_file(&target, &file("f", 0o644), b"second").unwrap_err();
        assert_eq!(second.error, RestoreCause::Collision);
        let parent = target.parent_of(b"f").unwrap();
        assert!(target.special(&parent, &entry(Kind::Fifo, "f", 0o644)).is_err());
        assert!(target.directory(&directory("f", 0o755)).is_err());
        assert_eq!(fs::read(folder.at("f")).unwrap(), b"first");
    }
}

#[test]
fn names_that_fold_together_are_told_apart() {
    let folder = TestFolder::below(std::path::Path::new("/dev/shm"));
    let Some(mount) = Folding::mount(&folder.root()) else {
        return folded_names_are_played(&folder);
    };
    let target = folder.target(Overwrite::Always);
    target.directory(&directory("d", 0o755)).unwrap();
    mount.fold("d");
    restore(&target, &file("d/Name", 0o644), b"one");
    let error = try_file(&target, &file("d/name", 0o644), b"two").unwrap_err();
    assert_eq!(error.error, RestoreCause::Collision);
    // A resumed restore finds the other spelling with an old birth.
    for overwrite in [Overwrite::Always, Overwrite::IfChanged, Overwrite::Never] {
        let target = folder.target(overwrite);
        let error = try_file(&target, &file("d/nAME", 0o644), b"two").unwrap_err();
        assert_eq!(error.error, RestoreCause::Collision);
    }
    assert_eq!(fs::read(folder.at("d/Name")).unwrap(), b"one");
}

/// What a file system that folds shows, where the kernel has none: a second name of what this run
/// made, and one name in the list while another was asked for.
fn folded_names_are_played(folder: &TestFolder) {
    let target = folder.target(Overwrite::Always);
    target.directory(&directory("d", 0o755)).unwrap();
    restore(&target, &file("d/Name", 0o644), b"one");
    fs::hard_link(folder.at("d/Name"), folder.at("d/name")).unwrap();
    let error = try_file(&target, &file("d/name", 0o644), b"two").unwrap_err();
    assert_eq!(error.error, RestoreCause::Collision);
    fs::remove_file(folder.at("d/name")).unwrap();
    let parent = target.parent_of(b"d/name").unwrap();
    parent.folds_names.set(true).unwrap();
    let judged =
        |name: &[u8]| target.refuse_other_spelling(&parent, parent.fd().unwrap(), name, b"d/name");
    assert!(judged(b"Name").is_ok());
    assert_eq!(judged(b"nAME").unwrap_err().error, RestoreCause::Collision);
    assert_eq!(fs::read(folder.at("d/Name")).unwrap(), b"one");
}

/// A tmpfs that can fold names (Linux 6.13, built with Unicode); `None` where it cannot be mounted.
struct Folding(std::path::PathBuf);

impl Folding {
    fn mount(at: &std::path::Path) -> Option<Self> {
        let arguments = ["-t", "tmpfs", "-o", "casefold", "icecore-test"];
        let status = std::process::Command::new("mount").args(arguments).arg(at).output().ok()?;
        status.status.success().then(|| Folding(at.to_path_buf()))
    }

    fn fold(&self, name: &str) {
        let path = self.0.join(name);
        std::process::Command::new("chattr").arg("+F").arg(path).status().unwrap();
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn an_inherited_acl_does_not_stay() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    let path = folder.at("d");
    rustix::fs::setxattr(&path, "system.posix_acl_default", &ACL, rustix::fs::XattrFlags::empty())
        .unwrap();
    let target = folder.target(Overwrite::Always);
    restore(&target, &file("d/f", 0o664), b"");
    let parent = target.parent_of(b"d/p").unwrap();
    target.special(&parent, &entry(Kind::Fifo, "d/p", 0o666)).unwrap();
    let below = directory("d/below", 0o775);
    target.directory(&below).unwrap();
    restore(&target, &file("d/below/g", 0o664), b"");
    target.finish_directory(&below).unwrap();
    target.finish_directory(&directory("d", 0o755)).unwrap();
    let all = [file("d/f", 0o664), entry(Kind::Fifo, "d/p", 0o666), below, directory("d", 0o755)];
    for entry in all {
        assert_eq!(target.compare_metadata(&entry), []);
    }
}

/// The target is missing, and made in a directory that gives its ACL to all that is made in it.
#[test]
fn an_acl_from_above_a_new_target_does_not_stay() {
    let folder = TestFolder::new();
    let default = "system.posix_acl_default";
    rustix::fs::setxattr(folder.root(), default, &ACL, rustix::fs::XattrFlags::empty()).unwrap();
    let new = folder.at("new");
    let target = Target::open(&new, options(Overwrite::Always)).unwrap();
    restore(&target, &file("f", 0o640), b"");
    let parent = target.parent_of(b"p").unwrap();
    target.special(&parent, &entry(Kind::Fifo, "p", 0o660)).unwrap();
    let below = directory("below", 0o755);
    target.directory(&below).unwrap();
    restore(&target, &file("below/g", 0o640), b"");
    target.finish_directory(&below).unwrap();
    target.sync_as(Some(&directory("", 0o755))).unwrap();
    for entry in [file("f", 0o640), entry(Kind::Fifo, "p", 0o660), file("below/g", 0o640), below] {
        assert_eq!(target.compare_metadata(&entry), [], "{:?}", entry.path);
    }
    for name in [default, "system.posix_acl_access"] {
        assert!(rustix::fs::getxattr(&new, name, &mut [0; 64]).is_err(), "{name}");
    }
}

/// The clock was ahead when it was made, or is behind now: everything there seemed to be of this restore.
#[test]
fn what_was_born_in_the_future_is_replaced() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let started = target.0.started;
    fs::write(folder.at("f"), "old").unwrap();
    let mut stat = folder.look("f");
    stat.stx_mask |= rustix::fs::StatxFlags::BTIME.bits();
    for (ahead_secs, is_ours) in [(-10, false), (1, true), (7200, false), (1 << 30, false)] {
        stat.stx_btime.tv_sec = started.secs + ahead_secs;
        assert_eq!(target.0.is_ours(&stat), is_ours, "{ahead_secs}");
    }
}

/// What XFS shows of an ACL under a second name stays elsewhere when the ACL changes: restored, it would bring the old
/// one back.
#[test]
fn the_second_name_of_an_acl_on_xfs_is_not_restored() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    let entry = with_xattr(file("f", 0o640), "trusted.SGI_ACL_FILE", b"old");
    restore(&target, &entry, b"");
    let mut buffer = [0; 64];
    assert!(rustix::fs::getxattr(folder.at("f"), "trusted.SGI_ACL_FILE", &mut buffer).is_err());
    assert_eq!(target.compare_metadata(&entry), []);
}

#[test]
fn a_setgid_directory_does_not_decide_the_group() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    std::os::unix::fs::chown(folder.at("d"), None, Some(50)).unwrap();
    fs::set_permissions(folder.at("d"), std::os::unix::fs::PermissionsExt::from_mode(0o2755))
        .unwrap();
    let target = folder.target(Overwrite::Always);
    let mut fifty = file("d/50", 0o644);
    change(&mut fifty, |a| a.gid = 50);
    for entry in [file("d/mine", 0o644), fifty, file("d/sub/x", 0o644)] {
        restore(&target, &entry, b"");
        assert_eq!(target.compare_metadata(&entry), []);
    }
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_happen() {
    let folder = TestFolder::new();
    fs::write(folder.at("old"), "old").unwrap();
    let target = folder.target_with(TargetOptions { dry_run: true, ..options(Overwrite::Always) });
    let new = directory("new", 0o755);
    target.directory(&new).unwrap();
    assert_eq!(try_file(&target, &file("new/f", 0o644), b"1"), Ok(RestoreOutcome::Created));
    assert_eq!(try_file(&target, &file("old", 0o644), b"1"), Ok(RestoreOutcome::Replaced));
    target.finish_directory(&new).unwrap();
    assert_eq!(delete_extraneous(&target, b"", |_| false), [Ok((b"old".to_vec(), 1))]);
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1);
    assert_eq!(fs::read(folder.at("old")).unwrap(), b"old");
}

#[test]
fn a_directory_that_was_there_gets_all_attributes_or_none() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("d")).unwrap();
    rustix::fs::setxattr(folder.at("d"), "user.old", b"1", rustix::fs::XattrFlags::empty())
        .unwrap();
    let entry = with_xattr(directory("d", 0o711), "user.new", b"2");
    folder.target(Overwrite::Never).finish_directory(&entry).unwrap();
    assert_eq!(folder.look("d").stx_mode & 0o7777, 0o755);
    let target = folder.target(Overwrite::IfChanged);
    target.finish_directory(&entry).unwrap();
    assert_eq!(target.compare_metadata(&entry), []);
}
