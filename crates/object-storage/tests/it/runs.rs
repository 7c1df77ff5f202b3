//! Lookups in a large run of the index do not cost a request each.

use crate::contract::{access, location};
use object_storage::{Location, ObjectStorage, Requests, connect};
use repository::storage::{FileReader, Storage, read_small};
use std::path::Path;
use std::sync::Arc;
use testkit::Random;
use testkit::s3::Gateway;

const RUN: &str = "index/run-0000000001";
const RUN_BYTES: usize = 5 << 20;
const PAGE_BYTES: usize = 4096;
const LOOKUPS: usize = 500;
/// An eighth in pieces of 64 KiB, all of it in one of 8 MiB, and its end.
const REQUESTS_MAX: u64 = 13;

/// A process that uses the bucket, and what it asks for.
pub(crate) fn open(location: &Location) -> (ObjectStorage, Arc<Requests>) {
    let client = connect(location, &access(Gateway::shared())).unwrap();
    let requests = client.requests().clone();
    (ObjectStorage::open(client).unwrap(), requests)
}

/// Reads pages here and there; so many requests that took.
fn look_up(file: &dyn FileReader, requests: &Requests, content: &[u8]) -> u64 {
    let before = requests.until_now().requests();
    let mut random = Random::new(7);
    let mut page = vec![0; PAGE_BYTES];
    for _ in 0..LOOKUPS {
        let at = random.index(content.len() / PAGE_BYTES) * PAGE_BYTES;
        file.read_exact_at(&mut page, at as u64).unwrap();
        assert_eq!(page, content[at..at + PAGE_BYTES]);
    }
    requests.until_now().requests() - before
}

#[test]
fn lookups_in_a_large_run_do_not_cost_a_request_each() {
    let location = location(Gateway::shared(), "");
    let content = Random::new(1).bytes(RUN_BYTES as u64);
    let (writer, of_writer) = open(&location);
    let mut file = writer.create("index/run.part").unwrap();
    file.append(&[&content]).unwrap();
    writer.publish("index/run.part", RUN).unwrap();
    let own = look_up(&*writer.open(RUN).unwrap(), &of_writer, &content);
    assert_eq!(own, 0, "it has written the run itself");
    let (reader, of_reader) = open(&location);
    let first = look_up(&*reader.open(RUN).unwrap(), &of_reader, &content);
    assert!((1..=REQUESTS_MAX).contains(&first), "{first} requests");
    let again = look_up(&*reader.open(RUN).unwrap(), &of_reader, &content);
    assert_eq!(again, 0, "all of it was fetched");
}

/// A storage that keeps what it may in `directory`.
fn keeping(location: &Location, directory: &Path) -> (ObjectStorage, Arc<Requests>) {
    let (mut storage, requests) = open(location);
    storage.keep_in(directory);
    read_small(&storage, "config", 10).unwrap();
    (storage, requests)
}

fn publish(storage: &ObjectStorage, content: &[u8]) {
    let mut file = storage.create("index/run.part").unwrap();
    file.append(&[content]).unwrap();
    storage.publish("index/run.part", RUN).unwrap();
}

/// How many requests it takes to read the state and to look up in the run.
fn reads(location: &Location, directory: &Path, content: &[u8]) -> u64 {
    let (storage, requests) = keeping(location, directory);
    let before = requests.until_now().requests();
    assert_eq!(read_small(&storage, "index/state", 10).unwrap(), b"state");
    look_up(&*storage.open(RUN).unwrap(), &requests, content);
    requests.until_now().requests() - before
}

#[test]
fn what_was_written_here_is_not_fetched_unless_the_storage_has_another_one() {
    let (location, directory) = (location(Gateway::shared(), ""), tempfile::tempdir().unwrap());
    let (first, _) = open(&location);
    first.put("config", b"config").unwrap();
    first.put("index/state", b"before").unwrap();
    let [content, other] = [1, 2].map(|seed| Random::new(seed).bytes(RUN_BYTES as u64));
    let (writer, _) = keeping(&location, directory.path());
    let lease = writer.try_lock("lock").unwrap().unwrap();
    publish(&writer, &content);
    writer.put("index/state", b"state").unwrap();
    drop(lease);
    assert_eq!(reads(&location, directory.path(), &content), 0, "this machine has written both");
    let (another, _) = open(&location);
    another.remove(RUN).unwrap();
    publish(&another, &other);
    assert!(reads(&location, directory.path(), &other) > 0, "the tag is another one");
    assert_eq!(reads(&location, directory.path(), &other), 0, "all of it was fetched");
}
