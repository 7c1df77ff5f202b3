//! Containers that are published at the same time, where the storage takes several.

use ids::ObjectId;
use repository::Repository;
use repository::local::LocalStorage;
use repository::storage::{Storage, StorageError, StorageResult};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stored::*;

const AT_ONCE: usize = 3;
/// Of each record. So many records fill more than five containers.
const BYTES: usize = 4 << 20;
const RECORDS: u16 = 85;

fn opened(
    folder: &Path,
    hook: impl Fn(&'static str, &str) -> StorageResult<()> + Send + Sync + 'static,
) -> Arc<Repository> {
    let inner: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder).unwrap());
    Arc::new(Repository::open(Before::each_of(inner, AT_ONCE, hook)).unwrap())
}

/// A backup of all records, and of a page that refers to them.
fn back_up(repository: &Arc<Repository>) -> repository::Result<()> {
    let lease = repository.lease("test")?;
    let session = repository.begin(&lease, None, session_record())?;
    let chunks: Vec<ObjectId> = (1..=RECORDS).map(chunk).collect();
    for n in 1..=RECORDS {
        if session.claim(&chunk(n))? {
            session.append(&data(n, BYTES))?;
        }
    }
    // A session that failed may have stored it: a container behind the one that failed is published nonetheless.
    if session.claim(&page(1))? {
        session.append(&leaf(1, &chunks))?;
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).map(drop)
}

fn is_container(verb: &str, name: &str) -> bool {
    verb == "publish" && name.starts_with("containers/")
}

#[test]
fn containers_are_published_at_the_same_time_where_the_storage_takes_several() {
    let (folder, repository, lease) = made();
    drop((repository, lease));
    let [come, running, most] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let repository = opened(folder.path(), move |verb, name| {
        if is_container(verb, name) {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let number = come.fetch_add(1, Ordering::SeqCst);
            // The first ones wait for one another, however long it takes to fill a container.
            let until = Instant::now() + Duration::from_secs(60);
            while number < AT_ONCE
                && come.load(Ordering::SeqCst) < AT_ONCE
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(100));
            running.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    });
    back_up(&repository).unwrap();
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    assert!(reopened(folder.path()).is_complete(page(1)).unwrap());
}

#[test]
fn one_that_cannot_be_published_beside_others_ends_the_session_and_the_next_one_goes_on() {
    fails_after(Duration::ZERO);
}

#[test]
fn one_that_fails_behind_those_after_it_leaves_nothing_that_counts_as_complete() {
    fails_after(Duration::from_secs(1));
}

/// The second container fails so late: then the containers after it are published, the page among them.
fn fails_after(delay: Duration) {
    let (folder, repository, lease) = made();
    drop((repository, lease));
    let published = AtomicUsize::new(0);
    let repository = opened(folder.path(), move |verb, name| {
        if is_container(verb, name) && published.fetch_add(1, Ordering::SeqCst) == 1 {
            std::thread::sleep(delay);
            return Err(StorageError::new("publish", name, ErrorKind::ConnectionReset));
        }
        Ok(())
    });
    let error = back_up(&repository).unwrap_err();
    assert!(error.is_unreachable(), "whoever stores something is told why it is over: {error}");
    drop(repository);
    let next = reopened(folder.path());
    assert!(next.snapshots().unwrap().is_empty());
    assert!(!next.is_complete(page(1)).unwrap(), "what its references need is missing");
    back_up(&next).unwrap();
    assert!(reopened(folder.path()).is_complete(page(1)).unwrap());
}
