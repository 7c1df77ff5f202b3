//! Repositories that move into a bucket and out of it, with a fault at each request.

use crate::stormy::{FAULTS, Fault, Stormy};
use object_storage::{Client, ObjectStorage};
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use repository::lease::{LOCK, Lease};
use repository::local::LocalStorage;
use repository::moving::{Move, Moved, lacks};
use repository::storage::{Storage, StorageError, read_small};
use repository::watch::Unwatched;
use repository::{Error, Repository, config};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stored::{Before, made, page, reopened, store};

const DOMAIN: &str = "pool/domains/web";

/// The place of a domain in a bucket, as one process sees it.
fn opened(bucket: Arc<dyn ObjectStore>) -> Result<ObjectStorage, StorageError> {
    let client = Client::new(bucket.clone(), bucket, DOMAIN, "s3://memory/pool/domains/web")?;
    let mut storage = ObjectStorage::open(client)?;
    storage.take_over_after(Duration::from_millis(20));
    storage.read_no_runs();
    Ok(storage)
}

/// As a mover does it, in a bucket in which it may have been killed before.
fn copied(
    source: &Repository,
    lease: &Lease,
    bucket: Arc<dyn ObjectStore>,
) -> repository::Result<Moved> {
    let target = opened(bucket)?;
    let Some(_lock) = target.try_lock(LOCK)? else { panic!("nobody else writes") };
    target.remove_config()?;
    let copy = Move::new(source, &target, &Unwatched);
    let (beside, rest) = (copy.beside()?, copy.rest(lease)?);
    assert!(target.still_writes()?);
    let (files, bytes) = (beside.files + rest.files, beside.bytes + rest.bytes);
    Ok(Moved { files, bytes, is_interrupted: false })
}

/// What is a repository has all that the source has; the second of the two files of its config may be still to come.
fn is_whole(source: &dyn Storage, target: &dyn Storage) -> bool {
    let lacking = lacks(source, target).unwrap();
    lacking.is_none_or(|name| name == "config.copy")
}

/// The bucket's repository moves to a new directory.
fn brought_back(bucket: &Arc<InMemory>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = Repository::open(Arc::new(opened(bucket.clone()).unwrap())).unwrap();
    let lease = source.lease("mover").unwrap();
    let target = LocalStorage::open(folder.path()).unwrap();
    let copy = Move::new(&source, &target, &Unwatched);
    copy.beside().unwrap();
    copy.rest(&lease).unwrap();
    assert_eq!(lacks(&**source.storage(), &target).unwrap(), None);
    folder
}

/// What a move takes along, but for the lease, which each writer replaces.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if name != "reserve" => folders.push(path),
                false if !["lock", "lease"].contains(&&*name) => {
                    found.insert(name, std::fs::read(path).unwrap());
                }
                _ => {}
            }
        }
    }
    found
}

fn keys(bucket: &Arc<InMemory>) -> Vec<String> {
    use futures_util::StreamExt;
    let listed = futures_util::future::ready(bucket.list(None));
    let all =
        async move { listed.await.map(|meta| meta.unwrap().location.to_string()).collect().await };
    let mut keys: Vec<String> =
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(all);
    keys.sort();
    keys
}

fn with_snapshots() -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    let (folder, source, lease) = made();
    (1..=3).for_each(|n| _ = store(&source, &lease, n, 3_000));
    (folder, source, lease)
}

#[test]
fn what_moved_through_a_bucket_is_the_same_file_by_file_and_goes_on() {
    let (folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    let first = copied(&source, &lease, bucket.clone()).unwrap();
    let again = copied(&source, &lease, bucket.clone()).unwrap();
    assert!(again.bytes < first.bytes - 9_000, "what is there is not copied again: {again:?}");
    let back = brought_back(&bucket);
    assert_eq!(content(back.path()), content(folder.path()));

    let there = Arc::new(Repository::open(Arc::new(opened(bucket.clone()).unwrap())).unwrap());
    let writer = there.lease("writer").unwrap();
    assert!(writer.generation() > lease.generation(), "no number of a run is given twice");
    store(&there, &writer, 4, 3_000);
    drop((there, writer));
    let folder = brought_back(&bucket);
    let back = reopened(folder.path());
    assert!((1..=4).all(|n| back.is_complete(page(n)).unwrap()));
}

#[test]
fn a_move_into_a_bucket_that_fails_at_any_request_is_done_by_the_next() {
    let (folder, source, lease) = with_snapshots();
    for fault in FAULTS {
        for at in 0.. {
            let bucket = Arc::new(InMemory::new());
            let stormy = Stormy::new(&bucket);
            stormy.arm(at, fault);
            let first = copied(&source, &lease, stormy.clone());
            let has_fired = stormy.disarm();
            stormy.kill();
            let there = opened(bucket.clone()).unwrap();
            match Repository::open(Arc::new(opened(bucket.clone()).unwrap())) {
                Ok(_) => assert!(is_whole(&**source.storage(), &there), "{fault:?} at {at}"),
                Err(Error::NoRepository { .. }) => assert!(first.is_err()),
                Err(error) => panic!("{fault:?} at {at}: {error}"),
            }
            if first.is_err() {
                copied(&source, &lease, bucket.clone()).unwrap();
            }
            let back = brought_back(&bucket);
            assert_eq!(content(back.path()), content(folder.path()), "{fault:?} at {at}");
            if !has_fired {
                assert!(at > 30, "only {at} requests");
                break;
            }
        }
    }
}

#[test]
fn a_move_out_of_a_bucket_that_fails_at_any_request_is_done_by_the_next() {
    let (folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    for fault in FAULTS {
        for at in 0.. {
            let stormy = Stormy::new(&bucket);
            stormy.arm(at, fault);
            let target = tempfile::tempdir().unwrap();
            let moved = moved_out(stormy.clone(), target.path());
            let has_fired = stormy.disarm();
            stormy.kill();
            if moved.is_err() {
                let there = LocalStorage::open(target.path()).unwrap();
                let is_there = config::exists(&there).unwrap();
                assert!(!is_there || is_whole(&**source.storage(), &there), "{fault:?} at {at}");
                moved_out(bucket.clone(), target.path()).unwrap();
            }
            assert_eq!(content(target.path()), content(folder.path()), "{fault:?} at {at}");
            if !has_fired {
                assert!(at > 15, "only {at} requests");
                break;
            }
        }
    }
}

fn moved_out(bucket: Arc<dyn ObjectStore>, folder: &Path) -> repository::Result<()> {
    let source = Repository::open(Arc::new(opened(bucket)?))?;
    let lease = source.lease("mover")?;
    let target = LocalStorage::open(folder)?;
    let copy = Move::new(&source, &target, &Unwatched);
    copy.beside()?;
    copy.rest(&lease).map(drop)
}

#[test]
fn what_is_removed_with_a_fault_at_any_request_is_whole_or_no_repository() {
    let (_folder, source, lease) = with_snapshots();
    for fault in FAULTS {
        for at in 0.. {
            let bucket = Arc::new(InMemory::new());
            copied(&source, &lease, bucket.clone()).unwrap();
            let stormy = Stormy::new(&bucket);
            let there = opened(stormy.clone()).unwrap();
            stormy.arm(at, fault);
            let removed = there.remove_objects();
            let has_fired = stormy.disarm();
            stormy.kill();
            if removed.is_err() {
                let left = opened(bucket.clone()).unwrap();
                if config::exists(&left).unwrap() {
                    assert_eq!(lacks(&**source.storage(), &left).unwrap(), None, "{at}");
                }
                left.remove_objects().unwrap();
            }
            assert_eq!(keys(&bucket), [""; 0], "{fault:?} at {at}");
            if !has_fired {
                assert!(at > 4, "only {at} requests");
                break;
            }
        }
    }
}

#[test]
fn what_the_storage_does_not_remove_is_named_and_is_no_repository() {
    let (_folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    let stormy = Stormy::new(&bucket);
    stormy.keep("README");
    let error = opened(stormy.clone()).unwrap().remove_objects().unwrap_err();
    assert!(error.name == "README" && error.to_string().contains("not allowed"), "{error}");
    assert!(!config::exists(&opened(bucket.clone()).unwrap()).unwrap());
    // The config itself: nothing else goes.
    copied(&source, &lease, bucket.clone()).unwrap();
    stormy.keep("config");
    let error = opened(stormy.clone()).unwrap().remove_objects().unwrap_err();
    assert!(error.name.starts_with("config"), "{error}");
    assert_eq!(lacks(&**source.storage(), &opened(bucket.clone()).unwrap()).unwrap(), None);
    let error = copied(&source, &lease, stormy).unwrap_err();
    assert!(error.to_string().contains("config"), "{error}");
}

#[test]
fn a_mover_that_was_overtaken_in_its_target_sees_it() {
    let (_folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    let target = opened(bucket.clone()).unwrap();
    assert!(!target.still_writes().unwrap(), "it has no lease");
    let _lock = target.try_lock(LOCK).unwrap().unwrap();
    let copy = Move::new(&source, &target, &Unwatched);
    copy.beside().unwrap();
    assert!(target.still_writes().unwrap());
    // As if its process stood still for a minute: its beats are those of a thread of this one.
    let other = Client::new(bucket.clone(), bucket.clone(), DOMAIN, "s3://memory").unwrap();
    let mut other = ObjectStorage::open(other).unwrap();
    other.take_over_after(Duration::ZERO);
    let _taken = other.try_lock(LOCK).unwrap().unwrap();
    assert!(!target.still_writes().unwrap());
    assert!(copy.rest(&lease).is_err(), "it writes no state any more");
}

/// Not into a repository that is whole, and not into what nobody looks for.
#[test]
fn damage_moves_as_it_is_and_is_healed_there() {
    let (folder, source, lease) = with_snapshots();
    let container = stored::files(folder.path()).remove(0);
    let good = std::fs::read(&container).unwrap();
    let mut bad = good.clone();
    bad[900] ^= 1;
    std::fs::write(&container, &bad).unwrap();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    assert_eq!(content(brought_back(&bucket).path()), content(folder.path()));
    // A repair, in the bucket and in a source that is still being copied.
    let name = container.strip_prefix(folder.path()).unwrap().to_str().unwrap();
    std::fs::write(&container, &good[..good.len() / 2]).unwrap();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    std::fs::write(&container, &good).unwrap();
    copied(&source, &lease, bucket.clone()).unwrap();
    let there = opened(bucket.clone()).unwrap();
    assert!(read_small(&there, name, 1 << 20).unwrap() == good, "it has its whole length now");
    assert_eq!(content(brought_back(&bucket).path()), content(folder.path()));
}

#[test]
fn an_object_of_the_bucket_that_is_damaged_arrives_as_it_is() {
    let (folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    let row = format!("{DOMAIN}/keys/list");
    let lists = keys(&bucket).into_iter().filter(|key| key.starts_with(&*row));
    let put = |key: &str| {
        let key = Key::from(key);
        let put = bucket.put(&key, b"rubbish".to_vec().into());
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(put).unwrap();
    };
    lists.for_each(|key| put(&key));
    put(&format!("{DOMAIN}/README"));
    let back = brought_back(&bucket);
    let (here, there) = (content(folder.path()), content(back.path()));
    assert_eq!(here.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
    for name in here.keys() {
        let is_damaged = name == "README" || name.starts_with("keys/list");
        assert_eq!(there[name] == b"rubbish", is_damaged, "{name}");
    }
}

#[test]
fn a_container_that_vanishes_from_the_bucket_while_it_is_copied_is_left_out() {
    let (_folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    let (inner, last) = (bucket.clone(), "0000000001.ice");
    let vanishing = Before::each(Arc::new(opened(bucket.clone()).unwrap()), move |verb, name| {
        if verb == "open" && name.ends_with(last) {
            let key = Key::from(format!("{DOMAIN}/{name}"));
            let removed = inner.delete(&key);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(removed);
        }
        Ok(())
    });
    let source = Repository::open(vanishing).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = LocalStorage::open(folder.path()).unwrap();
    let moved = Move::new(&source, &target, &Unwatched).beside().unwrap();
    assert!(moved.files > 3);
    let files: Vec<_> = content(folder.path()).into_keys().collect();
    assert!(files.iter().all(|name| !name.contains(last)), "no part of it either: {files:?}");
}

#[test]
fn the_length_of_an_object_is_told_without_reading_it() {
    let (_folder, source, lease) = with_snapshots();
    let bucket = Arc::new(InMemory::new());
    copied(&source, &lease, bucket.clone()).unwrap();
    let stormy = Stormy::new(&bucket);
    let there = opened(stormy.clone()).unwrap();
    let containers = there.list("containers/00000000").unwrap();
    let snapshots = there.list("snapshots").unwrap();
    there.length(&format!("snapshots/{}", snapshots[0])).unwrap();
    stormy.arm(0, Fault::Unavailable);
    for (directory, names) in [("containers/00000000", containers), ("snapshots", snapshots)] {
        for name in names {
            let name = format!("{directory}/{name}");
            assert_eq!(there.length(&name).unwrap(), source.storage().length(&name).unwrap());
        }
    }
    assert!(!stormy.disarm(), "no request was sent");
    let absent = there.length("containers/00000000/00000000ff.ice").unwrap_err();
    assert_eq!(absent.source.kind(), ErrorKind::NotFound);
}
