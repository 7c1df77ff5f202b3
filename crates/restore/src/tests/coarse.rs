//! File systems that keep less than a snapshot has: no times of birth, no modes, times that are less exact.

use crate::Target;
use crate::abilities::Abilities;
use crate::testing::*;
use crate::{
    ContentMatch, Difference, Overwrite, RestoreCause, RestoreOutcome, RestoreProblem, StartedFile,
};
use format::entry::{Content, Kind};
use std::fs;
use std::process::Command;

/// An NTFS as a driver in user space mounts it by default: it says that modes are set, and keeps none.
fn ntfs(folder: &TestFolder) -> Option<Mount> {
    let image = folder.folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkntfs").args(["-q", "-F"]).arg(&image).output().ok()?;
    made.status.success().then_some(())?;
    Mount::with("ntfs-3g", &[image.to_str()?], &folder.root())
}

/// A file system that records no times of birth.
fn ramfs(folder: &TestFolder) -> Option<Mount> {
    Mount::make(&["-t", "ramfs", "icecore-test"], &folder.root())
}

/// Restores a file of three names.
fn restore_linked(folder: &TestFolder, mode: u16, content: &[u8]) -> [RestoreOutcome; 3] {
    // The clock that files get their times from.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let target = folder.target(Overwrite::Always);
    let parent = target.parent_of(b"one").unwrap();
    let first = target.small_file(&parent, &sized(file("hard", mode), content), content).unwrap();
    let link = |name: &str| target.hard_link(&parent, &file(name, mode), b"hard").unwrap();
    [first, link("one"), link("third")]
}

fn sized(entry: format::entry::Entry, content: &[u8]) -> format::entry::Entry {
    format::entry::Entry { size: content.len() as u64, ..entry }
}

/// Seen on NTFS: with the first name gone, the change of the file made the others seem new, and they kept the old
/// content.
#[test]
fn all_names_of_a_file_are_replaced_where_no_time_of_birth_is_recorded() {
    let mounts: [fn(&TestFolder) -> Option<Mount>; 2] = [ramfs, ntfs];
    for mount in mounts {
        let folder = TestFolder::new();
        let Some(_mount) = mount(&folder) else {
            testkit::skip("ramfs or ntfs-3g cannot be mounted here");
            continue;
        };
        assert_eq!(restore_linked(&folder, 0o777, b"abc"), [RestoreOutcome::Created; 3]);
        for content in [b"xyz", b"123"] {
            assert_eq!(restore_linked(&folder, 0o777, content), [RestoreOutcome::Replaced; 3]);
            for name in ["hard", "one", "third"] {
                assert_eq!(fs::read(folder.at(name)).unwrap(), content);
                assert_eq!(folder.look(name).stx_ino, folder.look("hard").stx_ino);
            }
        }
    }
}

/// An exFAT through a driver in user space, which keeps whole seconds and no modes.
fn exfat(folder: &TestFolder) -> Option<Mount> {
    super::folding::exfat(folder)
}

/// What of the same tree is there after a restore: the outcome of a file that a caller would look at first, of a
/// symlink where there are such, and what verification finds.
struct Repeated {
    found: ContentMatch,
    compared: ContentMatch,
    symlink: Option<RestoreOutcome>,
    differing: Vec<Difference>,
}

fn repeat(folder: &TestFolder) -> Repeated {
    std::thread::sleep(std::time::Duration::from_millis(20));
    let target = folder.target(Overwrite::IfChanged);
    target.write_marker().unwrap();
    let entry = sized(file("f", 0o640), b"abc");
    let (found, compared) = (target.match_metadata(&entry), target.match_after_comparison(&entry));
    let parent = target.parent_of(b"f").unwrap();
    if compared == ContentMatch::Different {
        target.small_file(&parent, &entry, b"abc").unwrap();
    }
    let symlink = target.symlink(&parent, &symlink("s", b"f"), b"f").ok();
    let differing = target.compare_metadata(&entry);
    target.sync().unwrap();
    assert_eq!(target.take_degraded().modes.count, 1);
    Repeated { found, compared, symlink, differing }
}

/// Seen: each restore wrote everything again, and verification found that all differed.
#[test]
fn what_is_equal_as_far_as_a_file_system_keeps_it_is_compared_and_left_alone() {
    let mounts: [fn(&TestFolder) -> Option<Mount>; 2] = [exfat, ntfs];
    for mount in mounts {
        let folder = TestFolder::new();
        let Some(_mount) = mount(&folder) else {
            testkit::skip("exFAT or NTFS cannot be mounted here");
            continue;
        };
        let first = repeat(&folder);
        assert_eq!((first.found, first.differing), (ContentMatch::Different, vec![]));
        let inode = folder.look("f").stx_ino;
        let again = repeat(&folder);
        // The time says only so much: the content is compared.
        assert_eq!(again.found, ContentMatch::Uncertain);
        assert_eq!((again.compared, again.differing), (ContentMatch::Equal, vec![]));
        assert_eq!(folder.look("f").stx_ino, inode);
        let links = [first.symlink, again.symlink];
        assert!(
            links == [Some(RestoreOutcome::Created), Some(RestoreOutcome::Unchanged)]
                || links == [None, None],
            "{links:?}"
        );
        for other in [b"abcd".as_slice(), b"ab"] {
            let target = folder.target(Overwrite::IfChanged);
            target.write_marker().unwrap();
            let found = target.match_metadata(&sized(file("f", 0o640), other));
            assert_eq!(found, ContentMatch::Different);
        }
        let touched = fs::File::options().write(true).open(folder.at("f")).unwrap();
        let now = std::time::SystemTime::now();
        touched.set_times(fs::FileTimes::new().set_accessed(now).set_modified(now)).unwrap();
        let edited = repeat(&folder);
        assert_eq!(edited.compared, ContentMatch::Different);
    }
}

/// Seen on NTFS: a file of several names was written again each time, because its mode cannot be set.
#[test]
fn a_file_of_several_names_is_left_alone_where_no_modes_are_kept() {
    let folder = TestFolder::new();
    let Some(_mount) = ntfs(&folder) else {
        return testkit::skip("ntfs-3g cannot be mounted here");
    };
    restore_linked(&folder, 0o640, b"abc");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let target = folder.target(Overwrite::IfChanged);
    let entry = sized(file("hard", 0o640), b"abc");
    assert_eq!(target.match_after_comparison(&entry), ContentMatch::Different, "not tried yet");
    target.write_marker().unwrap();
    assert_eq!(target.match_metadata(&entry), ContentMatch::Uncertain);
    assert_eq!(target.match_after_comparison(&entry), ContentMatch::Equal);
    assert_eq!(target.take_degraded().modes.count, 1, "it is reported each time");
    let named = with_xattr(entry, "user.new", b"1");
    assert_eq!(target.match_after_comparison(&named), ContentMatch::Different);
}

#[test]
fn nothing_is_tried_on_a_usual_file_system() {
    for folder in TestFolder::both() {
        let target = folder.target(Overwrite::IfChanged);
        target.write_marker().unwrap();
        assert_eq!(target.0.abilities.get(), None);
    }
}

/// The same where none of these can be mounted: two seconds, and no modes.
#[test]
fn what_is_equal_within_the_step_of_a_file_system_is_compared() {
    let folder = TestFolder::new();
    let entry = sized(file("f", 0o640), b"abc");
    restore(&folder.target(Overwrite::Always), &file("f", 0o600), b"abc");
    fs::hard_link(folder.at("f"), folder.folder.path().join("other")).unwrap();
    let played = |secs_after: u64| {
        let secs = u64::try_from(MTIME.secs).unwrap() / 2 * 2 + secs_after;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs);
        let open = fs::File::options().write(true).open(folder.at("f")).unwrap();
        open.set_modified(time).unwrap();
        let target = folder.target(Overwrite::IfChanged);
        target.0.abilities.set(Abilities { keeps_modes: false, step: 2_000_000_000 }).unwrap();
        target
    };
    let target = played(0);
    assert_eq!(target.match_metadata(&entry), ContentMatch::Uncertain);
    assert_eq!(target.match_metadata(&sized(file("f", 0o640), b"abcd")), ContentMatch::Different);
    assert_eq!(target.match_after_comparison(&entry), ContentMatch::Equal);
    assert_eq!(folder.look("f").stx_mode & 0o777, 0o600, "its other name is not touched");
    assert_eq!(target.take_degraded().modes.count, 1);
    assert_eq!(target.compare_metadata(&entry), []);
    for secs in [1, 4] {
        assert_eq!(played(secs).match_after_comparison(&entry), ContentMatch::Different, "{secs}");
    }
    let parent = target.parent_of(b"f").unwrap();
    let restored = played(0).small_file(&parent, &entry, b"abc");
    assert_eq!(restored, Ok(RestoreOutcome::Replaced), "without a comparison it is not believed");
}

#[test]
fn what_exfat_cannot_hold_is_said_in_words() {
    let folder = TestFolder::new();
    let Some(_mount) = exfat(&folder) else {
        return testkit::skip("exFAT cannot be mounted here");
    };
    let target = folder.target(Overwrite::IfChanged);
    let parent = target.parent_of(b"f").unwrap();
    let cause = |result: Result<RestoreOutcome, RestoreProblem>| result.unwrap_err().error;
    let named = target.small_file(&parent, &file("a:b", 0o644), b"");
    assert_eq!(cause(named), RestoreCause::NameRefused);
    let below = target.parent_of(b"d:e/f").map(|_| RestoreOutcome::Created);
    assert_eq!(cause(below), RestoreCause::NameRefused);
    let linked = target.symlink(&parent, &symlink("s", b"f"), b"f");
    assert_eq!(cause(linked), RestoreCause::KindRefused(Kind::Symlink));
    target.small_file(&parent, &file("f", 0o644), b"").unwrap();
    let linked = target.hard_link(&parent, &file("g", 0o644), b"f");
    assert_eq!(linked, Ok(RestoreOutcome::NeedsCopy));
}

/// Seen on exFAT: the copy that a further name of a small file became had its length in zeros.
#[test]
fn a_small_file_that_is_begun_in_pieces_has_its_content() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::IfChanged);
    let content = Content::Inline(b"abc".to_vec());
    let entry = format::entry::Entry { content, ..sized(file("f", 0o640), b"abc") };
    let parent = target.parent_of(b"f").unwrap();
    let StartedFile::Open(begun) = target.start_file(&parent, &entry).unwrap() else {
        panic!("it is new");
    };
    begun.finish(&entry).unwrap();
    assert_eq!(fs::read(folder.at("f")).unwrap(), b"abc");
}

/// Seen: where no time of birth is recorded, the marker in a target that was there made it look new, and it lost its
/// mode.
#[test]
fn a_target_that_was_there_keeps_its_mode_where_no_time_of_birth_is_recorded() {
    let folder = TestFolder::new();
    let Some(_mount) = ramfs(&folder) else {
        return testkit::skip("ramfs cannot be mounted here");
    };
    fs::create_dir(folder.at("there")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    for (name, is_made) in [("there", false), ("new", true)] {
        let target = Target::open(&folder.at(name), options(Overwrite::IfChanged)).unwrap();
        target.write_marker().unwrap();
        assert_eq!(target.has_made_root(), is_made, "{name}");
        target.sync_as(Some(&directory("", 0o711))).unwrap();
        let mode = if is_made { 0o711 } else { 0o755 };
        assert_eq!(folder.look(name).stx_mode & 0o7777, mode, "{name}");
    }
}
