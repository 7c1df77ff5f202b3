//! What opening a repository costs: a password's hash, a few small files, and nothing for each snapshot.

use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{PASSWORD, SMALL_CHUNKS, TestFolder};
use pipeline::UnlockedRepository;
use pipeline::unlocked::InitOptions;
use std::time::{Duration, Instant};

/// With the password hash that is used unless somebody chooses another.
const WITHIN: Duration = Duration::from_millis(50);
/// One of so many must be as fast: what else the machine does is no concern of this.
const TRIES: usize = 400;

/// A repository with so many snapshots.
fn repository(snapshots: u64) -> TestFolder {
    let folder = TestFolder::new();
    let options = InitOptions { chunks: SMALL_CHUNKS, ..InitOptions::default() };
    let repository = UnlockedRepository::init(folder.storage(), PASSWORD, options).unwrap();
    for number in 0..snapshots {
        folder.write("file", &number.to_le_bytes());
        folder.backup(&repository);
    }
    folder
}

/// Calls of the storage that opening makes.
fn calls(folder: &TestFolder) -> usize {
    let plan = Plan::none();
    UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD).unwrap();
    plan.calls().len()
}

#[test]
fn a_repository_opens_within_fifty_milliseconds_however_many_snapshots_it_has() {
    let (few, many) = (repository(1), repository(60));
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let begun = Instant::now();
        drop(many.open());
        best = best.min(begun.elapsed());
        if best < WITHIN {
            break;
        }
    }
    println!("{best:?}, {} calls of the storage", calls(&many));
    assert!(best < WITHIN, "{best:?}");
    // Runs of the index are merged, so that there are a few at most.
    assert!(calls(&many) <= calls(&few) + 20, "{} and {}", calls(&few), calls(&many));
}
