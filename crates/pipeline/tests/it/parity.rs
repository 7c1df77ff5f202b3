//! Repositories with parity: sectors rot, and nothing is lost.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{
    NAME, PASSWORD, TestFolder, Tree, assert_clean, assert_same, checked, init_with_parity,
    leftovers, rebuilt, reclaimed, repaired, restore_to, restore_with,
};
use format::parity::{Geometry, SHARD_BYTES};
use ids::ContainerNo;
use pipeline::{UnlockedRepository, check};
use repository::container;
use repository::parity::{ShardDamage, inspect};
use simulation::Random;
use simulation::disk::{self, Disk, Fault as SimFault, Faults, SkippedSync};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use store::SnapshotRef;

const PERCENT: u32 = 10;

/// A repository with parity and two snapshots.
struct Lab {
    folder: TestFolder,
    made: Vec<(SnapshotRef, Tree)>,
}

/// A container's file, and how it was.
struct Victim {
    name: String,
    good: Vec<u8>,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        folder.write("large", &noise(9, 700_000));
        let repository = init_with_parity(folder.storage(), PERCENT);
        let tree = folder.state();
        let first = (folder.backup(&repository).snapshot, tree);
        folder.write("other", &noise(5, 150_000));
        let tree = folder.state();
        let second = (folder.backup(&repository).snapshot, tree);
        Self { folder, made: vec![first, second] }
    }

    /// The container of the first backup: the large one.
    fn victim(&self) -> Victim {
        let name = containers(&self.folder).remove(0);
        let good = std::fs::read(self.folder.repository().join(&name)).unwrap();
        Victim { name, good }
    }

    /// A copy in which these sectors of the container are lost.
    fn rotten(&self, victim: &Victim, sectors: Range<usize>) -> TestFolder {
        let copy = self.folder.copied();
        let mut bytes = victim.good.clone();
        let end = bytes.len().min(sectors.end * SHARD_BYTES);
        bytes[sectors.start * SHARD_BYTES..end].fill(0x55);
        std::fs::write(copy.repository().join(&victim.name), bytes).unwrap();
        copy
    }

    fn assert_restores(&self, folder: &TestFolder) {
        for (name, tree) in &self.made {
            self.folder.assert_restores(&folder.open(), *name, tree);
        }
    }
}

fn containers(folder: &TestFolder) -> Vec<String> {
    folder.files().into_iter().filter(|name| name.ends_with(".ice")).collect()
}

fn assert_healable(report: &check::CheckReport, what: &str) {
    assert!(!report.damages.is_empty(), "{what} was not found");
    assert!(report.damages.iter().all(|damage| damage.healable), "{what}: {:#?}", report.damages);
}

fn assert_repairs(folder: &TestFolder, victim: &Victim, what: &str) {
    let report = repaired(&folder.open()).unwrap();
    assert_eq!(report.damages, [], "{what}");
    assert_eq!(report.repaired.len(), 1, "{what}");
    let now = std::fs::read(folder.repository().join(&victim.name)).unwrap();
    assert!(now == victim.good, "{what}: repaired, and not as it was");
    assert_eq!(repaired(&folder.open()).unwrap().repaired, Vec::<String>::new(), "{what}");
}

/// What every container of a repository says of itself.
fn rot(folder: &TestFolder) -> Vec<ShardDamage> {
    let repository = folder.open();
    let storage = repository.local().unwrap().storage();
    let files = container::list(&**storage, ContainerNo(0)).unwrap();
    let look =
        |number| inspect(&repository.local().unwrap().container(number).unwrap(), PERCENT).unwrap();
    files.iter().map(|file| look(file.number)).collect()
}

/// One sector in each region: header and key record, records, footer, parity, tables, both ends.
#[test]
fn any_sector_of_a_container_may_rot() {
    let lab = Lab::new();
    let victim = lab.victim();
    let sectors = victim.good.len().div_ceil(SHARD_BYTES);
    let parity = sectors - sectors / 9;
    let near_parity = parity.saturating_sub(8)..parity + 4;
    let chosen = (0..3).chain((3..parity - 8).step_by(23)).chain(near_parity);
    for sector in chosen.chain(sectors - 4..sectors) {
        let what = format!("sector {sector} of {sectors}");
        let folder = lab.rotten(&victim, sector..sector + 1);
        assert_healable(&checked(&folder.open()).unwrap(), &what);
        lab.assert_restores(&folder);
        assert_repairs(&folder, &victim, &what);
    }
}

/// Sectors that the disk does not give at all: at both ends, in records, and in the parity.
#[test]
fn sectors_that_cannot_be_read_cost_nothing() {
    let lab = Lab::new();
    let victim = lab.victim();
    let sectors = victim.good.len().div_ceil(SHARD_BYTES) as u64;
    let first_head = geometry(&lab, &victim).heads_at()[0] / SHARD_BYTES as u64;
    for first in [0, 30, first_head - 2, first_head, sectors - 5, sectors - 1] {
        let what = format!("sector {first} of {sectors}");
        let bytes = first * SHARD_BYTES as u64..(first + 2) * SHARD_BYTES as u64;
        let (folder, plan) = (lab.folder.copied(), Plan::unreadable(&victim.name, bytes));
        let open = || {
            UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
                .unwrap()
        };
        assert_healable(&checked(&open()).unwrap(), &what);
        for (name, tree) in &lab.made {
            lab.folder.assert_restores(&open(), *name, tree);
        }
        let lost = std::fs::metadata(folder.repository().join(&victim.name)).unwrap();
        let options = check::CheckOptions { repair: true, ..Default::default() };
        let report = check::run(&open(), &options, &Default::default()).unwrap();
        assert_eq!(report.repaired.len(), 1, "{what}");
        let path = folder.repository().join(&victim.name);
        let now = std::fs::metadata(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == victim.good, "{what}");
        assert_ne!(lost.ino(), now.ino(), "{what}: it must lie elsewhere");
        assert_clean(&folder.open());
    }
}

#[test]
fn a_restore_says_what_it_healed() {
    let lab = Lab::new();
    let (name, tree) = &lab.made[0];
    let target = lab.folder.at("target");
    let report = restore_to(&lab.folder.open(), *name, &target).unwrap();
    assert_eq!(report.healed_records, 0);
    let folder = lab.rotten(&lab.victim(), 20..21);
    let target = folder.at("target");
    let report = restore_to(&folder.open(), *name, &target).unwrap();
    assert!(report.healed_records > 0 && report.failed == 0, "{report:#?}");
    assert_same(tree, &Tree::of(&target.join(NAME)));
}

/// Both heads are lost, or all of the parity is cut off: what is whole gets its parity again.
#[test]
fn a_container_that_lost_its_parity_gets_it_again() {
    let lab = Lab::new();
    let victim = lab.victim();
    let geometry = geometry(&lab, &victim);
    let [first, second] = geometry.heads_at().map(|at| at as usize);
    let mut headless = victim.good.clone();
    [first, second].iter().for_each(|at| headless[*at] ^= 1);
    let bare = &victim.good[..geometry.protected() as usize];
    for (bytes, what) in [(&headless[..], "no heads"), (bare, "no parity")] {
        let folder = lab.folder.copied();
        std::fs::write(folder.repository().join(&victim.name), bytes).unwrap();
        assert_healable(&checked(&folder.open()).unwrap(), what);
        lab.assert_restores(&folder);
        assert_repairs(&folder, &victim, what);
    }
}

/// A repair was promised for ever, and no reclaim freed anything: parity makes it what it was, which is another one.
#[test]
fn a_rotted_container_under_another_number_is_promised_no_repair() {
    let lab = Lab::new();
    let victim = lab.victim();
    let folder = lab.rotten(&victim, 60..62);
    let below = folder.repository();
    let other = victim.name.replace("0000000001.ice", "0000000009.ice");
    assert_ne!(other, victim.name);
    std::fs::rename(below.join(&victim.name), below.join(&other)).unwrap();
    let report = checked(&folder.open()).unwrap();
    let of_it = |it: &&check::Damage| it.what.contains("0000000009");
    let told: Vec<_> = report.damages.iter().filter(of_it).collect();
    assert!(!told.is_empty() && told.iter().all(|damage| !damage.healable), "{told:#?}");
}

/// Of some 180 shards a tenth may be lost at once, wherever they lie.
#[test]
fn a_burst_as_long_as_the_parity_heals() {
    let lab = Lab::new();
    let victim = lab.victim();
    let sectors = victim.good.len().div_ceil(SHARD_BYTES);
    let burst = parity_shards(&lab, &victim);
    for first in [0, 1, 60, sectors - 2 * burst - 4, sectors - 2 * burst, sectors - burst] {
        let what = format!("{burst} sectors from {first}");
        let folder = lab.rotten(&victim, first..first + burst);
        assert_healable(&checked(&folder.open()).unwrap(), &what);
        lab.assert_restores(&folder);
        assert_repairs(&folder, &victim, &what);
    }
}

fn parity_shards(lab: &Lab, victim: &Victim) -> usize {
    geometry(lab, victim).group(0).unwrap().parity_shards
}

fn geometry(lab: &Lab, victim: &Victim) -> Geometry {
    let repository = lab.folder.open();
    let files = container::list(&**repository.local().unwrap().storage(), ContainerNo(0)).unwrap();
    let file = files.iter().find(|file| container::name(file.number) == victim.name).unwrap();
    let reader = repository.local().unwrap().container(file.number).unwrap();
    reader.parity().unwrap().unwrap().geometry
}

/// One sector more than the parity can make good: what is lost is said, the rest restores.
#[test]
fn a_burst_beyond_the_parity_is_damage_as_without() {
    let lab = Lab::new();
    let victim = lab.victim();
    let burst = parity_shards(&lab, &victim) + 1;
    let folder = lab.rotten(&victim, 30..30 + burst);
    let before = std::fs::read(folder.repository().join(&victim.name)).unwrap();
    for report in [checked(&folder.open()), repaired(&folder.open())] {
        let report = report.unwrap();
        assert!(report.damages.iter().any(|damage| !damage.healable), "{:#?}", report.damages);
        assert_eq!(report.repaired, Vec::<String>::new());
    }
    assert!(std::fs::read(folder.repository().join(&victim.name)).unwrap() == before);
    assert_eq!(leftovers(&folder), Vec::<String>::new());
    let (name, _) = &lab.made[1];
    let target = folder.at("target");
    let (report, heard) =
        restore_with(&folder.open(), *name, b"", &target, &Default::default()).unwrap();
    assert!(report.failed > 0 && report.failed == heard.len() as u64, "{report:#?} {heard:?}");
    assert!(report.files >= 3, "the rest is there: {report:#?}");
}

/// What is read from parity need not be stored anew.
#[test]
fn a_rebuild_loses_nothing_that_parity_makes_good() {
    let lab = Lab::new();
    let victim = lab.victim();
    let folder = lab.rotten(&victim, 40..44);
    let report = rebuilt(&folder);
    assert!(!report.damages.is_empty());
    let objects = rebuilt(&lab.folder.copied()).objects;
    assert_eq!((report.objects, report.snapshots), (objects, 2));
    lab.assert_restores(&folder);
    assert_repairs(&folder, &victim, "after a rebuild");
}

/// Whoever writes a container gives it its parity.
#[test]
fn copies_of_reclaim_and_of_recovery_have_parity_too() {
    let lab = Lab::new();
    assert_eq!(rot(&lab.folder), vec![ShardDamage::default(); containers(&lab.folder).len()]);
    let repository = lab.folder.open();
    lab.folder.write("large", &noise(10, 300_000));
    let third = lab.folder.backup(&repository).snapshot;
    let tree = lab.folder.state();
    repository.forget(&[lab.made[0].0, lab.made[1].0]).unwrap();
    assert!(reclaimed(&repository).containers_rewritten > 0);
    lab.folder.assert_restores(&repository, third, &tree);
    assert_eq!(rot(&lab.folder), vec![ShardDamage::default(); containers(&lab.folder).len()]);
}

/// An id in the clear that lost a bit looks dead: what is healable must not be dropped for it.
#[test]
fn reclaim_drops_nothing_that_a_repair_would_bring_back() {
    let lab = Lab::new();
    let victim = lab.victim();
    let folder = lab.folder.copied();
    let mut bytes = victim.good.clone();
    // Behind the header of the container, the key record and the header of the first record: ids.
    let key_record = 48 + 101 + 16;
    bytes[64 + key_record + 48 + 3] ^= 1;
    std::fs::write(folder.repository().join(&victim.name), bytes).unwrap();
    let repository = folder.open();
    let (second, _) = &lab.made[1];
    repository.forget(&[lab.made[0].0]).unwrap();
    let options = pipeline::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    lab.folder.write("other", &noise(6, 150_000));
    let third = lab.folder.backup(&repository).snapshot;
    repository.forget(&[*second]).unwrap();
    let refused = pipeline::reclaim::run(&repository, &options).unwrap_err();
    assert!(refused.to_string().contains("icecore check --repair"), "{refused}");
    drop(repository);
    assert_eq!(repaired(&folder.open()).unwrap().repaired.len(), 1);
    assert!(reclaimed(&folder.open()).containers_rewritten > 0);
    lab.folder.assert_restores(&folder.open(), third, &lab.folder.state());
    assert_clean(&folder.open());
}

#[test]
fn what_an_interrupted_backup_left_gets_its_parity_when_it_is_saved() {
    let lab = Lab::new();
    lab.folder.write("new", &noise(11, 900_000));
    let mut saved = 0;
    for fault in [Fault::Dead, Fault::SyncOnce] {
        for at in (0..200).step_by(5) {
            let (copy, plan) = (lab.folder.copied(), Plan::failing(fault, at));
            let storage = FaultyStorage::new(&copy.repository(), &plan);
            let done = UnlockedRepository::open(storage, PASSWORD)
                .and_then(|it| lab.folder.try_backup(&it));
            drop(done);
            let before = containers(&copy).len();
            drop(copy.open().lease("next").unwrap());
            saved += containers(&copy).len() - before;
            assert_eq!(rot(&copy), vec![ShardDamage::default(); containers(&copy).len()], "{at}");
            lab.assert_restores(&copy);
            if !plan.fired() {
                break;
            }
        }
    }
    assert!(saved > 0, "no leftover was ever saved");
}

#[test]
fn a_repository_without_parity_has_none_and_is_repaired_by_nothing() {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    folder.backup(&repository);
    assert_eq!(repository.local().unwrap().config().features, 0);
    for name in containers(&folder) {
        let bytes = std::fs::read(folder.repository().join(name)).unwrap();
        assert_eq!(&bytes[bytes.len() - 8..], b"ICEFOOT1");
    }
    let report = repaired(&repository).unwrap();
    assert_eq!((report.repaired.len(), report.damages.len()), (0, 0));
}

/// A repair on a storage that fails, at each of its operations in turn.
fn repair_fails_each(fault: Fault) {
    let lab = Lab::new();
    let victim = lab.victim();
    for at in 0.. {
        let (folder, plan) = (lab.rotten(&victim, 7..9), Plan::failing(fault, at));
        let storage = FaultyStorage::new(&folder.repository(), &plan);
        let result = UnlockedRepository::open(storage, PASSWORD)
            .and_then(|repository| repaired(&repository));
        lab.assert_restores(&folder);
        let again = repaired(&folder.open()).unwrap();
        assert_eq!(again.damages, [], "{fault:?} at {at}: {result:?}");
        assert!(std::fs::read(folder.repository().join(&victim.name)).unwrap() == victim.good);
        assert_eq!(leftovers(&folder), Vec::<String>::new(), "{fault:?} at {at}");
        if !plan.fired() {
            assert!(result.is_ok() && at > 1, "{fault:?} at {at}: {result:?}");
            return;
        }
    }
}

#[test]
fn a_repair_on_a_disk_that_dies_at_every_operation_loses_nothing() {
    repair_fails_each(Fault::Dead);
}

#[test]
fn a_repair_with_one_error_at_every_operation_loses_nothing() {
    repair_fails_each(Fault::Once);
}

#[test]
fn a_repair_on_a_disk_that_fills_up_at_every_write_loses_nothing() {
    repair_fails_each(Fault::Full);
}

#[test]
fn a_repair_with_a_sync_that_fails_once_loses_nothing() {
    repair_fails_each(Fault::SyncOnce);
}

/// The same on a disk that loses what was not synced.
fn repair_ends_at_every_step(fault: SimFault) {
    for step in 0.. {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(step), false));
        small_tree(&folder.source(), 1);
        let open = || UnlockedRepository::open(Arc::new(disk.process()), PASSWORD);
        let first = {
            let repository = init_with_parity(Arc::new(disk.process()), PERCENT);
            folder.backup(&repository).snapshot
        };
        let tree = folder.state();
        let victim = disk.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
        (0..32).for_each(|at| disk.corrupt(&victim, &disk::Corruption::Flip(5_000 + at * 100, 3)));
        disk.arm(Faults::after(step, fault));
        let result = open().and_then(|repository| repaired(&repository));
        let has_fired = disk.disarm();
        disk.lose_power();
        folder.assert_restores(&open().unwrap(), first, &tree);
        let again = repaired(&open().unwrap()).unwrap();
        assert_eq!(again.damages, [], "step {step}: {result:?}");
        assert_clean(&open().unwrap());
        assert!(!disk.files().iter().any(|name| name.ends_with(".new")), "step {step}");
        folder.assert_restores(&open().unwrap(), first, &tree);
        if !has_fired {
            assert!(result.is_ok() && step > 4, "step {step}: {result:?}");
            return;
        }
    }
}

/// The new file takes the old one's name only when it is durable: a disk that lies about its sync
/// loses the container when the power goes, for some of its fates.
#[test]
fn the_sync_of_a_repair_is_needed() {
    let is_lost = |fate| {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(fate), false));
        small_tree(&folder.source(), 1);
        let repository = init_with_parity(Arc::new(disk.process()), PERCENT);
        folder.backup(&repository);
        drop(repository);
        let victim = disk.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
        disk.corrupt(&victim, &disk::Corruption::Flip(5_000, 3));
        disk.skip_sync(Some(SkippedSync { verb: "sync", names: "containers/*" }));
        let open = || UnlockedRepository::open(Arc::new(disk.process()), PASSWORD).unwrap();
        assert_eq!(repaired(&open()).unwrap().repaired.len(), 1);
        disk.lose_power();
        checked(&open()).unwrap().damages.iter().any(|damage| !damage.healable)
    };
    assert!((0..20).any(is_lost), "a sync that nobody needs");
}

#[test]
fn a_power_cut_at_every_step_of_a_repair_loses_nothing() {
    repair_ends_at_every_step(SimFault::PowerCut);
}

#[test]
fn a_kill_at_every_step_of_a_repair_and_a_power_cut_afterwards_lose_nothing() {
    repair_ends_at_every_step(SimFault::Kill);
}
