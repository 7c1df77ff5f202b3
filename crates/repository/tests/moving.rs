//! Moves: the target is what the source was, whatever happened on the copy.

use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::moving::{Move, Moved, lacks};
use repository::reclaim;
use repository::storage::{Storage, StorageError};
use repository::watch::{Unwatched, Watch};
use repository::{Error, Repository};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stored::*;

/// The files that a move takes along, by name.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if name != "reserve" => folders.push(path),
                false if name != "lock" => drop(found.insert(name, std::fs::read(path).unwrap())),
                _ => {}
            }
        }
    }
    found
}

fn local(folder: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(folder).unwrap())
}

fn moved(source: &Repository, lease: &Lease, target: &dyn Storage) -> repository::Result<Moved> {
    let copy = Move::new(source, target, &Unwatched);
    copy.beside()?;
    copy.rest(lease)
}

#[test]
fn the_target_has_every_file_of_the_source_and_goes_on_as_it() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=5).map(|n| store(&source, &lease, n, 2_000)).collect();
    let left = ["containers/00000000/0000000009.part", "index/spill-2-reclaim-1"];
    left.iter().for_each(|name| std::fs::write(first.path().join(name), "left").unwrap());
    let second = tempfile::tempdir().unwrap();
    moved(&source, &lease, &*local(second.path())).unwrap();
    left.iter().for_each(|name| std::fs::remove_file(first.path().join(name)).unwrap());
    assert_eq!(content(second.path()), content(first.path()));
    assert!(second.path().join("reserve/space").exists(), "room for a full disk");
    drop((source, lease));
    let target = reopened(second.path());
    let lease = target.lease("test").unwrap();
    assert_eq!(store(&target, &lease, 6, 2_000).sequence, names[4].sequence + 1);
    assert!((1..=6).all(|n| target.is_complete(page(n)).unwrap()));
}

#[test]
fn what_comes_and_goes_beside_it_comes_and_goes() {
    let (first, source, lease) = made();
    let names: Vec<_> = (1..=3).map(|n| store(&source, &lease, n, 70_000)).collect();
    let second = tempfile::tempdir().unwrap();
    let target = local(second.path());
    let copy = Move::new(&source, &*target, &Unwatched);
    assert!(copy.beside().unwrap().files > 0);
    assert_eq!(copy.beside().unwrap(), Moved::default(), "nothing is copied twice");
    assert_eq!(lacks(&*local(first.path()), &*target).unwrap().as_deref(), Some("README"));
    source.forget(&lease, &names[..1], &session_record(), &tombstone()).unwrap();
    reclaim::run(&source, &lease, OPTIONS, None).unwrap();
    store(&source, &lease, 4, 70_000);
    copy.rest(&lease).unwrap();
    assert_eq!(content(second.path()), content(first.path()));
    assert_eq!(lacks(&*local(first.path()), &*target).unwrap(), None);
}

#[test]
fn one_that_fails_anywhere_is_done_by_the_next() {
    let (first, source, lease) = made();
    (1..=4).for_each(|n| _ = store(&source, &lease, n, 3_000));
    for at in 0.. {
        let second = tempfile::tempdir().unwrap();
        let calls = AtomicU64::new(0);
        let fails = Before::each(local(second.path()), move |verb, name| {
            let is_it = calls.fetch_add(1, Ordering::Relaxed) == at;
            let error = || StorageError::new(verb, name, io::Error::other("broken"));
            if is_it { Err(error()) } else { Ok(()) }
        });
        let failed = moved(&source, &lease, &*fails);
        if let Err(error) = &failed {
            assert!(error.to_string().contains(&*second.path().to_string_lossy()), "{error}");
            moved(&source, &lease, &*local(second.path())).unwrap();
        }
        assert_eq!(content(second.path()), content(first.path()), "call {at}");
        if failed.is_ok() {
            // What is made for itself may fail, and it is made by the next writer.
            assert!(at > 50, "only {at} calls");
            break;
        }
    }
}

/// Ends a move after so many files.
struct Files(AtomicU64);

impl Watch for Files {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    fn stage(&self, _: &str) {}
}

#[test]
fn one_that_is_told_to_end_says_that_it_is_not_done() {
    let (_first, source, lease) = made();
    (1..=4).for_each(|n| _ = store(&source, &lease, n, 3_000));
    let second = tempfile::tempdir().unwrap();
    let target = local(second.path());
    let ends = |files| Files(AtomicU64::new(files));
    let done = Move::new(&source, &*target, &ends(2)).beside().unwrap();
    assert_eq!((done.files, done.is_interrupted), (2, true));
    assert!(Move::new(&source, &*target, &ends(3)).rest(&lease).unwrap().is_interrupted);
    assert!(!moved(&source, &lease, &*target).unwrap().is_interrupted);
}

#[test]
fn what_reads_differently_from_what_was_written_is_damage() {
    let (first, source, lease) = made();
    store(&source, &lease, 1, 3_000);
    let second = tempfile::tempdir().unwrap();
    let path = second.path().to_owned();
    let rots = Before::each(local(second.path()), move |verb, name| {
        // It is opened to be compared.
        if verb == "open" && name.ends_with(".ice.new") {
            let mut bytes = std::fs::read(path.join(name)).unwrap();
            bytes[700] ^= 1;
            std::fs::write(path.join(name), bytes).unwrap();
        }
        Ok(())
    });
    let error = Move::new(&source, &*rots, &Unwatched).beside().unwrap_err();
    assert!(matches!(&error, Error::Damaged { name, .. } if name.ends_with(".ice")), "{error}");
    assert!(files(second.path()).iter().all(|file| file.extension().unwrap() == "new"));
    moved(&source, &lease, &*local(second.path())).unwrap();
    assert_eq!(content(second.path()), content(first.path()), "the next move copies it again");
}

#[test]
fn who_lost_the_lease_moves_nothing_more() {
    let (first, source, lease) = made();
    store(&source, &lease, 1, 3_000);
    let second = tempfile::tempdir().unwrap();
    let target = local(second.path());
    // As a network file system does it: the lock is given to another one.
    std::fs::remove_file(first.path().join("lock")).unwrap();
    let _other = reopened(first.path()).lease("another").unwrap();
    let copy = Move::new(&source, &*target, &Unwatched);
    assert!(matches!(copy.rest(&lease), Err(Error::LeaseLost { .. })));
}
