//! Lookups in a large run of the index do not cost a request each.

use crate::contract::{access, location};
use crate::faulty::{Faulty, Plan, Wrong};
use object_storage::{Location, ObjectStorage, Requests, connect, connect_through};
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

/// What `file` has at `at`.
fn page(file: &dyn FileReader, at: usize) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    file.read_exact_at(&mut page, at as u64).unwrap();
    page
}

/// A large run in a bucket of its own, and what it has.
fn published() -> (Location, Vec<u8>) {
    let location = location(Gateway::shared(), "");
    let (writer, _) = open(&location);
    writer.put("config", b"config").unwrap();
    writer.put("index/state", b"state").unwrap();
    let content = Random::new(1).bytes(RUN_BYTES as u64);
    publish(&writer, &content);
    (location, content)
}

/// A process whose answers are wrong from now on, and that keeps them in `directory`.
fn spoiled(location: &Location, directory: &Path) -> (ObjectStorage, Arc<Plan>) {
    let plan = Plan::quiet();
    let client = connect_through(location, &access(Gateway::shared()), &|| Faulty::new(&plan));
    let mut storage = ObjectStorage::open(client.unwrap()).unwrap();
    storage.keep_in(directory);
    read_small(&storage, "config", 10).unwrap();
    plan.spoil(RUN, Wrong::Flipped, usize::MAX);
    (storage, plan)
}

#[test]
fn a_large_run_that_was_fetched_wrongly_is_fetched_again() {
    let ((location, content), directory) = (published(), tempfile::tempdir().unwrap());
    let (storage, plan) = spoiled(&location, directory.path());
    let (run, middle) = (storage.open(RUN).unwrap(), RUN_BYTES / 2 / PAGE_BYTES * PAGE_BYTES);
    // So many pages that all of it is fetched.
    (0..RUN_BYTES).step_by(PAGE_BYTES * 16).for_each(|at| drop(page(&*run, at)));
    let right = &content[middle..middle + PAGE_BYTES];
    assert_ne!(page(&*run, middle), right, "it was fetched wrongly");
    plan.spoil(RUN, Wrong::Flipped, 0);
    assert!(run.distrust());
    let (next, _) = keeping(&location, directory.path());
    assert_eq!(page(&*next.open(RUN).unwrap(), middle), right, "nothing wrong is kept");
    assert_eq!(page(&*run, middle), right);
}

#[test]
fn a_piece_of_a_run_that_was_fetched_wrongly_is_fetched_again() {
    let ((location, content), directory) = (published(), tempfile::tempdir().unwrap());
    let (storage, plan) = spoiled(&location, directory.path());
    let run = storage.open(RUN).unwrap();
    // A piece of 64 KiB, which is wrong in the middle.
    let read = || [0, 8 * PAGE_BYTES].map(|at| page(&*run, at));
    let right = [0, 8 * PAGE_BYTES].map(|at| content[at..at + PAGE_BYTES].to_vec());
    assert_ne!(read(), right, "it was fetched wrongly");
    plan.spoil(RUN, Wrong::Flipped, 0);
    assert!(run.distrust());
    assert_eq!(read(), right);
}
