//! Index and snapshot list from the containers alone.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{
    PASSWORD, TestFolder, Tree, assert_clean, checked, rebuilt, reclaimed, restore_with, snapshot,
};
use pipeline::{Error, UnlockedRepository};
use store::SnapshotRef;

fn lab() -> (TestFolder, Vec<(SnapshotRef, Tree)>) {
    let place = TestFolder::new();
    small_tree(&place.source(), 1);
    let repository = place.init();
    let mut made = Vec::new();
    for seed in 0..3 {
        place.write("large", &noise(seed, 60_000));
        let tree = place.state();
        made.push((place.backup(&repository).snapshot, tree));
    }
    (place, made)
}

fn assert_all_restore(place: &TestFolder, made: &[(SnapshotRef, Tree)]) {
    let repository = place.open();
    for (name, tree) in made {
        place.assert_restores(&repository, *name, tree);
    }
}

fn remove(place: &TestFolder, name: &str) {
    std::fs::remove_dir_all(place.repository().join(name)).unwrap();
}

#[test]
fn a_lost_index_is_said_and_rebuilt() {
    let (place, made) = lab();
    remove(&place, "index");
    let refused = UnlockedRepository::open(place.storage(), PASSWORD).err().unwrap();
    assert!(matches!(refused, Error::Repository(store::Error::IndexDamaged { .. })), "{refused}");
    let report = rebuilt(&place);
    assert_eq!(
        (report.snapshots, report.snapshots_restored, report.forged),
        (3, 0, 0),
        "{report:#?}"
    );
    assert!(report.damages.is_empty());
    assert_all_restore(&place, &made);
    assert_clean(&place.open());
    let done = place.backup(&place.open());
    assert_eq!(done.report.chunks_new, 0);
}

/// With the list lost as well as a container, it could as well be a backup that was never reported
/// done: it comes back when somebody misses it, with what there is of it.
#[test]
fn a_snapshot_of_which_something_is_missing_comes_back_on_request() {
    let (place, made) = lab();
    let containers = place.files().into_iter().filter(|name| name.starts_with("containers/"));
    std::fs::remove_file(place.repository().join(containers.min().unwrap())).unwrap();
    remove(&place, "snapshots");
    let report = rebuilt(&place);
    assert_eq!((report.snapshots, report.incomplete), (0, 2), "the first one's manifest is gone");
    let report = pipeline::rebuild::run(place.storage(), PASSWORD, true).unwrap();
    assert_eq!((report.snapshots, report.incomplete), (2, 0));
    let (repository, target) = (place.open(), tempfile::tempdir().unwrap());
    let options = pipeline::restore::RestoreOptions::default();
    let (report, heard) =
        restore_with(&repository, made[2].0, b"tree/large", target.path(), &options).unwrap();
    assert_eq!(report.failed, 0, "{heard:?}");
}

#[test]
fn lost_snapshots_come_back() {
    let (place, made) = lab();
    remove(&place, "snapshots");
    let report = rebuilt(&place);
    assert_eq!((report.snapshots, report.snapshots_restored), (3, 3), "{report:#?}");
    let names: Vec<_> = made.iter().map(|(name, _)| *name).collect();
    assert_eq!(place.open().local().unwrap().snapshots().unwrap(), names);
    assert_all_restore(&place, &made);
    assert_clean(&place.open());
}

#[test]
fn index_and_snapshots_both_lost_come_back_from_containers_and_keys() {
    let (place, made) = lab();
    remove(&place, "snapshots");
    remove(&place, "index");
    rebuilt(&place);
    assert_all_restore(&place, &made);
    let done = place.backup(&place.open());
    assert_eq!(done.report.chunks_new, 0);
    let numbers: Vec<_> = place
        .open()
        .local()
        .unwrap()
        .snapshots()
        .unwrap()
        .iter()
        .map(|name| name.sequence)
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a number was given twice: {numbers:?}");
    assert_clean(&place.open());
}

#[test]
fn what_was_forgotten_stays_forgotten() {
    let (place, mut made) = lab();
    let (forgotten, _) = made.remove(1);
    place.open().forget(&[forgotten]).unwrap();
    remove(&place, "snapshots");
    remove(&place, "index");
    let report = rebuilt(&place);
    assert_eq!(report.snapshots, 2, "{report:#?}");
    assert!(snapshot(&place.open(), forgotten).is_err());
    assert_all_restore(&place, &made);
    // Also after a reclaim has rewritten what says so.
    reclaimed(&place.open());
    remove(&place, "snapshots");
    assert_eq!(rebuilt(&place).snapshots, 2);
    assert_all_restore(&place, &made);
}

#[test]
fn a_rebuild_of_a_sound_repository_changes_nothing_for_anybody() {
    let (place, made) = lab();
    let old = place.open();
    let report = rebuilt(&place);
    assert_eq!((report.snapshots, report.snapshots_restored), (3, 0));
    assert_all_restore(&place, &made);
    place.assert_restores(&old, made[0].0, &made[0].1);
    assert_clean(&old);
    assert_eq!(rebuilt(&place).objects, report.objects, "twice is as once");
}

#[test]
fn a_wrong_password_rebuilds_nothing() {
    let (place, _) = lab();
    let before = place.files();
    let refused =
        pipeline::rebuild::run(place.storage(), crypto::SlotSecret::Password(b"no"), false);
    assert!(matches!(refused, Err(Error::WrongKey)));
    assert_eq!(place.files(), before);
}

/// PBS ignored missing chunks for years; here the next backup heals what it can read.
#[test]
fn damaged_bytes_are_left_out_and_the_next_backup_stores_them_again() {
    let (place, made) = lab();
    let first = place.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    let path = place.repository().join(first);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 3;
    bytes[at..at + 64].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    assert!(!checked(&place.open()).unwrap().damages.is_empty(), "check finds it");

    let report = rebuilt(&place);
    assert!(!report.damages.is_empty(), "{report:#?}");
    let repository = place.open();
    let tree = place.state();
    let done = place.backup(&repository);
    assert!(done.report.chunks_new > 0, "what was lost is stored again: {:#?}", done.report);
    place.assert_restores(&repository, done.snapshot, &tree);
    // The last one is of the same tree, so it is whole again too.
    place.assert_restores(&repository, made[2].0, &made[2].1);
    let again = place.backup(&repository);
    assert_eq!(again.report.chunks_new, 0, "once is enough");
}

#[test]
fn a_whole_container_gone_is_healed_by_rebuild_and_backup() {
    let (place, _) = lab();
    for name in place.files().into_iter().filter(|name| name.ends_with(".ice")) {
        let place = {
            let copy = place.copied();
            crate::testkit::copy_tree(&place.source(), &copy.source());
            copy
        };
        std::fs::remove_file(place.repository().join(&name)).unwrap();
        rebuilt(&place);
        let repository = place.open();
        let tree = place.state();
        let done = place.backup(&repository);
        place.assert_restores(&repository, done.snapshot, &tree);
        let again = place.backup(&repository);
        place.assert_restores(&repository, again.snapshot, &tree);
    }
}

/// The state that counted earlier losses is lost itself: what was made between is untrusted.
#[test]
fn a_rebuild_after_the_state_was_lost_distrusts_snapshots_made_since_the_one_before() {
    let (place, _) = lab();
    rebuilt(&place);
    place.backup(&place.open());
    remove(&place, "index");
    let first = place.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    std::fs::remove_file(place.repository().join(first)).unwrap();
    rebuilt(&place);
    let (repository, tree) = (place.open(), place.state());
    let done = place.backup(&repository);
    place.assert_restores(&repository, done.snapshot, &tree);
}

/// Damage in a tree page as well: the new tree does not build on what is lost.
#[test]
fn after_all_containers_were_damaged_a_backup_makes_a_whole_snapshot() {
    let (place, _) = lab();
    for name in place.files().into_iter().filter(|name| name.ends_with(".ice")) {
        let path = place.repository().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.chunks_mut(4096).for_each(|part| part[part.len() / 2] ^= 0x10);
        std::fs::write(&path, bytes).unwrap();
    }
    rebuilt(&place);
    let repository = place.open();
    let tree = place.state();
    let done = place.backup(&repository);
    place.assert_restores(&repository, done.snapshot, &tree);
}

/// A backup on storage that fails at this call, which is made once.
fn fail_backup(place: &TestFolder, verb: &'static str, prefix: &'static str) {
    let plan = Plan::failing_on(verb, prefix);
    let repository =
        UnlockedRepository::open(FaultyStorage::new(&place.repository(), &plan), PASSWORD).unwrap();
    let result = place.try_backup(&repository);
    assert!(plan.fired() && result.is_err(), "{verb} of {prefix}: {result:?}");
}

/// After a rebuild all that was acknowledged restores, no number was given twice, and check does
/// not speak of a fork.
fn assert_one_history(place: &TestFolder, made: &[(SnapshotRef, Tree)], what: &str) {
    rebuilt(place);
    assert_all_restore(place, made);
    let repository = place.open();
    assert_eq!(checked(&repository).unwrap().damages, [], "{what}");
    let names = repository.local().unwrap().snapshots().unwrap();
    assert!(names.is_sorted_by(|a, b| a.sequence < b.sequence), "{what}: {names:?}");
    assert_eq!(names.last(), made.last().map(|(name, _)| name), "{what}: the newest is another");
}

/// A backup whose last step failed was never acknowledged: what it left must not look like a
/// fork of the history after a rebuild.
#[test]
fn a_backup_that_failed_in_its_last_step_does_not_fork_the_history_of_a_rebuild() {
    for prefix in ["index/state", "snapshots/"] {
        for verb in ["put", "create", "append", "sync", "publish"] {
            let (place, mut made) = lab();
            fail_backup(&place, verb, prefix);
            assert_eq!(place.open().local().unwrap().snapshots().unwrap().len(), made.len());
            place.write("more", b"what the next one has");
            let tree = place.state();
            made.push((place.backup(&place.open()).snapshot, tree));
            assert_clean(&place.open());
            assert_one_history(&place, &made, &format!("{verb} of {prefix}"));
        }
    }
}

/// A snapshot file that was lost unnoticed, so that the next backup built on the one before it.
#[test]
fn a_lost_snapshot_that_a_rebuild_brings_back_is_no_fork() {
    let (place, mut made) = lab();
    let last = place.files().into_iter().rfind(|name| name.starts_with("snapshots/")).unwrap();
    std::fs::remove_file(place.repository().join(last)).unwrap();
    place.write("more", b"what the next one has");
    let tree = place.state();
    made.push((place.backup(&place.open()).snapshot, tree));
    assert_one_history(&place, &made, "after a lost file");
    assert_eq!(place.open().local().unwrap().snapshots().unwrap().len(), made.len());
}

/// Whoever shows a client an old state of everything lets it write a second history.
#[test]
fn a_snapshot_of_another_past_is_called_a_fork() {
    let (place, _) = lab();
    let other = place.copied();
    let forked = place.backup(&other.open()).snapshot;
    place.write("more", b"what only one of them has");
    place.backup(&place.open());
    let name = |name: &String| name.contains(&forked.id.to_string());
    let file = other.files().into_iter().find(name).unwrap();
    std::fs::copy(other.repository().join(&file), place.repository().join(&file)).unwrap();
    let damages = checked(&place.open()).unwrap().damages;
    assert!(damages.iter().any(|damage| damage.what.contains("fork")), "{damages:?}");
}

#[test]
fn rebuild_killed_at_any_step_is_done_again() {
    let (place, made) = lab();
    for at in 0.. {
        let copy = place.copied();
        let plan = Plan::failing(Fault::Dead, at * 3);
        let result =
            pipeline::rebuild::run(FaultyStorage::new(&copy.repository(), &plan), PASSWORD, false);
        if !plan.fired() {
            assert!(result.is_ok(), "{result:?}");
            break;
        }
        rebuilt(&copy);
        assert_eq!(
            copy.open().local().unwrap().snapshots().unwrap().len(),
            made.len(),
            "operation {}",
            at * 3
        );
        if at % 4 == 0 {
            assert_all_restore(&copy, &made);
        }
    }
}

#[test]
fn a_restore_names_what_damage_cost() {
    let (place, made) = lab();
    let first = place.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    let path = place.repository().join(first);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let target = place.at("target");
    let (report, heard) =
        restore_with(&place.open(), made[0].0, b"", &target, &Default::default()).unwrap();
    assert_eq!(report.failed as usize, heard.len(), "{heard:?}");
    assert!(report.failed > 0);
}
