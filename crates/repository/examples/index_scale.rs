//! What the chunk index costs at any size: time, memory and bytes of seeding, opening, looking up, recovering and
//! rebuilding.
//!
//! ```text
//! cargo run --profile fast --package repository --example index_scale -- FOLDER IDS
//! ```
//! The containers hold ids and next to no content. Each step is a process of its own, before which the caches of the
//! system are dropped, which needs root. FOLDER is made and removed; it takes about 80 bytes an id.
#![allow(clippy::unwrap_used, reason = "a measurement may stop at the first surprise")]

use format::record::{RecordKind, SealedRecord};
use ids::{ObjectId, RepositoryId};
use repository::Repository;
use repository::config::Config;
use repository::keys::Keys;
use repository::lease::LeasePurpose;
use repository::local::LocalStorage;
use repository::storage::Storage;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use stored::{record, session_record};

/// Ids of a record: 2 MiB of chunks of 16 KiB.
const RECORD_IDS: u64 = 128;
/// Lookups that are timed.
const LOOKUPS: u64 = 200_000;
const COLD_LOOKUPS: u64 = 2_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ids, rest @ ..] = &arguments[..] else {
        eprintln!("index_scale FOLDER IDS");
        std::process::exit(2)
    };
    let (folder, ids) = (PathBuf::from(folder), ids.parse().unwrap());
    match rest {
        [] => all(&folder, ids),
        [step] => measured(step, || run(step, &folder, ids)),
        _ => std::process::exit(2),
    }
}

fn all(folder: &Path, ids: u64) {
    println!(
        "| step | seconds | per second | peak MiB | bytes read per id | bytes written per id | note |"
    );
    println!("|---|---|---|---|---|---|---|");
    let _ = std::fs::remove_dir_all(folder);
    for step in
        ["seed", "open", "new-cold", "new", "known-cold", "known", "next", "recover", "rebuild"]
    {
        // Where that is not allowed, what is called cold is warm. A look at what is warm comes after a cold one.
        if !["new", "known"].contains(&step) {
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
        }
        let this = std::env::current_exe().unwrap();
        let ran = Command::new(this).arg(folder).arg(ids.to_string()).arg(step).status().unwrap();
        assert!(ran.success(), "{step} failed");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn measured(step: &str, work: impl FnOnce() -> (u64, u64, String)) {
    let before = io();
    let begun = Instant::now();
    let (count, ids, note) = work();
    let (took, after) = (begun.elapsed().as_secs_f64(), io());
    let each = |at: usize| (after[at] - before[at]) as f64 / ids as f64;
    let (rate, peak) = (count as f64 / took, value("/proc/self/status", "VmHWM:") >> 10);
    println!(
        "| {step} | {took:.2} | {rate:.0} | {peak} | {:.2} | {:.2} | {note} |",
        each(0),
        each(1)
    );
}

/// Bytes read and written so far.
fn io() -> [u64; 2] {
    ["rchar:", "wchar:"].map(|name| value("/proc/self/io", name))
}

fn value(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Does the step; returns how much it did, what its bytes are divided by, and a note.
fn run(step: &str, folder: &Path, ids: u64) -> (u64, u64, String) {
    match step {
        "seed" => seed(folder, ids),
        "open" => (1, ids, format!("{} rows", open(folder).index().entries())),
        "new-cold" => look_up(folder, ids, COLD_LOOKUPS, ids),
        "new" => look_up(folder, ids, LOOKUPS, ids),
        "known-cold" => look_up(folder, ids, COLD_LOOKUPS, 0),
        "known" => look_up(folder, ids, LOOKUPS, 0),
        "next" => next(folder, ids),
        "recover" => recover(folder, ids),
        "rebuild" => rebuild(folder, ids),
        other => panic!("no step {other}"),
    }
}

fn storage(folder: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(folder).unwrap())
}

fn open(folder: &Path) -> Arc<Repository> {
    Arc::new(Repository::open(storage(folder)).unwrap())
}

/// A backup of nothing but new chunks, that is interrupted at its end.
fn seed(folder: &Path, ids: u64) -> (u64, u64, String) {
    std::fs::create_dir_all(folder).unwrap();
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let repository = Arc::new(Repository::init(storage(folder), config, &Keys::default()).unwrap());
    // As an interrupted backup leaves it that made no checkpoint.
    std::fs::copy(folder.join("index/state"), folder.join("first-state")).unwrap();
    let lease = repository.lease("index_scale").unwrap();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    for first in (0..ids).step_by(RECORD_IDS as usize) {
        let some: Vec<_> = (first..ids.min(first + RECORD_IDS)).map(id).collect();
        some.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&data(some)).unwrap();
    }
    drop(session);
    let runs = std::fs::read_dir(folder.join("index")).unwrap().count() - 1;
    (ids, ids, format!("{runs} runs"))
}

/// Looks up so many ids from `first` on, which lie far apart in the order in which they were stored.
fn look_up(folder: &Path, ids: u64, count: u64, first: u64) -> (u64, u64, String) {
    let index = open(folder).index();
    let step = (ids / count).max(1);
    if count == LOOKUPS {
        // Warm is what a second round finds.
        (0..count).for_each(|n| _ = index.find(&id(first + n * step)).unwrap());
        return timed_again(&index, count, first, step);
    }
    let found = (0..count).filter(|n| index.find(&id(first + n * step)).unwrap().is_some()).count();
    assert_eq!(found as u64, if first == 0 { count } else { 0 });
    (count, count, "bytes per lookup".into())
}

/// A second round of the same lookups, whose time is in the note.
fn timed_again(
    index: &repository::index::Index,
    count: u64,
    first: u64,
    step: u64,
) -> (u64, u64, String) {
    let begun = Instant::now();
    let found = (0..count).filter(|n| index.find(&id(first + n * step)).unwrap().is_some()).count();
    assert_eq!(found as u64, if first == 0 { count } else { 0 });
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    (count, count, format!("both rounds; the second one: {rate:.0} per second"))
}

/// The next writer: until it knows of one new chunk that it is new.
fn next(folder: &Path, ids: u64) -> (u64, u64, String) {
    let repository = open(folder);
    let lease = repository.lease("index_scale").unwrap();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(session.claim(&id(ids + 1)).unwrap());
    (1, ids, "until the first claim".into())
}

/// Takes the lease when the index knows nothing of the containers.
fn recover(folder: &Path, ids: u64) -> (u64, u64, String) {
    let index = folder.join("index");
    for name in std::fs::read_dir(&index).unwrap() {
        std::fs::remove_file(name.unwrap().path()).unwrap();
    }
    std::fs::copy(folder.join("first-state"), index.join("state")).unwrap();
    let repository = open(folder);
    repository.lease_for("index_scale", LeasePurpose::Store).unwrap();
    assert_eq!(repository.index().entries(), ids);
    (ids, ids, String::new())
}

fn rebuild(folder: &Path, ids: u64) -> (u64, u64, String) {
    let (_, _, found) = repository::rebuild::rebuild(&storage(folder), "index_scale").unwrap();
    assert_eq!(found.objects, ids);
    (ids, ids, String::new())
}

/// The id of number `n`: as random as those of chunks.
fn id(n: u64) -> ObjectId {
    let mut id = [0; ObjectId::LEN];
    for (part, bytes) in id.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&mixed(n * 3 + part as u64).to_le_bytes());
    }
    ObjectId(id).with_type(false)
}

/// Splitmix64.
fn mixed(n: u64) -> u64 {
    let mut n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn data(ids: Vec<ObjectId>) -> SealedRecord {
    let clear = ids.iter().flat_map(|id| id.0).collect();
    record(RecordKind::Data, ids, clear, vec![0; 64])
}
