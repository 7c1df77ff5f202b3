//! Index and snapshot list from the containers alone.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{
    PASSWORD, TestFolder, Tree, assert_clean, checked, rebuilt, reclaimed, restore_with, snapshot,
};
use pipeline::select::{SnapshotFilter, SnapshotSelector, find, resolve_id};
use pipeline::{Error, UnlockedRepository};
use store::SnapshotRef;

fn lab() -> (TestFolder, Vec<(SnapshotRef, Tree)>) {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    let mut made = Vec::new();
    for seed in 0..3 {
        folder.write("large", &noise(seed, 60_000));
        let tree = folder.state();
        made.push((folder.backup(&repository).snapshot, tree));
    }
    (folder, made)
}

fn assert_all_restore(folder: &TestFolder, made: &[(SnapshotRef, Tree)]) {
    let repository = folder.open();
    for (name, tree) in made {
        folder.assert_restores(&repository, *name, tree);
    }
}

fn remove(folder: &TestFolder, name: &str) {
    std::fs::remove_dir_all(folder.repository().join(name)).unwrap();
}

#[test]
fn a_lost_index_is_said_and_rebuilt() {
    let (folder, made) = lab();
    remove(&folder, "index");
    let refused = UnlockedRepository::open(folder.storage(), PASSWORD).err().unwrap();
    assert!(matches!(refused, Error::Repository(store::Error::IndexDamaged { .. })), "{refused}");
    let report = rebuilt(&folder);
    assert_eq!(
        (report.snapshots, report.snapshots_restored, report.forged),
        (3, 0, 0),
        "{report:#?}"
    );
    assert!(report.damages.is_empty());
    assert_all_restore(&folder, &made);
    assert_clean(&folder.open());
    let done = folder.backup(&folder.open());
    assert_eq!(done.report.chunks_new, 0);
}

/// With the list lost as well as a container, it could as well be a backup that was never reported
/// done: it comes back when somebody misses it, with what there is of it.
#[test]
fn a_snapshot_of_which_something_is_missing_comes_back_on_request() {
    let (folder, made) = lab();
    let containers = folder.files().into_iter().filter(|name| name.starts_with("containers/"));
    std::fs::remove_file(folder.repository().join(containers.min().unwrap())).unwrap();
    remove(&folder, "snapshots");
    let report = rebuilt(&folder);
    assert_eq!((report.snapshots, report.incomplete), (0, 2), "the first one's manifest is gone");
    let report = pipeline::rebuild::run(folder.storage(), PASSWORD, true).unwrap();
    assert_eq!((report.snapshots, report.incomplete), (2, 0));
    let (repository, target) = (folder.open(), tempfile::tempdir().unwrap());
    let options = pipeline::restore::RestoreOptions::default();
    let (report, heard) =
        restore_with(&repository, made[2].0, b"tree/large", target.path(), &options).unwrap();
    assert_eq!(report.failed, 0, "{heard:?}");
}

#[test]
fn lost_snapshots_come_back() {
    let (folder, made) = lab();
    remove(&folder, "snapshots");
    let report = rebuilt(&folder);
    assert_eq!((report.snapshots, report.snapshots_restored), (3, 3), "{report:#?}");
    let names: Vec<_> = made.iter().map(|(name, _)| *name).collect();
    assert_eq!(folder.open().local().unwrap().snapshots().unwrap(), names);
    assert_all_restore(&folder, &made);
    assert_clean(&folder.open());
}

/// The advice was to rebuild, for ever, and no reclaim freed anything.
#[test]
fn a_snapshot_file_under_another_number_hides_nothing_and_goes_with_a_rebuild() {
    for is_copied in [true, false] {
        let (folder, made) = lab();
        let file = |number: u64| {
            let name = SnapshotRef { sequence: number, id: made[1].0.id };
            folder.repository().join(name.path())
        };
        let (old, new) = (file(made[1].0.sequence), file(9));
        std::fs::copy(&old, &new).unwrap();
        if is_copied {
            let repository = folder.open();
            let id = made[1].0.id.to_string();
            let selector = SnapshotSelector::parse(&id, &|_| None).unwrap();
            let found = find(&repository, &selector, SnapshotFilter::ANY, &mut |_| ()).unwrap();
            assert_eq!(found.snapshot.name, made[1].0);
            assert_eq!(resolve_id(&repository, &selector).unwrap(), Some(made[1].0));
        } else {
            std::fs::remove_file(&old).unwrap();
        }
        rebuilt(&folder);
        assert!(old.exists() && !new.exists());
        assert_all_restore(&folder, &made);
        assert_clean(&folder.open());
        reclaimed(&folder.open());
    }
}

#[test]
fn index_and_snapshots_both_lost_come_back_from_containers_and_keys() {
    let (folder, made) = lab();
    remove(&folder, "snapshots");
    remove(&folder, "index");
    rebuilt(&folder);
    assert_all_restore(&folder, &made);
    let done = folder.backup(&folder.open());
    assert_eq!(done.report.chunks_new, 0);
    let numbers: Vec<_> = folder
        .open()
        .local()
        .unwrap()
        .snapshots()
        .unwrap()
        .iter()
        .map(|name| name.sequence)
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a number was given twice: {numbers:?}");
    assert_clean(&folder.open());
}

#[test]
fn what_was_forgotten_stays_forgotten() {
    let (folder, mut made) = lab();
    let (forgotten, _) = made.remove(1);
    folder.open().forget(&[forgotten]).unwrap();
    remove(&folder, "snapshots");
    remove(&folder, "index");
    let report = rebuilt(&folder);
    assert_eq!(report.snapshots, 2, "{report:#?}");
    assert!(snapshot(&folder.open(), forgotten).is_err());
    assert_all_restore(&folder, &made);
    // Also after a reclaim has rewritten what says so.
    reclaimed(&folder.open());
    remove(&folder, "snapshots");
    assert_eq!(rebuilt(&folder).snapshots, 2);
    assert_all_restore(&folder, &made);
}

#[test]
fn a_rebuild_of_a_sound_repository_changes_nothing_for_anybody() {
    let (folder, made) = lab();
    let old = folder.open();
    let report = rebuilt(&folder);
    assert_eq!((report.snapshots, report.snapshots_restored), (3, 0));
    assert_all_restore(&folder, &made);
    folder.assert_restores(&old, made[0].0, &made[0].1);
    assert_clean(&old);
    assert_eq!(rebuilt(&folder).objects, report.objects, "twice is as once");
}

#[test]
fn a_wrong_password_rebuilds_nothing() {
    let (folder, _) = lab();
    let before = folder.files();
    let refused =
        pipeline::rebuild::run(folder.storage(), crypto::SlotSecret::Password(b"no"), false);
    assert!(matches!(refused, Err(Error::WrongKey)));
    assert_eq!(folder.files(), before);
}

/// PBS ignored missing chunks for years; here the next backup heals what it can read.
#[test]
fn damaged_bytes_are_left_out_and_the_next_backup_stores_them_again() {
    let (folder, made) = lab();
    let first = folder.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    let path = folder.repository().join(first);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 3;
    bytes[at..at + 64].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    assert!(!checked(&folder.open()).unwrap().damages.is_empty(), "check finds it");

    let report = rebuilt(&folder);
    assert!(!report.damages.is_empty(), "{report:#?}");
    let repository = folder.open();
    let tree = folder.state();
    let done = folder.backup(&repository);
    assert!(done.report.chunks_new > 0, "what was lost is stored again: {:#?}", done.report);
    folder.assert_restores(&repository, done.snapshot, &tree);
    // The last one is of the same tree, so it is whole again too.
    folder.assert_restores(&repository, made[2].0, &made[2].1);
    let again = folder.backup(&repository);
    assert_eq!(again.report.chunks_new, 0, "once is enough");
}

#[test]
fn a_whole_container_gone_is_healed_by_rebuild_and_backup() {
    let (folder, _) = lab();
    for name in folder.files().into_iter().filter(|name| name.ends_with(".ice")) {
        let folder = {
            let copy = folder.copied();
            crate::testkit::copy_tree(&folder.source(), &copy.source());
            copy
        };
        std::fs::remove_file(folder.repository().join(&name)).unwrap();
        rebuilt(&folder);
        let repository = folder.open();
        let tree = folder.state();
        let done = folder.backup(&repository);
        folder.assert_restores(&repository, done.snapshot, &tree);
        let again = folder.backup(&repository);
        folder.assert_restores(&repository, again.snapshot, &tree);
    }
}

/// A write to the wrong place: one container is there twice, and the other is lost. The check asked for a rebuild again
/// and again, which changes nothing.
#[test]
fn a_container_with_the_content_of_another_asks_for_one_rebuild() {
    let (folder, _) = lab();
    let names: Vec<_> = folder.files().into_iter().filter(|name| name.ends_with(".ice")).collect();
    for lost in &names {
        let folder = folder.copied();
        let at = |name: &String| folder.repository().join(name);
        let other = names.iter().find(|name| *name != lost).unwrap();
        std::fs::copy(at(other), at(lost)).unwrap();
        assert!(checked(&folder.open()).unwrap().needs_rebuild, "{lost}");
        rebuilt(&folder);
        let report = checked(&folder.open()).unwrap();
        assert!(!report.damages.is_empty() && !report.needs_rebuild, "{lost}: {report:#?}");
    }
}

/// The state that counted earlier losses is lost itself: what was made between is untrusted.
#[test]
fn a_rebuild_after_the_state_was_lost_distrusts_snapshots_made_since_the_one_before() {
    for is_lease_lost in [false, true] {
        let (folder, _) = lab();
        let lose = || {
            remove(&folder, "index");
            if is_lease_lost {
                std::fs::remove_file(folder.repository().join("lease")).unwrap();
            }
        };
        lose();
        rebuilt(&folder);
        folder.backup(&folder.open());
        lose();
        let first = folder.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
        std::fs::remove_file(folder.repository().join(first)).unwrap();
        rebuilt(&folder);
        let (repository, tree) = (folder.open(), folder.state());
        let done = folder.backup(&repository);
        folder.assert_restores(&repository, done.snapshot, &tree);
    }
}

/// Damage in a tree page as well: the new tree does not build on what is lost.
#[test]
fn after_all_containers_were_damaged_a_backup_makes_a_whole_snapshot() {
    let (folder, _) = lab();
    for name in folder.files().into_iter().filter(|name| name.ends_with(".ice")) {
        let path = folder.repository().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.chunks_mut(4096).for_each(|part| part[part.len() / 2] ^= 0x10);
        std::fs::write(&path, bytes).unwrap();
    }
    rebuilt(&folder);
    let repository = folder.open();
    let tree = folder.state();
    let done = folder.backup(&repository);
    folder.assert_restores(&repository, done.snapshot, &tree);
}

/// A backup on storage that fails at this call, which is made once.
fn fail_backup(folder: &TestFolder, verb: &'static str, prefix: &'static str) {
    let plan = Plan::failing_on(verb, prefix);
    let repository =
        UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
            .unwrap();
    let result = folder.try_backup(&repository);
    assert!(plan.fired() && result.is_err(), "{verb} of {prefix}: {result:?}");
}

/// After a rebuild all that was acknowledged restores, no number was given twice, and check does
/// not speak of a fork.
fn assert_one_history(folder: &TestFolder, made: &[(SnapshotRef, Tree)], what: &str) {
    rebuilt(folder);
    assert_all_restore(folder, made);
    let repository = folder.open();
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
            let (folder, mut made) = lab();
            fail_backup(&folder, verb, prefix);
            assert_eq!(folder.open().local().unwrap().snapshots().unwrap().len(), made.len());
            folder.write("more", b"what the next one has");
            let tree = folder.state();
            made.push((folder.backup(&folder.open()).snapshot, tree));
            assert_clean(&folder.open());
            assert_one_history(&folder, &made, &format!("{verb} of {prefix}"));
        }
    }
}

/// A snapshot file that was lost unnoticed, so that the next backup built on the one before it.
#[test]
fn a_lost_snapshot_that_a_rebuild_brings_back_is_no_fork() {
    let (folder, mut made) = lab();
    let last = folder.files().into_iter().rfind(|name| name.starts_with("snapshots/")).unwrap();
    std::fs::remove_file(folder.repository().join(last)).unwrap();
    folder.write("more", b"what the next one has");
    let tree = folder.state();
    made.push((folder.backup(&folder.open()).snapshot, tree));
    assert_one_history(&folder, &made, "after a lost file");
    assert_eq!(folder.open().local().unwrap().snapshots().unwrap().len(), made.len());
}

/// Whoever shows a client an old state of everything lets it write a second history.
#[test]
fn a_snapshot_of_another_past_is_called_a_fork() {
    let (folder, _) = lab();
    let other = folder.copied();
    let forked = folder.backup(&other.open()).snapshot;
    folder.write("more", b"what only one of them has");
    folder.backup(&folder.open());
    let name = |name: &String| name.contains(&forked.id.to_string());
    let file = other.files().into_iter().find(name).unwrap();
    std::fs::copy(other.repository().join(&file), folder.repository().join(&file)).unwrap();
    let damages = checked(&folder.open()).unwrap().damages;
    assert!(damages.iter().any(|damage| damage.what.contains("fork")), "{damages:?}");
}

#[test]
fn rebuild_killed_at_any_step_is_done_again() {
    let (folder, made) = lab();
    for at in 0.. {
        let copy = folder.copied();
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
    let (folder, made) = lab();
    let first = folder.files().into_iter().find(|name| name.ends_with(".ice")).unwrap();
    let path = folder.repository().join(first);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let target = folder.at("target");
    let (report, heard) =
        restore_with(&folder.open(), made[0].0, b"", &target, &Default::default()).unwrap();
    assert_eq!(report.failed as usize, heard.len(), "{heard:?}");
    assert!(report.failed > 0);
}
