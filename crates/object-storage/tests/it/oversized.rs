//! Objects of somebody who does not keep to the format.

use crate::contract::in_memory;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use repository::storage::Storage;
use std::io::ErrorKind;
use std::sync::Arc;

fn put(store: &InMemory, name: &str, length: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let path = Path::from(format!("some/prefix/{name}"));
    runtime.block_on(store.put(&path, PutPayload::from(vec![0; length]))).unwrap();
}

#[test]
fn an_object_that_is_too_large_is_not_read_into_memory() {
    const MAX: usize = 32 << 20;
    let store = Arc::default();
    put(&store, "keys/large", MAX);
    put(&store, "keys/larger", MAX + 1);
    let storage = in_memory(&store);
    assert_eq!(storage.open("keys/large").unwrap().length().unwrap(), MAX as u64);
    let refused = storage.open("keys/larger").err().unwrap();
    assert_eq!(refused.source.kind(), ErrorKind::InvalidData, "{refused}");
}

/// Neither the last lease nor the last state can be one that has no next.
#[test]
fn a_number_that_has_no_next_one_stops_no_writer() {
    let store = Arc::default();
    for row in ["lease", "index/state", "removed", "ended"] {
        put(&store, &format!("{row}/ffffffffffffffff"), 1);
    }
    put(&store, "lease/ffffffffffffffff.beat", 1);
    let storage = in_memory(&store);
    for state in [b"first", b"other"] {
        let lease = storage.try_lock("lock").unwrap().unwrap();
        storage.put("index/state", state).unwrap();
        let mut read = [0; 5];
        storage.open("index/state").unwrap().read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, state);
        drop(lease);
    }
}
