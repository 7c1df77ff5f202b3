//! Forgetting and giving space back. Named after the incidents in which others lost data.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{Fault, FaultyStorage, Plan};
use crate::testkit::{PASSWORD, TestFolder, Tree, assert_clean, leftovers, reclaimed, snapshot};
use format::record::RecordKind;
use ids::ObjectId;
use pipeline::UnlockedRepository;
use pipeline::{Error, manifest, reclaim};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use store::SnapshotRef;

struct Lab {
    folder: TestFolder,
    repository: UnlockedRepository,
    made: Vec<(SnapshotRef, Tree)>,
}

impl Lab {
    /// A repository with some generations of a tree, of which each replaces a large file.
    fn with(generations: u64) -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let repository = folder.init();
        let mut lab = Self { folder, repository, made: Vec::new() };
        (1..=generations).for_each(|seed| lab.generation(seed));
        lab
    }

    fn generation(&mut self, seed: u64) {
        self.folder.write("large", &noise(seed, 200_000));
        let tree = self.folder.state();
        self.made.push((self.folder.backup(&self.repository).snapshot, tree));
    }

    fn forget(&mut self, at: usize) {
        let (name, _) = self.made.remove(at);
        self.repository.forget(&[name]).unwrap();
    }

    fn assert_all_restore(&self) {
        let repository = self.folder.open();
        for (name, tree) in &self.made {
            self.folder.assert_restores(&repository, *name, tree);
        }
        assert_clean(&repository);
    }

    fn containers(&self) -> Vec<PathBuf> {
        let names = self.folder.files().into_iter().filter(|name| name.ends_with(".ice"));
        names.map(|name| self.folder.repository().join(name)).collect()
    }
}

fn dry() -> reclaim::ReclaimOptions {
    reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: true,
        accept_damage: false,
        free_interrupted: false,
    }
}

#[test]
fn the_space_of_forgotten_snapshots_comes_back() {
    let mut lab = Lab::with(4);
    let before = lab.folder.bytes();
    lab.forget(0);
    lab.forget(0);
    assert_eq!(lab.repository.local().unwrap().snapshots().unwrap().len(), 2);
    let report = reclaimed(&lab.repository);
    assert!(report.bytes_freed >= 390_000, "{report:#?}");
    assert!(lab.folder.bytes() < before - 390_000, "{} of {before}", lab.folder.bytes());
    lab.assert_all_restore();
    lab.generation(9);
    lab.assert_all_restore();
    assert_eq!(leftovers(&lab.folder), Vec::<String>::new());
}

#[test]
fn a_second_reclaim_does_nothing() {
    let mut lab = Lab::with(3);
    lab.forget(1);
    reclaimed(&lab.repository);
    let before = lab.folder.files();
    let again = reclaimed(&lab.repository);
    assert_eq!(
        (again.bytes_freed, again.bytes_copied, again.containers_removed),
        (0, 0, 0),
        "{again:#?}"
    );
    assert_eq!(lab.folder.files(), before);
}

/// What was gathered for copies that found no room is gathered anew.
#[test]
fn a_reclaim_that_met_a_full_disk_stores_nothing_twice() {
    let mut lab = Lab::with(0);
    // They share blocks, of which a quarter stays.
    (0..80).for_each(|seed| lab.folder.write(&format!("small{seed}"), &noise(seed, 9_000)));
    // Copied as it is, between those: more than is gathered before a write, so that one fails in between.
    lab.folder.write("stays", &noise(99, 20_000_000));
    lab.generation(1);
    let removed = (0..80).filter(|seed| seed % 4 != 0).map(|seed| format!("small{seed}"));
    removed.for_each(|name| std::fs::remove_file(lab.folder.source().join(name)).unwrap());
    lab.generation(2);
    lab.forget(0);
    let (name, tree) = &lab.made[0];
    let bytes_after = |copy: &TestFolder| {
        reclaimed(&copy.open());
        lab.folder.assert_restores(&copy.open(), *name, tree);
        copy.bytes()
    };
    let undisturbed = bytes_after(&lab.folder.copied());
    let mut goes_on = 0;
    for at in 0.. {
        let (copy, plan) = (lab.folder.copied(), Plan::failing(Fault::FullOnce, at));
        let repository =
            UnlockedRepository::open(FaultyStorage::new(&copy.repository(), &plan), PASSWORD);
        let options = reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        goes_on += u32::from(reclaim::run(&repository.unwrap(), &options).is_ok());
        if !plan.fired() {
            break;
        }
        let bytes = bytes_after(&copy);
        assert!(bytes <= undisturbed + 64, "{bytes} bytes, {undisturbed} without, write {at}");
    }
    assert!(goes_on > 4, "{goes_on}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut lab = Lab::with(3);
    lab.forget(0);
    // The lease and what it settles are not what reclaim does.
    lab.repository.lease("settle").unwrap();
    let state = || {
        let names = lab.folder.files().into_iter().filter(|name| name != "lease");
        let read =
            |name: String| (std::fs::read(lab.folder.repository().join(&name)).unwrap(), name);
        names.map(read).collect::<Vec<_>>()
    };
    let before = state();
    let report = reclaim::run(&lab.repository, &dry()).unwrap();
    assert!(report.bytes_freed > 0 && report.dry_run, "{report:#?}");
    assert!(state() == before, "something was written");
    lab.assert_all_restore();
}

#[test]
fn everything_forgotten_leaves_next_to_nothing() {
    let mut lab = Lab::with(2);
    lab.forget(0);
    lab.forget(0);
    reclaimed(&lab.repository);
    assert!(
        lab.folder.bytes() < 20_000,
        "{} bytes in {:?}",
        lab.folder.bytes(),
        lab.folder.files()
    );
    lab.generation(3);
    lab.assert_all_restore();
}

#[test]
fn nothing_to_forget_is_fine_and_a_forgotten_one_is_gone() {
    let mut lab = Lab::with(1);
    lab.repository.forget(&[]).unwrap();
    let name = lab.made[0].0;
    lab.forget(0);
    let gone = snapshot(&lab.repository, name);
    assert!(matches!(gone, Err(Error::Repository(store::Error::SnapshotMissing(_)))), "{gone:?}");
}

#[test]
fn a_backup_after_forgetting_all_builds_on_what_is_still_there() {
    let mut lab = Lab::with(1);
    lab.forget(0);
    let tree = lab.folder.state();
    let done = lab.folder.backup(&lab.repository);
    assert_eq!(done.report.chunks_new, 0, "{:#?}", done.report);
    lab.made.push((done.snapshot, tree));
    reclaimed(&lab.repository);
    lab.assert_all_restore();
}

/// The repository's chunks and pages, as its index has them.
fn some_chunk(repository: &UnlockedRepository, name: SnapshotRef) -> ObjectId {
    let root = snapshot(repository, name).unwrap().head.root;
    let pages = pipeline::pages::PageReader::new(repository).unwrap();
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        let page = tree::PageSource::get(&pages, &id).unwrap();
        if let Some(chunk) = page.refs.iter().find(|id| !id.is_page()) {
            return *chunk;
        }
        stack.extend(page.refs.iter().filter(|id| id.is_page()));
    }
    panic!("the snapshot has no chunk");
}

fn sealer(repository: &UnlockedRepository) -> seal::Sealer {
    seal::Sealer::new(&repository.keys.writer, [7; 80], crypto::Cipher::fastest())
}

/// PBS PSA-2025-00019-1: the collector looked at a list of snapshots while a backup built on one
/// that was pruned meanwhile.
#[test]
fn gc_versus_running_backup_keeps_what_was_promised() {
    let mut lab = Lab::with(2);
    let chunk = some_chunk(&lab.repository, lab.made[1].0);
    let lease = lab.repository.lease("backup and reclaim").unwrap();
    let local = lab.repository.local().unwrap().clone();
    let sealer = sealer(&lab.repository);
    let session = local.begin(&lease, None, sealer.session_record()).unwrap();
    assert!(!session.claim(&chunk).unwrap(), "it is there");

    let names: Vec<_> = lab.made.drain(..).map(|(name, _)| name).collect();
    forget_under(&lab.repository, &lease, &names);
    let options = repository::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    repository::reclaim::run(&local, &lease, options, None).unwrap();

    let mut bytes = Vec::new();
    let folder = local.fetch(&chunk, &mut bytes).unwrap();
    assert!(format::record::verify(&bytes).is_ok(), "{folder:?}");
    assert!(!session.claim(&chunk).unwrap(), "what was promised goes on to be there");
    drop(session);
    drop(lease);
    reclaimed(&lab.repository);
    let gone = lab.repository.local().unwrap().fetch(&chunk, &mut bytes);
    assert!(matches!(gone, Err(repository::Error::ObjectMissing(_))), "{gone:?}");
}

/// As `UnlockedRepository::forget` does it, under a lease that somebody has.
fn forget_under(
    repository: &UnlockedRepository,
    lease: &repository::lease::Lease,
    names: &[SnapshotRef],
) {
    let sealer = sealer(repository);
    let mut packer = seal::BlockCompressor::new(seal::Level::Fixed(1)).unwrap();
    // Signed: a reclaim brings back what nobody forgot who may.
    let mut clear = repository.slot.id.0.to_vec();
    clear.extend(names.iter().flat_map(|name| name.id.0));
    let repository_id = repository.local().unwrap().config().repository;
    let message = [&b"icecore 2026 tombstone v1"[..], &repository_id.0, &clear].concat();
    clear.extend_from_slice(&repository.keys.writer.sign(&message).unwrap());
    let tombstone = sealer.seal_single(RecordKind::Tombstone, &clear, b"", &mut packer).unwrap();
    repository.local().unwrap().forget(lease, names, &sealer.session_record(), &tombstone).unwrap();
}

/// The tree that a session builds on outlives its snapshot.
#[test]
fn gc_keeps_the_tree_that_a_running_backup_builds_on() {
    let mut lab = Lab::with(1);
    let (name, _) = lab.made.remove(0);
    let root = snapshot(&lab.repository, name).unwrap().head.root;
    let chunk = some_chunk(&lab.repository, name);
    let lease = lab.repository.lease("backup and reclaim").unwrap();
    let local = lab.repository.local().unwrap().clone();
    let record = sealer(&lab.repository).session_record();
    let session = local.begin(&lease, Some(name), record).unwrap();
    forget_under(&lab.repository, &lease, &[name]);
    let options = repository::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    repository::reclaim::run(&local, &lease, options, None).unwrap();
    let mut bytes = Vec::new();
    assert!(local.fetch(&root, &mut bytes).is_ok());
    assert!(local.fetch(&chunk, &mut bytes).is_ok());
    assert!(session.is_stored(&chunk).unwrap());
}

/// Between the choice of a snapshot to build on and the beginning, it may be forgotten, and what it
/// held be gone.
#[test]
fn no_session_builds_on_a_snapshot_that_was_forgotten() {
    let mut lab = Lab::with(1);
    let (name, _) = lab.made.remove(0);
    let lease = lab.repository.lease("backup and forget").unwrap();
    forget_under(&lab.repository, &lease, &[name]);
    let record = sealer(&lab.repository).session_record();
    let begun = lab.repository.local().unwrap().begin(&lease, Some(name), record);
    assert!(matches!(begun, Err(repository::Error::SnapshotMissing(_))), "it is gone");
}

/// What a session told another before a reclaim is asked anew: what is condemned is not promised.
#[test]
fn what_reclaim_removed_is_stored_again_by_a_session_that_ran_meanwhile() {
    let mut lab = Lab::with(1);
    let (name, tree) = lab.made.remove(0);
    let chunk = some_chunk(&lab.repository, name);
    let lease = lab.repository.lease("both").unwrap();
    let local = lab.repository.local().unwrap().clone();
    let session = local.begin(&lease, None, sealer(&lab.repository).session_record()).unwrap();
    forget_under(&lab.repository, &lease, &[name]);
    let options = repository::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    repository::reclaim::run(&local, &lease, options, None).unwrap();
    assert!(session.claim(&chunk).unwrap(), "it is gone and has to be stored");
    drop((session, lease));
    let done = lab.folder.backup(&lab.repository);
    lab.made.push((done.snapshot, tree));
    lab.assert_all_restore();
}

/// What refuses deletes nothing: neither now nor by half.
fn assert_refuses(lab: &Lab, what: &str) {
    let before = lab.folder.files();
    let options = reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    let refused = reclaim::run(&lab.folder.open(), &options);
    assert!(refused.is_err(), "{what}: {refused:?}");
    let after = lab.folder.files();
    let gone: Vec<_> =
        before.iter().filter(|name| name.ends_with(".ice") && !after.contains(name)).collect();
    assert!(gone.is_empty(), "{what}: {gone:?} were deleted");
}

/// PBS 1399c592: an error while marking was only a warning, and live chunks were deleted.
#[test]
fn gc_with_a_container_that_is_gone_refuses_and_deletes_nothing() {
    for at in 0..4 {
        let mut lab = Lab::with(4);
        lab.forget(1);
        std::fs::rename(&lab.containers()[at], lab.folder.at("away")).unwrap();
        let options = reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        let before = lab.containers();
        // The one of the forgotten snapshot may be missed by nobody.
        if reclaim::run(&lab.folder.open(), &options).is_err() {
            assert_eq!(lab.containers(), before, "refused, and deleted");
        } else {
            let repository = lab.folder.open();
            lab.made
                .iter()
                .for_each(|(name, tree)| lab.folder.assert_restores(&repository, *name, tree));
        }
    }
}

/// restic #4612: a listing that failed looked like "no snapshots".
#[test]
fn gc_with_an_unreadable_snapshot_refuses_and_deletes_nothing() {
    let garbled = |bytes: &mut Vec<u8>| bytes[100] ^= 1;
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(50);
    let emptied = |bytes: &mut Vec<u8>| bytes.clear();
    for damage in [&garbled as &dyn Fn(&mut Vec<u8>), &cut, &emptied] {
        let mut lab = Lab::with(3);
        lab.forget(0);
        let name =
            lab.folder.files().into_iter().find(|name| name.starts_with("snapshots/")).unwrap();
        let path = lab.folder.repository().join(&name);
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        assert_refuses(&lab, &name);
    }
}

#[test]
fn gc_without_a_list_of_snapshots_refuses_and_deletes_nothing() {
    let lab = Lab::with(2);
    std::fs::remove_dir_all(lab.folder.repository().join("snapshots")).unwrap();
    assert_refuses(&lab, "no snapshots/");
}

#[test]
fn gc_with_a_flipped_bit_in_a_page_refuses_and_deletes_nothing() {
    for at in 0..3 {
        let mut lab = Lab::with(3);
        lab.forget(0);
        let path = lab.containers()[at].clone();
        // Pages stand behind the chunks: the last quarter is theirs and the manifest's.
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].chunks_mut(512).for_each(|part| part[0] ^= 1);
        std::fs::write(&path, bytes).unwrap();
        let before = lab.containers();
        let options = reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        if reclaim::run(&lab.folder.open(), &options).is_err() {
            assert_eq!(lab.containers(), before);
        } else {
            // Only the forgotten one may have concerned nobody.
            lab.assert_all_restore();
        }
    }
}

/// Borg #9748: caches went on to claim what compact had deleted.
#[test]
fn an_archive_that_was_opened_before_a_reclaim_still_reads_and_writes() {
    let mut lab = Lab::with(3);
    let old = lab.folder.open();
    lab.forget(0);
    reclaimed(&lab.folder.open());
    for (name, tree) in &lab.made {
        lab.folder.assert_restores(&old, *name, tree);
    }
    lab.folder.write("large", &noise(1, 200_000));
    let tree = lab.folder.state();
    let done = lab.folder.backup(&old);
    lab.folder.assert_restores(&old, done.snapshot, &tree);
    lab.assert_all_restore();
}

#[test]
fn many_small_containers_are_put_together() {
    let lab = Lab::with(12);
    let before = lab.containers().len();
    reclaimed(&lab.repository);
    assert!(lab.containers().len() < before, "{before} containers stay");
    lab.assert_all_restore();
}

/// Freeing space takes some first. What was used of it, or a crash removed, the next backup keeps again.
#[test]
fn every_backup_keeps_room_for_a_full_disk() {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    assert!(repository.local().unwrap().release_reserve().unwrap());
    folder.backup(&repository);
    let kept = std::fs::metadata(folder.repository().join("reserve/space")).unwrap();
    assert!(kept.blocks() * 512 >= 4 << 20, "{kept:?}");
}

/// Seen: what a restore did not find any more was called damage.
#[test]
fn a_snapshot_that_was_forgotten_is_gone_and_no_other() {
    let folder = TestFolder::new();
    folder.write("file", b"content");
    let repository = folder.init();
    let [first, second] = [(); 2].map(|()| folder.backup(&repository).snapshot);
    let [gone, there] = [first, second].map(|name| snapshot(&repository, name).unwrap());
    assert!(!manifest::is_gone(&repository, &gone));
    repository.forget(&[first]).unwrap();
    assert!(manifest::is_gone(&repository, &gone) && !manifest::is_gone(&repository, &there));
    std::fs::rename(folder.repository().join("snapshots"), folder.at("away")).unwrap();
    assert!(!manifest::is_gone(&repository, &gone), "nobody knows");
}
