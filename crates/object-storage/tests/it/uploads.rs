//! Uploads in parts.

use crate::contract::{access, location};
use crate::faulty::{Fault, Faulty, Plan};
use crate::runs::open;
use object_storage::{Location, ObjectStorage, connect, connect_through};
use repository::storage::Storage;
use std::time::Duration;
use testkit::s3::Gateway;

fn begin(key: &str) {
    let (status, text) = Gateway::shared().ask("POST", &format!("{key}?uploads="), &[]);
    assert_eq!(status, 200, "{text}");
}

fn uploads(bucket: &str) -> usize {
    let (status, text) = Gateway::shared().ask("GET", &format!("{bucket}?uploads="), &[]);
    assert_eq!(status, 200, "{text}");
    text.matches("<UploadId>").count()
}

/// Each try sends all of a container.
#[test]
fn a_full_storage_is_asked_a_few_times_and_is_said_to_be_full() {
    let location = location(Gateway::shared(), "");
    let plan = Plan::quiet();
    let connector = || Faulty::new(&plan);
    let client = connect_through(&location, &access(Gateway::shared()), &connector).unwrap();
    let requests = client.requests().clone();
    let storage = ObjectStorage::open(client).unwrap();
    plan.fail_creates([Fault::Full; 100]);
    let before = requests.until_now().writes;
    let full = storage.put_new("keys/one", b"one").unwrap_err();
    assert!(full.is_full(), "{full}");
    let tries = requests.until_now().writes - before;
    assert!(tries <= 3, "{tries} tries");
}

/// The index of a large repository is too large for one request.
#[test]
fn an_object_that_goes_up_in_parts_is_read_as_it_was_written() {
    const PART_BYTES: usize = 64 << 20;
    const BYTES: usize = (160 << 20) + 4097;
    const RUN: &str = "index/run-0000000001";
    let location = location(Gateway::shared(), "");
    let (writer, _) = open(&location);
    let content: Vec<u8> = (0..=BYTES as u64 / 8).flat_map(u64::to_le_bytes).collect();
    let content = &content[..BYTES];
    writer.create("index/run.part").unwrap().append(&[content]).unwrap();
    writer.publish("index/run.part", RUN).unwrap();
    let (reader, _) = open(&location);
    let run = reader.open(RUN).unwrap();
    assert_eq!(run.length().unwrap(), BYTES as u64);
    let mut page = [0; 4096];
    for at in [0, PART_BYTES - 100, 2 * PART_BYTES - 100, BYTES - page.len()] {
        run.read_exact_at(&mut page, at as u64).unwrap();
        assert_eq!(page, content[at..at + page.len()], "at {at}");
    }
    assert_eq!(uploads(&location.bucket), 0);
}

#[test]
fn abandoned_uploads_go_and_those_of_others_stay() {
    let bucket = Gateway::shared().bucket();
    let location = Location { bucket: bucket.clone(), prefix: "some/prefix".into() };
    let client = connect(&location, &access(Gateway::shared())).unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    let of_others = ["some/prefix-of-others/x", "some/prefix/photo", "some/prefix/web/index/run-1"];
    for key in ["some/prefix/index/run-1", "some/prefix/index/run-2"].into_iter().chain(of_others) {
        begin(&format!("{bucket}/{key}"));
    }
    assert_eq!(storage.abort_uploads(Duration::from_secs(3600)).unwrap(), 0, "somebody may write");
    assert_eq!(uploads(&bucket), 5);
    std::thread::sleep(Duration::from_millis(1100)); // storages tell seconds
    assert_eq!(storage.abort_uploads(Duration::ZERO).unwrap(), 2);
    assert_eq!(uploads(&bucket), 3);
}
