//! Incidents in which others lost data, by their numbers in `docs/TESTING.md`: what happened
//! there must not happen here. Some have longer tests elsewhere; these tell it together.

use crate::testkit::build::{noise, set_mtime, small_tree};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{
    Heard, PASSWORD, TestFolder, Tree, assert_clean, checked, copy_tree, rebuilt, reclaimed,
    snapshot,
};
use pipeline::{Error, UnlockedRepository, reclaim};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::SnapshotRef;

/// A repository of which a third is garbage: two snapshots, one forgotten between them.
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
        for seed in 0..3 {
            folder.write("large", &noise(seed, 150_000));
            // So that some of each container lives.
            folder.write(&format!("kept{seed}"), &noise(50 + seed, 20_000));
            let tree = folder.state();
            made.push((folder.backup(&repository).snapshot, tree));
        }
        let (forgotten, _) = made.remove(1);
        repository.forget(&[forgotten]).unwrap();
        // The next one with the right to write looks what forgetting left; none of that is meant.
        drop(repository.lease("settle").unwrap());
        Self { folder, made }
    }

    fn containers(&self) -> Vec<String> {
        self.folder.files().into_iter().filter(|name| name.ends_with(".ice")).collect()
    }

    /// Reclaim on storage with this plan.
    fn reclaim(&self, plan: &Arc<Plan>) -> pipeline::Result<reclaim::ReclaimReport> {
        let storage = FaultyStorage::new(&self.folder.repository(), plan);
        let options = reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        reclaim::run(&UnlockedRepository::open(storage, PASSWORD)?, &options)
    }

    fn assert_all_restore(&self) {
        let repository = self.folder.open();
        for (name, tree) in &self.made {
            self.folder.assert_restores(&repository, *name, tree);
        }
        assert_clean(&repository);
    }
}

/// Proxmox PSA-2025-00019-1: a snapshot is pruned and collected while a backup builds on it.
#[test]
fn g1_a_snapshot_that_a_running_backup_builds_on_is_not_collected_under_it() {
    let lab = Lab::new();
    let (refused, tries) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (path, base) = (lab.folder.repository(), lab.made[1].0);
    let (refused_there, tries_there) = (refused.clone(), tries.clone());
    // At every operation of the backup, somebody else prunes and collects.
    let plan = Plan::watched(Box::new(move |call| {
        if call.verb == "append" && tries_there.fetch_add(1, Ordering::Relaxed) < 3 {
            let storage = FaultyStorage::new(&path, &Plan::none());
            let other = UnlockedRepository::open(storage, PASSWORD).unwrap();
            let options = reclaim::ReclaimOptions {
                max_waste_percent: 0.0,
                dry_run: false,
                accept_damage: false,
                free_interrupted: false,
            };
            for result in
                [other.forget(&[base]).map(drop), reclaim::run(&other, &options).map(drop)]
            {
                let in_use = matches!(result, Err(Error::Repository(store::Error::InUse { .. })));
                refused_there.fetch_add(usize::from(in_use), Ordering::Relaxed);
            }
        }
    }));
    lab.folder.write("more", &noise(9, 30_000));
    let tree = lab.folder.state();
    let storage = FaultyStorage::new(&lab.folder.repository(), &plan);
    let done = lab.folder.backup(&UnlockedRepository::open(storage, PASSWORD).unwrap());
    let tries = tries.load(Ordering::Relaxed).min(3);
    assert!(tries > 0 && refused.load(Ordering::Relaxed) == 2 * tries);
    lab.folder.assert_restores(&lab.folder.open(), done.snapshot, &tree);
    lab.assert_all_restore();
}

/// Proxmox 1399c592: the disk was full, so marking failed, which was a warning; then all that was
/// not marked was deleted.
#[test]
fn g2_what_cannot_be_marked_is_not_swept() {
    let lab = Lab::new();
    let before = lab.containers();
    for (verb, prefix) in [
        ("open", "containers/"),
        ("length", "containers/"),
        ("open", "snapshots/"),
        ("read", "snapshots/"),
        ("read", "index/run"),
        ("create", "containers/"),
        ("append", "containers/"),
        ("sync", "containers/"),
        ("create", "index/"),
        ("sync", "index/"),
        ("put", "index/state"),
        ("put", "lease"),
    ] {
        let plan = Plan::failing_on(verb, prefix);
        let result = lab.reclaim(&plan);
        assert!(plan.fired(), "{verb} of {prefix} was never called");
        assert!(result.is_err(), "{verb} of {prefix}: {result:?}");
        let left = lab.containers();
        assert!(before.iter().all(|name| left.contains(name)), "{verb} of {prefix}: swept");
    }
    lab.assert_all_restore();
    // What looks for parity does without when it cannot read; what was marked is the same.
    let plan = Plan::failing_on("read", "containers/");
    let result = lab.reclaim(&plan);
    assert!(plan.fired());
    lab.assert_all_restore();
    let freed =
        result.map_or_else(|_| reclaimed(&lab.folder.open()).bytes_freed, |done| done.bytes_freed);
    assert!(freed > 0, "and then it goes on");
    lab.assert_all_restore();
}

/// restic #4612 and #1246: a listing that failed was taken for "no files", and one that was cut
/// for all of them.
#[test]
fn g3_a_list_that_fails_is_not_no_files() {
    let lab = Lab::new();
    let before = lab.containers();
    for directory in ["snapshots", "containers", "containers/00000000", "index", "keys"] {
        let plan = Plan::failing_on("list", directory);
        let result = lab.reclaim(&plan);
        assert!(plan.fired() && result.is_err(), "list of {directory}: {result:?}");
        assert_eq!(lab.containers(), before, "list of {directory}");
    }
    let path = lab.folder.repository();
    std::fs::rename(path.join("snapshots"), path.join("away")).unwrap();
    assert!(lab.reclaim(&Plan::none()).is_err(), "no folder is not an empty one");
    assert_eq!(lab.containers(), before);
    std::fs::rename(path.join("away"), path.join("snapshots")).unwrap();
    lab.assert_all_restore();
}

#[test]
fn g3_a_list_that_lacks_snapshots_costs_no_data() {
    for (lost, is_newest_lost) in [(0..1, false), (1..2, true), (0..2, true)] {
        let lab = Lab::new();
        let names: Vec<_> =
            lab.folder.files().into_iter().filter(|name| name.starts_with("snapshots/")).collect();
        for name in &names[lost.clone()] {
            std::fs::remove_file(lab.folder.repository().join(name)).unwrap();
        }
        let report = lab.reclaim(&Plan::none()).unwrap();
        // The newest was still pending: taking the lease has listed it.
        let found = lost.len() as u64 - u64::from(is_newest_lost);
        assert_eq!(report.snapshots_restored, found);
        lab.assert_all_restore();
    }
}

/// A reclaim that brings back what was lost brings back nothing that was forgotten.
#[test]
fn g3_what_was_forgotten_does_not_come_back() {
    let lab = Lab::new();
    assert_eq!(lab.reclaim(&Plan::none()).unwrap().snapshots_restored, 0);
    assert_eq!(lab.folder.open().local().unwrap().snapshots().unwrap().len(), lab.made.len());
}

/// Proxmox 84466003: a part of the pool was a file system of its own, and not looked into.
#[test]
fn g4_a_part_of_the_pool_that_is_not_mounted_stops_the_collection() {
    let lab = Lab::new();
    let shard = lab.folder.repository().join("containers/00000000");
    let away = lab.folder.repository().join("away");
    std::fs::rename(&shard, &away).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::create_dir(&shard).unwrap();
        }
        let result = lab.reclaim(&Plan::none());
        assert!(result.is_err(), "{result:?}");
        let names = lab.folder.open().local().unwrap().snapshots().unwrap();
        assert_eq!(names.len(), lab.made.len());
    }
    std::fs::remove_dir_all(&shard).unwrap();
    std::fs::rename(&away, &shard).unwrap();
    lab.assert_all_restore();
}

/// restic #2715: a laptop slept, its lock was taken for stale, and it went on when it woke.
#[test]
fn g5_who_lost_the_lease_removes_nothing_more() {
    let lab = Lab::new();
    let before = lab.containers();
    let thief = lab.folder.repository();
    let mut done = false;
    let plan = Plan::watched(Box::new(move |call| {
        if call.verb == "remove" && call.name.ends_with(".ice") && !done {
            panic!("a container was removed before anybody looked at the lease");
        }
        if call.verb == "publish" && call.name == "index/state" && !done {
            done = true;
            let other = TestFolder::new();
            copy_tree(&thief, &other.repository());
            drop(other.open().lease("the thief").unwrap());
            std::fs::copy(other.repository().join("lease"), thief.join("lease")).unwrap();
        }
    }));
    let result = lab.reclaim(&plan);
    let Err(Error::Repository(store::Error::LeaseLost { holder })) = &result else {
        panic!("{result:?}")
    };
    assert!(holder.contains("the thief"), "{holder}");
    let left = lab.containers();
    assert!(before.iter().all(|name| left.contains(name)));
    lab.assert_all_restore();
}

/// borg #9748 and #9904: who had looked at the index before a compaction believed it after.
#[test]
fn g6_what_was_collected_is_stored_again_by_who_knew_it_before() {
    let lab = Lab::new();
    let early = lab.folder.open();
    assert!(early.local().unwrap().index().entries() > 0, "it has seen the index");
    let names: Vec<_> = lab.made.iter().map(|(name, _)| *name).collect();
    let other = lab.folder.open();
    other.forget(&names).unwrap();
    reclaimed(&other);
    let tree = lab.folder.state();
    let done = lab.folder.backup(&early);
    assert!(done.report.chunks_new > 0, "{:#?}", done.report);
    lab.folder.assert_restores(&lab.folder.open(), done.snapshot, &tree);
    assert_clean(&lab.folder.open());
}

/// kopia #1949, #4769, #3563: maintenance was killed, and then files were missing.
#[test]
fn g7_a_collection_that_is_killed_loses_nothing_and_is_done_again() {
    for (verb, prefix) in [
        ("publish", "containers/"),
        ("sync_directory", "snapshots"),
        ("publish", "index/state"),
        ("remove", "containers/"),
        ("remove", "index/run"),
    ] {
        let lab = Lab::new();
        let plan = Plan::failing_on(verb, prefix);
        let result = lab.reclaim(&plan);
        assert!(plan.fired(), "{verb} of {prefix}: {result:?}");
        lab.assert_all_restore();
        reclaimed(&lab.folder.open());
        lab.assert_all_restore();
        assert_eq!(reclaimed(&lab.folder.open()).bytes_freed, 0, "{verb} of {prefix}");
    }
}

/// kopia again: a clock was wrong, and what looked old was deleted.
#[test]
fn g8_no_clock_says_what_is_garbage() {
    let century = 100 * 365 * 86_400;
    for secs in [0, -century, 2 * century, i64::from(i32::MAX)] {
        let lab = Lab::new();
        let age = || {
            for name in lab.folder.files() {
                set_mtime(&lab.folder.repository().join(name), secs, 0);
            }
        };
        age();
        lab.assert_all_restore();
        reclaimed(&lab.folder.open());
        age();
        lab.assert_all_restore();
        let tree = lab.folder.state();
        let done = lab.folder.backup(&lab.folder.open());
        assert_eq!(done.report.chunks_new, 0);
        lab.folder.assert_restores(&lab.folder.open(), done.snapshot, &tree);
    }
}

/// borg 2.0b: a repository that could not be written looked like a file that could not be read;
/// the file was left out, and the backup was reported done.
#[test]
fn g9_a_repository_that_cannot_be_written_is_no_unreadable_file() {
    for (verb, prefix) in [
        ("create", "containers/"),
        ("append", "containers/"),
        ("sync", "index/"),
        ("put", "snapshots/"),
    ] {
        let lab = Lab::new();
        lab.folder.write("new", &noise(8, 60_000));
        let plan = Plan::failing_on(verb, prefix);
        let storage = FaultyStorage::new(&lab.folder.repository(), &plan);
        let (repository, heard) =
            (UnlockedRepository::open(storage, PASSWORD).unwrap(), Heard::default());
        let options = lab.folder.options();
        let result = pipeline::backup::run(&repository, &options, &Default::default(), &heard);
        assert!(plan.fired(), "{verb} of {prefix}");
        assert!(matches!(result, Err(Error::Repository(_))), "{verb} of {prefix}: {result:?}");
        assert_eq!(heard.all(), Vec::<String>::new(), "no file is to blame");
        assert_eq!(repository.local().unwrap().snapshots().unwrap().len(), lab.made.len());
        lab.assert_all_restore();
    }
}

/// Proxmox again: warnings of missing chunks were passed over for years. Here they have a name
/// each, an exit code, and the next backup stores them again.
#[test]
fn g10_what_is_missing_is_named_and_stored_again() {
    let lab = Lab::new();
    let first = lab.containers().remove(0);
    std::fs::remove_file(lab.folder.repository().join(first)).unwrap();
    let damages = checked(&lab.folder.open()).unwrap().damages;
    for (name, _) in &lab.made {
        let of_it = damages.iter().filter(|damage| damage.snapshots.contains(&name.id.to_string()));
        let paths: Vec<_> = of_it.flat_map(|damage| &damage.paths).collect();
        assert!(!paths.is_empty(), "nothing of {} is named: {damages:#?}", name.id);
    }
    rebuilt(&lab.folder);
    let (repository, tree) = (lab.folder.open(), lab.folder.state());
    let done = lab.folder.backup(&repository);
    assert!(done.report.chunks_new > 0, "{:#?}", done.report);
    lab.folder.assert_restores(&repository, done.snapshot, &tree);
    let of_newest = checked(&repository)
        .unwrap()
        .damages
        .into_iter()
        .find(|damage| damage.snapshots.contains(&done.snapshot.id.to_string()));
    assert_eq!(of_newest, None);
    assert!(snapshot(&repository, done.snapshot).is_ok());
}
