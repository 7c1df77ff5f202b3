//! Uploads in parts that nobody ends.

use crate::contract::access;
use object_storage::{Location, ObjectStorage, connect};
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
