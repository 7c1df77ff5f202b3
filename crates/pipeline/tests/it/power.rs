//! The whole engine on a disk that loses what was not synced.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::{
    PASSWORD, SMALL_CHUNKS, TestFolder, Tree, assert_clean, assert_same, init, reclaimed,
    restore_to, stride,
};
use pipeline::UnlockedRepository;
use simulation::Random;
use simulation::disk::{Disk, Fault, Faults};
use std::sync::Arc;
use store::SnapshotRef;

/// Operations between one fault and the next in the slice: threads make their numbers others in every run.
const STEP: u64 = 3;

/// A repository with one snapshot, and a source that has moved on.
struct Lab {
    folder: TestFolder,
    disk: Arc<Disk>,
    first: (SnapshotRef, Tree),
    now: Tree,
}

impl Lab {
    fn new(fate: u64) -> Self {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(fate), false));
        small_tree(&folder.source(), 1);
        let repository = init(Arc::new(disk.process()), SMALL_CHUNKS);
        let tree = folder.state();
        let first = (folder.backup(&repository).snapshot, tree);
        small_tree(&folder.source(), 2);
        folder.write("large", &noise(3, 300_000));
        let now = folder.state();
        Self { folder, disk, first, now }
    }

    fn open(&self) -> pipeline::Result<UnlockedRepository> {
        UnlockedRepository::open(Arc::new(self.disk.process()), PASSWORD)
    }

    fn backup(&self) -> pipeline::Result<SnapshotRef> {
        Ok(self.folder.try_backup(&self.open()?)?.snapshot)
    }

    /// What must hold after anything.
    fn assert_sound(&self, acknowledged: Option<SnapshotRef>) {
        let repository = self.open().unwrap();
        assert_clean(&repository);
        self.folder.assert_restores(&repository, self.first.0, &self.first.1);
        if let Some(name) = acknowledged {
            self.folder.assert_restores(&repository, name, &self.now);
        }
        let next = self.folder.backup(&repository);
        self.folder.assert_restores(&repository, next.snapshot, &self.now);
        assert_clean(&repository);
    }
}

/// `fault` at every few operations of a backup, until none happens.
fn at_every_step(fault: Fault) {
    for step in 0.. {
        let lab = Lab::new(step);
        lab.disk.arm(Faults::after(step * stride(STEP), fault));
        let result = lab.backup();
        let has_fired = lab.disk.disarm();
        lab.disk.lose_power();
        lab.assert_sound(result.as_ref().ok().copied());
        if !has_fired {
            assert!(result.is_ok() && step > 4, "step {step}: {result:?}");
            return;
        }
    }
}

#[test]
fn a_power_cut_at_every_step_of_a_backup_loses_nothing() {
    at_every_step(Fault::PowerCut);
}

#[test]
fn a_kill_at_every_step_and_a_power_cut_afterwards_lose_nothing() {
    at_every_step(Fault::Kill);
}

#[test]
fn a_sync_that_is_forgotten_loses_nothing() {
    at_every_step(Fault::FailedSync);
}

#[test]
fn a_power_cut_at_every_step_of_forget_and_reclaim_loses_nothing() {
    for step in 0.. {
        let lab = Lab::new(step);
        let second = lab.backup().unwrap();
        lab.disk.arm(Faults::after(step * stride(STEP), Fault::PowerCut));
        let result = lab.open().and_then(|repository| {
            repository.forget(&[lab.first.0])?;
            let options = pipeline::reclaim::ReclaimOptions {
                max_waste_percent: 0.0,
                dry_run: false,
                accept_damage: false,
                free_interrupted: false,
            };
            pipeline::reclaim::run(&repository, &options)
        });
        let has_fired = lab.disk.disarm();
        lab.disk.lose_power();
        let repository = lab.open().unwrap();
        assert_clean(&repository);
        lab.folder.assert_restores(&repository, second, &lab.now);
        reclaimed(&repository);
        lab.folder.assert_restores(&repository, second, &lab.now);
        if !has_fired {
            assert!(result.is_ok() && step > 4, "step {step}: {result:?}");
            return;
        }
    }
}

/// A restore under way needs no lease and leaves no trace on the disk.
#[test]
fn a_restore_asks_for_nothing_that_writes() {
    let lab = Lab::new(0);
    let repository = lab.open().unwrap();
    lab.disk.arm(Faults::after(0, Fault::DiskFull));
    let target = tempfile::tempdir().unwrap();
    let report = restore_to(&repository, lab.first.0, target.path()).unwrap();
    assert_eq!(report.failed, 0);
    assert!(!lab.disk.disarm(), "it wrote");
    assert_same(&lab.first.1, &Tree::of(&target.path().join(crate::testkit::NAME)));
}
