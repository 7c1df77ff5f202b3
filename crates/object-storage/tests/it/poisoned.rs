//! One answer that is wrong, with a status of success: what comes of it does not stay.

use crate::contract::{access, location};
use crate::engine::{back_up, opened};
use crate::faulty::{Faulty, Plan, Wrong};
use ids::{KeyId, RepositoryId};
use object_storage::{Access, Away, Location, ObjectStorage, connect_through};
use repository::config::Config;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::{Repository, keys};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stored::chunk;
use testkit::s3::Gateway;

/// A process that uses the bucket, keeps what it reads in `folder`, and gets its answers by `plan`.
fn process(location: &Location, plan: &Arc<Plan>, folder: &Path) -> Arc<dyn Storage> {
    let connector = || Faulty::new(plan);
    let client = connect_through(location, &access(Gateway::shared()), &connector).unwrap();
    let mut storage = ObjectStorage::open(client).unwrap();
    storage.keep_in(folder);
    Arc::new(storage)
}

/// One that waits for no sign of the last writer.
fn taking_over(location: &Location, plan: &Arc<Plan>) -> Arc<dyn Storage> {
    let connector = || Faulty::new(plan);
    let client = connect_through(location, &access(Gateway::shared()), &connector).unwrap();
    let mut storage = ObjectStorage::open(client).unwrap();
    storage.take_over_after(Duration::from_millis(20));
    Arc::new(storage)
}

/// What a key slot looks like to who opens none.
fn slot() -> Vec<u8> {
    let covered = [7; 100];
    let sum = blake3::derive_key("icecore 2026 slot checksum v1", &covered);
    [&covered[..], &sum[..16]].concat()
}

/// A repository with a key and three snapshots.
fn begun() -> Location {
    let (location, folder) = (location(Gateway::shared(), "x"), tempfile::tempdir().unwrap());
    let process = || process(&location, &Plan::quiet(), folder.path());
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let slots = vec![(KeyId([5; 8]), slot())];
    Repository::init(process(), config, &keys::Keys { slots, key_list: Vec::new() }).unwrap();
    let repository = opened(process());
    let lease = repository.lease("begun").unwrap();
    for numbers in [&[1, 2][..], &[2, 3], &[4, 5]] {
        back_up(&repository, &lease, numbers).unwrap();
    }
    location
}

/// All that a reader sees: the snapshots, and that the index finds what was stored.
fn all(storage: Arc<dyn Storage>) -> repository::Result<Vec<SnapshotRef>> {
    let repository = Repository::open(storage)?;
    let names = repository.snapshots()?;
    names.iter().try_for_each(|name| repository.snapshot(*name).map(drop))?;
    assert_eq!(repository.key_slots()?, [(KeyId([5; 8]), slot())]);
    let found = repository.locate(&[1, 2, 3, 4, 5].map(chunk))?;
    assert!(found.iter().all(Option::is_some), "{found:?}");
    Ok(names)
}

#[test]
fn a_wrong_answer_is_asked_for_once_more_and_nobody_keeps_it() {
    let (location, quiet) = (begun(), Plan::quiet());
    for part in ["/config", "index/state/", "index/run-", "snapshots/"] {
        for wrong in [Wrong::Flipped, Wrong::Page] {
            let (plan, folder) = (Plan::quiet(), tempfile::tempdir().unwrap());
            let storage = process(&location, &plan, folder.path());
            plan.spoil(part, wrong, 1);
            let seen = all(storage);
            assert_eq!(plan.left_to_spoil(), 0, "{part} was read");
            assert_eq!(seen.unwrap().len(), 3, "{part}, {wrong:?}");
            let kept = all(process(&location, &quiet, folder.path()));
            assert_eq!(kept.unwrap().len(), 3, "{part}, {wrong:?}");
        }
    }
}

/// What is known of it is for the whole process. The check named it as damaged, and advised to remove the key.
#[test]
fn a_wrong_key_slot_is_asked_for_once_more_and_nobody_keeps_it() {
    for wrong in [Wrong::Flipped, Wrong::Page] {
        let (location, plan, folder) = (begun(), Plan::quiet(), tempfile::tempdir().unwrap());
        let storage = process(&location, &plan, folder.path());
        plan.spoil("keys/", wrong, 1);
        assert_eq!(all(storage).unwrap().len(), 3, "{wrong:?}");
        assert_eq!(plan.left_to_spoil(), 0, "{wrong:?}");
        assert_eq!(all(process(&location, &plan, folder.path())).unwrap().len(), 3, "{wrong:?}");
    }
}

/// So long as it is wrong, it counts as damaged; and no longer.
#[test]
fn what_was_wrong_each_time_is_read_afresh_by_the_next_process() {
    let (location, quiet) = (begun(), Plan::quiet());
    for part in ["index/state/", "index/run-", "snapshots/"] {
        let (plan, folder) = (Plan::quiet(), tempfile::tempdir().unwrap());
        let storage = process(&location, &plan, folder.path());
        plan.spoil(part, Wrong::Flipped, usize::MAX);
        assert!(all(storage).is_err(), "{part}");
        let kept = all(process(&location, &quiet, folder.path()));
        assert_eq!(kept.unwrap().len(), 3, "{part}");
    }
}

/// It has no names, so all would be gone that was acknowledged.
#[test]
fn an_answer_that_is_no_list_is_asked_for_once_more() {
    let (location, folder) = (begun(), tempfile::tempdir().unwrap());
    let whole = process(&location, &Plan::quiet(), folder.path()).list("containers/00000000");
    let whole = whole.unwrap();
    for wrong in [Wrong::Page, Wrong::Error] {
        let plan = Plan::quiet();
        let storage = process(&location, &plan, folder.path());
        plan.spoil("list-type=2", wrong, 1);
        assert_eq!(storage.list("containers").unwrap(), ["00000000"], "{wrong:?}");
        assert_eq!(plan.left_to_spoil(), 0);
        plan.spoil("list-type=2", wrong, 2);
        assert_eq!(storage.list("containers/00000000").unwrap(), whole, "{wrong:?}");
        assert_eq!(plan.left_to_spoil(), 0);
    }
}

#[test]
fn a_storage_that_gives_no_list_counts_as_away_and_what_came_is_said() {
    let (location, plan) = (begun(), Plan::quiet());
    let access = Access { away: Away::NONE, retries: 1, ..access(Gateway::shared()) };
    let client = connect_through(&location, &access, &|| Faulty::new(&plan)).unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    for (wrong, said) in [(Wrong::Page, "something else: <html>"), (Wrong::Error, "<Error>")] {
        plan.spoil("list-type=2", wrong, usize::MAX);
        let refused = storage.list("containers").unwrap_err();
        assert!(refused.is_unreachable(), "{refused}");
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

/// Whoever takes over writes down which snapshots count of a writer that was killed: all that are listed then. And it
/// writes the state once more: a damaged one would stay.
#[test]
fn no_wrong_answer_makes_a_takeover_disown_a_snapshot() {
    let parts = [("list-type=2", Wrong::Error, 3), ("index/state/", Wrong::Flipped, 2)];
    for (part, wrong, least) in parts {
        let mut asked = 0;
        while takes_over(part, wrong, asked) {
            asked += 1;
        }
        assert!(asked >= least, "{part}: {asked} times");
    }
}

/// Whether a takeover asks for `part` behind so `many` of it, and is answered wrongly then.
fn takes_over(part: &str, wrong: Wrong, many: usize) -> bool {
    let (location, folder) = (begun(), tempfile::tempdir().unwrap());
    let killed = opened(process(&location, &Plan::quiet(), folder.path()));
    let lease = killed.lease("killed").unwrap();
    back_up(&killed, &lease, &[7, 8]).unwrap();
    std::mem::forget(lease);
    let plan = Plan::quiet();
    let next = taking_over(&location, &plan);
    plan.spoil_after(part, wrong, many);
    Arc::new(Repository::open(next).unwrap()).lease("next").unwrap();
    let seen = all(process(&location, &Plan::quiet(), folder.path())).unwrap();
    assert_eq!(seen.len(), 4, "{part}: a wrong answer behind {many} right ones");
    plan.left_to_spoil() == 0
}
