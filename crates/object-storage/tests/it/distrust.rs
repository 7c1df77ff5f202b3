//! What this machine keeps of a container that was damaged, and is whole again.

use crate::contract::in_memory;
use crate::engine::begun;
use format::record::verify;
use ids::RecordLocation;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use repository::Repository;
use std::sync::Arc;
use stored::chunk;

/// A process that keeps what it reads in `folder`.
fn reader(store: &Arc<InMemory>, folder: &std::path::Path) -> Repository {
    let mut storage = in_memory(store);
    storage.keep_in(folder);
    Repository::open(Arc::new(storage)).unwrap()
}

/// The first container, with a wrong byte at `at`; what was there before.
fn damage(store: &InMemory, at: usize) -> Vec<u8> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let before = runtime.block_on(async { store.get(&path()).await.unwrap().bytes().await });
    let before = before.unwrap().to_vec();
    let mut damaged = before.clone();
    damaged[at] ^= 1;
    put(store, damaged);
    before
}

fn put(store: &InMemory, bytes: Vec<u8>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.put(&path(), PutPayload::from(bytes))).unwrap();
}

fn path() -> Path {
    Path::from("some/prefix/containers/00000000/0000000001.ice")
}

fn fetched(repository: &Repository) -> (RecordLocation, Vec<u8>) {
    let mut buffer = Vec::new();
    let location = repository.fetch(&chunk(1), &mut buffer).unwrap();
    (location, buffer)
}

/// A repair writes a container under the same name, and whoever keeps an object's versions puts an older one back.
#[test]
fn a_container_that_was_repaired_is_read_afresh() {
    let (store, folder) = (Arc::default(), tempfile::tempdir().unwrap());
    begun(&store);
    let (location, _) = fetched(&Repository::open(Arc::new(in_memory(&store))).unwrap());
    assert_eq!(location.container.0, 1);
    let whole = damage(&store, location.offset as usize + 50);
    let (_, damaged) = fetched(&reader(&store, folder.path()));
    assert!(verify(&damaged).is_err());
    put(&store, whole);
    let repository = reader(&store, folder.path());
    let (_, mut kept) = fetched(&repository);
    assert!(verify(&kept).is_err(), "this machine keeps what was damaged");
    assert!(repository.heal(location, &mut kept));
    verify(&kept).unwrap();
    assert_eq!(repository.healed(), [], "nothing in the bucket is damaged");
    // And what is right is kept.
    let (_, again) = fetched(&reader(&store, folder.path()));
    verify(&again).unwrap();
}
