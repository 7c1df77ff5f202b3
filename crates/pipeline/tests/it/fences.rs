//! Who writes looks at the lease right before each step by which others see or miss something: it
//! may have slept, and somebody else have taken the lease meanwhile. What is written before such a
//! step has a name that nobody else uses.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Call, FaultyStorage, Plan};
use crate::testkit::{
    CHEAP, PASSWORD, TestFolder, assert_clean, init_with_parity, reclaimed, repaired,
};
use crypto::{Role, SlotSecret};
use format::parity::SHARD_BYTES;
use pipeline::{UnlockedRepository, rebuild};
use repository::storage::PUT_SUFFIX;
use std::sync::Arc;

/// A repository with a snapshot, and a source that has moved on.
struct Lab {
    folder: TestFolder,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        folder.init();
        Self::in_use(folder)
    }

    fn in_use(folder: TestFolder) -> Self {
        small_tree(&folder.source(), 1);
        folder.backup(&folder.open());
        folder.write("more", &noise(2, 60_000));
        Self { folder }
    }

    /// With so many runs of the index that the next one is merged with them.
    fn near_a_merge() -> Self {
        let lab = Self::new();
        for more in ["more", "and more"] {
            lab.folder.write(more, &noise(more.len() as u64, 60_000));
            lab.folder.backup(&lab.folder.open());
        }
        lab.folder.write("most", &noise(3, 60_000));
        lab
    }

    /// The repository, on storage with this plan.
    fn on(&self, plan: &Arc<Plan>) -> UnlockedRepository {
        UnlockedRepository::open(FaultyStorage::new(&self.folder.repository(), plan), PASSWORD)
            .unwrap()
    }

    /// What was asked of the storage by `work`.
    fn calls(&self, work: impl FnOnce(&UnlockedRepository)) -> Vec<Call> {
        let plan = Plan::none();
        work(&self.on(&plan));
        plan.calls()
    }

    fn leave(&self, name: &str) {
        let path = self.folder.repository().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"left by somebody").unwrap();
    }
}

/// Whether others see or miss something after this call. Not so with runs that no state names yet:
/// their names belong to one lease.
fn is_step(call: &Call) -> bool {
    let is_new_run = call.name.starts_with("index/run-")
        && (call.verb == "publish" || call.name.ends_with(".part"));
    is_change(call) && !is_new_run && !call.name.starts_with("index/spill-")
}

fn is_change(call: &Call) -> bool {
    ["publish", "replace", "remove"].contains(&call.verb)
}

/// Whether a writer may sleep long in this call.
fn takes_long(call: &Call) -> bool {
    is_change(call) || call.verb == "sync" && !call.name.ends_with(PUT_SUFFIX)
}

/// All calls of `verb` on names that begin and end so come right after a look at the lease, or
/// after another one of theirs; and there are some.
fn assert_fenced(calls: &[Call], verb: &str, (start, end): (&str, &str)) {
    let is_it = |call: &Call| {
        let is_named = call.name.starts_with(start) && call.name.ends_with(end);
        is_step(call) && call.verb == verb && is_named
    };
    let (mut may, mut met) = (false, 0);
    for call in calls {
        if is_it(call) {
            assert!(may, "nobody looked at the lease before: {call:?}");
            met += 1;
        } else if takes_long(call) {
            may = false;
        }
        may |= call.verb == "open" && call.name == "lease";
    }
    assert!(met > 0, "no {verb} of {start}*{end}");
}

const CONTAINER: (&str, &str) = ("containers/", ".ice");
const PART: (&str, &str) = ("containers/", ".part");
const STATE: (&str, &str) = ("index/state", "");
const RUN: (&str, &str) = ("index/run-", "");
const SNAPSHOT: (&str, &str) = ("snapshots/", "");
const KEY: (&str, &str) = ("keys/", "");
const LIST: (&str, &str) = ("keys/list", "");

#[test]
fn a_backup_looks_at_the_lease_before_each_step() {
    let lab = Lab::near_a_merge();
    let calls = lab.calls(|repository| {
        lab.folder.backup(repository);
    });
    assert_fenced(&calls, "publish", CONTAINER);
    assert_fenced(&calls, "publish", STATE);
    assert_fenced(&calls, "remove", RUN);
    assert_fenced(&calls, "publish", SNAPSHOT);
}

#[test]
fn a_container_that_is_written_again_gets_its_name_after_a_look_at_the_lease() {
    let lab = Lab::new();
    let plan = Plan::failing_on("sync", "containers/");
    lab.folder.backup(&lab.on(&plan));
    assert!(plan.fired());
    assert_fenced(&plan.calls(), "publish", CONTAINER);
    assert_clean(&lab.folder.open());
}

#[test]
fn a_key_comes_and_goes_after_a_look_at_the_lease() {
    let lab = Lab::new();
    let mut added = None;
    let calls = lab.calls(|repository| {
        let secret = SlotSecret::Password(b"another one");
        added = Some(repository.add_key(Role::Full, secret, CHEAP, "another").unwrap());
    });
    assert_fenced(&calls, "publish", LIST);
    // Right before the slot: the list comes first, and a slow sync lies between them.
    let slot = added.unwrap().to_string();
    assert_fenced(&calls, "publish", ("keys/", &slot));
    let calls = lab.calls(|repository| drop(repository.remove_key(added.unwrap())));
    assert_fenced(&calls, "remove", KEY);
}

#[test]
fn forgetting_looks_at_the_lease_before_each_step() {
    let lab = Lab::new();
    let name = lab.folder.backup(&lab.folder.open()).snapshot;
    let calls = lab.calls(|repository| assert_eq!(repository.forget(&[name]).unwrap(), 1));
    assert_fenced(&calls, "publish", CONTAINER);
    assert_fenced(&calls, "remove", SNAPSHOT);
}

/// Somebody else may have removed it a moment ago, and its name be there again after a power cut.
#[test]
fn forgetting_makes_durable_that_a_snapshot_is_gone_also_when_it_was_gone_already() {
    let lab = Lab::new();
    let name = lab.folder.backup(&lab.folder.open()).snapshot;
    let (plan, repository) = (Plan::none(), lab.folder.repository());
    let is_removal = |call: &Call| call.verb == "remove" && call.name.starts_with("snapshots/");
    plan.watch(Box::new(move |call| {
        if is_removal(call) {
            std::fs::remove_file(repository.join(&call.name)).unwrap();
        }
    }));
    assert_eq!(lab.on(&plan).forget(&[name]).unwrap(), 1);
    let calls = plan.calls();
    let removed = calls.iter().position(is_removal).unwrap();
    let is_sync = |call: &Call| call.verb == "sync_directory" && call.name == "snapshots";
    assert!(calls[removed..].iter().any(is_sync));
}

#[test]
fn a_reclaim_looks_at_the_lease_before_each_step() {
    let lab = Lab::new();
    let repository = lab.folder.open();
    // So that some of its container lives, and is copied.
    lab.folder.write("kept", &noise(3, 20_000));
    let name = lab.folder.backup(&repository).snapshot;
    std::fs::remove_file(lab.folder.source().join("more")).unwrap();
    lab.folder.backup(&repository);
    repository.forget(&[name]).unwrap();
    drop(repository);
    let calls = lab.calls(|repository| {
        reclaimed(repository);
    });
    assert_fenced(&calls, "publish", CONTAINER);
    assert_fenced(&calls, "publish", STATE);
    assert_fenced(&calls, "remove", RUN);
    assert_fenced(&calls, "remove", CONTAINER);
}

/// For all of a stage at once, and before the next one begins.
#[test]
fn a_reclaim_makes_durable_that_containers_are_gone() {
    let lab = Lab::new();
    let repository = lab.folder.open();
    let name = lab.folder.backup(&repository).snapshot;
    std::fs::remove_file(lab.folder.source().join("more")).unwrap();
    lab.folder.backup(&repository);
    repository.forget(&[name]).unwrap();
    let calls = lab.calls(|repository| {
        reclaimed(repository);
    });
    let is_removal =
        |call: &Call| call.verb == "remove" && call.name.starts_with("containers/00000000/");
    let is_sync = |call: &Call| call.verb == "sync_directory" && call.name == "containers/00000000";
    let last = calls.iter().rposition(is_removal).unwrap();
    assert!(calls[last..].iter().any(is_sync));
}

#[test]
fn a_reclaim_looks_at_the_lease_before_it_removes_what_others_did_not_finish() {
    let lab = Lab::new();
    let healed = format!("containers/00000000/0000000001.ice{PUT_SUFFIX}");
    lab.leave("containers/00000000/0000000000.part");
    lab.leave(&healed);
    let calls = lab.calls(|repository| {
        reclaimed(repository);
    });
    assert_fenced(&calls, "remove", PART);
    assert_fenced(&calls, "remove", (&healed, ""));
}

#[test]
fn settling_what_a_dead_writer_left_looks_at_the_lease_before_each_step() {
    let lab = Lab::near_a_merge();
    let plan = Plan::failing_on("publish", "containers/");
    lab.folder.try_backup(&lab.on(&plan)).unwrap_err();
    let calls = lab.calls(|repository| drop(repository.lease("next").unwrap()));
    assert_fenced(&calls, "publish", CONTAINER);
    assert_fenced(&calls, "remove", PART);
    assert_fenced(&calls, "publish", STATE);
    assert_fenced(&calls, "remove", RUN);
}

#[test]
fn strays_are_removed_after_a_look_at_the_lease() {
    let lab = Lab::new();
    let stray = format!("keys/stray{PUT_SUFFIX}");
    lab.leave(&stray);
    let calls = lab.calls(|repository| drop(repository.lease("next").unwrap()));
    assert_fenced(&calls, "remove", (&stray, ""));
}

#[test]
fn a_rebuild_looks_at_the_lease_before_each_step() {
    let lab = Lab::new();
    for name in lab.folder.files().iter().filter(|name| name.starts_with("snapshots/")) {
        std::fs::remove_file(lab.folder.repository().join(name)).unwrap();
    }
    let plan = Plan::none();
    let storage = FaultyStorage::new(&lab.folder.repository(), &plan);
    let report = rebuild::run(storage, PASSWORD, false).unwrap();
    assert_eq!(report.snapshots_restored, 1);
    assert_fenced(&plan.calls(), "publish", STATE);
    assert_fenced(&plan.calls(), "publish", SNAPSHOT);
}

#[test]
fn a_repair_takes_the_place_of_what_has_rotted_after_a_look_at_the_lease() {
    let folder = TestFolder::new();
    init_with_parity(folder.storage(), 10);
    let lab = Lab::in_use(folder);
    let name = lab.folder.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    let path = lab.folder.repository().join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[SHARD_BYTES + 10] ^= 0xff;
    std::fs::write(&path, &bytes).unwrap();
    let calls = lab.calls(|repository| drop(repaired(repository).unwrap()));
    assert_fenced(&calls, "replace", CONTAINER);
    assert_clean(&lab.folder.open());
}
