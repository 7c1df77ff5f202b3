//! Checkpoints of sessions, and what interrupted sessions leave to the next ones.

use ids::ObjectId;
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::reclaim::{self, ReclaimOptions};
use repository::session::{CheckpointLimits, Session};
use repository::storage::{StorageError, StorageResult};
use repository::{Error as Failed, Repository};
use std::io::{Error, ErrorKind};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stored::*;

/// Nothing makes a checkpoint by itself but so many ids.
fn at_ids(ids: usize) -> CheckpointLimits {
    CheckpointLimits { ids, bytes: u64::MAX, every: Duration::MAX }
}

fn begin(repository: &Arc<Repository>, lease: &Arc<Lease>) -> Session {
    repository.begin(lease, None, session_record()).unwrap()
}

fn append(session: &Session, numbers: RangeInclusive<u16>, bytes: usize) {
    for n in numbers {
        assert!(session.claim(&chunk(n)).unwrap(), "{n} is stored already");
        session.append(&data(n, bytes)).unwrap();
    }
}

/// How many of the chunks the session would have to store.
fn missing(session: &Session, numbers: RangeInclusive<u16>) -> usize {
    numbers.filter(|n| !session.is_stored(&chunk(*n)).unwrap()).count()
}

fn chunks(numbers: RangeInclusive<u16>) -> Vec<ObjectId> {
    numbers.map(chunk).collect()
}

#[test]
fn a_session_gives_its_memory_back_and_leaves_few_runs() {
    let (folder, repository, lease) = made();
    repository.make_containers_small(5_000);
    repository.make_checkpoints_at(at_ids(10));
    let session = begin(&repository, &lease);
    append(&session, 1..=500, 400);
    assert!(runs(folder.path()) <= 5, "{}", runs(folder.path()));
    let found = repository.index().find_many(&chunks(1..=450)).unwrap();
    assert!(found.iter().all(Option::is_some), "the index has what is durable");
    for n in 1..=500 {
        assert!(!session.claim(&chunk(n)).unwrap(), "{n} would be stored twice");
    }
    assert!(session.claim(&page(1)).unwrap());
    session.append(&leaf(1, &chunks(1..=500))).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    assert!(reopened(folder.path()).is_complete(page(1)).unwrap());
}

#[test]
fn another_session_finds_what_a_checkpoint_holds_and_relies_on_it() {
    let (folder, repository, lease) = made();
    let first = begin(&repository, &lease);
    append(&first, 1..=3, 1000);
    let second = begin(&repository, &lease);
    assert_eq!(missing(&second, 1..=3), 3, "nothing of it is durable");
    first.checkpoint().unwrap();
    assert_eq!(missing(&second, 1..=3), 0);
    assert!(second.claim(&page(1)).unwrap());
    second.append(&leaf(1, &chunks(1..=3))).unwrap();
    drop(first);
    let sequence = second.next_snapshot();
    second.commit(&manifest(page(1), sequence)).unwrap();
    let free = ReclaimOptions { free_interrupted: true, ..OPTIONS };
    for _ in 0..2 {
        reclaim::run(&repository, &lease, free, None).unwrap();
    }
    let repository = reopened(folder.path());
    for id in chunks(1..=3) {
        repository.fetch(&id, &mut Vec::new()).unwrap();
    }
}

/// On a server the lease does not change hands while anybody has a session.
#[test]
fn what_an_interrupted_session_stored_is_found_while_another_one_is_open() {
    let (folder, repository, lease) = made();
    let open = begin(&repository, &lease);
    append(&open, 200..=200, 1000);
    let session = begin(&repository, &lease);
    append(&session, 1..=9, 9 << 20);
    drop(session);
    let next = begin(&repository, &lease);
    assert_eq!(missing(&next, 1..=9), 0);
    assert_eq!(missing(&next, 200..=200), 1);
    let unfinished = files(folder.path());
    let unfinished = unfinished.iter().filter(|path| path.extension().unwrap() == "part").count();
    assert_eq!(unfinished, 1, "of the session that is open");
}

#[test]
fn reclaim_leaves_what_an_interrupted_session_stored_until_it_has_done_so_three_times() {
    let (folder, repository, lease) = made();
    let session = begin(&repository, &lease);
    append(&session, 1..=9, 9 << 20);
    let left = killed_here(&folder);
    drop((session, repository, lease, folder));
    let nightly = || {
        let repository = reopened(left.path());
        let lease = repository.lease("nightly").unwrap();
        reclaim::run(&repository, &lease, OPTIONS, None).unwrap()
    };
    for _ in 0..2 {
        let outcome = nightly();
        assert!(outcome.bytes_freed == 0 && outcome.bytes_interrupted > 80 << 20, "{outcome:?}");
        assert_eq!(outcome.bytes_wasted, outcome.bytes_interrupted);
    }
    // It is interrupted once more: everything begins anew.
    let repository = reopened(left.path());
    let lease = repository.lease("again").unwrap();
    let session = begin(&repository, &lease);
    assert_eq!(missing(&session, 1..=9), 0, "what was stored is stored");
    append(&session, 10..=10, 1000);
    drop((session, repository, lease));
    for _ in 0..3 {
        assert_eq!(nightly().bytes_freed, 0);
    }
    let outcome = nightly();
    assert!(outcome.bytes_freed > 80 << 20 && outcome.bytes_interrupted == 0, "{outcome:?}");
}

#[test]
fn a_session_that_commits_keeps_nothing_of_an_interrupted_one_alive() {
    let (_folder, repository, lease) = made();
    let session = begin(&repository, &lease);
    append(&session, 1..=10, 9 << 20);
    drop(session);
    let mut freed = Vec::new();
    for night in 0..5 {
        let session = begin(&repository, &lease);
        assert!(session.is_stored(&chunk(1)).unwrap());
        session.checkpoint().unwrap();
        let n = 100 + night;
        for record in [data(n, 100), leaf(n, &[chunk(n), chunk(1)])] {
            record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
            session.append(&record).unwrap();
            session.checkpoint().unwrap();
        }
        let sequence = session.next_snapshot();
        session.commit(&manifest(page(n), sequence)).unwrap();
        freed.push(reclaim::run(&repository, &lease, OPTIONS, None).unwrap().bytes_freed >> 20);
    }
    assert_eq!(freed[..3], [0, 0, 0], "the next run of the interrupted one may need it");
    assert!(freed[3] > 70, "{freed:?}");
}

#[test]
fn reclaim_frees_what_interrupted_sessions_stored_when_it_is_told_to() {
    let (_folder, repository, lease) = made();
    let session = begin(&repository, &lease);
    append(&session, 1..=9, 9 << 20);
    drop(session);
    assert_eq!(reclaim::run(&repository, &lease, OPTIONS, None).unwrap().bytes_freed, 0);
    let free = ReclaimOptions { free_interrupted: true, ..OPTIONS };
    let outcome = reclaim::run(&repository, &lease, free, None).unwrap();
    assert!(outcome.bytes_freed > 80 << 20, "{outcome:?}");
}

#[test]
fn what_a_session_stored_that_committed_is_not_kept() {
    let (_folder, repository, lease) = made();
    let session = begin(&repository, &lease);
    append(&session, 1..=9, 9 << 20);
    session.checkpoint().unwrap();
    assert!(session.claim(&page(1)).unwrap());
    session.append(&leaf(1, &chunks(1..=1))).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    let outcome = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(outcome.bytes_freed > 70 << 20 && outcome.bytes_interrupted == 0, "{outcome:?}");
}

/// A session whose checkpoint failed may be committed all the same: nothing of it is missing then.
#[test]
fn what_a_failed_checkpoint_did_not_publish_is_in_the_commit() {
    let (folder, repository, lease) = made();
    drop((repository, lease));
    let (storage, repository) = Watched::new(folder.path());
    let lease = repository.lease("test").unwrap();
    let session = begin(&repository, &lease);
    append(&session, 1..=3, 1000);
    for name in ["index/run-", "index/state"] {
        *storage.fails.lock().unwrap() = Some(name.to_owned());
        assert!(matches!(session.checkpoint(), Err(Failed::Storage(_))), "{name}");
        *storage.fails.lock().unwrap() = None;
    }
    assert!(!session.claim(&chunk(1)).unwrap(), "it would be stored twice");
    assert!(session.claim(&page(1)).unwrap());
    session.append(&leaf(1, &chunks(1..=3))).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    assert!(reopened(folder.path()).is_complete(page(1)).unwrap());
}

#[test]
fn a_killed_session_costs_the_next_one_only_what_came_after_its_checkpoint() {
    let (folder, repository, lease) = made();
    repository.make_containers_small(3_000);
    let session = begin(&repository, &lease);
    append(&session, 1..=60, 1000);
    session.checkpoint().unwrap();
    append(&session, 61..=66, 1000);
    let left = killed_here(&folder);
    drop((session, repository, lease));
    let (storage, repository) = Watched::new(left.path());
    let lease = repository.lease("next").unwrap();
    let opened = storage.opened.load(Ordering::Relaxed);
    assert!((1..=12).contains(&opened), "{opened} containers were opened");
    assert_eq!(missing(&begin(&repository, &lease), 1..=66), 0);
}

/// Whatever a killed session left, its recovery holds no more than so many ids at a time, and goes on where it was.
#[test]
fn a_recovery_that_is_interrupted_goes_on_where_it_was() {
    let (folder, repository, lease) = made();
    repository.make_containers_small(3_000);
    let session = begin(&repository, &lease);
    append(&session, 1..=90, 1000);
    let left = killed_here(&folder);
    drop((session, repository, lease));
    let recovered = |fails: Option<String>| {
        let (storage, repository) = Watched::new(left.path());
        repository.make_checkpoints_at(at_ids(10));
        *storage.fails.lock().unwrap() = fails;
        let lease = repository.lease("next");
        (storage.opened.load(Ordering::Relaxed), lease.map(|lease| (repository, lease)))
    };
    let in_the_middle = files(left.path())[20].strip_prefix(left.path()).unwrap().to_owned();
    let (before, failed) = recovered(Some(in_the_middle.to_str().unwrap().to_owned()));
    assert!(failed.is_err(), "a container could not be read");
    let (after, settled) = recovered(None);
    // Each of the 30 containers is opened twice.
    assert!(before == 40 && after < 30, "{before}, then {after}");
    let (repository, lease) = settled.unwrap();
    assert_eq!(missing(&begin(&repository, &lease), 1..=90), 0);
    assert!(runs(left.path()) <= 4, "{}", runs(left.path()));
}

/// What makes containers durable meets the full disk while the session still writes: the cause is told, and what nobody
/// will use leaves the disk.
#[test]
fn a_disk_that_fills_up_behind_the_session_is_told_as_full() {
    let (folder, repository, lease) = made();
    drop((repository, lease));
    let (storage, repository) = Watched::new(folder.path());
    repository.make_containers_small(5_000);
    let lease = repository.lease("test").unwrap();
    storage.is_full.store(true, Ordering::Relaxed);
    let session = begin(&repository, &lease);
    let mut stored = 0;
    while storage.refused.load(Ordering::Relaxed) == 0 {
        stored += 1;
        append(&session, stored..=stored, 1000);
    }
    // What the commit finds is a container that nobody waits for any more.
    append(&session, stored + 1..=stored + 1, 1000);
    assert!(session.claim(&page(1)).unwrap());
    session.append(&leaf(1, &chunks(1..=stored + 1))).unwrap();
    let sequence = session.next_snapshot();
    let error = session.commit(&manifest(page(1), sequence)).expect_err("the disk is full");
    assert!(error.is_full(), "{error}");
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new(), "they fill the disk");
}

/// A folder that counts the containers that are opened, fails at the files that begin with a name, and may have no room
/// for containers to be published.
#[derive(Default)]
struct Watched {
    opened: AtomicUsize,
    fails: Mutex<Option<String>>,
    is_full: AtomicBool,
    refused: AtomicUsize,
}

impl Watched {
    /// What it says, and the repository in `folder` as seen through it.
    fn new(folder: &std::path::Path) -> (Arc<Self>, Arc<Repository>) {
        let watched = Arc::new(Self::default());
        let hooks = watched.clone();
        let inner = Arc::new(LocalStorage::open(folder).unwrap());
        let storage = Before::each(inner, move |verb, name| hooks.meets(verb, name));
        (watched, Arc::new(Repository::open(storage).unwrap()))
    }

    fn meets(&self, verb: &str, name: &str) -> StorageResult<()> {
        let is_container = name.starts_with("containers/");
        let fails = self.fails.lock().unwrap();
        if matches!(verb, "open" | "create" | "put")
            && fails.as_ref().is_some_and(|start| name.starts_with(start))
        {
            return Err(StorageError::new("use", name, Error::other("it does not work")));
        }
        self.opened.fetch_add(usize::from(verb == "open" && is_container), Ordering::Relaxed);
        if verb != "publish" || !is_container || !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(StorageError::new("publish", name, ErrorKind::StorageFull))
    }
}
