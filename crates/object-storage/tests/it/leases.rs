//! Who may write: one at a time, and an overtaken writer does no harm when it goes on.

use crate::contract::in_memory;
use crate::engine::{back_up, begun, opened};
use crate::stormy::Stormy;
use futures_util::StreamExt;
use object_storage::{Client, ObjectStorage};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use repository::lease::Lease;
use repository::storage::{Storage, read_small};
use repository::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SNAPSHOT: &str = "snapshots/0000000001-00112233445566778899aabbccddeeff";
const LATE: &str = "snapshots/0000000002-ffeeddccbbaa99887766554433221100";

/// A process that waits for nobody.
fn process(store: &Arc<InMemory>) -> Arc<dyn Storage> {
    let mut storage = in_memory(store);
    storage.look_again_after(Duration::ZERO);
    storage.take_over_after(Duration::from_millis(100));
    Arc::new(storage)
}

fn ready(store: &Arc<InMemory>) -> Arc<dyn Storage> {
    let storage = process(store);
    for name in ["containers", "index", "keys", "snapshots"] {
        storage.create_directory(name).unwrap();
    }
    storage.put("index/state", b"state 1").unwrap();
    storage
}

fn is_lost<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::LeaseLost { .. }))
}

#[test]
fn generations_rise_and_a_lease_that_ended_is_taken_at_once() {
    let store = Arc::default();
    ready(&store);
    for generation in 1..=4 {
        // With the usual patience: nobody waits where a lease has ended.
        let storage: Arc<dyn Storage> = Arc::new(in_memory(&store));
        let lease = Lease::acquire(&storage, "a holder").unwrap();
        assert_eq!(lease.generation(), generation);
        lease.verify().unwrap();
    }
}

#[test]
fn a_holder_that_lives_is_named_to_the_second() {
    let store = Arc::default();
    let first = ready(&store);
    let lease = Lease::acquire(&first, "host-a backup").unwrap();
    let second: Arc<dyn Storage> = Arc::new(in_memory(&store));
    let refused = Lease::acquire(&second, "host-b").err().unwrap();
    assert!(matches!(&refused, Error::InUse { holder } if holder == "host-a backup"), "{refused}");
    lease.verify().unwrap();
}

/// Its next state is refused, and so is its last look before anything visible.
#[test]
fn an_overtaken_writer_publishes_no_state() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let lease = Lease::acquire(&sleeper, "sleeper").unwrap();
    sleeper.put("index/state", b"state 2").unwrap();
    let next = process(&store);
    let taken = Lease::acquire(&next, "next").unwrap();
    assert!(is_lost(lease.verify()));
    assert!(sleeper.put("index/state", b"state 3").unwrap_err().already_exists());
    assert_eq!(read_small(&*next, "index/state", 100).unwrap(), b"state 2");
    next.put("index/state", b"state 4").unwrap();
    taken.verify().unwrap();
    drop(lease);
    taken.verify().unwrap();
    let reader = process(&store);
    assert_eq!(read_small(&*reader, "index/state", 100).unwrap(), b"state 4");
}

/// Else snapshots that the next writer has copied and somebody has forgotten would come back.
#[test]
fn an_overtaken_writer_puts_no_older_list_of_copies_in_the_place_of_the_newer() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let _lease = Lease::acquire(&sleeper, "sleeper").unwrap();
    sleeper.put("copied", b"one").unwrap();
    let next = process(&store);
    let _taken = Lease::acquire(&next, "next").unwrap();
    assert_eq!(read_small(&*next, "copied", 100).unwrap(), b"one");
    next.put("copied", b"one and two").unwrap();
    assert!(sleeper.put("copied", b"one").unwrap_err().already_exists());
    assert_eq!(read_small(&*process(&store), "copied", 100).unwrap(), b"one and two");
}

/// It slept between its last look at the lease and the write: what it needs may be reclaimed by then.
#[test]
fn a_snapshot_that_an_overtaken_writer_writes_is_seen_by_nobody_and_one_of_before_is() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let lease = Lease::acquire(&sleeper, "sleeper").unwrap();
    sleeper.put(SNAPSHOT, b"before").unwrap();
    lease.verify().unwrap();
    let next = process(&store);
    let taken = Lease::acquire(&next, "next").unwrap();
    sleeper.put(LATE, b"late").unwrap();
    assert!(is_lost(lease.verify()), "it does not report it");
    for storage in [next.clone(), process(&store)] {
        let listed = storage.list("snapshots").unwrap();
        assert_eq!(listed, [SNAPSHOT.strip_prefix("snapshots/").unwrap()]);
        assert_eq!(read_small(&*storage, SNAPSHOT, 100).unwrap(), b"before");
        assert!(storage.open(LATE).err().unwrap().is_not_found());
    }
    // A rebuild that finds it whole brings it back, under its own lease.
    next.put(LATE, b"late, and whole").unwrap();
    drop(taken);
    let reader = process(&store);
    assert_eq!(reader.list("snapshots").unwrap().len(), 2);
    assert_eq!(read_small(&*reader, LATE, 100).unwrap(), b"late, and whole");
}

/// Also one that was killed in the middle of that.
#[test]
fn a_takeover_that_is_taken_over_settles_both() {
    let store = Arc::default();
    let first = ready(&store);
    let lease = Lease::acquire(&first, "first").unwrap();
    let second = process(&store);
    let second_lease = Lease::acquire(&second, "second").unwrap();
    let third = process(&store);
    let third_lease = Lease::acquire(&third, "third").unwrap();
    first.put(SNAPSHOT, b"late").unwrap();
    second.put(LATE, b"late").unwrap();
    assert!(third.list("snapshots").unwrap().is_empty());
    assert!(is_lost(lease.verify()) && is_lost(second_lease.verify()));
    third_lease.verify().unwrap();
}

#[test]
fn old_objects_of_leases_and_states_are_tidied_away() {
    let store = Arc::default();
    ready(&store);
    for round in 0..120_u32 {
        let storage = process(&store);
        let lease = Lease::acquire(&storage, "a holder").unwrap();
        storage.put("index/state", &round.to_le_bytes()).unwrap();
        assert_eq!(lease.generation(), u64::from(round) + 1);
    }
    let storage = process(&store);
    assert_eq!(read_small(&*storage, "index/state", 100).unwrap(), 119_u32.to_le_bytes());
    let objects = storage.list("lease").unwrap().len() + storage.list("index/state").unwrap().len();
    assert!(objects < 200, "{objects}");
}

/// Others may have written so many states that the sleeper's next number is free once more.
#[test]
fn an_overtaken_writer_is_refused_where_its_number_was_tidied_away() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let lease = Lease::acquire(&sleeper, "sleeper").unwrap();
    put_container(&sleeper);
    let next = process(&store);
    let taken = Lease::acquire(&next, "next").unwrap();
    for round in 0..100_u32 {
        next.put("index/state", &round.to_le_bytes()).unwrap();
        next.put("removed", b"").unwrap();
    }
    drop(taken);
    let first = process(&store).list("index/state").unwrap()[0].clone();
    assert!(first > format!("{:016x}", 10), "{first}: nothing was tidied away");
    assert!(sleeper.put("index/state", b"old").unwrap_err().already_exists());
    assert!(sleeper.remove(CONTAINER).unwrap_err().already_exists());
    assert!(is_lost(lease.verify()));
    let reader = process(&store);
    assert_eq!(read_small(&*reader, "index/state", 100).unwrap(), 99_u32.to_le_bytes());
    assert_eq!(read_small(&*reader, CONTAINER, 100).unwrap(), b"container");
}

const CONTAINER: &str = "containers/0000/0000000000000001";

fn put_container(storage: &Arc<dyn Storage>) {
    let part = format!("{CONTAINER}.part");
    let mut file = storage.create(&part).unwrap();
    file.append(&[b"container"]).unwrap();
    file.sync().unwrap();
    storage.publish(&part, CONTAINER).unwrap();
}

/// Whoever takes the lease finds the container of the sleeper, and may rely on it from then on.
fn outlasts_a_takeover(store: &Arc<InMemory>, sleeper: &Arc<dyn Storage>) {
    put_container(sleeper);
    let finder = process(store);
    let _not_ended = Lease::acquire(&finder, "who finds it").unwrap();
    let next = process(store);
    let _taken = Lease::acquire(&next, "next").unwrap();
    assert_eq!(read_small(&*process(store), CONTAINER, 100).unwrap(), b"container");
}

/// A process sleeps from before there was a container of this number until it was removed, and only then writes its
/// own.
#[test]
fn a_container_that_comes_late_under_a_number_that_was_removed_is_not_removed_again() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let _overtaken = Lease::acquire(&sleeper, "sleeper").unwrap();
    let writer = process(&store);
    let lease = Lease::acquire(&writer, "writer").unwrap();
    put_container(&writer);
    writer.remove(CONTAINER).unwrap();
    drop(lease);
    outlasts_a_takeover(&store, &sleeper);
}

#[test]
fn what_a_takeover_has_finished_to_remove_the_next_one_does_not_remove_again() {
    let store = Arc::default();
    let sleeper = ready(&store);
    let _overtaken = Lease::acquire(&sleeper, "sleeper").unwrap();
    let writer = process(&store);
    let _killed = Lease::acquire(&writer, "writer").unwrap();
    put_container(&writer);
    writer.put("removed", CONTAINER.as_bytes()).unwrap();
    let finisher = process(&store);
    let _finisher = Lease::acquire(&finisher, "who finishes that").unwrap();
    assert!(process(&store).open(CONTAINER).unwrap().length().unwrap_err().is_not_found());
    outlasts_a_takeover(&store, &sleeper);
}

/// As a server does it when its bucket was away: it is the same process, and knows that nobody uses the lease.
#[test]
fn a_lease_that_this_process_could_not_end_keeps_nobody_of_it_waiting() {
    let store = Arc::default();
    ready(&store);
    let stormy = Stormy::new(&store);
    let client = Client::new(stormy.clone(), stormy.clone(), "some/prefix", "s3://memory").unwrap();
    let first: Arc<dyn Storage> = Arc::new(ObjectStorage::open(client).unwrap());
    let lease = Lease::acquire(&first, "first").unwrap();
    stormy.kill();
    drop(lease);
    // With the usual patience: a minute.
    let second: Arc<dyn Storage> = Arc::new(in_memory(&store));
    let begun = Instant::now();
    let lease = Lease::acquire(&second, "second").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    lease.verify().unwrap();
}

#[test]
fn who_waits_for_a_silent_holder_goes_on_when_it_ends() {
    let store = Arc::default();
    ready(&store);
    let first: Arc<dyn Storage> = Arc::new(in_memory(&store));
    let lease = Lease::acquire(&first, "first").unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(lease);
    });
    // With the usual patience: a minute.
    let second: Arc<dyn Storage> = Arc::new(in_memory(&store));
    let begun = Instant::now();
    let lease = Lease::acquire(&second, "second").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(lease.generation(), 2);
    ends.join().unwrap();
}

/// A rule of the bucket, or a command of somebody: what is written from then on is no repository.
#[test]
fn nobody_acknowledges_a_snapshot_where_the_repository_was_deleted_meanwhile() {
    for gone in ["config", "lease/", ""] {
        let store: Arc<InMemory> = Arc::default();
        begun(&store);
        let storage: Arc<dyn Storage> = Arc::new(in_memory(&store));
        let repository = opened(storage);
        let lease = repository.lease("a writer").unwrap();
        back_up(&repository, &lease, &[6]).unwrap();
        delete(&store, gone);
        let error = back_up(&repository, &lease, &[7]).unwrap_err();
        assert!(error.to_string().contains("not there any more"), "{gone}: {error}");
        assert!(error.is_unreachable(), "{gone}: {error}");
    }
}

/// Deletes all objects whose names below the repository begin with `prefix`.
fn delete(store: &Arc<InMemory>, prefix: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let found: Vec<_> = store.list(None).collect().await;
        for object in found {
            let path = object.unwrap().location;
            if path.as_ref().starts_with(&format!("some/prefix/{prefix}")) {
                store.delete(&path).await.unwrap();
            }
        }
    });
}
