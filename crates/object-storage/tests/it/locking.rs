//! Object Lock, and what it is worth when somebody has our keys and means harm.

use crate::contract::{access, in_memory};
use crate::engine::{back_up, opened};
use crate::faulty::{Fault, Faulty, Plan};
use ids::RepositoryId;
use object_storage::{
    KnownLocks, Location, LockMode, LockOptions, Locked, ObjectStorage, Step, connect,
    connect_through,
};
use repository::Repository;
use repository::config::Config;
use repository::rebuild::rebuild;
use repository::storage::Storage;
use repository::watch::Unwatched;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testkit::s3::{Gateway, Server};

const DAY: i64 = 86_400;
const PREFIX: &str = "some/prefix";

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn reached(bucket: &str) -> Arc<ObjectStorage> {
    let location = Location { bucket: bucket.into(), prefix: PREFIX.into() };
    let client = connect(&location, &access(Gateway::shared())).unwrap();
    Arc::new(ObjectStorage::open(client).unwrap())
}

fn lock(bucket: &str, files: &[(String, i64)], mode: LockMode) -> Locked {
    let locked = reached(bucket).lock_objects(files, LockOptions::exact(mode), &|| false).unwrap();
    assert_eq!((locked.failed, &*locked.reasons), (0, &[][..]));
    locked
}

/// Mode and end of the lock of an object, as the storage says them.
fn lock_of(bucket: &str, name: &str) -> String {
    let (status, text) =
        Gateway::shared().ask("GET", &format!("{bucket}/{PREFIX}/{name}?retention="), &[]);
    if status == 200 { text } else { String::new() }
}

/// A repository with one snapshot in the bucket, and the files that it needs.
fn repository(bucket: &str) -> Vec<String> {
    let storage: Arc<dyn Storage> = reached(bucket);
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    Repository::init(storage.clone(), config, &repository::keys::Keys::default()).unwrap();
    let repository = opened(storage.clone());
    let lease = repository.lease("a writer").unwrap();
    back_up(&repository, &lease, &[1, 2, 3]).unwrap();
    drop(lease);
    let mut files: Vec<_> = repository::config::NAMES.map(str::to_owned).into();
    for directory in storage.list("containers").unwrap() {
        let directory = format!("containers/{directory}");
        files
            .extend(storage.list(&directory).unwrap().iter().map(|it| format!("{directory}/{it}")));
    }
    let snapshots = storage.list("snapshots").unwrap();
    files.extend(snapshots.iter().map(|it| format!("snapshots/{it}")));
    files.retain(|file| storage.open(file).is_ok());
    files
}

/// Ceph 16.2 takes no notice of conditions where a bucket keeps versions: no repository is made that could be locked.
fn is_refused_by_ceph(bucket: &str) -> bool {
    if Server::chosen() != Server::Ceph {
        return false;
    }
    let refused = reached(bucket).probe().unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::Unsupported, "{refused}");
    let refused = reached(bucket).try_lock("lock").err().unwrap();
    assert_eq!(refused.source.kind(), ErrorKind::Unsupported, "{refused}");
    assert_eq!(Gateway::shared().keys(bucket, ""), [""; 0]);
    true
}

fn until(files: &[String], secs: i64) -> Vec<(String, i64)> {
    files.iter().map(|file| (file.clone(), secs)).collect()
}

#[test]
fn what_is_locked_outlasts_who_has_our_keys_and_is_put_back() {
    let (gateway, bucket) = (Gateway::shared(), Gateway::shared().locking_bucket());
    if is_refused_by_ceph(&bucket) {
        return;
    }
    let files = repository(&bucket);
    let locked = lock(&bucket, &until(&files, now() + 10 * DAY), LockMode::Compliance);
    assert!(locked.objects > files.len() as u64 && locked.prolonged == locked.objects);
    std::thread::sleep(Duration::from_millis(1100)); // storages tell seconds
    let moment = now();
    std::thread::sleep(Duration::from_millis(1100));

    // Overwrites, removes, adds, and then removes each version that can be removed.
    for file in &files {
        if !file.starts_with("snapshots/") {
            let what = format!("{bucket}/{PREFIX}/{file}");
            assert_eq!(gateway.ask("PUT", &what, &["-d", "rubbish"]).0, 200);
        }
    }
    let forged = format!("{bucket}/{PREFIX}/ended/00000000000000ff");
    assert_eq!(gateway.ask("PUT", &forged, &["-d", "rubbish"]).0, 200);
    for (key, _) in Gateway::shared().versions(&bucket) {
        gateway.ask("DELETE", &format!("{bucket}/{key}"), &[]);
    }
    let bypass = ["-H", "x-amz-bypass-governance-retention: true"];
    let mut refused = 0;
    for (key, id) in Gateway::shared().versions(&bucket) {
        let (status, _) = gateway.ask("DELETE", &format!("{bucket}/{key}?versionId={id}"), &bypass);
        refused += usize::from(status == 403);
    }
    assert_eq!(refused as u64, locked.objects, "just what is locked stays");
    assert!(!reached(&bucket).list("snapshots").is_ok_and(|it| !it.is_empty()), "nothing is seen");

    let put_back = |dry_run| {
        let mut steps = 0;
        let told = &mut |_: &str, step: &Step| steps += usize::from(*step != Step::Remove);
        let done = reached(&bucket).put_back(moment, dry_run, told).unwrap();
        assert_eq!((done.failed, &*done.reasons), (0, &[][..]));
        (done, steps as u64)
    };
    let (would, steps) = put_back(true);
    assert_eq!((would.restored, steps), (locked.objects, locked.objects));
    assert!(!reached(&bucket).list("snapshots").is_ok_and(|it| !it.is_empty()), "a dry run");
    let (done, _) = put_back(false);
    assert_eq!(done, would);
    assert_eq!(put_back(false).0.restored, 0, "all is as it was");

    let storage: Arc<dyn Storage> = reached(&bucket);
    let (repository, ..) = rebuild(&storage, "who recovers").unwrap();
    assert_eq!(repository.current_snapshots().unwrap().len(), 1);
    assert!(repository.are_complete(&Unwatched).unwrap());
    for number in [1, 2, 3] {
        repository.fetch(&stored::chunk(number), &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_lock_ends_later_and_never_earlier_and_is_not_set_twice() {
    let bucket = Gateway::shared().locking_bucket();
    reached(&bucket).put("keys/a", b"key").unwrap();
    let file = |secs| vec![("keys/a".to_owned(), secs)];
    assert_eq!(lock(&bucket, &file(now() + 20 * DAY), LockMode::Governance).prolonged, 1);
    let first = lock_of(&bucket, "keys/a");
    assert!(first.contains("GOVERNANCE"), "{first}");
    for days in [20, 10, -5] {
        let again = lock(&bucket, &file(now() + days * DAY - 60), LockMode::Governance);
        assert_eq!((again.objects, again.prolonged), (1, 0), "{days} days");
    }
    assert_eq!(lock_of(&bucket, "keys/a"), first);
    // A far time is given in parts of a year at most.
    assert_eq!(lock(&bucket, &file(i64::MAX), LockMode::Governance).prolonged, 1);
    let far = lock_of(&bucket, "keys/a");
    assert_ne!(far, first);
    assert_eq!(lock(&bucket, &file(i64::MAX), LockMode::Governance).prolonged, 0);
    // What replaces an object is locked of its own.
    reached(&bucket).put("keys/a", b"another key").unwrap();
    assert_eq!(lock_of(&bucket, "keys/a"), "");
    assert_eq!(lock(&bucket, &file(now() - 5), LockMode::Compliance).prolonged, 1, "for an hour");
}

/// Who locks again and again asks for each object once, and for those that are needed for longer than before.
#[test]
fn what_is_known_to_be_locked_is_not_asked_for_again() {
    let bucket = Gateway::shared().locking_bucket();
    let storage = reached(&bucket);
    for name in ["keys/a", "keys/b"] {
        storage.put(name, b"key").unwrap();
    }
    let mut known = KnownLocks::default();
    let mut lock = |files: &[(&str, i64)]| {
        let files: Vec<_> =
            files.iter().map(|(name, days)| ((*name).to_owned(), now() + days * DAY)).collect();
        let before = storage.asked().reads;
        let options = LockOptions::exact(LockMode::Governance);
        let locked = storage.lock_unless_known(&files, options, &mut known, &|| false).unwrap();
        assert_eq!(locked.failed, 0, "{locked:?}");
        (locked.objects, locked.prolonged, storage.asked().reads - before)
    };
    let (objects, prolonged, reads) = lock(&[("keys/a", 9), ("keys/b", 9)]);
    assert_eq!((objects, prolonged), (2, 2));
    assert_eq!(lock(&[("keys/a", 8), ("keys/b", 8)]), (2, 0, reads - 2), "both are known");
    assert_eq!(lock(&[("keys/a", 8), ("keys/b", 10)]), (2, 1, reads - 1), "one for longer");
    assert_eq!(lock(&[("keys/a", 8)]), (1, 0, reads - 2));
    assert_eq!(lock(&[("keys/a", 8), ("keys/b", 8)]), (2, 0, reads - 1), "it was forgotten");
    assert!(lock_of(&bucket, "keys/b").contains("GOVERNANCE"));
}

/// Who writes meanwhile tidies up what only the bucket needs.
#[test]
fn a_lease_that_goes_meanwhile_is_missed_by_nobody() {
    let bucket = Gateway::shared().locking_bucket();
    if is_refused_by_ceph(&bucket) {
        return;
    }
    let files = until(&repository(&bucket), now() + DAY);
    let storage = reached(&bucket);
    let leases: Vec<_> =
        Gateway::shared().versions(&bucket).into_iter().map(|(key, _)| key).collect();
    let leases: Vec<_> = leases.iter().filter(|key| key.contains("/lease/")).collect();
    assert!(!leases.is_empty());
    for key in leases {
        assert_eq!(Gateway::shared().ask("DELETE", &format!("{bucket}/{key}"), &[]).0, 204);
    }
    let locked =
        storage.lock_objects(&files, LockOptions::exact(LockMode::Governance), &|| false).unwrap();
    assert_eq!((locked.failed, locked.objects >= files.len() as u64), (0, true), "{locked:?}");
}

#[test]
fn a_storage_that_cannot_lock_is_told_from_one_that_can() {
    let file = [("keys/a".to_owned(), now() + DAY)];
    let refused = |storage: &ObjectStorage| {
        let error = storage
            .lock_objects(&file, LockOptions::exact(LockMode::Compliance), &|| false)
            .unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
        let told = &mut |_: &str, _: &Step| panic!("nothing is done");
        let error = storage.put_back(now(), false, told).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
    };
    refused(&reached(&Gateway::shared().bucket()));
    refused(&in_memory(&Arc::default()));
    assert_eq!(
        reached(&Gateway::shared().locking_bucket()).can_lock().map_err(|e| e.to_string()),
        Ok(())
    );
}

#[test]
fn locks_are_set_although_answers_get_lost_and_what_fails_is_told() {
    let (gateway, bucket) = (Gateway::shared(), Gateway::shared().locking_bucket());
    let location = Location { bucket, prefix: PREFIX.into() };
    let through = |plan: &Arc<Plan>| {
        let connector = || Faulty::new(plan);
        let client = connect_through(&location, &access(gateway), &connector).unwrap();
        ObjectStorage::open(client).unwrap()
    };
    let mut files = Vec::new();
    for seed in 0..6 {
        let name = format!("keys/{seed}");
        reached(&location.bucket).put(&name, b"key").unwrap();
        files.push((name, now() + DAY));
        let faulty = through(&Plan::random(seed));
        let locked = faulty
            .lock_objects(&files, LockOptions::exact(LockMode::Compliance), &|| false)
            .unwrap();
        let objects = (locked.objects, locked.prolonged, locked.failed);
        assert!(objects.0 == seed + 1 && objects.1 <= 1 && objects.2 == 0, "{locked:?}");
        assert_ne!(lock_of(&location.bucket, &format!("keys/{seed}")), "");
    }
    files.push(("keys/gone".into(), now() + DAY));
    let plan = Plan::quiet();
    let faulty = through(&plan);
    let locked =
        faulty.lock_objects(&files, LockOptions::exact(LockMode::Compliance), &|| false).unwrap();
    assert_eq!((locked.objects, locked.failed), (6, 1), "{locked:?}");
    assert!(locked.reasons[0].starts_with("keys/gone: "), "{locked:?}");
    plan.expire();
    let error = faulty
        .lock_objects(&files, LockOptions::exact(LockMode::Compliance), &|| false)
        .unwrap_err();
    assert!(error.to_string().contains("ExpiredToken"), "{error}");
    let cancelled = reached(&location.bucket).lock_objects(
        &files,
        LockOptions::exact(LockMode::Compliance),
        &|| true,
    );
    assert_eq!(cancelled.unwrap_err().source.kind(), ErrorKind::Interrupted);
}

#[test]
fn more_objects_than_a_page_has_are_all_put_back() {
    let bucket = Gateway::shared().locking_bucket();
    let storage = reached(&bucket);
    storage.put("config", b"of a repository").unwrap();
    let names: Vec<_> = (0..1100).map(|number| format!("keys/{number:04}")).collect();
    std::thread::scope(|scope| {
        for part in names.chunks(100) {
            let storage = &storage;
            scope.spawn(move || part.iter().for_each(|name| storage.put(name, b"key").unwrap()));
        }
    });
    std::thread::sleep(Duration::from_millis(1100));
    let moment = now();
    std::thread::sleep(Duration::from_millis(1100));
    storage.remove_all(&names).unwrap();
    storage.put("keys/later", b"later").unwrap();
    let beside = [format!("{PREFIX}/photo.jpg"), "some/prefix2/config".into(), "config".into()];
    for name in &beside {
        assert_eq!(Gateway::shared().ask("PUT", &format!("{bucket}/{name}"), &["-d", "x"]).0, 200);
    }
    let done = reached(&bucket).put_back(moment, false, &mut |_, _| {}).unwrap();
    assert_eq!((done.restored, done.removed, done.failed), (1100, 1, 0));
    assert_eq!(reached(&bucket).list("keys").unwrap().len(), 1100);
    for name in &beside {
        assert_eq!(Gateway::shared().ask("GET", &format!("{bucket}/{name}"), &[]).0, 200, "{name}");
    }
}

/// Of versitygw, which takes the mark of a removal for an object, as of storages that create what is absent.
#[test]
fn of_writers_that_race_for_a_name_that_was_removed_one_creates_it() {
    let bucket = Gateway::shared().versioned_bucket();
    if Server::chosen() == Server::Ceph {
        return; // takes no notice of conditions there
    }
    let writers: Vec<_> = (0..6).map(|_| reached(&bucket)).collect();
    for round in 0..5 {
        let created: Vec<_> = std::thread::scope(|scope| {
            let create = |(number, writer): (usize, &Arc<ObjectStorage>)| {
                let (writer, bytes) = (writer.clone(), format!("{number} of {round}"));
                scope.spawn(move || writer.put_new("keys/one", bytes.as_bytes()).map(|()| bytes))
            };
            let racing: Vec<_> = writers.iter().enumerate().map(create).collect();
            racing.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let refused = created.iter().filter_map(|created| created.as_ref().err());
        assert!(refused.clone().all(|error| error.already_exists()), "{created:?}");
        let [won] = &created.iter().flatten().collect::<Vec<_>>()[..] else {
            panic!("round {round}: {created:?}");
        };
        let what = format!("{bucket}/{PREFIX}/keys/one");
        assert_eq!(Gateway::shared().ask("GET", &what, &[]), (200, (*won).clone()));
        writers[0].remove("keys/one").unwrap();
    }
}

#[test]
fn a_name_that_was_removed_is_used_again_although_answers_get_lost() {
    let (gateway, bucket) = (Gateway::shared(), Gateway::shared().versioned_bucket());
    if Server::chosen() == Server::Ceph {
        return; // takes no notice of conditions there
    }
    let location = Location { bucket: bucket.clone(), prefix: PREFIX.into() };
    for seed in 0..12 {
        let name = format!("keys/{seed}");
        reached(&bucket).put(&name, b"before").unwrap();
        reached(&bucket).remove(&name).unwrap();
        let plan = Plan::random(seed);
        let client = connect_through(&location, &access(gateway), &|| Faulty::new(&plan)).unwrap();
        let created = ObjectStorage::open(client).unwrap().put_new(&name, b"after");
        let what = format!("{bucket}/{PREFIX}/{name}");
        let there = gateway.ask("GET", &what, &[]);
        match created {
            Ok(()) => assert_eq!(there, (200, "after".into()), "seed {seed}"),
            Err(error) => assert!(error.is_unreachable(), "seed {seed}: {error}"),
        }
        if there.0 == 404 {
            reached(&bucket).put_new(&name, b"after").unwrap();
        }
        let refused = reached(&bucket).put_new(&name, b"too late").unwrap_err();
        assert!(refused.already_exists(), "seed {seed}: {refused}");
    }
}

/// As of a large object, which versitygw refuses without reading it to its end: who is still sending finds the
/// connection closed.
#[test]
fn a_name_that_was_removed_is_used_again_although_no_refusal_is_heard() {
    let (gateway, bucket) = (Gateway::shared(), Gateway::shared().versioned_bucket());
    if Server::chosen() == Server::Ceph {
        return; // takes no notice of conditions there
    }
    let location = Location { bucket: bucket.clone(), prefix: PREFIX.into() };
    let (reset, refused) = (Fault::DoneAndReset, Fault::Conflict);
    for (name, lost) in [("keys/none", [[reset; 2]; 4]), ("keys/some", [[refused, reset]; 4])] {
        reached(&bucket).put(name, b"before").unwrap();
        reached(&bucket).remove(name).unwrap();
        let plan = Plan::quiet();
        plan.fail_creates(lost.concat());
        let client = connect_through(&location, &access(gateway), &|| Faulty::new(&plan)).unwrap();
        ObjectStorage::open(client).unwrap().put_new(name, b"after").unwrap();
        let what = format!("{bucket}/{PREFIX}/{name}");
        assert_eq!(gateway.ask("GET", &what, &[]), (200, "after".into()));
    }
}

/// Two would have the lease of one number else.
#[test]
fn a_writer_that_slept_while_all_was_put_back_has_no_lease_any_more() {
    let bucket = Gateway::shared().versioned_bucket();
    if Server::chosen() == Server::Ceph {
        return; // takes no notice of conditions there
    }
    let first = reached(&bucket);
    first.put("config", b"of a repository").unwrap();
    let lock = first.try_lock("lock").unwrap();
    first.put("index/state", b"first").unwrap();
    drop(lock);
    std::thread::sleep(Duration::from_millis(1100)); // storages tell seconds
    let moment = now();
    std::thread::sleep(Duration::from_millis(1100));
    let location = Location { bucket: bucket.clone(), prefix: PREFIX.into() };
    let client = connect(&location, &access(Gateway::shared())).unwrap();
    let mut sleeper = ObjectStorage::open(client).unwrap();
    sleeper.look_again_after(Duration::ZERO);
    let _its = sleeper.try_lock("lock").unwrap().unwrap();
    sleeper.put("index/state", b"second").unwrap();
    let done = reached(&bucket).put_back(moment, false, &mut |_, _| {}).unwrap();
    assert_eq!(done.failed, 0, "{done:?}");
    let successor = reached(&bucket);
    let _its = successor.try_lock("lock").unwrap().unwrap();
    successor.put("index/state", b"third").unwrap();
    let refused = sleeper.put("index/state", b"fourth").unwrap_err();
    assert!(refused.already_exists(), "{refused}");
}

/// Such a mark remembers the tag of something that is gone: nobody knows it.
#[test]
fn names_below_marks_of_which_nobody_knows_the_tag_are_used_again() {
    let (gateway, bucket) = (Gateway::shared(), Gateway::shared().versioned_bucket());
    reached(&bucket).put("config", b"of a repository").unwrap();
    std::thread::sleep(Duration::from_millis(1100)); // storages tell seconds
    let moment = now();
    std::thread::sleep(Duration::from_millis(1100));
    for (name, versions) in [("keys/none", 1), ("keys/older", 2)] {
        let what = format!("{bucket}/{PREFIX}/{name}");
        for number in 0..versions {
            assert_eq!(gateway.ask("PUT", &what, &["-d", &format!("version {number}")]).0, 200);
            let newest =
                gateway.versions(&bucket).into_iter().filter(|(key, _)| what.ends_with(key));
            let ids: Vec<_> = newest.map(|(_, id)| id).collect();
            assert_eq!(ids.len(), number + 1);
            if number + 1 == versions {
                assert_eq!(gateway.ask("DELETE", &what, &[]).0, 204);
                let newest = format!("{what}?versionId={}", ids[0]);
                assert_eq!(gateway.ask("DELETE", &newest, &[]).0, 204);
            }
        }
    }
    for again in [false, true] {
        let done = reached(&bucket).put_back(moment, false, &mut |_, _| {}).unwrap();
        assert_eq!((done.restored, done.failed), (0, 0), "{again}: {done:?}");
    }
    assert_eq!(gateway.keys(&bucket, PREFIX), [format!("{PREFIX}/config")]);
    if Server::chosen() != Server::Ceph {
        for name in ["keys/none", "keys/older"] {
            reached(&bucket).put_new(name, b"new").unwrap();
            assert!(reached(&bucket).put_new(name, b"newer").unwrap_err().already_exists());
        }
    }
}

/// Two writers would create the same object there.
#[test]
fn nothing_is_created_by_its_tag_where_the_storage_takes_no_notice_of_tags() {
    let (gateway, bucket) = (Gateway::of_files(), Gateway::of_files().versioned_bucket());
    let location = Location { bucket: bucket.clone(), prefix: PREFIX.into() };
    let plan = Plan::quiet();
    let client = connect_through(&location, &access(gateway), &|| Faulty::new(&plan)).unwrap();
    let storage = ObjectStorage::open(client).unwrap();
    storage.put("keys/one", b"before").unwrap();
    storage.remove("keys/one").unwrap();
    plan.ignore_tags();
    let refused = storage.put_new("keys/one", b"after").unwrap_err();
    assert!(refused.to_string().contains("PreconditionFailed"), "{refused}");
    assert_eq!(gateway.ask("GET", &format!("{bucket}/{PREFIX}/keys/one"), &[]).0, 404);
}
