//! A storage that does not answer for a while, or late.

use crate::contract::in_memory;
use object_storage::{Client, ObjectStorage};
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use repository::Error;
use repository::lease::Lease;
use repository::storage::Storage;
use std::sync::Arc;
use std::time::Duration;

/// While a storage does not answer, nobody can show that he works: what the looks take is no silence of the holder.
#[test]
fn the_time_that_answers_take_is_no_silence_of_a_holder() {
    let store: Arc<InMemory> = Arc::default();
    let mut first = in_memory(&store);
    first.create_directory("index").unwrap();
    first.put("index/state", b"state 1").unwrap();
    first.beat_every(Duration::from_millis(4600));
    let first: Arc<dyn Storage> = Arc::new(first);
    let lease = Lease::acquire(&first, "a holder").unwrap();
    let late =
        ThrottleConfig { wait_get_per_call: Duration::from_millis(600), ..Default::default() };
    let late = Arc::new(ThrottledStore::new(store.clone(), late));
    let client = Client::new(late.clone(), late, "some/prefix", "s3://memory").unwrap();
    let mut second = ObjectStorage::open(client).unwrap();
    second.take_over_after(Duration::from_secs(2));
    let second: Arc<dyn Storage> = Arc::new(second);
    let refused = Lease::acquire(&second, "another").err().unwrap();
    assert!(matches!(&refused, Error::InUse { .. }), "{refused}");
    lease.verify().unwrap();
}
