//! `restore --delete`: only below what was backed up, named one by one, and not at all when
//! anything of the snapshot was lost.

use crate::testkit::build::{noise, small_tree, write};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{Heard, NAME, PASSWORD, TestFolder, snapshot};
use capture::walk::SourceRoot;
use pipeline::backup::{self, Progress};
use pipeline::manifest::Snapshot;
use pipeline::restore::{self, RestoreOptions, RestoreReport};
use pipeline::{Error, UnlockedRepository};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::SnapshotRef;

/// What a restore did, said and removed.
type Restored = pipeline::Result<(RestoreReport, Vec<String>, Vec<(String, u64)>)>;

fn deleting() -> RestoreOptions {
    RestoreOptions { delete: true, no_sync: true, threads: 2, ..RestoreOptions::default() }
}

fn restored(
    repository: &UnlockedRepository,
    snapshot: &Snapshot,
    target: &Path,
    options: &RestoreOptions,
) -> Restored {
    let (heard, progress) = (Heard::default(), Progress::default());
    let report = restore::run(repository, snapshot, b"", target, options, &progress, &heard)?;
    let mut removed = std::mem::take(&mut *heard.removed.lock());
    removed.sort();
    Ok((report, heard.all(), removed))
}

/// A backup of the source as `/home/x`, and a target with strangers at every level.
fn nested() -> (TestFolder, UnlockedRepository, SnapshotRef) {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    let shown_as = Some(b"/home/x".to_vec());
    let roots = vec![SourceRoot {
        source: folder.source().into_os_string().into_encoded_bytes(),
        shown_as,
    }];
    let options =
        backup::BackupOptions { roots, paths: vec!["/home/x".into()], ..folder.options() };
    let done = backup::run(&repository, &options, &Progress::default(), &Heard::default()).unwrap();
    (folder, repository, done.snapshot)
}

fn with_strangers(folder: &TestFolder) -> PathBuf {
    let target = folder.at("target");
    for name in [
        "precious",
        "home/precious",
        "home/x/stranger/a/b",
        "home/x/dir0/more",
        "home/x/tiny/in the way",
    ] {
        write(&target, name, b"x");
    }
    target
}

#[test]
fn only_below_the_paths_that_were_backed_up_is_anything_removed_and_each_name_is_told() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (with_strangers(&folder), snapshot(&repository, name).unwrap());
    let expected = [("home/x/dir0/more", 1), ("home/x/stranger", 3), ("home/x/tiny", 2)];
    let expected = expected.map(|(path, objects)| (path.to_owned(), objects));
    let rehearsal = RestoreOptions { dry_run: true, ..deleting() };
    let (would, heard, names) = restored(&repository, &snapshot, &target, &rehearsal).unwrap();
    assert_eq!((would.failed, would.deleted, names), (0, 6, expected.to_vec()), "{heard:?}");
    assert_eq!(would.deleted_bytes, 3, "a byte in each of three files");
    assert!(target.join("home/x/stranger/a/b").exists(), "a dry run changes nothing");
    let (did, heard, names) = restored(&repository, &snapshot, &target, &deleting()).unwrap();
    assert_eq!((did.failed, did.deleted, names), (0, 6, expected.to_vec()), "{heard:?}");
    assert_eq!(did.deleted_bytes, would.deleted_bytes);
    assert_eq!((would.files, would.links), (did.files, did.links));
    assert!(target.join("precious").exists() && target.join("home/precious").exists());
    assert!(!target.join("home/x/stranger").exists() && target.join("home/x/tiny").is_file());
    let (again, _, names) = restored(&repository, &snapshot, &target, &deleting()).unwrap();
    assert_eq!((again.deleted, again.files, names), (0, 0, Vec::new()));
}

/// Seen: what was deleted was more than the dry run had said, about which somebody was asked, or something else.
#[test]
fn nothing_is_removed_beyond_what_was_confirmed() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (with_strangers(&folder), snapshot(&repository, name).unwrap());
    let run = |options: &RestoreOptions| {
        let (heard, progress) = (Heard::default(), Progress::default());
        let ran = restore::run(&repository, &snapshot, b"", &target, options, &progress, &heard);
        (ran.unwrap(), heard)
    };
    let asked = || {
        let (_, heard) = run(&RestoreOptions { dry_run: true, ..deleting() });
        RestoreOptions { confirmed: Some(Arc::new(heard.confirmed())), ..deleting() }
    };
    let strange = target.join("home/x");
    let changes: [(&str, &dyn Fn()); 3] = [
        ("more", &|| write(&strange, "stranger/later", b"x")),
        ("others", &|| {
            std::fs::rename(strange.join("stranger"), strange.join("others")).unwrap();
        }),
        ("directories in the way", &|| write(&strange, "tiny/later", b"x")),
    ];
    for (what, change) in changes {
        let confirmed = asked();
        change();
        let (did, heard) = run(&confirmed);
        assert_eq!(did.deleted, 0, "{what}: {:?}", heard.all());
        assert!(heard.all().iter().any(|line| line.contains("you were not asked")), "{what}");
        assert!(strange.join("dir0/more").exists(), "{what}");
    }
    let (did, heard) = run(&asked());
    assert_eq!((did.failed, did.deleted), (0, 8), "{:?}", heard.all());
}

/// Seen: a typing error in --include deleted what the pattern matched in the target, and was reported afterwards.
#[test]
fn patterns_that_the_snapshot_does_not_know_remove_nothing() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (with_strangers(&folder), snapshot(&repository, name).unwrap());
    for dry_run in [true, false] {
        let include = vec!["stranger".to_owned()];
        let options = RestoreOptions { include, dry_run, ..deleting() };
        let (did, heard, names) = restored(&repository, &snapshot, &target, &options).unwrap();
        assert_eq!((did.deleted, names.len()), (0, 0), "{heard:?}");
        assert!(target.join("home/x/stranger/a/b").exists());
    }
}

/// Seen: "nothing matches --include", and that a directory has the name of what matches.
#[test]
fn what_an_include_takes_comes_where_a_directory_has_its_name() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (with_strangers(&folder), snapshot(&repository, name).unwrap());
    let options = RestoreOptions { include: vec!["tiny".into()], ..deleting() };
    let (did, heard, _) = restored(&repository, &snapshot, &target, &options).unwrap();
    assert_eq!((did.failed, did.deleted, did.files), (0, 2, 1), "{heard:?}");
    assert!(target.join("home/x/tiny").is_file());
}

/// Seen: a file in the place of a directory that nobody asked for kept everything from being deleted.
#[test]
fn what_nobody_asked_for_may_be_anything() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (with_strangers(&folder), snapshot(&repository, name).unwrap());
    std::fs::remove_dir_all(target.join("home/x/dir0")).unwrap();
    write(&target, "home/x/dir0", b"a file");
    let options = RestoreOptions { include: vec!["tiny".into(), "stranger".into()], ..deleting() };
    let (did, heard, _) = restored(&repository, &snapshot, &target, &options).unwrap();
    assert_eq!((did.failed, did.deleted), (0, 5), "{heard:?}");
    assert!(target.join("home/x/dir0").is_file());
}

/// Seen: it counted as empty, and then did not go.
#[test]
fn a_directory_in_the_way_goes_with_the_marker_that_is_in_it() {
    let (folder, repository, name) = nested();
    let (target, snapshot) = (folder.at("target"), snapshot(&repository, name).unwrap());
    let text = "An icecore restore into this folder is under way or was cut short. Files changed since 1000 (seconds since 1970)\n";
    write(&target, "home/x/tiny/.icecore-restore-1-5", text.as_bytes());
    for dry_run in [true, false] {
        let options = RestoreOptions { dry_run, ..deleting() };
        let (did, heard, names) = restored(&repository, &snapshot, &target, &options).unwrap();
        let expected = [("home/x/tiny".to_owned(), 2)].to_vec();
        assert_eq!((did.failed, names), (0, expected), "{heard:?}");
    }
    assert!(target.join("home/x/tiny").is_file());
}

/// Seen: the first restore deleted nothing, and took the lock; the second one deleted what lies in it. In the target
/// itself, each restore left a marker.
#[test]
fn locks_stay_where_something_is_left_alone_for_them() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock directories");
    }
    let folder = TestFolder::new();
    folder.write("d/f", b"f");
    folder.write("x", b"x");
    let repository = folder.init();
    let snapshot = snapshot(&repository, folder.backup(&repository).snapshot).unwrap();
    let target = folder.at("target");
    let run = || {
        let (heard, progress) = (Heard::default(), Progress::default());
        let (from, options) = (NAME.as_bytes(), deleting());
        let ran = restore::run(&repository, &snapshot, from, &target, &options, &progress, &heard);
        (ran.unwrap(), heard.all())
    };
    for path in ["d/mine", "x/in the way"] {
        write(&target, path, b"precious");
    }
    let lock = |path: &str, is_locked| crate::onto_others::lock(&target.join(path), is_locked);
    ["d", "x"].into_iter().for_each(|path| lock(path, true));
    assert_eq!(run().0.deleted, 0);
    lock("x", false);
    std::fs::remove_dir_all(target.join("x")).unwrap();
    let (did, heard) = run();
    assert!(did.deleted == 0 && target.join("d/mine").exists(), "{heard:?}");
    lock("d", false);
    write(&target, "extra", b"x");
    lock("", true);
    (0..3).for_each(|_| assert_eq!(run().0.failed, 1));
    let names = std::fs::read_dir(&target).unwrap();
    let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    lock("", false);
}

/// The further name is linked behind the removal, when its own directory was finished already.
#[test]
fn a_directory_has_its_mode_and_times_where_the_first_name_of_a_link_had_to_wait() {
    let folder = TestFolder::new();
    folder.write("a", b"content");
    let inner = folder.source().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::hard_link(folder.source().join("a"), inner.join("further")).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::open(&inner).unwrap().set_modified(long_ago).unwrap();
    std::fs::set_permissions(&inner, Permissions::from_mode(0o555)).unwrap();
    let repository = folder.init();
    let done = backup::run(&repository, &folder.options(), &Progress::default(), &Heard::default());
    let snapshot = snapshot(&repository, done.unwrap().snapshot).unwrap();
    let target = folder.at("target");
    write(&target, format!("{NAME}/a/in the way"), b"x");
    let (did, heard, _) = restored(&repository, &snapshot, &target, &deleting()).unwrap();
    assert_eq!((did.failed, did.deleted), (0, 2), "{heard:?}");
    let restored = target.join(NAME).join("inner");
    let found = std::fs::metadata(&restored).unwrap();
    assert_eq!((found.modified().unwrap(), found.mode() & 0o7777), (long_ago, 0o555));
    let [first, further] =
        ["a", "inner/further"].map(|name| std::fs::metadata(target.join(NAME).join(name)).unwrap());
    assert_eq!((first.ino(), first.nlink()), (further.ino(), 2));
}

#[test]
fn nothing_is_removed_in_the_root_directory_nor_for_a_partial_snapshot() {
    let (folder, repository, name) = nested();
    let mut snapshot = snapshot(&repository, name).unwrap();
    let rehearsal = RestoreOptions { dry_run: true, ..deleting() };
    for root in ["/", "/.", "/proc/self/root"] {
        let refused = restored(&repository, &snapshot, Path::new(root), &rehearsal);
        assert!(matches!(refused, Err(Error::Usage(_))), "{root}: {refused:?}");
    }
    snapshot.body.partial = true;
    let target = with_strangers(&folder);
    let refused = restored(&repository, &snapshot, &target, &deleting());
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    assert!(target.join("home/x/stranger/a/b").exists());
}

/// More files than fit into a leaf, links among them, and an archive that keeps no page in memory:
/// every pass reads its pages from the storage, as with more than 24 MiB of them.
struct Large {
    folder: TestFolder,
    name: SnapshotRef,
    plan: Arc<Plan>,
    repository: UnlockedRepository,
}

impl Large {
    fn new() -> Self {
        let folder = TestFolder::new();
        for number in 0..3_000u64 {
            folder.write(&format!("d{}/{number:04}", number % 7), &noise(number, 40));
        }
        for number in 0..50 {
            let name = folder.source().join(format!("d6/x{number:02}"));
            std::fs::hard_link(folder.source().join(format!("d0/{:04}", number * 7)), name)
                .unwrap();
        }
        let name = folder.backup(&folder.init()).snapshot;
        let plan = Plan::none();
        let repository = Self::open(&folder, &plan);
        Self { folder, name, plan, repository }
    }

    fn open(folder: &TestFolder, plan: &Arc<Plan>) -> UnlockedRepository {
        let storage = FaultyStorage::new(&folder.repository(), plan);
        UnlockedRepository::open(storage, PASSWORD).unwrap().with_cache_bytes(0)
    }

    /// A target that has everything, and strangers beside it.
    fn target(&self) -> PathBuf {
        let target = self.folder.at("target");
        restored(&self.repository, &self.snapshot(), &target, &deleting()).unwrap();
        (0..10).for_each(|number| write(&target, format!("{NAME}/d3/stranger{number}"), b"x"));
        write(&target, format!("{NAME}/zz-stranger"), b"x");
        target
    }

    fn snapshot(&self) -> Snapshot {
        snapshot(&self.repository, self.name).unwrap()
    }

    fn strangers(target: &Path) -> usize {
        let names = std::fs::read_dir(target.join(NAME).join("d3")).unwrap();
        let is_one = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("stranger");
        let there = names.filter(|entry| is_one(&entry.as_ref().unwrap().file_name())).count();
        there + usize::from(target.join(NAME).join("zz-stranger").exists())
    }
}

/// Overwrites every container: no page can be read from then on.
fn spoil(repository: &Path) {
    for entry in std::fs::read_dir(repository.join("containers")).unwrap() {
        let below = entry.unwrap().path();
        let files = if below.is_dir() {
            std::fs::read_dir(&below).unwrap().map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![below]
        };
        for file in files {
            let length = std::fs::metadata(&file).unwrap().len() as usize;
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[length / 8..].fill(0);
            std::fs::write(&file, bytes).unwrap();
        }
    }
}

/// Review finding E1: what pass 2 could not read was taken for what the snapshot does not have.
#[test]
fn pages_that_are_lost_between_the_passes_end_all_removing_and_are_told() {
    let large = Large::new();
    let (target, snapshot) = (large.target(), large.snapshot());
    // The last file is written when the first pass has read all its pages.
    let last = target.join(NAME).join("d6/2995");
    std::fs::remove_file(&last).unwrap();
    let (repository, marker) = (large.folder.repository(), last.clone());
    let mut is_damaged = false;
    large.plan.watch(Box::new(move |call| {
        if !is_damaged && call.verb == "read" && marker.exists() {
            is_damaged = true;
            spoil(&repository);
        }
    }));
    let before = std::fs::read_dir(target.join(NAME).join("d0")).unwrap().count();
    let (report, heard, removed) =
        restored(&large.repository, &snapshot, &target, &deleting()).unwrap();
    assert!(last.exists(), "the first pass was done");
    assert_eq!((report.deleted, removed), (0, Vec::new()), "{heard:?}");
    assert_eq!(Large::strangers(&target), 11, "nothing may go while pages are lost");
    assert_eq!(std::fs::read_dir(target.join(NAME).join("d0")).unwrap().count(), before);
    assert!(report.failed > 0 && report.damaged == report.failed, "{report:?} {heard:?}");
    assert!(heard.iter().any(|line| line.contains("cannot be read")), "{heard:?}");
    assert!(heard.iter().any(|line| line.contains("nothing was removed")), "{heard:?}");
}

#[test]
fn what_is_no_damage_ends_a_restore_before_anything_is_removed() {
    let large = Large::new();
    let (target, snapshot) = (large.target(), large.snapshot());
    // So many calls a whole run makes.
    let calls = {
        let (plan, elsewhere) = (Plan::none(), large.folder.at("elsewhere"));
        let repository = Large::open(&large.folder, &plan);
        let before = plan.calls().len();
        restored(&repository, &snapshot, &elsewhere, &deleting()).unwrap();
        (before, plan.calls().len())
    };
    for step in 0..8 {
        let at = calls.0 + (calls.1 - calls.0) * step / 8;
        let plan = Plan::failing(Fault::Away, at as u64);
        let repository = Large::open(&large.folder, &plan);
        let ran = restored(&repository, &snapshot, &target, &deleting());
        if plan.fired() && Large::strangers(&target) < 11 {
            assert!(ran.is_ok(), "removed, though the storage was away: {ran:?}");
        }
        if let Ok((report, heard, _)) = ran {
            assert_eq!(report.failed, 0, "what cannot be reached is not lost: {heard:?}");
            (0..10).for_each(|number| write(&target, format!("{NAME}/d3/stranger{number}"), b"x"));
            write(&target, format!("{NAME}/zz-stranger"), b"x");
        }
    }
}

/// Review finding U8: all was lost, and it was called partial, with an empty path.
#[test]
fn a_snapshot_of_which_nothing_can_be_read_brings_nothing_and_says_so() {
    let large = Large::new();
    let snapshot = large.snapshot();
    spoil(&large.folder.repository());
    let target = large.folder.at("target");
    let (report, heard, _) = restored(&large.repository, &snapshot, &target, &deleting()).unwrap();
    assert!(!report.restored_anything() && report.damaged > 0, "{report:?}");
    assert!(heard[0].starts_with("/: nothing from here on can be read"), "{heard:?}");
}
