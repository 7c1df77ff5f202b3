//! Snapshots made by somebody who has the key and means harm: each is refused, or does nothing
//! but what an honest one could do. Whatever they hold, nothing outside of a target changes.

use crate::testkit::alone::is_alone;
use crate::testkit::forge::{Forge, LARGE_CHUNK, directory, entry, file, linked, symlink};
use crate::testkit::{TestFolder, assert_clean, checked, options, reclaimed, restore_to, snapshot};
use format::entry::{Attributes, Content, Entry, Kind, Segment, Xattr};
use format::leaf::LeafBuilder;
use format::list;
use ids::ObjectId;
use pipeline::backup::Progress;
use pipeline::browse::content::ContentReader;
use pipeline::browse::{self, diff, find};
use pipeline::pages::PageReader;
use pipeline::{UnlockedRepository, restore};
use repository::reclaim::{ReclaimOptions, ReclaimOutcome};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use store::SnapshotRef;

/// Nothing that is refused, or as small as these, takes longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// What any of this may take of memory.
const MEMORY_KIB_MAX: u64 = 700 << 10;
/// What a reader of a file takes before it has seen enough.
const SEEN_ENOUGH: u64 = 64 << 20;

/// A repository with one good snapshot, a target, and a canary beside it.
struct Lab {
    test_folder: TestFolder,
    repository: UnlockedRepository,
    good: SnapshotRef,
}

impl Lab {
    fn new() -> Self {
        let test_folder = TestFolder::new();
        test_folder.write("file", b"what a good one has in it");
        let repository = test_folder.init();
        let good = test_folder.backup(&repository).snapshot;
        std::fs::create_dir(test_folder.at("outside")).unwrap();
        std::fs::write(test_folder.at("outside/canary"), "alive").unwrap();
        Self { test_folder, repository, good }
    }

    /// Everything that is outside of the targets and of the repository.
    fn outside(&self) -> BTreeMap<String, (Vec<u8>, u32, u64, i64, i64)> {
        let folder = self.test_folder.temp.path();
        let mut all = BTreeMap::new();
        for name in ["outside", "outside/canary", "source", "source/file"] {
            let stat = std::fs::symlink_metadata(folder.join(name)).unwrap();
            let bytes =
                if stat.is_file() { std::fs::read(folder.join(name)).unwrap() } else { Vec::new() };
            let state = (bytes, stat.mode(), stat.nlink(), stat.ctime(), stat.ctime_nsec());
            all.insert(name.to_owned(), state);
        }
        all
    }
}

/// What became of it.
#[derive(Debug, Default)]
struct Outcome {
    /// What a restore said went wrong; `Err` when it was refused as a whole.
    restored: Option<Result<Vec<String>, String>>,
    failed: u64,
    /// Restores that neither were refused nor named anything.
    silent: usize,
    checked: Vec<String>,
}

impl Outcome {
    /// Each restore was refused, or named what it did not do.
    fn assert_refused(&self, what: &str) {
        assert!(
            self.restored.is_some() && self.silent == 0,
            "{what} was restored in silence: {self:?}"
        );
    }
}

/// Restores, lists, compares, checks, searches and reads a snapshot, each with an eye on time,
/// memory and the canary.
fn tried(
    what: &'static str,
    make: impl FnOnce(Forge<'_>) -> SnapshotRef + Send + 'static,
) -> Outcome {
    let (reply, answer) = channel();
    let thread = std::thread::spawn(move || {
        let lab = Lab::new();
        let name = make(Forge::new(&lab.repository));
        let _ = reply.send(all_commands(&lab, name, what));
    });
    match answer.recv_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: it does not end"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

fn all_commands(lab: &Lab, name: SnapshotRef, what: &str) -> Outcome {
    let before = lab.outside();
    let mut outcome = Outcome::default();
    let overwrites = [restore::RestoreOptions::default(), deleting()];
    for (at, options) in overwrites.iter().enumerate() {
        let target = lab.test_folder.at(&format!("target{at}"));
        // A way out that was there before, under a name that the snapshot may use.
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink("../outside", target.join("out")).unwrap();
        restored(lab, name, &target, options, &mut outcome);
        assert_eq!(lab.outside(), before, "{what}: something outside has changed");
    }
    browsed(lab, name);
    match checked(&lab.repository) {
        Ok(report) => {
            outcome.checked = report.damages.into_iter().map(|damage| damage.what).collect()
        }
        Err(error) => outcome.checked.push(error.to_string()),
    }
    let engine = pipeline::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    let _ = pipeline::reclaim::run(&lab.repository, &engine);
    assert_eq!(lab.outside(), before, "{what}: something outside has changed");
    // What is hostile costs nobody else anything.
    lab.test_folder.assert_restores(&lab.test_folder.open(), lab.good, &lab.test_folder.state());
    outcome
}

fn deleting() -> restore::RestoreOptions {
    restore::RestoreOptions {
        delete: true,
        verify: true,
        overwrite: ::restore::Overwrite::Always,
        ..Default::default()
    }
}

fn restored(
    lab: &Lab,
    name: SnapshotRef,
    target: &Path,
    options: &restore::RestoreOptions,
    outcome: &mut Outcome,
) {
    let heard = crate::testkit::restore_with(&lab.repository, name, b"", target, options);
    if let Ok((report, _)) = &heard {
        outcome.failed += report.failed + report.differing;
        outcome.silent += usize::from(report.failed + report.differing == 0);
    }
    outcome.restored = Some(heard.map(|(_, lines)| lines).map_err(|error| error.to_string()));
}

/// As who lists, compares, searches and reads files does.
fn browsed(lab: &Lab, name: SnapshotRef) {
    let Ok(hostile) = snapshot(&lab.repository, name) else { return };
    let good = snapshot(&lab.repository, lab.good).unwrap();
    let pages = PageReader::new(&lab.repository).unwrap();
    let mut reader = ContentReader::new(&lab.repository, &pages).unwrap();
    let _ = browse::below(&pages, &hostile, b"", &mut Vec::new(), |entry| {
        let _ = reader.copy(&entry, &mut Bounded(SEEN_ENOUGH));
        Ok(())
    });
    let _ = browse::entry(&pages, &hostile, b"a/x");
    let _ = diff::run(&pages, (&good, &hostile), b"", &mut diff::Unread::default(), |_| Ok(()));
    let _ = find::versions(&pages, &[good, hostile], &|_| true, &mut Vec::new());
}

/// An output that is closed when enough came.
struct Bounded(u64);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len() as u64).ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn with(entry: Entry, how: impl FnOnce(&mut Attributes)) -> Entry {
    let mut attributes = entry.attributes.as_ref().clone();
    how(&mut attributes);
    Entry { attributes: Arc::new(attributes), ..entry }
}

fn chunked(path: &str, size: u64, runs: Vec<Segment>) -> Entry {
    Entry { size, content: Content::Segments(runs.into()), ..entry(Kind::File, path) }
}

fn listed(path: &str, size: u64, lists: Vec<ObjectId>) -> Entry {
    Entry { size, content: Content::Lists(lists.into()), ..entry(Kind::File, path) }
}

#[test]
fn names_that_lead_out_are_refused() {
    let names: [&[u8]; 11] = [
        b"..",
        b"../outside/canary",
        b"/etc/icecore-evil",
        b"",
        b".",
        b"a//b",
        b"a/../../outside/x",
        b"a/./b",
        b"a/",
        b"a\0b",
        b"a/..",
    ];
    for name in names {
        let outcome =
            tried("a name that leads out", move |forge| forge.publish_leaf(&[file(name, b"evil")]));
        outcome.assert_refused(&name.escape_ascii().to_string());
        assert!(!outcome.checked.is_empty(), "check says nothing of {}", name.escape_ascii());
    }
}

#[test]
fn a_bad_name_behind_good_ones_costs_its_page_only() {
    let outcome = tried("a bad name among good ones", |forge| {
        forge.publish_leaf(&[
            file("a", b"1"),
            file("b", b"2"),
            file("c/../../outside/canary", b"3"),
        ])
    });
    outcome.assert_refused("the page");
}

#[test]
fn what_lies_below_a_symlink_is_not_written_through_it() {
    for to in [&b"../outside"[..], b"..", b"/tmp"] {
        let outcome = tried("children of a symlink", move |forge| {
            forge.publish_leaf(&[symlink("a", to), directory("a/d"), file("a/x", b"evil")])
        });
        outcome.assert_refused("children of a symlink");
    }
}

/// The name was a symlink to the outside before the restore began.
#[test]
fn a_symlink_in_the_target_is_not_followed() {
    tried("a file below a symlink of the target", |forge| {
        forge.publish_leaf(&[directory("out"), file("out/canary", b"evil")])
    });
}

#[test]
fn a_further_name_of_a_symlink_or_of_nothing_leads_nowhere() {
    tried("a link group with a symlink in it", |forge| {
        forge.publish_leaf(&[
            linked(symlink("a", b"../outside/canary"), 7),
            linked(file("b", b"evil"), 7),
            linked(file("c", b"evil"), 7),
            linked(symlink("d", b"../outside/canary"), 7),
        ])
    });
    tried("a link group below a symlink", |forge| {
        forge.publish_leaf(&[
            symlink("a", b"../outside"),
            linked(file("a/canary", b"evil"), 7),
            linked(file("b", b"evil"), 7),
        ])
    })
    .assert_refused("a first name below a symlink");
}

#[test]
fn a_path_twice_or_as_file_and_folder_is_refused() {
    tried("a path twice", |forge| forge.publish_leaf(&[file("a", b"1"), file("a", b"2")]))
        .assert_refused("a path twice");
    tried("falling paths", |forge| forge.publish_leaf(&[file("b", b"1"), file("a", b"2")]))
        .assert_refused("falling paths");
    tried("a file and a folder", |forge| forge.publish_leaf(&[file("a", b"1"), file("a/x", b"2")]))
        .assert_refused("a file and a folder");
}

#[test]
fn a_path_twice_in_two_pages_is_refused() {
    tried("the same leaf twice", |forge| {
        let leaf = forge.leaf(&[file("000000", b"1")]);
        let root = forge.inner(1, leaf, 2, false);
        forge.publish(root, 1)
    })
    .assert_refused("the same leaf twice");
}

/// Names are hashes, so a circle needs a page that lies about its name.
#[test]
fn pages_in_a_circle_are_refused() {
    let me = ObjectId([9; 24]).with_type(true);
    tried("an inner page in itself", move |forge| {
        let sums = format::inner::Sums::EMPTY;
        let child = format::inner::Child { id: me, first: b"a".to_vec(), sums };
        let root = forge.page_as(me, &format::inner::encode(1, &[child]));
        forge.publish(root, 1)
    })
    .assert_refused("an inner page in itself");
    tried("a leaf that is its own list", move |forge| {
        let mut builder = LeafBuilder::default();
        builder.push(&listed("a", 5, vec![me]));
        let root = forge.page_as(me, &builder.finish());
        forge.publish(root, 0)
    })
    .assert_refused("a leaf that is its own list");
    tried("a leaf as a list", |forge| {
        let leaf = forge.leaf(&[file("a", b"x")]);
        forge.publish_leaf(&[listed("a", 5, vec![leaf])])
    })
    .assert_refused("a leaf as a list");
}

/// Each page names the one below a thousand times: a few pages are 1000^47 of them to who walks.
#[test]
fn a_tree_that_names_its_pages_again_and_again_ends() {
    for named in [true, false] {
        tried("a tree of nothing, very often", move |forge| {
            let mut page = forge.leaf(&[]);
            for level in 1..=47 {
                page = forge.inner(level, page, 1000, named);
            }
            forge.publish(page, 47)
        })
        .assert_refused("a tree of nothing, very often");
        let lost = tried("pages that are not there, very often", move |forge| {
            let mut page = ObjectId([3; 24]).with_type(true);
            for level in 1..=47 {
                page = forge.inner(level, page, 1000, named);
            }
            forge.publish(page, 47)
        });
        lost.assert_refused("pages that are not there, very often");
        assert!(!lost.checked.is_empty());
    }
}

#[test]
fn a_root_of_another_level_or_kind_is_refused() {
    for level in [1, 5, 48] {
        tried("a leaf as a root of a higher level", move |forge| {
            let leaf = forge.leaf(&[file("a", b"x")]);
            forge.publish(leaf, level)
        })
        .assert_refused("a leaf as a root of a higher level");
    }
    tried("a list as a root", |forge| {
        let list = forge.page(&list::encode(&[Segment::Hole(5)]));
        forge.publish(list, 0)
    })
    .assert_refused("a list as a root");
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    let forge = Forge::new(&repository);
    let chunk = forge.chunk(b"chunk");
    let refused = forge.try_publish(chunk, 0);
    assert!(matches!(refused, Err(repository::Error::RootMissing(_))), "{refused:?}");
}

/// A chunk is as long as its run says, or runs would be written over each other.
#[test]
fn a_chunk_of_another_length_than_its_run_is_refused() {
    for (length, what) in [(4, "shorter than its chunk"), (10, "longer than its chunk")] {
        tried(what, move |forge| {
            let chunk = forge.chunk(b"seven b");
            forge.publish_leaf(&[chunked("a", length.into(), vec![Segment::Data(chunk, length)])])
        })
        .assert_refused(what);
        tried(what, move |forge| {
            let (one, two) = (forge.chunk(b"seven b"), forge.chunk(b"other b"));
            let runs = vec![Segment::Data(one, length), Segment::Data(two, 7)];
            forge.publish_leaf(&[chunked("a", u64::from(length) + 7, runs)])
        })
        .assert_refused(what);
    }
}

#[test]
fn a_chunk_under_the_name_of_another_is_refused() {
    let outcome = tried("poison", |forge| {
        let name = ObjectId([5; 24]).with_type(false);
        forge.chunk_as(name, b"poison");
        forge.publish_leaf(&[chunked("a", 6, vec![Segment::Data(name, 6)])])
    });
    outcome.assert_refused("poison");
    assert!(
        outcome.checked.iter().any(|line| line.contains("does not match its id")),
        "{outcome:?}"
    );
}

/// All else in it is as it should be: it is another tree than who signed the root has seen.
#[test]
fn a_page_under_the_name_of_another_is_refused() {
    let outcome = tried("a poisoned page", |forge| {
        let mut builder = LeafBuilder::default();
        builder.push(&file("a", b"poison"));
        let root = forge.page_as(ObjectId([8; 24]).with_type(true), &builder.finish());
        forge.publish(root, 0)
    });
    outcome.assert_refused("a poisoned page");
    assert!(
        outcome.checked.iter().any(|line| line.contains("does not match its id")),
        "{outcome:?}"
    );
}

/// As `cat` and `dump` do it.
#[test]
fn a_chunk_under_the_name_of_another_or_of_another_length_is_not_printed() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let poison = forge.chunk_as(ObjectId([5; 24]).with_type(false), b"poison");
    let chunk = forge.chunk(b"seven b");
    let name = forge.publish_leaf(&[
        chunked("a", 6, vec![Segment::Data(poison, 6)]),
        chunked("b", 4, vec![Segment::Data(chunk, 4)]),
    ]);
    let (hostile, pages) =
        (snapshot(&lab.repository, name).unwrap(), PageReader::new(&lab.repository).unwrap());
    let mut reader = ContentReader::new(&lab.repository, &pages).unwrap();
    for path in [b"a", b"b"] {
        let (entry, mut output) = (browse::entry(&pages, &hostile, path).unwrap(), Vec::new());
        let refused = reader.copy(&entry, &mut output);
        assert!(matches!(refused, Err(pipeline::Error::WrongContent(_))), "{refused:?}");
        assert!(output.is_empty(), "{}", output.escape_ascii());
    }
}

/// A reader keeps whole records, and found what they name without a look at the index.
#[test]
fn a_record_that_a_reader_keeps_speaks_for_nothing_of_others() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let right = forge.chunk(b"right");
    forge.publish_leaf(&[chunked("good", 5, vec![Segment::Data(right, 5)])]);
    let forge = Forge::new(&lab.repository);
    let own = lab.repository.keys.writer.ids.chunk_id(b"own");
    forge.send_chunks(&[(own, b"own"), (right, b"wrong")]);
    let name = forge.publish_leaf(&[
        chunked("first", 3, vec![Segment::Data(own, 3)]),
        chunked("second", 5, vec![Segment::Data(right, 5)]),
    ]);
    let (snapshot, pages) =
        (snapshot(&lab.repository, name).unwrap(), PageReader::new(&lab.repository).unwrap());
    let mut reader = ContentReader::new(&lab.repository, &pages).unwrap();
    for (path, expected) in [(&b"first"[..], &b"own"[..]), (b"second", b"right")] {
        let (entry, mut output) = (browse::entry(&pages, &snapshot, path).unwrap(), Vec::new());
        reader.copy(&entry, &mut output).unwrap();
        assert_eq!(output, expected);
    }
}

/// Where the first name could not be restored, a further one is fetched by itself.
#[test]
fn a_further_name_gets_no_chunk_of_another_name_or_length() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let poison = forge.chunk_as(ObjectId([5; 24]).with_type(false), b"poison");
    let chunk = forge.chunk(b"seven b");
    let (named, short) = (vec![Segment::Data(poison, 6)], vec![Segment::Data(chunk, 4)]);
    let name = forge.publish_leaf(&[
        linked(chunked("a", 6, named.clone()), 7),
        linked(chunked("b", 6, named), 7),
        linked(chunked("c", 4, short.clone()), 8),
        linked(chunked("d", 4, short), 8),
    ]);
    let (target, options) = (lab.test_folder.at("target"), restore::RestoreOptions::default());
    let (report, heard) =
        crate::testkit::restore_with(&lab.repository, name, b"", &target, &options).unwrap();
    assert_eq!(report.failed, 4, "{heard:?}");
    assert_eq!(
        heard.iter().filter(|line| line.contains("does not match its id")).count(),
        4,
        "{heard:?}"
    );
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

/// The file is as long as the snapshot says, but its chunks end earlier: the rest is anybody's.
#[test]
fn bytes_that_no_chunk_vouches_for_are_not_verified() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let chunk = forge.chunk(b"chunk");
    let list = forge.page(&list::encode(&[Segment::Data(chunk, 5)]));
    let name = forge.publish_leaf(&[listed("a", 9, vec![list])]);
    let target = lab.test_folder.at("target");
    crate::testkit::build::write(&target, "a", b"chunkevil");
    crate::testkit::build::set_mtime(&target.join("a"), 1, 0);
    let options = restore::RestoreOptions { verify: true, ..Default::default() };
    let (report, heard) =
        crate::testkit::restore_with(&lab.repository, name, b"", &target, &options).unwrap();
    assert_eq!(report.differing, 1, "{report:?} {heard:?}");
}

/// Most of their record is dead, so what lives would be sealed anew.
#[test]
fn reclaim_seals_nothing_anew_under_the_name_of_another() {
    let (live, dead) = (ObjectId([5; 24]), ObjectId([6; 24]));
    let chunks = |forge: Forge<'_>| {
        let [live, dead] = [live, dead].map(|id| id.with_type(false));
        forge.chunks_as(&[(live, b"poison"), (dead, b"dead")]);
        forge.publish_leaf(&[chunked("a", 6, vec![Segment::Data(live, 6)])])
    };
    let pages = |forge: Forge<'_>| {
        let [live, dead] = [live, dead].map(|id| id.with_type(true));
        let mut builder = LeafBuilder::default();
        builder.push(&file("a", b"poison"));
        let leaf = builder.finish();
        forge.pages_as(&[(live, &leaf), (dead, &leaf)]);
        forge.publish(live, 0)
    };
    for publish in [&chunks as &dyn Fn(Forge<'_>) -> SnapshotRef, &pages] {
        let lab = Lab::new();
        publish(Forge::new(&lab.repository));
        let before = lab.test_folder.files();
        let options = pipeline::reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        let refused = pipeline::reclaim::run(&lab.repository, &options);
        let Err(pipeline::Error::Repository(error)) = &refused else { panic!("{refused:?}") };
        let Some(repository::Error::UncertainData(why)) = error.specific() else {
            panic!("{refused:?}")
        };
        assert!(why.contains("does not match its id"), "{why}");
        let left = lab.test_folder.files();
        let is_container = |name: &&String| name.ends_with(".ice");
        assert!(before.iter().filter(is_container).all(|name| left.contains(name)));
    }
}

/// A server that manages the keys reclaims by itself: what a hostile node stored must not keep the space of others.
#[test]
fn a_record_that_lies_keeps_no_server_from_giving_space_back() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let [live, dead] = [5, 6].map(|byte| ObjectId([byte; 24]).with_type(false));
    forge.chunks_as(&[(live, b"poison"), (dead, b"dead")]);
    forge.publish_leaf(&[chunked("a", 6, vec![Segment::Data(live, 6)])]);
    let (done, why) = reclaimed_by_a_server(&lab);
    assert!(why.unwrap().contains("does not match its id"));
    assert!(done.containers > 0 && done.lost_objects == 0, "{done:?}");
}

/// What a server does with its own key: what was done, and why a record was passed over.
fn reclaimed_by_a_server(lab: &Lab) -> (ReclaimOutcome, Option<String>) {
    let engine = lab.repository.local().unwrap();
    let lease = engine.lease("server").unwrap();
    let (secret, watch) = (crate::testkit::PASSWORD, &repository::watch::Unwatched);
    let (done, why) =
        pipeline::reclaim::reclaim_beside(engine, &lease, secret, ALL_UNUSED, watch).unwrap();
    (done, why.map(|why| why.to_string()))
}

const ALL_UNUSED: ReclaimOptions = ReclaimOptions {
    max_waste_percent: 0.0,
    dry_run: false,
    accept_damage: false,
    free_interrupted: true,
};

/// Unused objects that are stored still.
fn unused(lab: &Lab) -> u64 {
    let options = ReclaimOptions { dry_run: true, ..ALL_UNUSED };
    let engine = lab.repository.local().unwrap();
    let lease = engine.lease("looks").unwrap();
    repository::reclaim::run(engine, &lease, options, None).unwrap().dead_objects
}

/// A chunk of each record is used. One record lies: the others are packed anew, in its own container and elsewhere.
#[test]
fn beside_a_record_that_lies_all_others_are_packed_anew() {
    let lab = Lab::new();
    let ids = lab.repository.keys.writer.ids.clone();
    let record_of = |forge: &Forge<'_>, used: &[u8], dead: &[u8]| {
        let [used_id, dead_id] = [used, dead].map(|bytes| ids.chunk_id(bytes));
        forge.chunks_as(&[(used_id, used), (dead_id, dead)]);
        chunked(
            str::from_utf8(used).unwrap(),
            used.len() as u64,
            vec![Segment::Data(used_id, used.len() as u32)],
        )
    };
    let forge = Forge::new(&lab.repository);
    let before = record_of(&forge, b"a", b"dead 1");
    let [live, dead] = [5, 6].map(|byte| ObjectId([byte; 24]).with_type(false));
    forge.chunks_as(&[(live, b"poison"), (dead, b"dead")]);
    let lies = chunked("b", 6, vec![Segment::Data(live, 6)]);
    let behind = record_of(&forge, b"c", b"dead 2");
    forge.publish_leaf(&[before, lies, behind]);
    let forge = Forge::new(&lab.repository);
    let elsewhere = record_of(&forge, b"d", b"dead 3");
    let honest = forge.publish_leaf(&[elsewhere]);
    assert_eq!(unused(&lab), 4);
    let (done, why) = reclaimed_by_a_server(&lab);
    assert!(why.unwrap().contains("does not match its id"));
    assert_eq!((unused(&lab), done.containers_left, done.lost_objects), (1, 0, 0), "{done:?}");
    let (_, why) = reclaimed_by_a_server(&lab);
    assert!(why.is_some() && unused(&lab) == 1, "what lies stays as it is");
    let back = lab.test_folder.at("back");
    restore_to(&lab.repository, honest, &back).unwrap();
    assert_eq!(std::fs::read(back.join("d")).unwrap(), b"d");
}

/// More tiny objects than a record may have, and more bytes than one may have, are packed into several.
#[test]
fn records_that_are_too_many_or_too_large_for_one_are_packed_into_several() {
    let lab = Lab::new();
    let ids = lab.repository.keys.writer.ids.clone();
    let forge = Forge::new(&lab.repository);
    let mut entries = Vec::new();
    for (name, count, length) in [("many", 60_000, 5), ("older", 60_000, 5), ("vast", 14, 500_000)]
    {
        let content = |at: u32| {
            let mut bytes = [&name.as_bytes()[..1], &at.to_le_bytes()].concat();
            bytes.resize(length, 0);
            bytes
        };
        let all: Vec<_> = (0..count).map(content).collect();
        let named: Vec<_> = all.iter().map(|bytes| (ids.chunk_id(bytes), &bytes[..])).collect();
        forge.chunks_as(&named);
        // Of ten, seven are used.
        let used: Vec<_> = named.iter().enumerate().filter(|(at, _)| at % 10 < 7).collect();
        let runs: Vec<_> =
            used.iter().map(|(_, (id, bytes))| Segment::Data(*id, bytes.len() as u32)).collect();
        let size = used.iter().map(|(_, (_, bytes))| bytes.len() as u64).sum();
        entries.push(listed(name, size, vec![forge.page(&list::encode(&runs))]));
    }
    forge.publish_leaf(&entries);
    let (done, why) = reclaimed_by_a_server(&lab);
    assert_eq!((why, unused(&lab), done.lost_objects), (None, 0, 0), "{done:?}");
    assert_clean(&lab.repository);
}

#[test]
fn sizes_that_do_not_add_up_are_refused() {
    tried("runs longer than the file", |forge| {
        let chunk = forge.chunk(b"chunk");
        forge.publish_leaf(&[chunked("a", 3, vec![Segment::Data(chunk, 5)])])
    })
    .assert_refused("runs longer than the file");
    for size in [1 << 60, u64::MAX] {
        tried("a list that is not all", move |forge| {
            let chunk = forge.chunk(b"chunk");
            let list = forge.page(&list::encode(&[Segment::Data(chunk, 5)]));
            forge.publish_leaf(&[listed("a", size, vec![list])])
        })
        .assert_refused("a list that is not all");
        tried("a size of nothing", move |forge| {
            forge.publish_leaf(&[Entry { size, ..entry(Kind::File, "a") }])
        })
        .assert_refused("a size of nothing");
    }
    tried("holes beyond every number", |forge| {
        let list = forge.page(&list::encode(&[Segment::Hole(u64::MAX >> 1); 4]));
        let lists = vec![list; 3];
        forge.publish_leaf(&[
            linked(listed("a", u64::MAX, lists.clone()), 4),
            linked(listed("b", u64::MAX, lists), 4),
        ])
    })
    .assert_refused("holes beyond every number");
}

#[test]
fn names_and_attributes_that_no_file_system_takes_cost_their_file_only() {
    let outcome = tried("a name of 300 bytes", |forge| {
        forge.publish_leaf(&[file("a", b"good"), file("n".repeat(300), b"x"), file("z", b"good")])
    });
    assert_eq!(outcome.failed, 3, "once in each restore, once when it was compared: {outcome:?}");
    tried("attributes of 64 KiB each", |forge| {
        let xattrs = |attributes: &mut Attributes| {
            let name = |at: usize| format!("user.{at:04}").into_bytes();
            attributes.xattrs =
                (0..64).map(|at| Xattr { name: name(at), value: vec![7; 65_536] }).collect();
        };
        forge.publish_leaf(&[with(file("a", b"x"), xattrs)])
    });
    tried("devices, sockets and odd owners", |forge| {
        let odd = |attributes: &mut Attributes| {
            (attributes.uid, attributes.gid, attributes.mode) = (u32::MAX, u32::MAX, 0o7777);
        };
        forge.publish_leaf(&[
            with(Entry { rdev: u64::MAX, ..entry(Kind::Fifo, "a") }, odd),
            with(entry(Kind::Socket, "b"), odd),
            with(file("c", b"x"), odd),
            with(directory("d"), odd),
        ])
    });
}

#[test]
fn a_path_beyond_the_limit_is_refused() {
    tried("a path of two million bytes", |forge| {
        forge.publish_leaf(&[file("a/".repeat(1 << 20) + "x", b"x")])
    })
    .assert_refused("a path of two million bytes");
}

/// Four MiB of zeros are a few hundred bytes at rest; a record holds eight at most.
#[test]
fn bytes_that_grow_when_opened_grow_to_the_limit_and_no_further() {
    if !is_alone("hostile::bytes_that_grow_when_opened_grow_to_the_limit_and_no_further") {
        return;
    }
    let before = peak_memory_kib();
    tried("zeros", |forge| {
        let chunk = forge.chunk(&vec![0; LARGE_CHUNK]);
        let runs = vec![Segment::Data(chunk, LARGE_CHUNK as u32); 20];
        forge.publish_leaf(&[chunked("a", 20 * LARGE_CHUNK as u64, runs)])
    });
    assert!(peak_memory_kib() - before < MEMORY_KIB_MAX);
}

/// A billion runs of one byte each, in few pages. It is a file like others, only that nobody has
/// the time: it can be stopped at any moment, and takes no memory.
#[test]
fn a_file_of_a_billion_references_to_one_chunk_takes_no_memory_and_can_be_stopped() {
    if !is_alone(
        "hostile::a_file_of_a_billion_references_to_one_chunk_takes_no_memory_and_can_be_stopped",
    ) {
        return;
    }
    let lab = Lab::new();
    let forge = Forge::new(&lab.repository);
    let chunk = forge.chunk(b"x");
    let list = forge.page(&list::encode(&vec![Segment::Data(chunk, 1); 100_000]));
    let name = forge.publish_leaf(&[listed("bomb", 1_000_000_000, vec![list; 10_000])]);
    let (before, bomb) = (peak_memory_kib(), snapshot(&lab.repository, name).unwrap());
    let progress = Progress::default();
    let heard = crate::testkit::Heard::default();
    let target = lab.test_folder.at("target");
    std::thread::scope(|scope| {
        let run = || {
            let options =
                restore::RestoreOptions { no_sync: true, threads: 2, ..Default::default() };
            restore::run(&lab.repository, &bomb, b"", &target, &options, &progress, &heard)
        };
        let restoring = scope.spawn(run);
        std::thread::sleep(Duration::from_secs(3));
        progress.cancel.store(true, Ordering::Relaxed);
        let ended = restoring.join().unwrap();
        assert!(matches!(ended, Err(pipeline::Error::Cancelled)), "{ended:?}");
    });
    assert!(checked(&lab.repository).unwrap().damages.is_empty(), "check reads each page once");
    let pages = PageReader::new(&lab.repository).unwrap();
    let mut reader = ContentReader::new(&lab.repository, &pages).unwrap();
    let entry = browse::entry(&pages, &bomb, b"bomb").unwrap();
    assert!(reader.copy(&entry, &mut Bounded(1 << 20)).is_err(), "the output was closed");
    assert!(peak_memory_kib() - before < MEMORY_KIB_MAX);
    // Nor does it keep anybody from going on.
    pipeline::backup::run(
        &lab.repository,
        &options(&lab.test_folder.source()),
        &Progress::default(),
        &heard,
    )
    .unwrap();
    lab.repository.forget(&[name]).unwrap();
    reclaimed(&lab.repository);
}

/// The most memory that this process ever had.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
