//! Restores into targets in which something is already: any small tree onto any other one, with every option, twice.
//! Whatever is there stays as it is, or becomes what the snapshot has; or it is named.

mod interrupted;
mod outcome;
mod seen;
mod shape;

use crate::testkit::forge::{Forge, directory};
use crate::testkit::{Heard, TestFolder, snapshot};
use ::restore::Overwrite;
use format::entry::{Entry, STATUS_NOT_ENTERED};
use outcome::Outcome;
use pipeline::UnlockedRepository;
use pipeline::backup::Progress;
use pipeline::restore::{self, ConfirmedRemovals, RestoreOptions, RestoreReport};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use seen::{Seen, look};
pub(crate) use shape::lock;
use shape::{OUTSIDE, Object, Shape, Thing, make_outside, shapes};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::SnapshotRef;

/// The directory of a snapshot that is restored alone.
const PART: &[u8] = b"part";

type State = BTreeMap<String, Seen>;

/// What is restored, onto what, and how.
#[derive(Clone, Debug)]
struct Case {
    snapshot: Shape,
    target: Shape,
    overwrite: Overwrite,
    delete: bool,
    /// What was backed up; the directories above have nothing but their names from the snapshot.
    sources: &'static [&'static str],
    /// A directory of the snapshot is restored, and not all of it.
    is_part: bool,
    /// Of that one nothing was entered.
    is_passed: bool,
    /// The options of a later restore.
    then: (Overwrite, bool),
}

fn overwrites() -> impl Strategy<Value = Overwrite> {
    prop_oneof![
        3 => Just(Overwrite::IfChanged),
        1 => Just(Overwrite::Always),
        1 => Just(Overwrite::IfNewer),
        1 => Just(Overwrite::Never),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let sources: [&'static [&'static str]; 3] = [&["/"], &["/d/e", "/x"], &["/a", "/b", "/d/e/a"]];
    let sources = (0..3usize).prop_map(move |number| sources[number]);
    let how = || (overwrites(), any::<bool>());
    let part = (any::<bool>(), proptest::bool::weighted(0.1));
    (shapes(false), shapes(true), how(), how(), sources, part).prop_map(
        |(snapshot, target, (overwrite, delete), then, sources, (is_part, is_passed))| {
            let is_passed = is_part && is_passed && sources == ["/"];
            let mut snapshot = snapshot.of_sources(sources);
            snapshot.0.retain(|_, _| !is_passed);
            Case { snapshot, target, overwrite, delete, sources, is_part, is_passed, then }
        },
    )
}

impl Case {
    fn with(&self, (overwrite, delete): (Overwrite, bool)) -> Self {
        Self { overwrite, delete, ..self.clone() }
    }

    fn options(&self) -> RestoreOptions {
        let (overwrite, delete) = (self.overwrite, self.delete);
        RestoreOptions { overwrite, delete, threads: 2, ..RestoreOptions::default() }
    }

    /// Publishes the snapshot.
    fn publish(&self, repository: &UnlockedRepository) -> SnapshotRef {
        let mut entries = self.snapshot.entries();
        let mut sources: Vec<_> = self.sources.iter().map(|it| (*it).to_owned()).collect();
        if self.is_part {
            for entry in &mut entries {
                entry.path = [PART, b"/", &entry.path[..]].concat();
            }
            let status = if self.is_passed { STATUS_NOT_ENTERED } else { 0 };
            entries.insert(0, Entry { status, ..directory(PART) });
            sources =
                sources.iter().map(|it| format!("/part{}", it.trim_end_matches('/'))).collect();
        }
        let sources: Vec<_> = sources.iter().map(String::as_str).collect();
        Forge::new(repository).of_paths(&sources).publish_leaf(&entries)
    }

    fn part(&self) -> &'static [u8] {
        if self.is_part { PART } else { b"" }
    }
}

struct Lab {
    folder: TestFolder,
    repository: UnlockedRepository,
}

/// What came of a restore.
struct Ran {
    report: RestoreReport,
    lines: Vec<String>,
    removed: ConfirmedRemovals,
    after: State,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        let repository = folder.init();
        Self { folder, repository }
    }

    fn target(&self) -> PathBuf {
        self.folder.at("place/target")
    }

    /// A snapshot of the case, and its target.
    fn set(&self, case: &Case) -> SnapshotRef {
        self.clear();
        std::fs::create_dir(self.folder.at("place")).unwrap();
        make_outside(&self.folder.at("place"));
        case.target.make(&self.target());
        case.publish(&self.repository)
    }

    fn clear(&self) {
        if !self.folder.at("place").exists() {
            return;
        }
        for (path, seen) in look(&self.target()) {
            if seen.is_locked {
                lock(&self.target().join(path), false);
            }
        }
        std::fs::remove_dir_all(self.folder.at("place")).unwrap();
    }

    fn run(&self, case: &Case, name: SnapshotRef, options: &RestoreOptions) -> Ran {
        let snapshot = snapshot(&self.repository, name).unwrap();
        let (heard, progress) = (Heard::default(), Progress::default());
        let (repository, target) = (&self.repository, self.target());
        let ran =
            restore::run(repository, &snapshot, case.part(), &target, options, &progress, &heard);
        let removed = heard.confirmed();
        Ran { report: ran.unwrap(), lines: heard.all(), removed, after: look(&self.target()) }
    }

    /// What is beside the target.
    fn beside(&self) -> State {
        look(&self.folder.at("place").join(OUTSIDE))
    }
}

fn check(lab: &Lab, case: &Case) -> Result<(), TestCaseError> {
    let name = lab.set(case);
    let mut before = look(&lab.target());
    let mut is_settled = false;
    for (what, case) in [("", case), ("again: ", case), ("then: ", &case.with(case.then))] {
        let dry = RestoreOptions { dry_run: true, ..case.options() };
        let dry = lab.run(case, name, &dry);
        prop_assert_eq!(&dry.after, &before, "a dry run changes nothing");
        let beside = lab.beside();
        // As on a terminal: what the dry run said is confirmed.
        let confirmed = Some(Arc::new(dry.removed));
        let ran = lab.run(case, name, &RestoreOptions { confirmed, ..case.options() });
        prop_assert_eq!(
            counted(case, &dry.report),
            counted(case, &ran.report),
            "{} a dry run foretells it: {:#?}\n{:#?}",
            what,
            dry.lines,
            ran.lines
        );
        prop_assert_eq!(lab.beside(), beside, "nothing outside of the target changes");
        let held = Outcome::new(case, &before, &ran).holds();
        prop_assert!(
            held.is_ok(),
            "{what}{}\n{:#?}\n{:?}",
            held.unwrap_err(),
            ran.lines,
            ran.report
        );
        if is_settled && what == "again: " {
            prop_assert_eq!(&ran.after, &before, "a second restore changes nothing");
        }
        is_settled = ran.lines.is_empty() && case.overwrite != Overwrite::Always;
        before = ran.after;
    }
    Ok(())
}

/// What a dry run must foretell. Whether a further name is linked, copied, kept or there already depends on the file
/// that its first name gets, and a dry run makes none.
fn counted(case: &Case, report: &RestoreReport) -> [(&'static str, u64); 6] {
    let RestoreReport { files, directories, links, unchanged, kept, .. } = *report;
    let has_names = case.snapshot.0.values().any(|object| matches!(object.thing, Thing::NameOf(_)));
    let (others, kept) = if has_names { (kept, 0) } else { (0, kept) };
    [
        ("files and links", files + links + unchanged + others),
        ("directories", directories),
        ("kept", kept),
        ("deleted", report.deleted),
        ("bytes deleted", report.deleted_bytes),
        ("failed", report.failed),
    ]
}

/// The same cases for every change; others, and more, where somebody asks for so many.
fn runner(usual: u32) -> TestRunner {
    let asked = std::env::var("ICECORE_CASES").ok().map(|cases| cases.parse().unwrap());
    let cases = asked.unwrap_or(usual);
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

#[test]
fn what_is_there_stays_or_becomes_what_the_snapshot_has_or_is_named() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock files and give them to others");
    }
    let lab = Lab::new();
    let tested = runner(600).run(&cases(), |case| check(&lab, &case));
    lab.clear();
    tested.unwrap();
}

/// Two objects in a directory of the target, which has the name of a file of the snapshot.
fn in_the_way(snapshot: &[&'static str], thing: &Thing) -> Case {
    let of = |thing: Thing| Object { thing, time: 3_000, mode: 0o755, owner: 0, is_locked: false };
    let mut case = Case {
        snapshot: Shape(snapshot.iter().map(|path| (*path, of(thing.clone()))).collect()),
        target: Shape(BTreeMap::new()),
        overwrite: Overwrite::IfChanged,
        delete: true,
        sources: &["/"],
        is_part: false,
        is_passed: false,
        then: (Overwrite::IfChanged, true),
    };
    for (directory, file) in [("d", "d/a"), ("x", "x/a")] {
        case.target.0.insert(directory, of(Thing::Directory));
        case.target.0.insert(file, of(Thing::File(1)));
    }
    case
}

/// Seen: the first name came, the other one was missing without a word.
#[test]
fn names_of_one_file_come_where_directories_have_all_of_them() {
    let (lab, case) = (Lab::new(), in_the_way(&["d", "x"], &Thing::NameOf(1)));
    let name = lab.set(&case);
    let before = look(&lab.target());
    let ran = lab.run(&case, name, &case.options());
    Outcome::new(&case, &before, &ran).holds().unwrap();
    assert_eq!(ran.lines, Vec::<String>::new());
}

/// Seen: after an interruption, a directory counted as a part of the file, and what was to stay in it was deleted.
#[test]
fn a_directory_is_no_part_of_a_file() {
    let (lab, mut case) = (Lab::new(), in_the_way(&["d"], &Thing::File(1)));
    case.target.0.retain(|path, _| path.starts_with('d'));
    case.overwrite = Overwrite::IfNewer;
    let name = lab.set(&case);
    lab.mark(&case, name, 1);
    let before = look(&lab.target());
    let ran = lab.run(&case, name, &case.options());
    assert_eq!(ran.after.get("d/a"), before.get("d/a"), "{:?}", ran.lines);
}
