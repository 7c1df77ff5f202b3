//! Storage that fails at every possible operation.

use crate::testkit::build::small_tree;
use crate::testkit::faulty::{Call, Fault, FaultyStorage, Plan};
use crate::testkit::{
    PASSWORD, SMALL_CHUNKS, TestFolder, Tree, assert_clean, copy_tree, init, leftovers,
    restore_with,
};
use pipeline::backup::Progress;
use pipeline::{UnlockedRepository, check, rebuild};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use store::SnapshotRef;

/// A repository with one snapshot, and a source that has moved on.
struct Lab {
    test_folder: TestFolder,
    first: (SnapshotRef, Tree),
    now: Tree,
}

impl Lab {
    fn new() -> Self {
        let test_folder = TestFolder::new();
        small_tree(&test_folder.source(), 1);
        let repository = test_folder.init();
        let tree = test_folder.state();
        let first = (test_folder.backup(&repository).snapshot, tree);
        small_tree(&test_folder.source(), 2);
        test_folder.write("large", &crate::testkit::build::noise(3, 1_200_000));
        let now = test_folder.state();
        Self { test_folder, first, now }
    }

    /// A fresh copy of the repository; the source is shared.
    fn copied(&self) -> TestFolder {
        self.test_folder.copied()
    }

    /// A backup on storage with this plan; whether it said that it succeeded.
    fn backup(&self, copy: &TestFolder, plan: &Arc<Plan>) -> pipeline::Result<SnapshotRef> {
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), plan), PASSWORD)?;
        Ok(self.test_folder.try_backup(&repository)?.snapshot)
    }

    /// What must hold after anything: nothing acknowledged is lost, and it goes on.
    fn assert_sound(&self, copy: &TestFolder, acknowledged: Option<SnapshotRef>, what: &str) {
        eprintln!("{what}");
        let repository = copy.open();
        assert_clean(&repository);
        self.test_folder.assert_restores(&repository, self.first.0, &self.first.1);
        for name in repository
            .local()
            .unwrap()
            .snapshots()
            .unwrap()
            .into_iter()
            .filter(|name| *name != self.first.0)
        {
            self.test_folder.assert_restores(&repository, name, &self.now);
        }
        if let Some(name) = acknowledged {
            assert!(
                repository.local().unwrap().snapshots().unwrap().contains(&name),
                "it was acknowledged"
            );
        }
        let next = self.test_folder.backup(&repository);
        self.test_folder.assert_restores(&repository, next.snapshot, &self.now);
        assert_clean(&repository);
    }

    /// Every `step`-th operation fails, beginning with `first`, until none does.
    fn fail_each(&self, fault: Fault, first: u64, step: usize) -> u64 {
        for at in (first..).step_by(step) {
            let (copy, plan) = (self.copied(), Plan::failing(fault, at));
            let result = self.backup(&copy, &plan);
            if !plan.fired() {
                assert!(result.is_ok(), "{result:?}");
                return at;
            }
            self.assert_sound(
                &copy,
                result.as_ref().ok().copied(),
                &format!("{fault:?} at {at}: {result:?}"),
            );
        }
        unreachable!("the numbers end never")
    }
}

/// One test for each residue: together they fail every operation, side by side.
macro_rules! each_operation {
    ($($name:ident: $fault:expr, $first:literal of $step:literal;)*) => {
        $(#[test]
        fn $name() {
            let ends = Lab::new().fail_each($fault, $first, $step);
            assert!(ends > 4, "only {ends} operations were seen");
        })*
    };
}

each_operation! {
    one_error_at_every_operation_loses_nothing_a: Fault::Once, 0 of 4;
    one_error_at_every_operation_loses_nothing_b: Fault::Once, 1 of 4;
    one_error_at_every_operation_loses_nothing_c: Fault::Once, 2 of 4;
    one_error_at_every_operation_loses_nothing_d: Fault::Once, 3 of 4;
    a_disk_that_dies_at_every_operation_loses_nothing_a: Fault::Dead, 0 of 4;
    a_disk_that_dies_at_every_operation_loses_nothing_b: Fault::Dead, 1 of 4;
    a_disk_that_dies_at_every_operation_loses_nothing_c: Fault::Dead, 2 of 4;
    a_disk_that_dies_at_every_operation_loses_nothing_d: Fault::Dead, 3 of 4;
    a_disk_that_fills_up_at_every_write_loses_nothing: Fault::Full, 0 of 1;
    a_sync_that_fails_once_and_then_says_yes_loses_nothing: Fault::SyncOnce, 0 of 1;
}

/// What the system could not write it may have forgotten, and read back as it was before.
#[test]
fn what_a_failed_sync_lost_is_not_taken_for_good_when_it_is_written_again() {
    let lab = Lab::new();
    let (copy, plan) = (lab.copied(), Plan::failing_on("sync", "containers/"));
    let folder = copy.repository();
    let mut is_done = false;
    plan.watch(Box::new(move |call| {
        if call.verb == "sync" && call.name.starts_with("containers/") && !is_done {
            is_done = true;
            let path = folder.join(&call.name);
            let file = std::fs::File::options().write(true).open(path).unwrap();
            // In the middle of a record, whose header is good.
            file.write_all_at(&[0; 4096], file.metadata().unwrap().len() / 2).unwrap();
        }
    }));
    let result = lab.backup(&copy, &plan);
    assert!(plan.fired());
    assert!(result.is_err(), "{result:?}");
    lab.assert_sound(&copy, None, "a failed sync that lost something");
}

#[test]
fn a_full_disk_is_reported_as_one_and_not_as_the_fault_of_a_file() {
    let lab = Lab::new();
    for at in 0.. {
        let (copy, plan) = (lab.copied(), Plan::failing(Fault::Full, at));
        let result = lab.backup(&copy, &plan);
        if !plan.fired() {
            break;
        }
        // What was kept for a full disk was not needed, and is not missed.
        if plan.calls().iter().any(|call| call.name.starts_with("reserve")) {
            assert!(result.is_ok(), "write {at}: {result:?}");
            continue;
        }
        let Err(pipeline::Error::Repository(error)) = &result else {
            panic!("write {at}: {result:?}")
        };
        assert!(error.is_full(), "write {at}: {error}");
    }
}

#[test]
fn after_a_full_disk_was_made_larger_no_leftovers_stay() {
    let lab = Lab::new();
    for at in 0.. {
        let (copy, plan) = (lab.copied(), Plan::failing(Fault::Full, at));
        let _ = lab.backup(&copy, &plan);
        if !plan.fired() {
            break;
        }
        lab.test_folder.backup(&copy.open());
        assert_eq!(leftovers(&copy), Vec::<String>::new(), "write {at}");
    }
}

/// A network that fails says nothing of the data: a check that calls it damage frightens, and a
/// rebuild that leaves out what it cannot reach loses.
#[test]
fn a_storage_that_cannot_be_reached_is_no_damage() {
    let lab = Lab::new();
    let looked = |copy: &TestFolder, plan: &Arc<Plan>| {
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), plan), PASSWORD)?;
        let options =
            check::CheckOptions { read_data_percent: Some(100.0), threads: 1, repair: false };
        let report = check::run(&repository, &options, &Progress::default())?;
        Ok((report.damages, report.notes))
    };
    let rebuilt = |copy: &TestFolder, plan: &Arc<Plan>| {
        let storage = FaultyStorage::new(&copy.repository(), plan);
        let report = rebuild::run(storage, PASSWORD, false)?;
        Ok((report.damages, report.incomplete))
    };
    away_at_every(&lab, "check", looked);
    away_at_every(&lab, "rebuild", rebuilt);
}

/// `act` with an unreachable storage at its first operation, at its second, and so on.
fn away_at_every<T: Default + PartialEq + std::fmt::Debug>(
    lab: &Lab,
    what: &str,
    act: impl Fn(&TestFolder, &Arc<Plan>) -> pipeline::Result<T>,
) {
    for at in 0.. {
        let (copy, plan) = (lab.copied(), Plan::failing(Fault::Away, at));
        let said = act(&copy, &plan);
        if !plan.fired() {
            assert_eq!(said.unwrap(), T::default(), "{what}");
            break;
        }
        if let Ok(said) = said {
            assert_eq!(said, T::default(), "{what} without a way at {at}");
        }
        if at % 16 == 0 {
            lab.assert_sound(&copy, None, &format!("{what} without a way at {at}"));
        }
    }
}

fn calls_of_a_backup() -> Vec<Call> {
    let lab = Lab::new();
    let (copy, plan) = (lab.copied(), Plan::none());
    lab.backup(&copy, &plan).unwrap();
    plan.calls()
}

fn find(calls: &[Call], verb: &str, name: &str) -> Vec<usize> {
    let fits = |call: &Call| call.verb == verb && call.name.starts_with(name);
    calls.iter().enumerate().filter(|(_, call)| fits(call)).map(|(at, _)| at).collect()
}

#[test]
fn containers_are_durable_before_the_index_and_the_index_before_the_snapshot() {
    let calls = calls_of_a_backup();
    let published = find(&calls, "publish", "containers/");
    let (state, snapshot) = (find(&calls, "put", "index/state"), find(&calls, "put", "snapshots/"));
    assert_eq!(snapshot.len(), 1);
    assert!(!published.is_empty() && !state.is_empty());
    // Runs are merged when the backup is done: then a second state follows.
    assert!(published.iter().max() < state.iter().min(), "{calls:?}");
    assert!(state.iter().min() < snapshot.iter().min(), "{calls:?}");
    let runs = find(&calls, "publish", "index/run-");
    assert!(!runs.is_empty() && runs.iter().min() < state.iter().min(), "{calls:?}");
    assert!(runs.iter().max() < state.iter().max(), "{calls:?}");
}

/// Nothing gets its name before its content was synced, and nothing is written after that.
#[test]
fn nothing_has_its_name_before_its_content_is_durable() {
    let calls = calls_of_a_backup();
    let mut published = 0;
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.verb == "publish") {
        published += 1;
        let stem = call.name.strip_suffix(".ice").unwrap_or(&call.name);
        let before: Vec<_> =
            calls[..at].iter().filter(|call| call.name.starts_with(stem)).collect();
        let synced = before.iter().rposition(|call| call.verb == "sync");
        let written = before.iter().rposition(|call| call.verb == "append");
        assert!(synced.is_some() && synced > written, "{}: {before:?}", call.name);
    }
    assert!(published >= 4, "{published}");
}

#[test]
fn what_the_new_index_replaces_is_removed_after_it_is_durable() {
    let calls = calls_of_a_backup();
    let state = find(&calls, "publish", "index/state");
    let old = find(&calls, "remove", "index/run-");
    // Before it is written, a run's own name is cleared once.
    assert!(
        old.iter().filter(|at| **at < state[0]).all(|at| calls[*at].name.ends_with(".part")),
        "{calls:?}"
    );
}

/// Two syncs for the lease, two for the index, one for the snapshot, and one for each container:
/// a backup costs as many waits for the disk whatever its size.
#[test]
fn a_small_backup_costs_few_syncs() {
    let calls = calls_of_a_backup();
    let syncs: Vec<_> =
        calls.iter().filter(|call| call.verb == "sync").map(|call| call.name.as_str()).collect();
    assert!(syncs.len() <= 7, "{syncs:?}");
}

#[test]
fn reclaim_on_a_disk_that_dies_at_every_operation_loses_nothing() {
    let test_folder = TestFolder::new();
    small_tree(&test_folder.source(), 1);
    let repository = test_folder.init();
    let first = test_folder.backup(&repository);
    small_tree(&test_folder.source(), 2);
    let tree = test_folder.state();
    let second = test_folder.backup(&repository);
    repository.forget(&[first.snapshot]).unwrap();
    drop(repository);
    let options = pipeline::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    let run = |copy: &TestFolder, plan: &Arc<Plan>| {
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), plan), PASSWORD)?;
        pipeline::reclaim::run(&repository, &options)
    };
    for (fault, step) in [(Fault::Dead, 3), (Fault::Once, 3), (Fault::Full, 2)] {
        for at in (0..).step_by(step) {
            let (copy, plan) = (test_folder.copied(), Plan::failing(fault, at));
            let result = run(&copy, &plan);
            if !plan.fired() {
                assert!(result.is_ok(), "{result:?}");
                break;
            }
            eprintln!("{fault:?} at {at}: {result:?}");
            let repository = copy.open();
            test_folder.assert_restores(&repository, second.snapshot, &tree);
            run(&copy, &Plan::none()).unwrap();
            let repository = copy.open();
            test_folder.assert_restores(&repository, second.snapshot, &tree);
            assert_clean(&repository);
        }
    }
}

#[test]
fn forget_on_a_disk_that_dies_forgets_or_does_not() {
    let lab = Lab::new();
    for at in 0.. {
        let (copy, plan) = (lab.copied(), Plan::failing(Fault::Dead, at));
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), &plan), PASSWORD);
        let result = repository.and_then(|repository| repository.forget(&[lab.first.0]));
        if !plan.fired() {
            break;
        }
        let repository = copy.open();
        assert_clean(&repository);
        if !repository.local().unwrap().snapshots().unwrap().is_empty() {
            lab.test_folder.assert_restores(&repository, lab.first.0, &lab.first.1);
        } else {
            assert!(at > 4, "gone at once? {result:?}");
        }
        let next = lab.test_folder.backup(&repository);
        lab.test_folder.assert_restores(&repository, next.snapshot, &lab.now);
    }
}

#[test]
fn a_restore_from_a_disk_with_one_bad_read_names_what_it_lost_or_fails() {
    let lab = Lab::new();
    for at in (0..).step_by(2) {
        let plan = Plan::failing(Fault::Once, at);
        let target = tempfile::tempdir_in(lab.test_folder.temp.path()).unwrap();
        let storage = FaultyStorage::new(&lab.test_folder.repository(), &plan);
        let restored = UnlockedRepository::open(storage, PASSWORD).and_then(|repository| {
            restore_with(&repository, lab.first.0, b"", target.path(), &Default::default())
        });
        if !plan.fired() {
            assert!(restored.is_ok());
            break;
        }
        if let Ok((report, heard)) = restored {
            let expected = target.path().join(crate::testkit::NAME);
            let lines = crate::testkit::state::differences(&lab.first.1, &Tree::of(&expected));
            assert!(
                lines.is_empty() || report.failed > 0 && !heard.is_empty(),
                "read {at}: {lines:?}"
            );
        }
    }
}

#[test]
fn init_that_fails_anywhere_can_be_repeated() {
    for at in 0.. {
        let test_folder = TestFolder::new();
        std::fs::create_dir(test_folder.repository()).unwrap();
        let plan = Plan::failing(Fault::Dead, at);
        let options =
            pipeline::unlocked::InitOptions { kdf: crate::testkit::CHEAP, ..Default::default() };
        let made = UnlockedRepository::init(
            FaultyStorage::new(&test_folder.repository(), &plan),
            PASSWORD,
            options,
        );
        if !plan.fired() {
            assert!(made.is_ok());
            break;
        }
        test_folder.write("file", b"content");
        let again = UnlockedRepository::init(test_folder.storage(), PASSWORD, options);
        // Its very last step may have been done: then it is there, and opens.
        let repository = again.unwrap_or_else(|_| test_folder.open());
        let tree = test_folder.state();
        let done = test_folder.backup(&repository);
        test_folder.assert_restores(&repository, done.snapshot, &tree);
        assert!(
            UnlockedRepository::open(test_folder.storage(), PASSWORD).is_ok(),
            "operation {at}"
        );
    }
}

#[test]
fn a_lost_lease_publishes_nothing() {
    let lab = Lab::new();
    let copy = lab.copied();
    let thief = copy.repository();
    let mut calls = 0;
    let plan = Plan::watched(Box::new(move |call| {
        if call.verb == "publish" && call.name.starts_with("containers/") {
            calls += 1;
            if calls == 1 {
                // What another one leaves who believed us dead.
                let other = TestFolder::new();
                copy_tree(&thief, &other.repository());
                drop(other.open().lease("the thief").unwrap());
                std::fs::copy(other.repository().join("lease"), thief.join("lease")).unwrap();
            }
        }
    }));
    let result = lab.backup(&copy, &plan);
    let Err(pipeline::Error::Repository(store::Error::LeaseLost { holder })) = &result else {
        panic!("{result:?}")
    };
    assert!(holder.contains("the thief"), "{holder}");
    assert_eq!(copy.open().local().unwrap().snapshots().unwrap(), [lab.first.0]);
    lab.assert_sound(&copy, None, "after the thief");
}

/// It went on without those places once: a commit after it would have published a snapshot whose
/// chunks no index knows.
#[test]
fn a_session_whose_run_could_not_be_written_forgets_no_place() {
    let (test_folder, plan) = (TestFolder::new(), Plan::failing_on("create", "index/run-"));
    drop(test_folder.storage());
    let repository = init(FaultyStorage::new(&test_folder.repository(), &plan), SMALL_CHUNKS);
    let lease = repository.lease("test").unwrap();
    let sealer = seal::Sealer::new(&repository.keys.writer, [9; 80], crypto::Cipher::fastest());
    let session = repository.local().unwrap().begin(&lease, None, sealer.session_record()).unwrap();
    let id = |at: u32| {
        let mut bytes = [0; ids::ObjectId::LEN];
        bytes[..4].copy_from_slice(&at.to_le_bytes());
        ids::ObjectId(bytes).with_type(false)
    };
    // From so many ids in memory on, whoever stores waits until they are in the index.
    let all: Vec<_> = (0..1 << 19).map(id).collect();
    let (mut packer, mut failed) = (seal::BlockCompressor::new(seal::Level::Fixed(1)).unwrap(), 0);
    for some in all.chunks(1 << 16) {
        let mut block = seal::Block::new(format::record::RecordKind::Data);
        for id in some {
            assert!(session.claim(id).unwrap());
            block.push_chunk(*id, b"x");
        }
        let mut record = seal::Sealer::empty_record();
        sealer.seal_block(&mut block, &mut packer, &mut record).unwrap();
        failed += u32::from(session.append(&record).is_err());
    }
    assert_eq!((plan.fired(), failed), (true, 1));
    assert!(all.iter().step_by(97).all(|id| !session.claim(id).unwrap()), "it is stored");
}
