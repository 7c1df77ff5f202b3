//! Copies: what arrives, what a copy that is interrupted leaves, and what the first place keeps for it meanwhile.

use ids::{ContainerNo, ObjectId};
use repository::Repository;
use repository::copy::{self, CopyOutcome, CopyTo};
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::readers::ReaderPin;
use repository::reclaim;
use repository::session::CheckpointLimits;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::watch::{Unwatched, Watch};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stored::*;

/// Watches a copy, and does something once so many bytes were copied.
struct After<'a> {
    bytes: u64,
    moved: AtomicU64,
    work: Box<dyn Fn() -> bool + Sync + 'a>,
}

impl<'a> After<'a> {
    fn new(bytes: u64, work: impl Fn() -> bool + Sync + 'a) -> Self {
        Self { bytes, moved: AtomicU64::new(0), work: Box::new(work) }
    }
}

impl Watch for After<'_> {
    fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        self.moved.load(Ordering::Relaxed) < self.bytes || (self.work)()
    }

    fn stage(&self, _: &str) {}
}

/// An empty repository like the first one.
fn second() -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    let (folder, target, lease) = made();
    target.make_containers_small(5_000);
    target.make_checkpoints_at(CheckpointLimits { ids: 4, bytes: u64::MAX, every: Duration::MAX });
    (folder, target, lease)
}

fn copied(
    source: &Arc<Repository>,
    target: (&Arc<Repository>, &Arc<Lease>),
    names: &[SnapshotRef],
    watch: &dyn Watch,
) -> CopyOutcome {
    copy::run(source, CopyTo::Repository(target.0, target.1), names, false, watch).unwrap()
}

fn has_all(folder: &Path, numbers: &[u16]) -> bool {
    let repository = reopened(folder);
    numbers.iter().all(|n| repository.is_complete(page(*n)).unwrap())
}

/// The first of the file of container `at` that holds what `n` was stored with is flipped.
fn damage(folder: &Path, n: u16) {
    let file = files(folder).into_iter().find(|file| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(64).any(|window| window == [n as u8; 64])
    });
    let file = file.unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(64).position(|window| window == [n as u8; 64]).unwrap();
    bytes[at + 30] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_copy_has_the_same_snapshots_and_all_that_they_need() {
    let (_first, source, lease) = made();
    let names: Vec<_> = (1..=5).map(|n| store(&source, &lease, n, 2_000)).collect();
    let (folder, target, target_lease) = second();
    let done = copied(&source, (&target, &target_lease), &names[..4], &Unwatched);
    assert_eq!((done.snapshots.len(), done.objects, done.lost_objects), (4, 8, 0));
    let again = copied(&source, (&target, &target_lease), &names[4..], &Unwatched);
    assert_eq!((again.objects, again.records), (2, 2), "only what is not there");
    drop((target, target_lease));
    let target = reopened(folder.path());
    assert_eq!(target.snapshots().unwrap(), names);
    let next = target.lease("test").unwrap();
    let session = target.begin(&next, None, session_record()).unwrap();
    assert_eq!(session.next_snapshot(), names[4].sequence + 1, "no number is given twice");
    drop((session, next));
    for name in &names {
        let bytes = |of: &Repository| of.snapshot(*name).unwrap().to_bytes();
        assert_eq!(bytes(&target), bytes(&source));
    }
    assert!(has_all(folder.path(), &[1, 2, 3, 4, 5]));
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let (_, _, found) = repository::rebuild::rebuild(&storage, "test").unwrap();
    assert_eq!((found.manifests.len(), found.damages.len()), (5, 0), "as a rebuild finds it");
}

#[test]
fn a_copy_that_is_interrupted_goes_on_where_it_ended() {
    let (_first, source, lease) = made();
    let names: Vec<_> = (1..=20).map(|n| store(&source, &lease, n, 2_000)).collect();
    let (folder, target, target_lease) = second();
    let stop = After::new(20_000, || false);
    let done = copied(&source, (&target, &target_lease), &names, &stop);
    assert!(done.is_interrupted && done.snapshots.is_empty(), "{done:?}");
    assert!(reopened(folder.path()).snapshots().unwrap().is_empty());
    let left = copied(&source, (&target, &target_lease), &names, &Unwatched);
    assert!(left.bytes + 15_000 < done.bytes + left.bytes, "what is durable stays: {left:?}");
    assert_eq!(left.objects + done.objects, 40 + (done.objects - done.records), "{left:?}");
    drop((target, target_lease));
    assert!(has_all(folder.path(), &(1..=20).collect::<Vec<_>>()));
}

#[test]
fn a_copier_that_is_killed_leaves_what_the_next_one_finds() {
    let (_first, source, lease) = made();
    let names: Vec<_> = (1..=20).map(|n| store(&source, &lease, n, 2_000)).collect();
    let (folder, target, target_lease) = second();
    let left = std::sync::Mutex::new(None);
    let kill = After::new(25_000, || {
        left.lock().unwrap().get_or_insert_with(|| killed_here(&folder));
        true
    });
    copied(&source, (&target, &target_lease), &names, &kill);
    drop(kill);
    let folder = left.into_inner().unwrap().unwrap();
    let target = reopened(folder.path());
    assert!(target.snapshots().unwrap().is_empty(), "none appears before it is whole");
    let target_lease = target.lease("test").unwrap();
    let done = copied(&source, (&target, &target_lease), &names, &Unwatched);
    assert!(done.records < 34, "{done:?}");
    drop((target, target_lease));
    assert_eq!(reopened(folder.path()).snapshots().unwrap(), names);
    assert!(has_all(folder.path(), &(1..=20).collect::<Vec<_>>()));
}

#[test]
fn a_damaged_record_is_refused_by_its_object_and_its_neighbors_are_copied() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=3).map(|n| store(&source, &lease, n, 2_000)).collect();
    drop((source, lease));
    damage(first.path(), 2);
    let source = reopened(first.path());
    let (folder, target, target_lease) = second();
    let done = copied(&source, (&target, &target_lease), &names, &Unwatched);
    assert_eq!(done.snapshots, [names[0], names[2]]);
    assert_eq!((done.lost[0].id, done.lost_objects), (chunk(2), 1), "{done:?}");
    assert_eq!(done.left_out[0].0, names[1].id);
    let to = CopyTo::Repository(&target, &target_lease);
    let done = copy::run(&source, to, &names[1..2], true, &Unwatched).unwrap();
    assert_eq!(done.snapshots, [names[1]], "who asks for it gets the rest");
    assert!(target.damage_epoch() > source.damage_epoch(), "a backup to it looks for the rest");
    drop((target, target_lease));
    assert!(has_all(folder.path(), &[1, 3]) && !has_all(folder.path(), &[2]));
}

/// Forgets `name` in another process, and reclaims there. Returns whether `id` is still stored.
fn outlives_a_reclaim(folder: &Path, name: Option<SnapshotRef>, id: ObjectId) -> bool {
    let other = reopened(folder);
    let lease = other.lease("another process").unwrap();
    if let Some(name) = name {
        other.forget(&lease, &[name], &session_record(), &tombstone()).unwrap();
    }
    reclaim::run(&other, &lease, OPTIONS, None).unwrap();
    other.index().find(&id).unwrap().is_some()
}

#[test]
fn a_reclaim_of_another_process_leaves_what_a_copy_reads() {
    let (folder, source, lease) = made();
    let [name, _] = [1, 2].map(|n| store(&source, &lease, n, 9 << 20));
    drop(lease);
    let pin = ReaderPin::new(&source, vec![page(1)]);
    assert!(pin.is_seen_elsewhere());
    assert!(outlives_a_reclaim(folder.path(), Some(name), chunk(1)), "it is being read");
    drop(pin);
    assert!(!outlives_a_reclaim(folder.path(), None, chunk(1)), "nobody reads it any more");
}

/// A copy has read the snapshot, and before its pin was there somebody forgot it and reclaimed.
#[test]
fn a_pin_of_a_tree_that_is_gone_stops_no_reclaim() {
    let (folder, source, lease) = made();
    let [name, other] = [1, 2].map(|n| store(&source, &lease, n, 9 << 20));
    drop(lease);
    assert!(!outlives_a_reclaim(folder.path(), Some(name), chunk(1)));
    let pin = ReaderPin::new(&source, vec![page(1)]);
    assert!(!outlives_a_reclaim(folder.path(), Some(other), chunk(2)), "the pin is of another");
    drop(pin);
}

#[test]
fn a_reader_that_died_pins_nothing() {
    let (folder, source, lease) = made();
    let [name, _] = [1, 2].map(|n| store(&source, &lease, n, 9 << 20));
    drop(lease);
    let pin = ReaderPin::new(&source, vec![page(1)]);
    let left = killed_here(&folder);
    drop(pin);
    assert!(!outlives_a_reclaim(left.path(), Some(name), chunk(1)));
    let files = std::fs::read_dir(left.path().join("readers")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.ends_with(".lock")), "its pin is removed");
}

#[test]
fn what_a_reclaim_moves_while_it_is_copied_arrives() {
    let (first, source, lease) = made();
    let mut names = Vec::new();
    for n in (1..=20).step_by(2) {
        let session = source.begin(&lease, None, session_record()).unwrap();
        for n in [n, n + 1] {
            for record in [data(n, 60_000), leaf(n, &[chunk(n)])] {
                record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
                session.append(&record).unwrap();
            }
        }
        let sequence = session.next_snapshot();
        names.push(session.commit(&manifest(page(n), sequence)).unwrap().snapshot);
    }
    drop(lease);
    let once = std::sync::Once::new();
    let moves = After::new(200_000, || {
        // Half of each container is garbage.
        once.call_once(|| assert!(outlives_a_reclaim(first.path(), None, chunk(1))));
        true
    });
    let (folder, target, target_lease) = second();
    let done = copied(&source, (&target, &target_lease), &names, &moves);
    assert!(once.is_completed());
    assert_eq!((done.snapshots.len(), done.lost_objects), (10, 0), "{done:?}");
    drop((target, target_lease));
    assert!(has_all(folder.path(), &(1..=20).step_by(2).collect::<Vec<_>>()));
}

/// Both session records of the first container are damaged, and no snapshot is left that has them.
fn lose_the_key(source: &Repository, lease: &Lease, folder: &Path, names: &[SnapshotRef]) {
    source.forget(lease, names, &session_record(), &tombstone()).unwrap();
    let file = &files(folder)[0];
    let (mut bytes, key) = (std::fs::read(file).unwrap(), session_record().to_bytes());
    let places = 0..bytes.len() - key.len();
    let places: Vec<_> = places.filter(|at| bytes[*at..].starts_with(&key)).collect();
    assert_eq!(places.len(), 2);
    places.iter().for_each(|at| bytes[at + key.len() - 1] ^= 1);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn records_whose_key_is_lost_come_from_a_copy_or_stay() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=2).map(|n| store(&source, &lease, n, 2_000)).collect();
    let (_second, target, target_lease) = second();
    copied(&source, (&target, &target_lease), &names, &Unwatched);
    lose_the_key(&source, &lease, first.path(), &names);
    drop((source, lease, target_lease));
    let source = reopened(first.path());
    let lease = source.lease("test").unwrap();
    let healed = copy::heal(&source, &lease, &[], &Unwatched).unwrap();
    assert_eq!((healed.containers.len(), healed.lost_objects), (0, 2), "{healed:?}");
    source.read(source.index().find(&chunk(1)).unwrap().unwrap(), &mut Vec::new()).unwrap();
    let healed = copy::heal(&source, &lease, &[target], &Unwatched).unwrap();
    assert_eq!(healed.containers, [(ContainerNo(1), 2)], "{healed:?}");
    drop((source, lease));
    assert!(has_all(first.path(), &[1, 2]));
}

#[test]
fn what_is_damaged_or_gone_is_healed_from_a_copy_and_the_rest_stays() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=6).map(|n| store(&source, &lease, n, 2_000)).collect();
    source.forget(&lease, &names[..1], &session_record(), &tombstone()).unwrap();
    let (_second, target, target_lease) = second();
    copied(&source, (&target, &target_lease), &names[1..], &Unwatched);
    drop((source, lease, target_lease));
    damage(first.path(), 3);
    let gone = files(first.path()).into_iter().nth(4).unwrap();
    std::fs::remove_file(gone).unwrap();
    let snapshot = first.path().join(names[1].path());
    std::fs::write(snapshot, b"damaged").unwrap();
    assert!(!has_all(first.path(), &[3]) || !has_all(first.path(), &[5]));
    let source = reopened(first.path());
    let lease = source.lease("test").unwrap();
    let healed = copy::heal(&source, &lease, &[target], &Unwatched).unwrap();
    assert_eq!((healed.containers.len(), healed.lost_objects), (2, 0), "{healed:?}");
    assert_eq!(healed.snapshots, [names[1]]);
    drop((source, lease));
    assert!(has_all(first.path(), &[2, 3, 4, 5, 6]));
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(first.path()).unwrap());
    let (rebuilt, _, found) = repository::rebuild::rebuild(&storage, "test").unwrap();
    assert_eq!((found.damages.len(), found.tombstones.len()), (0, 1), "{found:?}");
    let mut ids: Vec<_> = found.manifests.iter().map(|manifest| manifest.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "as a rebuild finds it");
    assert!((2..=6).all(|n| rebuilt.is_complete(page(n)).unwrap()));
}

#[test]
fn a_session_goes_on_to_rely_on_what_is_healed_beside_it() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=3).map(|n| store(&source, &lease, n, 2_000)).collect();
    let (_second, target, target_lease) = second();
    copied(&source, (&target, &target_lease), &names, &Unwatched);
    damage(first.path(), 2);
    let session = source.begin(&lease, None, session_record()).unwrap();
    for id in [chunk(2), page(2)] {
        assert!(session.is_stored(&id).unwrap(), "nobody has read it yet");
    }
    let broken = [ContainerNo(2)].into();
    let healed = copy::heal_containers(&source, &lease, &[target], broken, &Unwatched).unwrap();
    assert_eq!((healed.containers.len(), healed.lost_objects), (1, 0), "{healed:?}");
    source.forget(&lease, &names[1..2], &session_record(), &tombstone()).unwrap();
    reclaim::run(&source, &lease, OPTIONS, None).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(2), sequence)).unwrap();
    drop((source, lease));
    assert!(has_all(first.path(), &[1, 2, 3]));
}
