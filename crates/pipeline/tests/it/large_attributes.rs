//! Extended attributes of megabytes, as XFS has them: they lie in chunks, cost no neighbor, and
//! come back.

use crate::testkit::build::{noise, set_xattr};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::forge::{Forge, entry, file};
use crate::testkit::state::{Tree, differences};
use crate::testkit::{NAME, PASSWORD, TestFolder, assert_clean, reclaimed, restore_with, snapshot};
use crate::volume::Volume;
use format::entry::{Attributes, Entry, Kind, Segment, Xattr};
use ids::ObjectId;
use pipeline::UnlockedRepository;
use pipeline::browse::content::ContentReader;
use pipeline::browse::map::stored_size;
use pipeline::pages::PageReader;
use pipeline::restore::{self, RestoreOptions};
use std::sync::Arc;
use store::SnapshotRef;

const LARGE: usize = 60_000;
const MANY: usize = 140;

/// A folder on an XFS of its own, with 50 small files.
fn on_xfs(outside: &TestFolder) -> Option<(Volume, TestFolder)> {
    let mount = outside.at("xfs");
    let volume = Volume::make("xfs", outside.temp.path(), &mount)?;
    let folder = TestFolder::below(&mount);
    (0..50).for_each(|at| folder.write(&format!("d/f{at:02}"), &noise(at, 700)));
    Some((volume, folder))
}

fn give_attributes(folder: &TestFolder, name: &str, count: usize) {
    for at in 0..count {
        let value = noise(at as u64, LARGE);
        set_xattr(&folder.source().join(name), &format!("user.a{at:03}"), &value);
    }
}

#[test]
fn a_file_with_megabytes_of_attributes_comes_back_with_its_neighbors() {
    let outside = TestFolder::on_disk();
    let Some((_volume, folder)) = on_xfs(&outside) else { return };
    give_attributes(&folder, "d/f07", MANY);
    give_attributes(&folder, "d", 3);
    let (repository, before) = (folder.init(), folder.state());
    let first = folder.backup(&repository);
    assert!(!first.partial);
    folder.assert_restores(&repository, first.snapshot, &before);
    assert_clean(&repository);

    let again = folder.backup(&repository);
    assert_eq!(again.report.objects_unchanged, again.report.objects_inspected);
    assert!(again.report.bytes_transferred < 4096, "{:#?}", again.report);

    // One attribute of many is changed: the others are stored already.
    set_xattr(&folder.source().join("d/f07"), "user.a070", b"short");
    let before = folder.state();
    let third = folder.backup(&repository);
    assert_eq!(third.report.objects_updated, 1);
    assert!(third.report.bytes_after_dedup < 4 * LARGE as u64, "{:#?}", third.report);
    let names = [first.snapshot, again.snapshot];
    repository.forget(&names).unwrap();
    reclaimed(&repository);
    assert_clean(&repository);
    folder.assert_restores(&repository, third.snapshot, &before);
}

/// Attributes of directories are fetched behind the contents of files. A storage that cannot be reached by then ends
/// the restore, too: once it ended well, without them.
#[test]
fn a_storage_that_goes_away_at_any_point_of_a_restore_costs_no_attribute_in_silence() {
    let outside = TestFolder::on_disk();
    let Some((_volume, folder)) = on_xfs(&outside) else { return };
    // Together more than a record has room for, so that each directory's are fetched by themselves.
    for (directory, from) in [("d", 0), ("", 50)] {
        for at in from..from + 40 {
            let value = noise(at, LARGE);
            set_xattr(&folder.source().join(directory), &format!("user.a{at}"), &value);
        }
    }
    let (repository, before) = (folder.init(), folder.state());
    let first = folder.backup(&repository).snapshot;
    let away = Away { folder: &folder, first, before: &before };
    away.at_each_point(b"", &RestoreOptions { delete: true, ..Default::default() });
    away.at_each_point(b"", &RestoreOptions { verify: true, ..Default::default() });
    away.at_each_point(NAME.as_bytes(), &RestoreOptions::default());
}

/// Restores of a snapshot whose storage goes away once.
struct Away<'a> {
    folder: &'a TestFolder,
    first: SnapshotRef,
    before: &'a Tree,
}

impl Away<'_> {
    fn at_each_point(&self, subpath: &[u8], options: &RestoreOptions) {
        for at in 0.. {
            let plan = Plan::failing(Fault::Away, at);
            self.restore(&plan, subpath, options, at);
            if !plan.fired() {
                break;
            }
        }
    }

    fn restore(&self, plan: &Arc<Plan>, subpath: &[u8], options: &RestoreOptions, at: u64) {
        let temp = tempfile::tempdir_in(self.folder.temp.path()).unwrap();
        // A target that the restore makes gets the attributes of what it is.
        let target = temp.path().join("target");
        let tree = if subpath.is_empty() { target.join(NAME) } else { target.clone() };
        let further = tree.join("further");
        if options.delete {
            std::fs::create_dir_all(&tree).unwrap();
            std::fs::write(&further, b"").unwrap();
        }
        let storage = FaultyStorage::new(&self.folder.repository(), plan);
        let restored = UnlockedRepository::open(storage, PASSWORD).and_then(|repository| {
            restore_with(&repository, self.first, subpath, &target, options)
        });
        match restored {
            Ok(_) => {
                let lines = differences(self.before, &Tree::of(&tree));
                assert!(lines.is_empty(), "operation {at}: {lines:?}");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("Stale"), "operation {at}: {error}");
                assert_eq!(further.exists(), options.delete, "operation {at}: it removed");
            }
        }
    }
}

/// What a file has beyond the limit is told by its path; the rest of it and its neighbors stay.
#[test]
fn more_attributes_than_a_snapshot_holds_are_told_and_cost_no_neighbor() {
    let outside = TestFolder::on_disk();
    let Some((_volume, folder)) = on_xfs(&outside) else { return };
    give_attributes(&folder, "d/f07", 1200);
    let repository = folder.init();
    let heard = crate::testkit::Heard::default();
    let done =
        pipeline::backup::run(&repository, &folder.options(), &Default::default(), &heard).unwrap();
    assert!(done.partial && done.report.adds_up(), "{:#?}", done.report);
    assert_eq!((done.report.objects_incomplete, done.report.objects_failed), (1, 0));
    let heard = heard.all();
    assert!(heard.len() == 1 && heard[0].contains("d/f07"), "{heard:?}");
    let restored = folder.restored(&repository, done.snapshot);
    assert_eq!(restored.0.len(), folder.state().0.len());
    assert_clean(&repository);
}

/// It failed at the commit, when all was read and stored.
#[test]
fn names_that_no_manifest_holds_are_told_before_anything_is_read() {
    let folder = TestFolder::new();
    folder.write("a", b"content");
    let repository = folder.init();
    let back_up = |bytes: usize| {
        let paths = vec!["p".repeat(bytes)];
        let options = pipeline::backup::BackupOptions { paths, ..folder.options() };
        let heard = crate::testkit::Heard::default();
        pipeline::backup::run(&repository, &options, &Default::default(), &heard)
    };
    assert!(back_up(900 << 10).is_ok());
    let before = folder.files();
    assert!(matches!(back_up(1 << 20), Err(pipeline::Error::Usage(_))));
    assert_eq!(folder.files(), before);
    assert_clean(&repository);
}

/// An entry whose attributes lie in chunks, without a file system that has such.
fn forged(forge: &Forge<'_>, path: &str, xattrs: &[Xattr]) -> Entry {
    let bytes = format::xattrs::encode(xattrs);
    let runs = bytes.chunks(10_000).map(|part| Segment::Data(forge.chunk(part), part.len() as u32));
    let mut entry = file(path, b"content");
    let xattr_runs = runs.collect();
    entry.attributes = Arc::new(Attributes { xattr_runs, ..entry.attributes.as_ref().clone() });
    entry
}

fn small_ones(count: usize) -> Vec<Xattr> {
    let xattr = |at| Xattr { name: format!("user.{at:03}").into_bytes(), value: vec![7; 3] };
    (0..count).map(xattr).collect()
}

#[test]
fn stored_attributes_are_restored_compared_counted_and_shown() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let forge = Forge::new(&repository);
    let entries = [entry(Kind::Directory, "d"), forged(&forge, "d/f", &small_ones(20))];
    let name = forge.publish_leaf(&entries);
    let target = folder.at("target");
    let options = restore::RestoreOptions { verify: true, ..Default::default() };
    for _ in 0..2 {
        let (report, heard) = restore_with(&repository, name, b"", &target, &options).unwrap();
        assert_eq!((report.failed, report.differing), (0, 0), "{heard:?}");
    }
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(target.join("d/f"), &mut names[..]).unwrap();
    assert_eq!(names[..length].iter().filter(|byte| **byte == 0).count(), 20);
    let pages = PageReader::new(&repository).unwrap();
    assert_eq!(stored_size(&pages, &entries[1], &mut Vec::new()).unwrap().chunks, 1);
    let content = ContentReader::new(&repository, &pages).unwrap();
    assert_eq!(content.with_xattrs(&entries[1]).unwrap().attributes.xattrs, small_ones(20));
}

#[test]
fn lost_attributes_are_told_and_the_file_comes_without_them() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let forge = Forge::new(&repository);
    let mut lost = forged(&forge, "lost", &small_ones(1));
    let nowhere = Segment::Data(ObjectId([9; 24]).with_type(false), 50);
    let set = lost.attributes.as_ref().clone();
    lost.attributes = Arc::new(Attributes { xattr_runs: vec![nowhere], ..set });
    let good = forged(&forge, "good", &small_ones(2));
    let name = forge.publish_leaf(&[good, lost]);
    let target = folder.at("target");
    let (report, heard) =
        restore_with(&repository, name, b"", &target, &Default::default()).unwrap();
    assert_eq!(report.failed, 1, "{heard:?}");
    assert!(heard[0].starts_with("lost: Extended attributes not restored"), "{heard:?}");
    for name in ["good", "lost"] {
        assert_eq!(std::fs::read(target.join(name)).unwrap(), b"content");
    }
    assert!(snapshot(&repository, name).is_ok());
}
