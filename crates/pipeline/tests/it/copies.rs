//! Copies whose storage fails, or whose machine loses power, at each step in turn: what was copied stays, no snapshot
//! appears before it is whole, and the next copy ends.
//!
//! A slice runs by default; `ICECORE_SIMULATED=all` runs every step.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{PASSWORD, TestFolder, Tree, assert_clean, stride};
use ids::ContainerNo;
use pipeline::check::{self, CheckOptions};
use pipeline::copy::{self, CopyOptions, CopyReport};
use pipeline::keyless::Part;
use pipeline::progress::Progress;
use pipeline::{Result, UnlockedRepository};
use repository::Repository;
use repository::local::LocalStorage;
use repository::storage::Storage;
use repository::watch::Unwatched;
use simulation::Random;
use simulation::disk::{Corruption, Disk, Fault as SimFault, Faults};
use std::sync::Arc;
use store::SnapshotRef;

/// Operations between one fault and the next in the slice.
const STEP: u64 = 5;

/// Two snapshots of one source.
struct Lab {
    folder: TestFolder,
    made: Vec<(SnapshotRef, Tree)>,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let repository = folder.init();
        let mut made = Vec::new();
        for (seed, bytes) in [(9, 300_000), (5, 150_000)] {
            folder.write("changing", &noise(seed, bytes));
            let tree = folder.state();
            made.push((folder.backup(&repository).snapshot, tree));
        }
        Self { folder, made }
    }

    fn copy_to(&self, target: &Arc<dyn Storage>) -> Result<CopyReport> {
        copy(&self.folder.repository(), target)
    }

    /// Every snapshot that `repository` lists is whole.
    fn assert_restores_what_is_listed(&self, repository: &UnlockedRepository) -> usize {
        let listed = repository.local().unwrap().snapshots().unwrap();
        for (name, tree) in self.made.iter().filter(|(name, _)| listed.contains(name)) {
            self.folder.assert_restores(repository, *name, tree);
        }
        listed.len()
    }

    fn assert_is_whole(&self, repository: &UnlockedRepository) {
        assert_eq!(self.assert_restores_what_is_listed(repository), self.made.len());
        assert_clean(repository);
    }
}

fn copy(source: &std::path::Path, target: &Arc<dyn Storage>) -> Result<CopyReport> {
    let source = Repository::open(Arc::new(LocalStorage::open(source).unwrap())).unwrap();
    copy::run(&Arc::new(source), target, &CopyOptions::default(), &Progress::default())
}

/// What was forgotten in the copy stays so, whatever the list of what was copied meets.
#[test]
fn a_list_of_copies_that_cannot_be_read_brings_nothing_back() {
    let lab = Lab::new();
    let folder = tempfile::tempdir().unwrap();
    let faulty = |plan: &_| FaultyStorage::new(folder.path(), plan);
    lab.copy_to(&faulty(&Plan::none())).unwrap();
    let copy = UnlockedRepository::open(faulty(&Plan::none()), PASSWORD).unwrap();
    copy.forget(&[lab.made[0].0]).unwrap();
    drop(copy);
    let error = lab.copy_to(&faulty(&Plan::away_on("open", repository::copies::NAME)));
    assert!(error.is_err(), "{error:?}");
    let report = lab.copy_to(&faulty(&Plan::none())).unwrap();
    assert_eq!((report.snapshots.len(), report.forgotten_there), (0, 1), "{report:?}");
}

/// A check that reads a part each day would come to the others after days.
#[test]
fn a_check_of_a_part_of_a_copy_heals_what_is_missing_in_the_others() {
    let lab = Lab::new();
    let second = lab.folder.at("second");
    let target: Arc<dyn Storage> = Arc::new(LocalStorage::create(&second).unwrap());
    lab.copy_to(&target).unwrap();
    let file = |number| second.join(repository::container::name(ContainerNo(number)));
    let last = (1..20).rfind(|number| file(*number).exists()).unwrap();
    std::fs::remove_file(file(last)).unwrap();
    let source = LocalStorage::open(&lab.folder.repository()).unwrap();
    let source = Arc::new(Repository::open(Arc::new(source)).unwrap());
    let check = |percent| {
        let part = Part { after: 0, percent };
        copy::check(&source, &target, part, &Unwatched).unwrap()
    };
    let (found, healed) = check(Some(1.0));
    assert!(found.position < last, "it was not read: {found:?}");
    assert_eq!((found.report.damaged, healed > 0), (0, true), "{found:?}");
    assert_eq!(check(None).0.report.damaged, 0);
    lab.assert_is_whole(&UnlockedRepository::open(target, PASSWORD).unwrap());
}

/// The name was `index/state`, which both places have.
#[test]
fn the_damaged_index_of_a_copy_is_named_by_where_it_lies() {
    let lab = Lab::new();
    let second = lab.folder.at("second");
    let target: Arc<dyn Storage> = Arc::new(LocalStorage::create(&second).unwrap());
    lab.copy_to(&target).unwrap();
    std::fs::remove_dir_all(second.join("index")).unwrap();
    let refused = lab.copy_to(&target).unwrap_err().to_string();
    assert!(refused.contains(&format!("{}/index", second.display())), "{refused}");
}

/// `first`: two faults look at different steps.
fn copy_ends_at_every_step(fault: SimFault, first: u64) {
    let lab = Lab::new();
    for step in (first % stride(STEP)..).step_by(stride(STEP) as usize) {
        let disk = Disk::new(Random::new(step), false);
        let target = || -> Arc<dyn Storage> { Arc::new(disk.process()) };
        disk.arm(Faults::after(step, fault));
        let result = lab.copy_to(&target());
        let has_fired = disk.disarm();
        disk.lose_power();
        let open = || UnlockedRepository::open(target(), PASSWORD);
        if let Ok(repository) = open() {
            let listed = lab.assert_restores_what_is_listed(&repository);
            assert!(result.is_err() || listed == 2, "step {step}: what was reported is there");
        } else {
            assert!(result.is_err(), "step {step}");
        }
        lab.copy_to(&target()).unwrap();
        lab.assert_is_whole(&open().unwrap());
        if !has_fired {
            assert!(result.is_ok() && step > 20, "step {step}: {result:?}");
            return;
        }
    }
}

#[test]
fn a_power_cut_at_every_step_of_a_copy_loses_nothing() {
    copy_ends_at_every_step(SimFault::PowerCut, 0);
}

#[test]
fn a_kill_at_every_step_of_a_copy_and_a_power_cut_afterwards_lose_nothing() {
    copy_ends_at_every_step(SimFault::Kill, 2);
}

#[test]
fn a_copy_on_a_disk_that_fails_at_every_operation_loses_nothing() {
    let lab = Lab::new();
    for fault in [Fault::Dead, Fault::Once, Fault::Full, Fault::SyncOnce] {
        for at in (0..).step_by(3 * stride(3) as usize) {
            let (target, plan) = (TestFolder::new(), Plan::failing(fault, at));
            std::fs::create_dir_all(target.repository()).unwrap();
            let storage: Arc<dyn Storage> = FaultyStorage::new(&target.repository(), &plan);
            let result = lab.copy_to(&storage);
            let target: Arc<dyn Storage> =
                Arc::new(LocalStorage::open(&target.repository()).unwrap());
            if let Ok(repository) = UnlockedRepository::open(target.clone(), PASSWORD) {
                lab.assert_restores_what_is_listed(&repository);
            }
            lab.copy_to(&target).unwrap();
            lab.assert_is_whole(&UnlockedRepository::open(target, PASSWORD).unwrap());
            if !plan.fired() {
                assert!(result.is_ok() && at > 1, "{fault:?} at {at}: {result:?}");
                break;
            }
        }
    }
}

/// The first place loses power while it is repaired from its copy.
#[test]
fn a_power_cut_at_every_step_of_a_repair_from_a_copy_loses_nothing() {
    let lab = Lab::new();
    let second = Arc::new(
        Repository::open(Arc::new(LocalStorage::open(&lab.folder.repository()).unwrap())).unwrap(),
    );
    for step in (0..).step_by(stride(STEP) as usize) {
        let disk = Disk::new(Random::new(step), false);
        let first = || -> Arc<dyn Storage> { Arc::new(disk.process()) };
        lab.copy_to(&first()).unwrap();
        let is_large = |name: &String| name.ends_with(".ice") && disk.length(name) > 100_000;
        let victim = disk.files().into_iter().find(is_large).unwrap();
        disk.corrupt(&victim, &Corruption::Flip(50_000, 3));
        let open = || UnlockedRepository::open(first(), PASSWORD).unwrap();
        let options = CheckOptions {
            read_data_percent: Some(100.0),
            repair: true,
            ..CheckOptions::default()
        };
        let repair = |repository: &UnlockedRepository| {
            let copies = [second.clone()];
            check::run_with(repository, &copies, &options, &Progress::default())
        };
        disk.arm(Faults::after(step, SimFault::PowerCut));
        let result = UnlockedRepository::open(first(), PASSWORD).and_then(|it| repair(&it));
        let has_fired = disk.disarm();
        disk.lose_power();
        assert_eq!(repair(&open()).unwrap().damages, [], "step {step}: {result:?}");
        lab.assert_is_whole(&open());
        if !has_fired {
            assert!(result.is_ok() && step > 20, "step {step}: {result:?}");
            return;
        }
    }
}
