//! What the engine relies on, as tests of any [`Storage`]: directories, the simulated disk, buckets. Each gets a storage
//! without any files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use repository::storage::{Storage, read_small};
use std::io::ErrorKind;

/// A part of the contract.
pub type Clause = fn(&dyn Storage);

/// All of it, each with a sentence that says what holds.
pub const CLAUSES: [(&str, Clause); 10] = [
    ("a file has its name only when it is published", a_file_has_its_name_only_when_published),
    ("what has a name is not overwritten by publishing", nothing_is_overwritten_by_publishing),
    ("a file in the making is made once", a_file_in_the_making_is_made_once),
    ("any part of a file is read, and nothing behind its end", any_part_of_a_file_is_read),
    ("the length of a file is told, or that there is none", the_length_of_a_file_is_told),
    ("a put replaces the whole file", a_put_replaces_the_whole_file),
    ("what is replaced is replaced as a whole", what_is_replaced_is_replaced_as_a_whole),
    ("what is removed is gone, and may be removed again", what_is_removed_is_gone),
    ("a listing has all names, sorted", a_listing_has_all_names),
    ("the lock is had by one", the_lock_is_had_by_one),
];

const SHARD: &str = "containers/00000000";
const PART: &str = "containers/00000000/0000000001.part";
const WHOLE: &str = "containers/00000000/0000000001.ice";

fn make(storage: &dyn Storage, part: &str, content: &[u8]) {
    let (one, two) = content.split_at(content.len() / 3);
    let mut file = storage.create(part).unwrap();
    file.append(&[one, b""]).unwrap();
    file.append(&[two]).unwrap();
    file.sync().unwrap();
}

fn directories(storage: &dyn Storage) {
    for name in ["containers", "index", "keys", "snapshots", SHARD] {
        storage.create_directory(name).unwrap();
    }
}

fn is_absent(storage: &dyn Storage, name: &str) -> bool {
    let opened = storage.open(name).and_then(|file| file.length());
    matches!(opened, Err(error) if error.is_not_found())
}

fn a_file_has_its_name_only_when_published(storage: &dyn Storage) {
    directories(storage);
    make(storage, PART, b"all of a container");
    assert!(is_absent(storage, WHOLE));
    assert_eq!(read_small(storage, PART, 100).unwrap(), b"all of a container");
    storage.publish(PART, WHOLE).unwrap();
    assert!(is_absent(storage, PART));
    assert_eq!(read_small(storage, WHOLE, 100).unwrap(), b"all of a container");
    assert!(read_small(storage, WHOLE, 5).is_err(), "a limit is kept");
    assert_eq!(storage.list(SHARD).unwrap(), ["0000000001.ice"]);
    assert_eq!(storage.list("containers").unwrap(), ["00000000"]);
}

fn nothing_is_overwritten_by_publishing(storage: &dyn Storage) {
    directories(storage);
    make(storage, PART, b"first");
    storage.publish(PART, WHOLE).unwrap();
    make(storage, PART, b"second");
    assert!(storage.publish(PART, WHOLE).unwrap_err().already_exists());
    assert_eq!(read_small(storage, WHOLE, 100).unwrap(), b"first");
    assert!(storage.publish("index/none.part", "index/run-0000000001").is_err());
}

fn a_file_in_the_making_is_made_once(storage: &dyn Storage) {
    directories(storage);
    drop(storage.create(PART).unwrap());
    assert!(storage.create(PART).err().unwrap().already_exists());
    storage.remove(PART).unwrap();
    make(storage, PART, b"x");
}

fn any_part_of_a_file_is_read(storage: &dyn Storage) {
    directories(storage);
    // More than what is read at once.
    let content: Vec<u8> = (0..1_500_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    make(storage, PART, &content);
    storage.publish(PART, WHOLE).unwrap();
    let file = storage.open(WHOLE).unwrap();
    let end = content.len();
    for (at, length) in [
        (0, 64),
        (70_000, 10),
        (end - 16, 16),
        (10, end - 10),
        (64, 300_000),
        (300_064, 400_000),
        (0, end),
    ] {
        let mut buffer = vec![0; length];
        file.read_exact_at(&mut buffer, at as u64).unwrap();
        assert!(buffer == content[at..at + length], "{length} bytes at {at}");
    }
    assert_eq!(file.length().unwrap(), end as u64);
    for at in [end - 15, end, end + 1, end << 10] {
        assert!(file.read_exact_at(&mut [0; 16], at as u64).is_err(), "16 bytes at {at}");
    }
}

fn the_length_of_a_file_is_told(storage: &dyn Storage) {
    directories(storage);
    let _lock = storage.try_lock("lock").unwrap();
    make(storage, PART, b"of a container");
    storage.publish(PART, WHOLE).unwrap();
    let small =
        ["config", "README", "index/state", "keys/list", "keys/0000000000000001", "lock-clock"];
    for name in small.into_iter().chain(["snapshots/0000000001-00000000000000000000000000000001"]) {
        assert!(storage.length(name).unwrap_err().is_not_found(), "{name}");
        storage.put(name, b"some bytes").unwrap();
        assert_eq!(storage.length(name).unwrap(), 10, "{name}");
    }
    assert_eq!(storage.length(WHOLE).unwrap(), 14);
    let absent = storage.length("containers/00000000/00000000ff.ice").unwrap_err();
    assert!(absent.is_not_found(), "{absent}");
    let top = storage.list(".").unwrap();
    for name in ["README", "config", "containers", "index", "keys", "lock-clock", "snapshots"] {
        assert!(top.iter().any(|it| it == name), "{name}: {top:?}");
    }
}

fn a_put_replaces_the_whole_file(storage: &dyn Storage) {
    directories(storage);
    let _lock = storage.try_lock("lock").unwrap();
    for name in [
        "config",
        "index/state",
        "keys/list",
        "keys/00112233445566778899aabbccddeeff",
        "lock-clock",
    ] {
        storage.put(name, b"first and long").unwrap();
        storage.put(name, b"second").unwrap();
        assert_eq!(read_small(storage, name, 100).unwrap(), b"second", "{name}");
    }
    assert!(storage.list("keys").unwrap().contains(&"00112233445566778899aabbccddeeff".to_owned()));
}

fn what_is_replaced_is_replaced_as_a_whole(storage: &dyn Storage) {
    directories(storage);
    make(storage, PART, b"damaged");
    storage.publish(PART, WHOLE).unwrap();
    let healed = format!("{WHOLE}.new");
    make(storage, &healed, b"healed and longer");
    storage.replace(&healed, WHOLE).unwrap();
    assert_eq!(read_small(storage, WHOLE, 100).unwrap(), b"healed and longer");
    assert_eq!(storage.list(SHARD).unwrap(), ["0000000001.ice"]);
}

fn what_is_removed_is_gone(storage: &dyn Storage) {
    directories(storage);
    let _lock = storage.try_lock("lock").unwrap();
    let snapshot = "snapshots/0000000001-00112233445566778899aabbccddeeff";
    storage.put(snapshot, b"content").unwrap();
    make(storage, PART, b"content");
    storage.publish(PART, WHOLE).unwrap();
    for name in [snapshot, WHOLE, "keys/none"] {
        storage.remove(name).unwrap();
        storage.remove(name).unwrap();
        assert!(is_absent(storage, name), "{name}");
    }
    assert!(storage.list("snapshots").unwrap().is_empty());
}

fn a_listing_has_all_names(storage: &dyn Storage) {
    let missing = storage.list("snapshots").unwrap_err();
    assert_eq!(
        missing.source.kind(),
        ErrorKind::NotFound,
        "a missing directory is not an empty one"
    );
    directories(storage);
    let _lock = storage.try_lock("lock").unwrap();
    assert!(storage.list("snapshots").unwrap().is_empty());
    let names =
        |count| (1..=count).map(|number| format!("{number:010x}-00112233445566778899aabbccddeeff"));
    for name in names(20) {
        storage.put(&format!("snapshots/{name}"), name.as_bytes()).unwrap();
    }
    assert_eq!(storage.list("snapshots").unwrap(), names(20).collect::<Vec<_>>());
}

fn the_lock_is_had_by_one(storage: &dyn Storage) {
    let lock = storage.try_lock("lock").unwrap();
    assert!(lock.is_some() && storage.try_lock("lock").unwrap().is_none());
    drop(lock);
    assert!(storage.try_lock("lock").unwrap().is_some());
}
