//! Containers in cold storage classes, in a bucket that a proxy gives such classes (`testkit/src/cold.rs`).

use crate::contract::access;
use crate::engine::{back_up, opened};
use ids::RepositoryId;
use object_storage::{Access, Location, ObjectState, ObjectStorage, Readable, Tier, connect};
use parking_lot::Mutex;
use repository::config::Config;
use repository::reclaim::{self, ReclaimOptions};
use repository::storage::{Storage, StorageError};
use repository::watch::Unwatched;
use repository::{Error, Repository};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stored::{Before, chunk, data, session_record, tombstone};
use testkit::cold::ColdStorage;
use testkit::s3::Gateway;

const HOURS: Duration = Duration::from_secs(5 * 3600);
const PREFIX: &str = "some/prefix";
const CONTAINER: &str = "containers/00000000/0000000007.ice";

const OPTIONS: ReclaimOptions = ReclaimOptions {
    max_waste_percent: 0.0,
    dry_run: false,
    accept_damage: false,
    free_interrupted: true,
};

/// A bucket of its own behind such a proxy.
struct Bucket {
    cold: ColdStorage,
    name: String,
}

impl Bucket {
    fn new() -> Self {
        let cold = ColdStorage::start(Gateway::shared(), HOURS);
        Self { cold, name: Gateway::shared().bucket() }
    }

    /// As one process sees it.
    fn process(&self) -> Arc<ObjectStorage> {
        let mut access: Access = access(Gateway::shared());
        access.credentials.endpoint = Some(self.cold.endpoint());
        let location = Location { bucket: self.name.clone(), prefix: PREFIX.into() };
        let mut storage = ObjectStorage::open(connect(&location, &access).unwrap()).unwrap();
        storage.take_over_after(Duration::from_millis(20));
        Arc::new(storage)
    }

    /// With a repository whose content goes into `class`.
    fn of(class: &str) -> Self {
        let bucket = Self::new();
        let storage = bucket.process();
        storage.set_storage_class(class).unwrap();
        let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
        Repository::init(storage, config, &repository::keys::Keys::default()).unwrap();
        bucket
    }

    fn classes(&self) -> usize {
        self.cold.classes(&format!("{}/{PREFIX}/", self.name)).len()
    }
}

fn write(storage: &ObjectStorage, bytes: &[u8]) -> Result<(), StorageError> {
    let part = format!("{CONTAINER}.part");
    let mut file = storage.create(&part)?;
    file.append(&[bytes])?;
    file.sync()?;
    storage.publish_content(&part, CONTAINER)
}

#[test]
fn a_container_whose_answer_was_lost_is_known_by_its_mark() {
    let bucket = Bucket::of("DEEP_ARCHIVE");
    bucket.cold.lose_answers(1);
    write(&bucket.process(), b"content of files").unwrap();
    // Of the same length, and with another content.
    let other = write(&bucket.process(), b"other bytes here").unwrap_err();
    assert!(other.already_exists(), "{other}");
    write(&bucket.process(), b"content of files").unwrap();
    assert_eq!(bucket.classes(), 1);
}

#[test]
fn what_is_archived_is_told_asked_for_and_read() {
    let bucket = Bucket::of("GLACIER");
    write(&bucket.process(), b"content of files").unwrap();
    let storage = bucket.process();
    let read = || {
        let file = storage.open(CONTAINER)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    let archived = read().unwrap_err();
    assert!(archived.is_archived() && archived.is_unreachable(), "{archived}");
    assert_eq!(archived.archived().unwrap().class, "GLACIER");
    let names = [CONTAINER.to_owned()];
    let state = || -> ObjectState { storage.states(&names).pop().unwrap().unwrap() };
    assert_eq!((state().readable, state().bytes), (Readable::No, 16));
    let ask = || {
        let objects = [(CONTAINER.to_owned(), state())];
        storage.bring_back(&objects, (Tier::Bulk, 2)).pop().unwrap()
    };
    ask().unwrap();
    assert_eq!(state().readable, Readable::Soon);
    ask().unwrap(); // who asks twice gets it once
    assert!(read().unwrap_err().is_archived());
    bucket.cold.expire();
    bucket.cold.takes(Duration::ZERO);
    ask().unwrap();
    assert!(matches!(state().readable, Readable::Until(_)));
    assert_eq!(read().unwrap(), b"content of files");
    let cold = storage.cold(&names).unwrap().pop().unwrap().unwrap();
    assert!(cold.is_content && cold.class == "GLACIER", "what is back is cold all the same");
}

#[test]
fn who_may_not_ask_is_refused_and_nothing_is_asked() {
    let bucket = Bucket::of("GLACIER");
    write(&bucket.process(), b"content of files").unwrap();
    let state = bucket.process().states(&[CONTAINER.to_owned()]).pop().unwrap().unwrap();
    let mut access: Access = access(Gateway::shared());
    access.credentials.endpoint = Some(bucket.cold.endpoint());
    access.credentials.secret_key = "another".into();
    let location = Location { bucket: bucket.name.clone(), prefix: PREFIX.into() };
    let client = connect(&location, &access).unwrap();
    let refused = ObjectStorage::open(client).map(drop).unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::PermissionDenied);
    assert!(!refused.is_archived() && bucket.cold.asked().is_empty());
    assert_eq!(state.readable, Readable::No);
}

/// A writer that dies between a container and the index leaves one that nobody can read for hours.
#[test]
fn what_a_killed_writer_left_in_an_archive_keeps_nobody_from_writing() {
    let bucket = Bucket::of("DEEP_ARCHIVE");
    let is_dead = Arc::new(AtomicBool::new(false));
    let dead = is_dead.clone();
    let storage = Before::each(bucket.process(), move |verb, name| {
        let is_late =
            ["publish", "put", "put_new"].contains(&verb) && !name.starts_with("containers/");
        match dead.load(Ordering::Relaxed) && is_late {
            true => Err(StorageError::new("put", name, ErrorKind::TimedOut)),
            false => Ok(()),
        }
    });
    let repository = opened(storage);
    let lease = repository.lease("a writer").unwrap();
    back_up(&repository, &lease, &[1, 2]).unwrap();
    let before = bucket.classes();
    is_dead.store(true, Ordering::Relaxed);
    let session = repository.begin(&lease, None, session_record()).unwrap();
    for number in 10..14 {
        assert!(session.claim(&chunk(number)).unwrap());
        session.append(&data(number, 3000)).unwrap();
    }
    assert!(session.checkpoint().is_err());
    drop((session, lease, repository));
    assert!(bucket.classes() > before, "containers that no index knows");

    let repository = opened(bucket.process());
    let lease = repository.lease("the next one").unwrap();
    back_up(&repository, &lease, &[10, 11, 12, 13]).unwrap();
    assert!(repository.are_complete(&Unwatched).unwrap());
    let (left, read) = (bucket.classes(), bucket.cold.reads());
    let done = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(done.containers_removed > 0 && bucket.classes() < left, "{done:?}");
    assert!(repository.are_complete(&Unwatched).unwrap());
    assert_eq!(bucket.cold.reads(), read, "reclaim asks for none");
}

/// What is to go without being read, a session may be told of until it is condemned.
#[test]
fn what_lives_again_before_it_goes_unread_stays() {
    let bucket = Bucket::of("DEEP_ARCHIVE");
    type Work = Box<dyn FnOnce() + Send>;
    let meanwhile: Arc<Mutex<Option<Work>>> = Arc::default();
    let work = meanwhile.clone();
    let storage = Before::each(bucket.process(), move |verb, _| {
        let work = if verb == "cold" { work.lock().take() } else { None };
        work.into_iter().for_each(|work| work());
        Ok(())
    });
    let repository = opened(storage);
    let lease = repository.lease("a writer").unwrap();
    let first = back_up(&repository, &lease, &[1, 2]).unwrap();
    back_up(&repository, &lease, &[3, 4]).unwrap();
    repository.forget(&lease, &[first], &session_record(), &tombstone()).unwrap();
    let before = bucket.classes();
    let (with, under) = (repository.clone(), lease.clone());
    let again: Work = Box::new(move || assert!(back_up(&with, &under, &[1, 2]).is_ok()));
    *meanwhile.lock() = Some(again);
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(meanwhile.lock().is_none() && bucket.classes() == before, "it lives");
    assert!(repository.are_complete(&Unwatched).unwrap());
    let third = repository.snapshots().unwrap().pop().unwrap();
    repository.forget(&lease, &[third], &session_record(), &tombstone()).unwrap();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(bucket.classes() < before, "it is dead");
    assert!(repository.are_complete(&Unwatched).unwrap() && bucket.cold.reads().is_empty());
}

/// Without the mark of its writer nobody knows what a container holds that no index names.
#[test]
fn an_archive_that_nobody_knows_keeps_a_writer_from_guessing() {
    let bucket = Bucket::of("DEEP_ARCHIVE");
    let storage = bucket.process();
    let repository = opened(storage.clone());
    let lease = repository.lease("a writer").unwrap();
    back_up(&repository, &lease, &[1, 2]).unwrap();
    drop((lease, repository));
    // As an older version wrote it, and a rule of the bucket moved it.
    let stray = "containers/00000000/00000000f0.ice";
    let key = format!("{}/{PREFIX}/{stray}", bucket.name);
    let whatever = "whatever".repeat(1000);
    assert_eq!(Gateway::shared().ask("PUT", &key, &["-d", &whatever]).0, 200);
    bucket.cold.moves(&key, "GLACIER");
    let next = opened(bucket.process());
    let refused = next.lease("the next one").map(drop).unwrap_err();
    assert!(refused.is_archived() && matches!(refused, Error::Storage(_)), "{refused}");
}
