//! The engine in a bucket: a writer that sleeps before any of its steps, is overtaken, and goes on.

use crate::contract::in_memory;
use ids::{KeyId, RepositoryId};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use repository::config::Config;
use repository::lease::Lease;
use repository::rebuild::rebuild;
use repository::reclaim::{self, ReclaimOptions};
use repository::snapshots::SnapshotRef;
use repository::storage::{Storage, StorageError, read_small};
use repository::watch::Unwatched;
use repository::{Error, Repository, Result};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use stored::{Before, chunk, data, leaf, manifest, page, session_record, tombstone};

/// Sleeps once, before its step number `left`: then `meanwhile` happens.
struct Sleepy {
    left: Mutex<usize>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Sleepy {
    /// What it says of itself, and `inner` with it in front.
    fn new(
        inner: Arc<dyn Storage>,
        step: usize,
        meanwhile: Box<dyn FnOnce() + Send>,
    ) -> (Arc<Self>, Arc<dyn Storage>) {
        let (left, meanwhile) = (Mutex::new(step), Mutex::new(Some(meanwhile)));
        let sleepy = Arc::new(Self { left, meanwhile });
        let steps = sleepy.clone();
        let storage = Before::each(inner, move |verb, _| {
            if matches!(
                verb,
                "publish" | "replace" | "put" | "put_new" | "remove" | "unlink" | "remove_all"
            ) {
                steps.step();
            }
            Ok(())
        });
        (sleepy, storage)
    }

    fn has_slept(&self) -> bool {
        self.meanwhile.lock().is_none()
    }

    fn step(&self) {
        let mut left = self.left.lock();
        if *left > 0 {
            *left -= 1;
            return;
        }
        drop(left);
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }
}

fn process(store: &Arc<InMemory>) -> Arc<dyn Storage> {
    let mut storage = in_memory(store);
    storage.look_again_after(Duration::ZERO);
    storage.take_over_after(Duration::from_millis(20));
    Arc::new(storage)
}

pub(crate) fn opened(storage: Arc<dyn Storage>) -> Arc<Repository> {
    let repository = Repository::open(storage).unwrap();
    repository.make_containers_small(4000);
    Arc::new(repository)
}

/// Stores what is new of `numbers` as one snapshot.
pub(crate) fn back_up(
    repository: &Arc<Repository>,
    lease: &Arc<Lease>,
    numbers: &[u16],
) -> Result<SnapshotRef> {
    let session = repository.begin(lease, None, session_record())?;
    let root = 1000 + numbers[0];
    let chunks: Vec<_> = numbers.iter().map(|n| chunk(*n)).collect();
    for record in numbers.iter().map(|n| data(*n, 3000)).chain([leaf(root, &chunks)]) {
        let mut is_new = false;
        for id in &record.ids {
            is_new = session.claim(id)?;
        }
        if is_new {
            session.append(&record)?;
        }
    }
    let sequence = session.next_snapshot();
    Ok(session.commit(&manifest(page(root), sequence))?.snapshot)
}

fn forget(repository: &Repository, lease: &Lease, names: &[SnapshotRef]) -> Result<()> {
    repository.forget(lease, names, &session_record(), &tombstone())
}

const OPTIONS: ReclaimOptions = ReclaimOptions {
    max_waste_percent: 0.0,
    dry_run: false,
    accept_damage: false,
    free_interrupted: true,
};

/// What is in the bucket before: three snapshots that share chunks.
pub(crate) fn begun(store: &Arc<InMemory>) -> Vec<SnapshotRef> {
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    Repository::init(process(store), config, &repository::keys::Keys::default()).unwrap();
    let repository = opened(process(store));
    let lease = repository.lease("begun").unwrap();
    [&[1, 2][..], &[2, 3], &[4, 5]]
        .map(|numbers| back_up(&repository, &lease, numbers).unwrap())
        .into()
}

/// All that a writer does. Those of `kept` that it has forgotten are gone from there; what it was told is committed, is
/// added.
fn work(repository: &Arc<Repository>, first: u16, kept: &Mutex<Vec<SnapshotRef>>) -> Result<()> {
    let lease = repository.lease("a writer")?;
    let done = back_up(repository, &lease, &[first, 2, first + 1])?;
    let oldest = std::mem::replace(&mut kept.lock()[0], done);
    forget(repository, &lease, &[oldest])?;
    reclaim::run(repository, &lease, OPTIONS, None)?;
    let done = back_up(repository, &lease, &[1, first + 2])?;
    kept.lock().push(done);
    Ok(())
}

/// What the second one does to the bucket; what it was told is committed, it adds to the list.
type Meanwhile = fn(&Arc<InMemory>, &Mutex<Vec<SnapshotRef>>);

/// Reclaims, and stores some of what was dead again.
fn works(store: &Arc<InMemory>, kept: &Mutex<Vec<SnapshotRef>>) {
    work(&opened(process(store)), 30, kept).unwrap();
}

/// Indexes whatever lies there, and builds on it.
fn rebuilds(store: &Arc<InMemory>, kept: &Mutex<Vec<SnapshotRef>>) {
    let (repository, lease, _) = rebuild(&process(store), "next").unwrap();
    repository.make_containers_small(4000);
    let (repository, lease) = (Arc::new(repository), Arc::new(lease));
    let done = back_up(&repository, &lease, &[1, 2, 3, 4, 5, 20, 21]).unwrap();
    kept.lock().push(done);
}

#[test]
fn a_writer_that_sleeps_before_any_step_and_is_overtaken_costs_nothing_that_was_acknowledged() {
    sleeps_before_each_step(works);
}

#[test]
fn a_writer_that_sleeps_before_any_step_removes_nothing_that_a_rebuild_has_found() {
    sleeps_before_each_step(rebuilds);
}

/// With a storage class, content lies in containers of its own: there are more of them.
#[test]
fn a_writer_that_keeps_content_apart_and_sleeps_costs_nothing_that_was_acknowledged() {
    let mut step = 0;
    while sleeps_before(step, works, true) {
        step += 1;
    }
    assert!(step > 10, "{step} steps");
}

fn sleeps_before_each_step(meanwhile: Meanwhile) {
    let mut step = 0;
    while sleeps_before(step, meanwhile, false) {
        step += 1;
    }
    assert!(step > 10, "{step} steps");
}

/// Whether there is a step of this number.
fn sleeps_before(step: usize, meanwhile: Meanwhile, is_apart: bool) -> bool {
    let store = Arc::default();
    if is_apart {
        in_memory(&store).set_storage_class("STANDARD").unwrap();
    }
    let kept = Arc::new(Mutex::new(begun(&store)));
    let (bucket, others) = (Arc::clone(&store), kept.clone());
    let meanwhile: Box<dyn FnOnce() + Send> = Box::new(move || meanwhile(&bucket, &others));
    let (sleepy, storage) = Sleepy::new(process(&store), step, meanwhile);
    let ended = work(&opened(storage), 20, &kept);
    let has_slept = sleepy.has_slept();
    assert!(has_slept || ended.is_ok(), "step {step}: {ended:?}");
    is_whole(&store, &kept.lock(), step);
    has_slept
}

/// All of `kept` is there and complete, for the next reader and the next writer.
fn is_whole(store: &Arc<InMemory>, kept: &[SnapshotRef], step: usize) {
    let repository = opened(process(store));
    let listed = repository.snapshots().unwrap();
    for name in kept {
        assert!(listed.contains(name), "step {step}: {name:?}");
    }
    let lease = repository.lease("after").unwrap();
    assert!(repository.are_complete(&Unwatched).unwrap(), "step {step}");
    back_up(&repository, &lease, &[1, 20, 21, 30, 31, 40]).unwrap();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(repository.are_complete(&Unwatched).unwrap(), "step {step}");
    for name in repository.snapshots().unwrap() {
        let root = repository.snapshot(name).unwrap().head.root;
        let mut buffer = Vec::new();
        repository.fetch(&root, &mut buffer).unwrap();
    }
}

/// It was in the middle of an upload when it fell asleep: the name that the next writer is about to give is taken.
#[test]
fn a_container_of_a_sleeper_that_comes_late_costs_the_next_writer_a_number() {
    for what in ["a backup", "a removal"] {
        let store = Arc::default();
        let kept = begun(&store);
        // A failed request stands for one that is still on its way.
        let (on_its_way, sent) = (Arc::new(Mutex::new(None)), process(&store));
        let (note, staged) = (on_its_way.clone(), sent.clone());
        let sleeper = opened(Before::each(sent, move |verb, name| {
            if verb != "publish" || !name.starts_with("containers/") {
                return Ok(());
            }
            let part = name.replace(".ice", ".part");
            *note.lock() = Some((name.to_owned(), read_small(&*staged, &part, 1 << 20)?));
            Err(StorageError::new("publish", name, ErrorKind::TimedOut))
        }));
        let asleep = sleeper.lease("sleeper").unwrap();
        back_up(&sleeper, &asleep, &[10, 11, 12]).unwrap_err();
        let bucket = Arc::clone(&store);
        let storage = Before::each(process(&store), move |verb, _| {
            let arrives = on_its_way.lock().take_if(|_| verb == "publish");
            if let Some((name, bytes)) = arrives {
                let sleeper = process(&bucket);
                sleeper.create("part")?.append(&[&bytes])?;
                sleeper.publish("part", &name)?;
            }
            Ok(())
        });
        let repository = opened(storage);
        let lease = repository.lease("next").unwrap();
        let mut left = kept[1..].to_vec();
        match what {
            "a backup" => left.push(back_up(&repository, &lease, &[20, 21, 22]).unwrap()),
            _ => forget(&repository, &lease, &kept[..1]).unwrap(),
        }
        drop((lease, asleep));
        is_whole(&store, &left, 0);
    }
}

#[test]
fn containers_that_go_together_are_announced_together() {
    let store = Arc::default();
    begun(&store);
    let repository = opened(process(&store));
    let lease = repository.lease("a writer").unwrap();
    let large = back_up(&repository, &lease, &(100..140).collect::<Vec<_>>()).unwrap();
    forget(&repository, &lease, &[large]).unwrap();
    let announced = || process(&store).list("removed").map_or(0, |row| row.len());
    let before = announced();
    let outcome = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(outcome.containers_removed >= 20, "{outcome:?}");
    assert!(announced() - before <= 3, "{} announcements", announced() - before);
}

fn slot(byte: u8) -> (KeyId, Vec<u8>) {
    (KeyId([byte; 8]), vec![byte; 40])
}

fn make(storage: Arc<dyn Storage>, byte: u8) -> Result<Repository> {
    let config = Config::new(RepositoryId([byte; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let keys = repository::keys::Keys { slots: vec![slot(byte)], ..Default::default() };
    Repository::init(storage, config, &keys)
}

/// Two first commands for one place, of which one falls asleep before its last step.
#[test]
fn of_two_who_make_a_repository_in_one_place_one_is_told_that_it_exists() {
    let store: Arc<InMemory> = Arc::default();
    let bucket = store.clone();
    let second = Mutex::new(Some(move || make(process(&bucket), 2).unwrap()));
    let storage = Before::each(process(&store), move |verb, name| {
        if verb.starts_with("put") && name == "config.copy" {
            let second = second.lock().take();
            second.map(|second| second());
        }
        Ok(())
    });
    let refused = make(storage, 1).err().unwrap();
    assert!(matches!(refused, Error::Exists { .. }), "{refused}");
    let repository = opened(process(&store));
    assert_eq!(repository.config().repository, RepositoryId([2; 16]));
    assert_eq!(repository.key_slots().unwrap(), [slot(2)]);
}
