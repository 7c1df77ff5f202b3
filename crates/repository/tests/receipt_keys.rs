//! Sessions of one server share the lease of a repository, and note the key of its receipts at the same moment.
#![allow(clippy::unwrap_used)]
use ids::RepositoryId;
use repository::Repository;
use repository::config::Config;
use repository::local::LocalStorage;
use std::sync::{Arc, Barrier};

const SESSIONS: u8 = 8;

#[test]
fn sessions_that_note_receipt_keys_at_once_lose_none() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let keys = repository::keys::Keys::default();
    let repository = Arc::new(Repository::init(storage, config, &keys).unwrap());
    let lease = repository.lease("test").unwrap();
    let start = Barrier::new(SESSIONS.into());
    std::thread::scope(|scope| {
        for number in 1..=SESSIONS {
            let (repository, lease, start) = (&repository, &lease, &start);
            scope.spawn(move || {
                start.wait();
                repository.add_receipt_key(lease, [number; 32]).unwrap();
            });
        }
    });
    let mut known = repository.receipt_keys().unwrap();
    known.sort_unstable();
    assert_eq!(known, (1..=SESSIONS).map(|number| [number; 32]).collect::<Vec<_>>());
}
