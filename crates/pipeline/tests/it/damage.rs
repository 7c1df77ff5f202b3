//! Every kind of damage to every kind of file: found, named, and never made worse.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::state::differences;
use crate::testkit::{NAME, PASSWORD, TestFolder, Tree, checked, restore_with};
use pipeline::{UnlockedRepository, rebuild};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use store::SnapshotRef;

/// Longer than anything takes; who is not back by then hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    Delete,
    Truncate,
    Flip,
    Zero,
    Older,
}

/// Where in a file it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Region {
    Whole,
    Start,
    FirstRecord,
    Middle,
    Footer,
    Trailer,
}

impl Region {
    /// A byte in the region of a file of this length.
    fn at(self, length: usize) -> usize {
        match self {
            Region::Whole | Region::Middle => length / 2,
            Region::Start => 12.min(length - 1),
            Region::FirstRecord => 200.min(length - 1),
            // A trailer has 32 bytes or fewer, and 12 bytes a row come before it.
            Region::Footer => length.saturating_sub(50),
            Region::Trailer => length - 5,
        }
    }
}

/// A repository with two snapshots, and how it was after the first.
struct Lab {
    folder: TestFolder,
    older: TestFolder,
    made: Vec<(SnapshotRef, Tree)>,
}

impl Lab {
    fn new() -> Arc<Self> {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let repository = folder.init();
        let tree = folder.state();
        let first = (folder.backup(&repository).snapshot, tree);
        let older = folder.copied();
        folder.write("large", &noise(5, 150_000));
        let tree = folder.state();
        let second = (folder.backup(&repository).snapshot, tree);
        Arc::new(Self { folder, older, made: vec![first, second] })
    }

    fn file(&self, prefix: &str) -> String {
        let found = self.folder.files().into_iter().find(|name| name.starts_with(prefix));
        found.unwrap_or_else(|| panic!("no file {prefix}"))
    }

    /// A copy with one damage; `None` when there is nothing to do it to.
    fn damaged(&self, name: &str, region: Region, damage: Damage) -> Option<TestFolder> {
        let copy = self.folder.copied();
        let path = copy.repository().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let before = bytes.clone();
        match damage {
            Damage::Delete => {
                std::fs::remove_file(&path).unwrap();
                return Some(copy);
            }
            Damage::Older => bytes = std::fs::read(self.older.repository().join(name)).ok()?,
            _ if bytes.is_empty() => return None,
            Damage::Truncate => bytes.truncate(region.at(bytes.len())),
            Damage::Flip => {
                let at = region.at(bytes.len());
                bytes[at] ^= 0x08;
            }
            Damage::Zero => {
                let at = region.at(bytes.len());
                let end = bytes.len().min(at + 4096);
                bytes[at..end].fill(0);
            }
        }
        if bytes == before {
            return None;
        }
        std::fs::write(&path, bytes).unwrap();
        Some(copy)
    }
}

/// Does `work` in a thread of its own: a panic and a hang are told apart from an answer.
fn tried<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (reply, answer) = channel();
    let thread = std::thread::spawn(move || {
        let _ = reply.send(work());
    });
    match answer.recv_timeout(PATIENCE) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(_) => {
            let panic = thread.join().unwrap_err();
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            panic!("{what} panicked: {}", text.unwrap_or_default())
        }
    }
}

fn open(folder: &TestFolder) -> pipeline::Result<UnlockedRepository> {
    UnlockedRepository::open(folder.storage(), PASSWORD)
}

fn short(error: &dyn std::fmt::Display) -> String {
    error.to_string().chars().take(60).collect()
}

/// What restores of all snapshots brought: `exact`, or what was said about what is not.
fn restored(
    repository: &UnlockedRepository,
    made: &[(SnapshotRef, Tree)],
    target: &Path,
) -> Result<String, String> {
    let mut said = Vec::new();
    for (name, tree) in made {
        let target = target.join(name.id.to_string());
        match restore_with(repository, *name, b"", &target, &Default::default()) {
            Err(error) => said.push(short(&error)),
            Ok((report, heard)) => {
                let root = target.join(NAME);
                let found = if root.exists() { Tree::of(&root) } else { Tree::default() };
                let wrong = differences(tree, &found);
                if !wrong.is_empty() && (report.failed == 0 || heard.is_empty()) {
                    return Err(format!("{} is wrong and nothing was said: {wrong:?}", name.id));
                }
                // What is there under its own name has its own content, or was named.
                let content = |line: &&String| line.contains(": content");
                for line in wrong.iter().filter(content) {
                    let path = line.split(": content").next().unwrap_or_default();
                    if !heard.iter().any(|heard| heard.contains(path)) {
                        return Err(format!("{line}, and only this was said: {heard:?}"));
                    }
                }
                if !wrong.is_empty() {
                    said.push(format!("{} failed", report.failed));
                }
            }
        }
    }
    said.dedup();
    Ok(if said.is_empty() { "exact".into() } else { said.join("; ") })
}

/// A row of the table: what each operation said.
fn row(
    lab: &Arc<Lab>,
    name: &str,
    region: Region,
    damage: Damage,
    must_find: bool,
) -> Option<String> {
    let what = format!("{damage:?} {region:?} of {}", name.chars().take(28).collect::<String>());
    let (folder, other) = (lab.damaged(name, region, damage)?, lab.damaged(name, region, damage)?);
    let (folder, other) = (Arc::new(folder), Arc::new(other));
    let column = |verb: &str, folder: &Arc<TestFolder>, says: fn(&Lab, &TestFolder) -> String| {
        let (lab, folder) = (lab.clone(), folder.clone());
        tried(&format!("{verb} after {what}"), move || says(&lab, &folder))
    };
    let opened = column("open", &folder, open_says);
    let checked = column("check", &folder, check_says);
    assert!(!must_find || checked != "clean", "{what}: check found nothing");
    let restored = column("restore", &folder, restore_says);
    let backed_up = column("backup", &folder, backup_says);
    let rebuilt = column("rebuild", &other, rebuild_says);
    Some(format!("{what:52} | {opened} | {checked} | {restored} | {backed_up} | {rebuilt}"))
}

fn open_says(_: &Lab, folder: &TestFolder) -> String {
    open(folder).map_or_else(|error| short(&error), |_| "ok".into())
}

fn check_says(_: &Lab, folder: &TestFolder) -> String {
    match open(folder).and_then(|repository| checked(&repository)) {
        Ok(report) if report.damages.is_empty() => "clean".to_owned(),
        Ok(report) => format!("{} damages", report.damages.len()),
        Err(error) => short(&error),
    }
}

fn restore_says(lab: &Lab, folder: &TestFolder) -> String {
    let Ok(repository) = open(folder) else { return "not opened".to_owned() };
    restored(&repository, &lab.made, &folder.at("targets"))
        .unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// A backup says that it failed, or what it says it stored restores, or its damage is found.
fn backup_says(lab: &Lab, folder: &TestFolder) -> String {
    let Ok(repository) = open(folder) else { return "not opened".to_owned() };
    match lab.folder.try_backup(&repository) {
        Err(error) => short(&error),
        Ok(done) => new_restores(lab, &repository, done.snapshot, &folder.at("after backup")),
    }
}

/// After a rebuild the next backup is whole, whatever was lost.
fn rebuild_says(lab: &Lab, folder: &TestFolder) -> String {
    let report = match rebuild::run(folder.storage(), PASSWORD, false) {
        Err(error) => return short(&error),
        Ok(report) => report,
    };
    let repository = open(folder).unwrap();
    restored(&repository, &lab.made, &folder.at("targets"))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    let done = lab
        .folder
        .try_backup(&repository)
        .unwrap_or_else(|error| panic!("the backup after the rebuild: {error}"));
    let said = new_restores(lab, &repository, done.snapshot, &folder.at("after"));
    assert_eq!(said, "exact", "the backup after the rebuild");
    format!("{} snapshots, {} damages", report.snapshots, report.damages.len())
}

/// What a restore of a snapshot of the source as it is now brought.
fn new_restores(
    lab: &Lab,
    repository: &UnlockedRepository,
    name: SnapshotRef,
    target: &Path,
) -> String {
    restored(repository, &[(name, lab.folder.state())], target)
        .unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn matrix(prefix: &str, regions: &[Region], must_find: bool) {
    let lab = Lab::new();
    let name = lab.file(prefix);
    println!("damage | open | check | restore | backup | rebuild");
    let mut rows = 0;
    let whole = [Damage::Delete, Damage::Older].map(|damage| (Region::Whole, damage));
    let parts = regions.iter().flat_map(|region| {
        [Damage::Truncate, Damage::Flip, Damage::Zero].map(|damage| (*region, damage))
    });
    for (region, damage) in whole.into_iter().chain(parts) {
        // A container is never replaced, so its older version is itself: nothing to find.
        if let Some(line) = row(&lab, &name, region, damage, must_find) {
            println!("{line}");
            rows += 1;
        }
    }
    assert!(rows > 0);
}

#[test]
fn damage_to_the_config_is_survived() {
    matrix("config", &[Region::Middle], true);
}

#[test]
fn damage_to_a_key_slot_is_survived() {
    matrix("keys/", &[Region::Start, Region::Middle, Region::Trailer], true);
}

#[test]
fn damage_to_the_lease_is_survived() {
    matrix("lease", &[Region::Middle], false);
}

#[test]
fn damage_to_the_lock_is_survived() {
    matrix("lock", &[Region::Middle], false);
}

#[test]
fn damage_to_the_state_of_the_index_is_survived() {
    matrix("index/state", &[Region::Middle], false);
}

#[test]
fn damage_to_a_run_of_the_index_is_survived() {
    matrix(
        "index/run",
        &[Region::Start, Region::FirstRecord, Region::Middle, Region::Trailer],
        false,
    );
}

#[test]
fn damage_to_either_end_of_a_container_is_found() {
    matrix("containers/", &[Region::Start, Region::Footer, Region::Trailer], true);
}

#[test]
fn damage_to_the_records_of_a_container_is_found() {
    matrix("containers/", &[Region::FirstRecord, Region::Middle], true);
}

#[test]
fn damage_to_a_snapshot_file_is_found() {
    matrix("snapshots/", &[Region::Start, Region::Middle, Region::Trailer], false);
}

/// A container of somebody else with the number of ours: every object has its name.
#[test]
fn a_container_of_another_repository_is_not_believed() {
    let lab = Lab::new();
    let other = Lab::new();
    let name = lab.file("containers/");
    let copy = lab.folder.copied();
    std::fs::copy(other.folder.repository().join(&name), copy.repository().join(&name)).unwrap();
    assert!(!checked(&copy.open()).unwrap().damages.is_empty());
    let said = restored(&copy.open(), &lab.made, &copy.at("targets")).unwrap();
    assert_ne!(said, "exact");
}

/// Two containers exchanged: a misdirected write.
#[test]
fn exchanged_containers_are_found() {
    let lab = Lab::new();
    let names: Vec<_> =
        lab.folder.files().into_iter().filter(|name| name.ends_with(".ice")).collect();
    let copy = lab.folder.copied();
    let at = |name: &str| copy.repository().join(name);
    std::fs::rename(at(&names[0]), at("x")).unwrap();
    std::fs::rename(at(&names[1]), at(&names[0])).unwrap();
    std::fs::rename(at("x"), at(&names[1])).unwrap();
    assert!(!checked(&copy.open()).unwrap().damages.is_empty());
    restored(&copy.open(), &lab.made, &copy.at("targets")).unwrap();
}

/// Every single byte of a small container matters to somebody, or check says nothing about it.
#[test]
fn a_flip_anywhere_in_a_container_is_found() {
    let lab = Lab::new();
    let name = lab.file("containers/");
    let length = std::fs::metadata(lab.folder.repository().join(&name)).unwrap().len() as usize;
    let copy = lab.folder.copied();
    let path = copy.repository().join(&name);
    let good = std::fs::read(&path).unwrap();
    let (head, tail) = ((0..160).step_by(3), (length - 160..length).step_by(3));
    for at in head.chain((160..length - 160).step_by(length / 25)).chain(tail) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let damages = checked(&copy.open()).map(|report| report.damages.len());
        assert!(!matches!(damages, Ok(0)), "a flip at {at} of {length} was not found");
    }
}

/// `docs/FORMAT.md`, section 15: another file of that session still has the key.
#[test]
fn a_damaged_session_record_costs_nothing_while_a_snapshot_file_has_it() {
    let lab = Lab::new();
    let name = lab.file("containers/");
    let copy = lab.damaged(&name, Region::FirstRecord, Damage::Flip).unwrap();
    for (name, tree) in lab.made.iter().rev() {
        // Each by a program of its own, which has learned nothing from another snapshot.
        lab.folder.assert_restores(&copy.open(), *name, tree);
    }
}

#[test]
fn a_damaged_session_record_costs_nothing_when_its_snapshot_is_forgotten() {
    let lab = Lab::new();
    let name = lab.file("containers/");
    let copy = lab.damaged(&name, Region::FirstRecord, Damage::Flip).unwrap();
    let ((first, _), rest) = lab.made.split_first().unwrap();
    copy.open().forget(&[*first]).unwrap();
    for (name, tree) in rest {
        lab.folder.assert_restores(&copy.open(), *name, tree);
    }
}
