//! What opening a repository costs: a password's hash, a few small files, and nothing for each snapshot.

use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{PASSWORD, SMALL_CHUNKS, TestFolder};
use crypto::{KdfParams, open_slot};
use pipeline::UnlockedRepository;
use pipeline::unlocked::InitOptions;
use std::time::{Duration, Instant};

/// With the password hash that is used unless somebody chooses another, on a machine that needs [`SLOT`] for it.
const WITHIN: Duration = Duration::from_millis(50);
/// What ADR 0008 says that the slot alone takes.
const SLOT: Duration = Duration::from_millis(20);
/// One of so many must be as fast: what else the machine does is no concern of this.
const TRIES: usize = 200;

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

/// The slot of the password.
fn slot(folder: &TestFolder) -> Vec<u8> {
    let mut keys = std::fs::read_dir(folder.repository().join("keys")).unwrap();
    let slot = keys.find_map(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).ok()?;
        open_slot(&bytes, PASSWORD).is_ok().then_some(bytes)
    });
    slot.expect("a slot that the password opens")
}

fn time(what: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    what();
    begun.elapsed()
}

/// [`WITHIN`], and in proportion more on a machine that needs more than [`SLOT`] for the slot: it may be slow, or
/// shared with others. What is asked of opening is asked of any machine.
fn allowed(slot: Duration) -> Duration {
    WITHIN.mul_f64(slot.div_duration_f64(SLOT).max(1.0))
}

#[test]
fn a_repository_opens_within_fifty_milliseconds_however_many_snapshots_it_has() {
    let (few, many) = (repository(1), repository(60));
    let bytes = slot(&many);
    let (mut whole, mut alone) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        whole = whole.min(time(|| drop(many.open())));
        alone = alone.min(time(|| {
            open_slot(&bytes, PASSWORD).unwrap();
        }));
        if whole < WITHIN {
            break;
        }
    }
    println!("{whole:?}, {alone:?} of it for the slot, {} calls of the storage", calls(&many));
    assert!(whole < allowed(alone), "{whole:?}, and {alone:?} for the slot alone");
    // A costlier hash would make the machine look slow.
    assert_eq!(KdfParams::DEFAULT, KdfParams { memory_kib: 19 * 1024, passes: 2, lanes: 1 });
    // Runs of the index are merged, so that there are a few at most.
    assert!(calls(&many) <= calls(&few) + 20, "{} and {}", calls(&few), calls(&many));
}
