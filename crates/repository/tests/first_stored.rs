//! Two sessions may store one object: both were told that it is new. What is published first counts. Else a node that
//! waits until another has stored what it guessed replaces it.

use ids::RecordLocation;
use repository::Repository;
use repository::copy::{self, CopyTo};
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::reclaim;
use repository::session::Session;
use repository::watch::Unwatched;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use stored::*;

/// What the victim stores, which no record of the other is as long as.
const BIG: usize = 100_000;

/// A session that has claimed chunk 1 and not stored it.
fn claimed(repository: &Arc<Repository>, lease: &Arc<Lease>) -> Session {
    let session = repository.begin(lease, None, session_record()).unwrap();
    assert!(session.claim(&chunk(1)).unwrap());
    session
}

/// Stores something else as chunk 1, and what a snapshot of page 2 needs.
fn stores(session: &Session) {
    session.append(&data(1, 10)).unwrap();
    for record in [data(2, 10), leaf(2, &[chunk(1), chunk(2)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
}

fn commits(session: Session) {
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(2), sequence)).unwrap();
}

fn store_beside(repository: &Arc<Repository>, lease: &Arc<Lease>, n: u16) {
    store(repository, lease, n, BIG);
}

fn location(repository: &Repository) -> RecordLocation {
    repository.index().find(&chunk(1)).unwrap().unwrap()
}

fn is_the_first(repository: &Repository) -> bool {
    let mut bytes = Vec::new();
    repository.fetch(&chunk(1), &mut bytes).unwrap();
    bytes.len() > BIG
}

/// Seen: the index named what was published last, and the snapshot of the victim had lost its chunk.
#[test]
fn a_commit_replaces_nothing_that_was_stored_meanwhile() {
    let (_folder, repository, lease) = made();
    let late = claimed(&repository, &lease);
    store(&repository, &lease, 1, BIG);
    let before = location(&repository);
    stores(&late);
    commits(late);
    assert_eq!(location(&repository), before);
    // Both need it now, and each alone.
    for _ in 0..2 {
        let oldest = repository.snapshots().unwrap().remove(0);
        assert!(is_the_first(&repository) && repository.is_complete(page(2)).unwrap());
        repository.forget(&lease, &[oldest], &session_record(), &tombstone()).unwrap();
        reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    }
    assert_eq!(repository.index().find(&chunk(1)).unwrap(), None, "nobody needs it");
}

#[test]
fn neither_does_a_checkpoint_nor_the_end_of_a_session() {
    for makes_checkpoint in [true, false] {
        let (_folder, repository, lease) = made();
        let late = claimed(&repository, &lease);
        store(&repository, &lease, 1, BIG);
        let before = location(&repository);
        stores(&late);
        if makes_checkpoint {
            late.checkpoint().unwrap();
            assert_eq!(location(&repository), before);
            assert!(!late.claim(&chunk(1)).unwrap() && !late.claim(&chunk(2)).unwrap());
            commits(late);
        } else {
            drop(late);
        }
        assert_eq!(location(&repository), before);
        assert!(repository.index().find(&chunk(2)).unwrap().is_some(), "what is new is kept");
        assert!(is_the_first(&repository));
    }
}

/// What happens once, when the next run is written.
type Interlude = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// The repository in `folder`, and its interlude.
fn interrupted(folder: &Path) -> (Arc<Repository>, Arc<Lease>, Interlude) {
    let interlude = Interlude::default();
    let hook = interlude.clone();
    let inner = Arc::new(LocalStorage::open(folder).unwrap());
    let storage = Before::each(inner, move |verb, name| {
        let is_run = verb == "create" && name.starts_with("index/run-");
        let next = is_run.then(|| hook.lock().unwrap_or_else(PoisonError::into_inner).take());
        next.flatten().into_iter().for_each(|happens| happens());
        Ok(())
    });
    let repository = Arc::new(Repository::open(storage).unwrap());
    let lease = repository.lease("test").unwrap();
    (repository, lease, interlude)
}

/// The session of the victim begins and ends between the last look and the commit lock.
#[test]
fn neither_does_a_commit_that_is_overtaken_after_its_look() {
    let (folder, repository, lease) = made();
    drop((repository, lease));
    let (repository, lease, overtaken) = interrupted(folder.path());
    let late = claimed(&repository, &lease);
    stores(&late);
    let (victims, held) = (repository.clone(), lease.clone());
    *overtaken.lock().unwrap() = Some(Box::new(move || store_beside(&victims, &held, 1)));
    commits(late);
    assert!(overtaken.lock().unwrap().is_none(), "the victim was there");
    assert!(is_the_first(&repository) && repository.is_complete(page(2)).unwrap());
    assert_eq!(runs(folder.path()), 2, "those of the two commits");
}

/// What was claimed since its container is lost must be found where it is stored now.
#[test]
fn what_is_lost_is_found_where_it_was_stored_again() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    files(folder.path()).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let again = claimed(&repository, &lease);
    // The index is merged meanwhile, so that what it knew before is in a run that is new.
    (3..7).for_each(|n| store_beside(&repository, &lease, n));
    stores(&again);
    commits(again);
    assert!(repository.is_complete(page(2)).unwrap() && !is_the_first(&repository));
}

/// A container that was cut short has what lies before the cut, and nothing behind it: also for who has relied on it.
#[test]
fn what_lies_behind_a_cut_is_stored_again_and_found_there() {
    let (folder, repository, lease) = made();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    for record in [data(1, BIG), data(3, BIG), leaf(1, &[chunk(1), chunk(3)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    let behind = repository.index().find(&chunk(3)).unwrap().unwrap();
    drop((repository, lease));
    let file = std::fs::File::options().write(true).open(&files(folder.path())[0]).unwrap();
    file.set_len(u64::from(behind.offset) + 10).unwrap();
    let repository = reopened(folder.path());
    let lease = repository.lease("test").unwrap();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(!session.claim(&chunk(1)).unwrap(), "it is there");
    assert!(session.claim(&chunk(3)).unwrap(), "it is not");
    session.append(&data(3, BIG)).unwrap();
    session.checkpoint().unwrap();
    assert_ne!(repository.index().find(&chunk(3)).unwrap(), Some(behind));
    assert!(is_the_first(&repository), "what lies before the cut");
}

/// Whoever claims may meet an error of the disk that is over when it publishes.
#[test]
fn what_seemed_lost_when_it_was_claimed_stays_where_it_is() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    drop((repository, lease));
    let repository = reopened(folder.path());
    let lease = repository.lease("test").unwrap();
    let before = location(&repository);
    let file = files(folder.path()).remove(0);
    let flip = || {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[3] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    };
    flip();
    let late = claimed(&repository, &lease);
    flip();
    stores(&late);
    commits(late);
    assert_eq!(location(&repository), before);
    assert!(is_the_first(&repository));
}

/// A heal removes what it has moved, so that the index must not go on to name it.
#[test]
fn a_heal_moves_everything_while_the_index_is_merged() {
    let (folder, repository, lease) = made();
    let name = store(&repository, &lease, 1, BIG);
    let (_second, copy, copying) = made();
    copy::run(&repository, CopyTo::Repository(&copy, &copying), &[name], false, &Unwatched)
        .unwrap();
    drop((repository, lease));
    let file = files(folder.path()).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (repository, lease, interlude) = interrupted(folder.path());
    let (others, held) = (repository.clone(), lease.clone());
    *interlude.lock().unwrap() =
        Some(Box::new(move || (3..7).for_each(|n| store_beside(&others, &held, n))));
    let healed = copy::heal(&repository, &lease, &[copy], &Unwatched).unwrap();
    assert_eq!((healed.containers.len(), healed.lost_objects), (1, 0), "{healed:?}");
    assert!(interlude.lock().unwrap().is_none() && !file.exists());
    assert!(is_the_first(&repository) && repository.is_complete(page(1)).unwrap());
}

/// Each of many sessions at a time stores the same: whoever has seen one location finds it for ever.
#[test]
fn of_many_at_a_time_the_first_counts() {
    let (_folder, repository, lease) = made();
    let all: Vec<_> = (0..8).map(|_| claimed(&repository, &lease)).collect();
    let seen: Vec<_> = std::thread::scope(|scope| {
        let threads = (20..).zip(all).map(|(n, session)| {
            let repository = &repository;
            scope.spawn(move || {
                session.append(&data(1, 10 + usize::from(n))).unwrap();
                let root = leaf(n, &[chunk(1)]);
                assert!(session.claim(&root.ids[0]).unwrap());
                session.append(&root).unwrap();
                let sequence = session.next_snapshot();
                session.commit(&manifest(page(n), sequence)).unwrap();
                location(repository)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|it| *it == location(&repository)), "{seen:?}");
}
