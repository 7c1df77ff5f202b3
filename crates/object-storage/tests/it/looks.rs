//! How often the bucket is asked for what it said a moment ago, and that what others have done is seen all the same.

use crate::contract::location;
use crate::runs::open;
use object_storage::{Location, ObjectStorage};
use repository::storage::{Storage, read_small};
use std::time::{Duration, Instant};
use testkit::s3::Gateway;

const SLOT: &str = "keys/0123456789abcdef";
/// Longer than what was listed is believed.
const PATIENCE: Duration = Duration::from_secs(20);

fn a_bucket() -> Location {
    let location = location(Gateway::shared(), "");
    let (storage, _) = open(&location);
    for directory in ["snapshots", "keys"] {
        storage.create_directory(directory).unwrap();
    }
    location
}

/// As a writer does it: under a lease.
fn add(storage: &ObjectStorage, number: u8) {
    let lease = storage.try_lock("lock").unwrap().unwrap();
    storage.put(&file(number), &[number]).unwrap();
    drop(lease);
}

fn file(number: u8) -> String {
    format!("snapshots/{}", name(number))
}

fn name(number: u8) -> String {
    format!("{number:010x}-{number:032x}")
}

fn names(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| name(*number)).collect()
}

#[test]
fn a_list_of_snapshots_is_one_request_and_the_first_one_is_none() {
    let location = a_bucket();
    add(&open(&location).0, 1);
    let (storage, asked) = open(&location);
    for requests in [1, 2, 3] {
        assert_eq!(storage.list("snapshots").unwrap(), names(&[1]));
        assert_eq!(asked.until_now().lists, requests);
    }
}

#[test]
fn who_asks_for_the_latest_again_and_again_is_answered_without_a_request() {
    let location = a_bucket();
    let (storage, asked) = open(&location);
    add(&storage, 1);
    let begun = Instant::now();
    storage.list("snapshots").unwrap();
    let before = asked.until_now().lists;
    for _ in 0..50 {
        assert_eq!(storage.list_lately("snapshots").unwrap(), names(&[1]));
    }
    let lists = asked.until_now().lists - before;
    assert!(lists <= begun.elapsed().as_secs(), "one a second, not {lists}");
    // What this process does counts at once.
    add(&storage, 2);
    assert_eq!(storage.list_lately("snapshots").unwrap(), names(&[1, 2]));
    storage.remove(&file(1)).unwrap();
    assert_eq!(storage.list_lately("snapshots").unwrap(), names(&[2]));
}

#[test]
fn what_another_process_has_done_is_listed_at_once_and_soon_counts_as_the_latest() {
    let location = a_bucket();
    let ((reader, _), (writer, _)) = (open(&location), open(&location));
    reader.list("snapshots").unwrap();
    add(&writer, 1);
    assert_eq!(reader.list("snapshots").unwrap(), names(&[1]), "a list is never stale");
    add(&writer, 2);
    let begun = Instant::now();
    while reader.list_lately("snapshots").unwrap() != names(&[1, 2]) {
        assert!(begun.elapsed() < PATIENCE, "it believes an old list for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_list_of_all_names_is_not_kept_for_whoever_asks_first_much_later() {
    let location = a_bucket();
    let ((reader, asked), (writer, _)) = (open(&location), open(&location));
    add(&writer, 1);
    let before = asked.until_now().lists;
    std::thread::sleep(Duration::from_millis(5_100));
    assert_eq!(reader.list("snapshots").unwrap(), names(&[1]));
    assert_eq!(reader.list("keys").unwrap(), [""; 0]);
    assert_eq!(asked.until_now().lists - before, 1, "all names once more, for both");
}

#[test]
fn a_slot_is_read_once_by_a_process_and_again_when_it_was_changed() {
    let location = a_bucket();
    let (writer, _) = open(&location);
    writer.put(SLOT, b"first").unwrap();
    let reads = |content: &[u8]| {
        let (storage, asked) = open(&location);
        assert_eq!(storage.list("keys").unwrap(), ["0123456789abcdef"]);
        assert_eq!(read_small(&storage, SLOT, 100).unwrap(), content);
        asked.until_now().reads
    };
    assert_eq!([reads(b"first"), reads(b"first"), reads(b"first")], [1, 0, 0]);
    writer.put(SLOT, b"other").unwrap();
    assert_eq!([reads(b"other"), reads(b"other")], [1, 0]);
}

#[test]
fn a_slot_that_was_changed_behind_an_old_list_is_read_as_it_is() {
    let location = a_bucket();
    let (writer, _) = open(&location);
    writer.put(SLOT, b"first").unwrap();
    let (reader, _) = open(&location);
    assert_eq!(read_small(&reader, SLOT, 100).unwrap(), b"first");
    writer.put(SLOT, b"other").unwrap();
    let begun = Instant::now();
    while read_small(&reader, SLOT, 100).unwrap() != b"other" {
        assert!(begun.elapsed() < PATIENCE, "it believes an old tag for ever");
        std::thread::sleep(Duration::from_millis(100));
    }
}
