//! A repository in a bucket, by seeds: processes back up, forget, reclaim and rebuild one after the other, are killed
//! at any request, lose answers, or sleep before any step while another process overtakes them. What was acknowledged
//! is there and whole, for whoever comes next.
//!
//! A seed decides what is done and where the fault is; requests that run at the same time may change places.

use crate::stormy::{FAULTS, Stormy};
use ids::RepositoryId;
use object_storage::{Client, ObjectStorage};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use repository::config::Config;
use repository::lease::Lease;
use repository::rebuild::rebuild;
use repository::reclaim::{self, ReclaimOptions};
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::watch::Unwatched;
use repository::{Error, Repository, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stored::{Before, chunk, data, leaf, manifest, page, session_record, tombstone};
use testkit::Random;

/// In `make test`; `ICECORE_BUCKET_SEEDS` has another number.
const SEEDS: u64 = 60;
/// They mostly wait for leases of the dead.
const THREADS: usize = 8;
const EPISODES: u64 = 8;
/// Longest distance of a fault, in requests or steps.
const REACH: [u64; 3] = [8, 30, 100];
const NUMBERS: u64 = 60;
const BYTES: usize = 3000;

/// What was acknowledged.
#[derive(Clone, Debug)]
struct Kept {
    name: SnapshotRef,
    root: u16,
    numbers: Vec<u16>,
}

/// What all processes of a seed share.
struct Shared {
    store: Arc<InMemory>,
    kept: Mutex<Vec<Kept>>,
    next_root: AtomicU64,
}

struct Process {
    stormy: Arc<Stormy>,
    repository: Arc<Repository>,
    lease: Arc<Lease>,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    BackUp,
    Forget,
    Reclaim,
}

const TASKS: [Task; 5] = [Task::BackUp, Task::BackUp, Task::BackUp, Task::Forget, Task::Reclaim];
/// One in so many begins with a rebuild.
const REBUILDS: u64 = 8;

/// A look at the lease is believed for so long.
fn storage(stormy: &Arc<Stormy>, looks_last: Duration) -> Result<Arc<dyn Storage>> {
    let client = Client::new(stormy.clone(), stormy.clone(), "seed", "s3://seed")?;
    let mut storage = ObjectStorage::open(client)?;
    storage.look_again_after(looks_last);
    storage.take_over_after(Duration::from_millis(15));
    Ok(Arc::new(storage))
}

/// Sleeps before its step number `left`: meanwhile something happens.
fn sleeping(
    storage: Arc<dyn Storage>,
    left: u64,
    meanwhile: Box<dyn FnOnce() + Send>,
) -> Arc<dyn Storage> {
    let state = Mutex::new((left, Some(meanwhile)));
    Before::each(storage, move |verb, _| {
        if !matches!(verb, "open" | "create" | "list" | "read") {
            let mut state = state.lock();
            let now = state.0 == 0;
            state.0 = state.0.saturating_sub(1);
            let meanwhile = state.1.take_if(|_| now);
            drop(state);
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
        }
        Ok(())
    })
}

impl Process {
    fn start(stormy: Arc<Stormy>, storage: Arc<dyn Storage>, rebuilds: bool) -> Result<Self> {
        let (repository, lease) = match rebuilds {
            true => {
                let (repository, lease, _) = rebuild(&storage, "a rebuild")?;
                (repository, Arc::new(lease))
            }
            false => {
                let repository = Repository::open(storage)?;
                let lease = repository.lease("a process")?;
                (repository, lease)
            }
        };
        repository.make_containers_small(8000);
        Ok(Self { stormy, repository: Arc::new(repository), lease })
    }
}

impl Shared {
    fn run(&self, process: &Process, task: Task, random: &mut Random) -> Result<()> {
        match task {
            Task::BackUp => self.back_up(process, random),
            Task::Forget => self.forget(process, random),
            Task::Reclaim => {
                let waste = *random.pick(&[0.0, 30.0]);
                let options = ReclaimOptions {
                    max_waste_percent: waste,
                    dry_run: false,
                    accept_damage: false,
                    free_interrupted: random.one_in(2),
                };
                reclaim::run(&process.repository, &process.lease, options, None).map(drop)
            }
        }
    }

    fn back_up(&self, process: &Process, random: &mut Random) -> Result<()> {
        let count = 1 + random.below(6);
        let numbers: Vec<u16> = (0..count).map(|_| random.below(NUMBERS) as u16).collect();
        let root = 1000 + self.next_root.fetch_add(1, Ordering::Relaxed) as u16;
        let session = process.repository.begin(&process.lease, None, session_record())?;
        let chunks: Vec<_> = numbers.iter().map(|n| chunk(*n)).collect();
        let records = numbers.iter().map(|n| data(*n, BYTES));
        for record in records.chain([leaf(root, &chunks)]) {
            let mut is_new = false;
            for id in &record.ids {
                is_new = session.claim(id)?;
            }
            if is_new {
                session.append(&record)?;
            }
        }
        let sequence = session.next_snapshot();
        let name = session.commit(&manifest(page(root), sequence))?.snapshot;
        self.kept.lock().push(Kept { name, root, numbers });
        Ok(())
    }

    /// What it asks to forget is not promised from then on, whatever becomes of it.
    fn forget(&self, process: &Process, random: &mut Random) -> Result<()> {
        let mut names = Vec::new();
        self.kept.lock().retain(|kept| {
            let goes = random.one_in(3);
            names.extend(goes.then_some(kept.name));
            !goes
        });
        if names.is_empty() {
            return Ok(());
        }
        process.repository.forget(&process.lease, &names, &session_record(), &tombstone())
    }

    /// A process that does some of all, while nothing happens to it.
    fn overtakes(&self, random: &mut Random) -> Result<()> {
        let stormy = Stormy::new(&self.store);
        let storage = storage(&stormy, Duration::ZERO)?;
        let process = Process::start(stormy, storage, random.one_in(REBUILDS))?;
        // So many that the numbers of the sleeper are free once more.
        let tasks = if random.one_in(6) { 80 } else { 1 + random.below(2) };
        (0..tasks).try_for_each(|_| self.run(&process, *random.pick(&TASKS), random))
    }

    /// What a reader finds who comes now.
    fn verify(&self) -> std::result::Result<(), String> {
        let failed = |error: Error| format!("a reader fails: {error}");
        let storage = storage(&Stormy::new(&self.store), Duration::ZERO).map_err(failed)?;
        let repository = Repository::open(storage).map_err(failed)?;
        let listed = repository.snapshots().map_err(failed)?;
        let mut buffer = Vec::new();
        for Kept { name, root, numbers } in &*self.kept.lock() {
            if !listed.contains(name) {
                return Err(format!("{name:?} is lost"));
            }
            repository.fetch(&page(*root), &mut buffer).map_err(failed)?;
            for number in numbers {
                repository.fetch(&chunk(*number), &mut buffer).map_err(failed)?;
                let count = buffer.iter().filter(|byte| **byte == *number as u8).count();
                if count < BYTES {
                    return Err(format!("chunk {number} is another one"));
                }
            }
        }
        match repository.are_complete(&Unwatched) {
            Ok(true) => Ok(()),
            Ok(false) => Err("a snapshot is not complete".to_owned()),
            Err(error) => Err(failed(error)),
        }
    }
}

/// One process: what went wrong that may not.
fn episode(shared: &Arc<Shared>, random: &mut Random) -> std::result::Result<(), String> {
    let stormy = Stormy::new(&shared.store);
    let reach = *random.pick(&REACH);
    let is_early = random.one_in(4);
    let (requests, fault) = (random.below(reach), *random.pick(&FAULTS));
    if is_early {
        stormy.arm(requests, fault);
    }
    let overtaken = Arc::new(Mutex::new(None));
    let looks_last = *random.pick(&[Duration::ZERO, Duration::from_secs(5)]);
    let ran = storage(&stormy, looks_last).and_then(|storage| {
        let storage = match random.one_in(4) {
            true => {
                let (others, result) = (shared.clone(), overtaken.clone());
                let mut random = Random::new(random.next());
                let meanwhile = move || *result.lock() = Some(others.overtakes(&mut random));
                sleeping(storage, requests, Box::new(meanwhile))
            }
            false => storage,
        };
        let process = Process::start(stormy.clone(), storage, random.one_in(REBUILDS))?;
        if !is_early && !random.one_in(4) {
            stormy.arm(requests, fault);
        }
        for _ in 0..1 + random.below(4) {
            shared.run(&process, *random.pick(&TASKS), random)?;
        }
        if random.one_in(3) {
            process.stormy.kill();
        }
        Ok(())
    });
    let has_fired = stormy.disarm();
    let overtaken = overtaken.lock().take();
    match (ran, overtaken) {
        (_, Some(Err(error))) => Err(format!("who overtook a sleeper fails: {error}")),
        (Err(error), None) if !has_fired => Err(format!("without any fault: {error}")),
        _ => Ok(()),
    }
}

fn seed(seed: u64) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let shared = Arc::new(Shared {
        store: Arc::default(),
        kept: Mutex::default(),
        next_root: AtomicU64::new(0),
    });
    let failed = |error: Error| format!("a process without faults fails: {error}");
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let first = storage(&Stormy::new(&shared.store), Duration::ZERO).map_err(failed)?;
    Repository::init(first, config, &repository::keys::Keys::default()).map_err(failed)?;
    for number in 0..EPISODES {
        let of_episode = |error: String| format!("episode {number}: {error}");
        episode(&shared, &mut random).map_err(of_episode)?;
        shared.verify().map_err(of_episode)?;
    }
    let stormy = Stormy::new(&shared.store);
    let process =
        Process::start(stormy.clone(), storage(&stormy, Duration::ZERO).map_err(failed)?, false);
    let process = process.map_err(failed)?;
    for task in [Task::BackUp, Task::Reclaim] {
        shared.run(&process, task, &mut random).map_err(failed)?;
        shared.verify()?;
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn what_was_acknowledged_in_a_bucket_is_there_after_any_fault() {
    let first = number("ICECORE_BUCKET_FIRST", 0);
    let seeds = number("ICECORE_BUCKET_SEEDS", SEEDS);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while failed.lock().is_empty() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + seeds {
                        break;
                    }
                    if let Err(error) = seed(number) {
                        failed.lock().push((number, error));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert!(failed.is_empty(), "seeds (ICECORE_BUCKET_FIRST): {failed:#?}");
}
