//! Whether containers are there: a writer asks for many of them, and each request takes time.

use crate::contract::location;
use crate::runs::open;
use repository::storage::Storage;
use testkit::s3::Gateway;

/// One listing of their directory.
const REQUESTS_MAX: u64 = 1;

fn name(number: u64) -> String {
    format!("containers/00000000/{number:010x}.ice")
}

fn publish(storage: &dyn Storage, number: u64, length: u64) {
    let part = format!("containers/00000000/{number:010x}.part");
    let mut file = storage.create(&part).unwrap();
    file.append(&[&vec![7; length as usize]]).unwrap();
    file.sync().unwrap();
    storage.publish(&part, &name(number)).unwrap();
}

#[test]
fn a_writer_learns_by_one_request_which_containers_are_there() {
    const COUNT: u64 = 40;
    let location = location(Gateway::shared(), "");
    let (writer, _) = open(&location);
    for number in 1..=COUNT {
        publish(&writer, number, 100 + number);
    }
    let (storage, counted) = open(&location);
    assert_eq!(storage.listed_length(&name(1)).unwrap(), None, "somebody else may write");
    let lease = storage.try_lock("lock").unwrap().unwrap();
    let before = counted.until_now().requests();
    for number in 1..=COUNT {
        assert_eq!(storage.listed_length(&name(number)).unwrap(), Some(100 + number));
    }
    let missing = storage.listed_length(&name(COUNT + 1)).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(counted.until_now().requests() - before <= REQUESTS_MAX);
    // What this process does counts at once.
    storage.remove(&name(3)).unwrap();
    publish(&storage, COUNT + 1, 9);
    assert!(storage.listed_length(&name(3)).unwrap_err().is_not_found());
    assert_eq!(storage.listed_length(&name(COUNT + 1)).unwrap(), Some(9));
    drop(lease);
    assert_eq!(storage.listed_length(&name(1)).unwrap(), None, "the lease has ended");
}

#[test]
fn the_next_lease_sees_what_another_writer_has_done() {
    let location = location(Gateway::shared(), "");
    let (one, _) = open(&location);
    publish(&one, 1, 10);
    publish(&one, 2, 10);
    drop(one.try_lock("lock").unwrap().unwrap());
    let lease = one.try_lock("lock").unwrap().unwrap();
    assert_eq!(one.listed_length(&name(1)).unwrap(), Some(10));
    drop(lease);
    let (another, _) = open(&location);
    let lease = another.try_lock("lock").unwrap().unwrap();
    another.remove(&name(1)).unwrap();
    drop(lease);
    let _lease = one.try_lock("lock").unwrap().unwrap();
    assert!(one.listed_length(&name(1)).unwrap_err().is_not_found());
    assert_eq!(one.listed_length(&name(2)).unwrap(), Some(10));
}
