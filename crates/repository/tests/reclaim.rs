//! What reclaim leaves behind when it is killed, and what a session leaves that is dropped.

use format::page::{PageKind, put_head};
use format::record::{self, RecordKind};
use ids::{ObjectId, RepositoryId};
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::presence::{Presence, presence, presence_beside_others};
use repository::rebuild::FoundManifest;
use repository::reclaim::{self, ReclaimOptions};
use repository::session::Session;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::watch::Watch;
use repository::{Repository, container};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stored::*;

/// Review finding S6: one whose root is nowhere could neither be forgotten nor reclaimed.
#[test]
fn a_snapshot_whose_root_was_not_stored_is_not_published() {
    let (_folder, repository, lease) = made();
    store(&repository, &lease, 1, 100);
    for root in [page(7), chunk(1)] {
        let session = repository.begin(&lease, None, session_record()).unwrap();
        let sequence = session.next_snapshot();
        let refused = session.commit(&manifest(root, sequence)).err().unwrap();
        assert!(matches!(refused, repository::Error::RootMissing(id) if id == root), "{refused}");
    }
    let session = repository.begin(&lease, None, session_record()).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    assert_eq!(repository.snapshots().unwrap().len(), 2);
}

/// Review finding E9: one lost object ended every reclaim of the repository.
#[test]
fn a_lost_page_ends_reclaim_unless_it_is_given_up() {
    let (folder, repository, lease) = made();
    let lost = store(&repository, &lease, 1, 9 << 20);
    let gone = files(folder.path());
    let dead = store(&repository, &lease, 2, 9 << 20);
    let kept = store(&repository, &lease, 3, 9 << 20);
    drop((repository, lease));
    std::fs::remove_file(&gone[0]).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let (repository, lease, _) = repository::rebuild::rebuild(&storage, "test").unwrap();
    repository.forget(&lease, &[dead], &session_record(), &tombstone()).unwrap();
    let refused = reclaim::run(&repository, &lease, OPTIONS, None).err().unwrap();
    assert!(matches!(refused, repository::Error::ObjectMissing(_)), "{refused}");
    let accepting = ReclaimOptions { accept_damage: true, ..OPTIONS };
    let done = reclaim::run(&repository, &lease, accepting, None).unwrap();
    assert!(done.bytes_freed >= 9 << 20 && done.lost_objects == 1, "{done:?}");
    assert_eq!(repository.snapshots().unwrap(), [lost, kept], "nothing is forgotten by itself");
    assert!(repository.is_complete(page(3)).unwrap());
}

#[test]
fn killed_before_it_removes_reclaim_leaves_nothing_for_ever() {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 9 << 20);
    store(&repository, &lease, 2, 9 << 20);
    repository.forget(&lease, &[old], &session_record(), &tombstone()).unwrap();
    let before: Vec<_> = files(folder.path())
        .into_iter()
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let after = files(folder.path());
    let removed: Vec<_> = before.iter().filter(|(_, path)| !after.contains(path)).collect();
    assert!(!removed.is_empty());
    // As if it had been killed after the index and before the files.
    for (bytes, path) in &removed {
        std::fs::write(path, bytes).unwrap();
    }
    drop((repository, lease));
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let repository = Arc::new(Repository::open(storage).unwrap());
    let lease = repository.lease("again").unwrap();
    let outcome = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let left: Vec<_> = removed.iter().filter(|(_, path)| path.exists()).collect();
    assert!(left.is_empty(), "{} files stay for ever: {outcome:?}", left.len());
    let _ = container::DIRECTORY;
}

/// Whoever looks reads the index first and the list of files later.
#[test]
fn what_a_reclaim_removes_meanwhile_is_not_missing() {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 9 << 20);
    store(&repository, &lease, 2, 9 << 20);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let [beside, lone] = [(); 2].map(|()| Repository::open(storage.clone()).unwrap());
    repository.forget(&lease, &[old], &session_record(), &tombstone()).unwrap();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let damages = |found: repository::Result<Presence>| found.unwrap().damages.len();
    assert!(damages(presence(&lone, Duration::ZERO)) > 0, "by its index, which is old");
    assert_eq!(damages(presence_beside_others(&beside, Duration::ZERO)), 0);
    std::fs::remove_file(&files(folder.path())[0]).unwrap();
    assert_eq!(damages(presence_beside_others(&lone, Duration::ZERO)), 1);
}

#[test]
fn what_a_dropped_session_stored_is_found_by_the_next_writer() {
    let (_folder, repository, lease) = made();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    for n in 1..=9 {
        let record = data(n, 9 << 20);
        assert!(session.claim(&chunk(n)).unwrap());
        session.append(&record).unwrap();
    }
    drop(session); // cancelled
    store(&repository, &lease, 100, 10);
    drop(lease);
    let lease = repository.lease("next").unwrap();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(!session.claim(&chunk(1)).unwrap(), "stored already");
}

#[test]
fn a_damaged_fence_is_an_error_and_not_a_missing_object() {
    let (folder, repository, lease) = made();
    for n in 1..=3u16 {
        let session = repository.begin(&lease, None, session_record()).unwrap();
        for k in 0..400 {
            let r = data(n * 1000 + k, 10);
            session.claim(&r.ids[0]).unwrap();
            session.append(&r).unwrap();
        }
        let r = leaf(n, &[]);
        session.claim(&r.ids[0]).unwrap();
        session.append(&r).unwrap();
        let sequence = session.next_snapshot();
        session.commit(&manifest(page(n), sequence)).unwrap();
    }
    let mut damaged = 0;
    for file in std::fs::read_dir(folder.path().join("index")).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().contains("run-") {
            damage_fence(&path);
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let Ok(fresh) = Repository::open(storage) else { return };
    let is_missing = |k: &u16| {
        let found = fresh.index().find_many(&[chunk(*k)]);
        matches!(found, Ok(locations) if locations[0].is_none())
    };
    let stored = (1..=3).flat_map(|n| (0..400).map(move |k| n * 1000 + k));
    let wrong = stored.filter(is_missing).count();
    assert_eq!(wrong, 0, "objects said to be missing");
}

/// Changes the first id of each page of a run, as its fence has it.
fn damage_fence(run: &std::path::Path) {
    let mut bytes = std::fs::read(run).unwrap();
    let trailer = &bytes[bytes.len() - 48..];
    let entries = u64::from_le_bytes(trailer[..8].try_into().unwrap());
    let pages = entries.div_ceil(170) as usize;
    let fence = 64 + pages * 4096;
    (0..pages).for_each(|page| bytes[fence + page * 8] ^= 0xff);
    std::fs::write(run, bytes).unwrap();
}

#[test]
fn what_forget_wrote_does_not_stop_reclaim() {
    let (_folder, repository, lease) = made();
    let names: Vec<_> = (1..=12).map(|n| store(&repository, &lease, n, 100)).collect();
    repository.forget(&lease, &names[..3], &session_record(), &tombstone()).unwrap();
    let outcome = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(outcome.containers_removed + outcome.containers_rewritten > 8, "{outcome:?}");
    for name in &names[3..] {
        let root = repository.snapshot(*name).unwrap().head.root;
        repository.fetch(&root, &mut Vec::new()).unwrap();
    }
}

/// Else all that lies there would be stored a second time.
#[test]
fn what_a_reclaim_would_have_moved_is_still_there_when_it_failed() {
    let (folder, repository, lease) = made();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    for record in [data(1, 5000), data(2, 5000), leaf(1, &[chunk(1)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(1), sequence)).unwrap();
    let path = files(folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    // In the sealed bytes of what lives: it cannot be copied.
    let at = bytes.windows(4000).position(|some| some == [1; 4000]).unwrap();
    bytes[at + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let refused = reclaim::run(&repository, &lease, OPTIONS, None);
    assert!(matches!(refused, Err(repository::Error::Damaged { .. })), "{refused:?}");
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(!session.claim(&chunk(1)).unwrap());
}

/// A chunk in one container, which a page in the second needs; nobody needs what the third has.
fn scattered() -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 5000);
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(!session.claim(&chunk(1)).unwrap());
    assert!(session.claim(&page(2)).unwrap());
    session.append(&leaf(2, &[chunk(1)])).unwrap();
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(2), sequence)).unwrap();
    let dead = store(&repository, &lease, 3, 5000);
    repository.forget(&lease, &[old, dead], &session_record(), &tombstone()).unwrap();
    (folder, repository, lease)
}

/// Of its objects somebody may have a copy yet: until that is found out, nothing is removed.
#[test]
fn a_container_of_chunks_that_is_gone_stops_a_reclaim() {
    let (folder, repository, lease) = scattered();
    std::fs::remove_file(files(folder.path()).remove(0)).unwrap();
    let before = files(folder.path());
    let refused = reclaim::run(&repository, &lease, OPTIONS, None);
    assert!(matches!(refused, Err(repository::Error::ContainerMissing(_))), "{refused:?}");
    assert_eq!(files(folder.path()), before);
}

/// It names what nobody needs, and not what it needs: that would be removed.
#[test]
fn a_page_in_which_a_reference_has_rotted_stops_a_reclaim() {
    let (folder, repository, lease) = scattered();
    let path = files(folder.path()).remove(1);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(24).position(|some| some == chunk(1).0).unwrap();
    bytes[at..at + 24].copy_from_slice(&chunk(3).0);
    std::fs::write(&path, bytes).unwrap();
    let before = files(folder.path());
    let refused = reclaim::run(&repository, &lease, OPTIONS, None);
    assert!(matches!(refused, Err(repository::Error::Damaged { .. })), "{refused:?}");
    assert_eq!(files(folder.path()), before);
}

/// Whoever keeps the files may have put another one in its place.
#[test]
fn what_should_lie_in_a_container_of_another_name_or_repository_is_stored_again() {
    let (other, repository, lease) = made_as(RepositoryId([2; 16]));
    store(&repository, &lease, 1, 5000);
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, 5000);
    store(&repository, &lease, 2, 5000);
    let [first, second] = files(folder.path()).try_into().unwrap();
    drop((repository, lease));
    for stranger in [files(other.path()).remove(0), second] {
        std::fs::copy(stranger, &first).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
        let repository = Arc::new(Repository::open(storage).unwrap());
        let lease = repository.lease("next").unwrap();
        let session = repository.begin(&lease, None, session_record()).unwrap();
        assert!(session.claim(&chunk(1)).unwrap(), "nobody else has it");
    }
}

/// Who made it can seal anything, also a page under the name of a chunk: that would be marked as
/// what it is not, so nothing is removed.
#[test]
fn a_snapshot_whose_root_is_no_page_stops_a_reclaim() {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 9 << 20);
    let session = repository.begin(&lease, None, session_record()).unwrap();
    let mut clear = Vec::new();
    put_head(&mut clear, PageKind::Leaf, chunk(7), &[]);
    assert!(session.claim(&chunk(7)).unwrap());
    session.append(&record(RecordKind::Pages, vec![chunk(7)], clear, vec![0; 40])).unwrap();
    // A session would refuse it; who can write to the storage need not ask one.
    let manifest = manifest(chunk(7), session.next_snapshot());
    let good = self::manifest(page(1), session.next_snapshot());
    session.commit(&good).unwrap();
    let clear = manifest.associated[record::HEADER_BYTES..].to_vec();
    let file = [session_record().to_bytes(), manifest.to_bytes()].concat();
    let id = format::manifest::snapshot_id(&clear);
    repository.restore_manifest(&lease, &FoundManifest { id, clear, file }).unwrap();
    repository.forget(&lease, &[old], &session_record(), &tombstone()).unwrap();
    let before = files(folder.path());
    assert!(reclaim::run(&repository, &lease, OPTIONS, None).is_err());
    assert_eq!(files(folder.path()), before);
}

/// A disk on which something happens once, just before this verb on a name that begins so.
fn hooked(
    inner: LocalStorage,
    before: (&'static str, &'static str),
    hook: impl FnOnce() + Send + 'static,
) -> Arc<dyn Storage> {
    let hook = std::sync::Mutex::new(Some(hook));
    Before::each(Arc::new(inner), move |verb, name| {
        if before.0 == verb && name.starts_with(before.1) {
            let hook = hook.lock().unwrap().take();
            hook.into_iter().for_each(|hook| hook());
        }
        Ok(())
    })
}

/// Opens the repository in `folder`; before the first `verb` on a name that begins so, another one
/// takes the lock over, stores snapshot 2, and goes.
fn to_be_robbed(folder: &Path, before: (&'static str, &'static str)) -> Arc<Repository> {
    let path = folder.to_owned();
    let hook = move || {
        std::fs::remove_file(path.join("lock")).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(&path).unwrap());
        let thief = Arc::new(Repository::open(storage).unwrap());
        let lease = thief.lease("thief").unwrap();
        store(&thief, &lease, 2, 1000);
    };
    let storage = hooked(LocalStorage::open(folder).unwrap(), before, hook);
    Arc::new(Repository::open(storage).unwrap())
}

fn assert_fenced(folder: &Path, error: repository::Error, chunks: &[ObjectId]) {
    assert!(matches!(error, repository::Error::LeaseLost { .. }), "{error}");
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder).unwrap());
    let found = Repository::open(storage).unwrap().index().find_many(chunks).unwrap();
    assert!(found.iter().all(Option::is_some), "{found:?}");
}

/// Falls asleep while it settles what a dead writer left.
#[test]
fn who_was_robbed_while_it_settled_changes_nothing() {
    for before in [("list", "index"), ("create", "index/run-")] {
        let (folder, repository, lease) = made();
        store(&repository, &lease, 1, 1000);
        // Of a writer that died: a container that no index knows.
        let session = repository.begin(&lease, None, session_record()).unwrap();
        assert!(session.claim(&chunk(7)).unwrap());
        session.append(&data(7, 9 << 20)).unwrap();
        let folder = killed_here(&folder);
        drop((session, repository, lease));
        let sleeper = to_be_robbed(folder.path(), before);
        let error = sleeper.lease("sleeper").err().expect("it was robbed");
        assert_fenced(folder.path(), error, &[chunk(1), chunk(2), chunk(7)]);
    }
}

/// What it would settle the other one has settled meanwhile: a file is missing, for that reason.
#[test]
fn who_was_robbed_of_what_it_settles_is_told_so() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, 1000);
    // Of a writer that died: a container that is not finished.
    let session = repository.begin(&lease, None, session_record()).unwrap();
    assert!(session.claim(&chunk(7)).unwrap());
    session.append(&data(7, 1000)).unwrap();
    let folder = killed_here(&folder);
    drop((session, repository, lease));
    let sleeper = to_be_robbed(folder.path(), ("open", "containers/"));
    let error = sleeper.lease("sleeper").err().expect("it was robbed");
    assert_fenced(folder.path(), error, &[chunk(1), chunk(2), chunk(7)]);
}

/// Falls asleep while it writes what its index is to be made of, which may take minutes.
#[test]
fn who_was_robbed_while_it_wrote_its_index_does_not_publish_it() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, 1000);
    drop((repository, lease));
    let sleeper = to_be_robbed(folder.path(), ("create", "index/run-"));
    let lease = sleeper.lease("sleeper").unwrap();
    let session = sleeper.begin(&lease, None, session_record()).unwrap();
    for record in [data(3, 1000), leaf(3, &[chunk(3)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    let error = session.commit(&manifest(page(3), sequence)).expect_err("it was robbed");
    assert_fenced(folder.path(), error, &[chunk(1), chunk(2)]);
}

/// The same in a reclaim.
#[test]
fn a_reclaim_that_was_robbed_while_it_wrote_its_index_removes_nothing() {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 9 << 20);
    store(&repository, &lease, 4, 1000);
    repository.forget(&lease, &[old], &session_record(), &tombstone()).unwrap();
    drop((repository, lease));
    let sleeper = to_be_robbed(folder.path(), ("create", "index/run-"));
    let lease = sleeper.lease("sleeper").unwrap();
    let error = reclaim::run(&sleeper, &lease, OPTIONS, None).expect_err("it was robbed");
    assert_fenced(folder.path(), error, &[chunk(2), chunk(4)]);
}

/// A session of which everything is stored; only its commit is left.
fn begun(repository: &Arc<Repository>, lease: &Arc<Lease>, n: u16) -> Session {
    let session = repository.begin(lease, None, session_record()).unwrap();
    for record in [data(n, 1000), leaf(n, &[chunk(n)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    session
}

fn commit(session: Session, n: u16) -> SnapshotRef {
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(n), sequence)).unwrap().snapshot
}

/// The index of a large repository takes minutes to write.
#[test]
fn a_commit_does_not_wait_for_a_reclaim_that_writes_its_index() {
    let (folder, repository, lease) = made();
    let old = store(&repository, &lease, 1, 9 << 20);
    store(&repository, &lease, 2, 1000);
    repository.forget(&lease, &[old], &session_record(), &tombstone()).unwrap();
    drop((repository, lease));
    let open = Arc::new(std::sync::Mutex::new(None::<(Arc<Repository>, Session)>));
    let (inner, committed) = (open.clone(), Arc::new(std::sync::OnceLock::new()));
    let done = committed.clone();
    let hook = move || {
        let (repository, session) = inner.lock().unwrap().take().unwrap();
        assert!(!repository.is_committing(), "it would wait");
        done.set(commit(session, 3)).unwrap();
    };
    let storage =
        hooked(LocalStorage::open(folder.path()).unwrap(), ("create", "index/run-"), hook);
    let repository = Arc::new(Repository::open(storage).unwrap());
    let lease = repository.lease("server").unwrap();
    let session = begun(&repository, &lease, 3);
    *open.lock().unwrap() = Some((repository.clone(), session));
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let name = committed.get().copied().expect("it wrote an index");
    for repository in [repository, reopened(folder.path())] {
        assert_eq!(repository.snapshots().unwrap().last(), Some(&name));
        for id in [page(2), chunk(2), page(3), chunk(3)] {
            repository.fetch(&id, &mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn many_commits_leave_few_runs() {
    let (folder, repository, lease) = made();
    for n in 1..=200 {
        store(&repository, &lease, n, 10);
    }
    assert!(runs(folder.path()) <= 5, "{}", runs(folder.path()));
    let all: Vec<_> = (1..=200).flat_map(|n| [page(n), chunk(n)]).collect();
    assert!(repository.index().find_many(&all).unwrap().iter().all(Option::is_some));
}

/// Ends a reclaim after so many stages.
struct Stages(std::sync::atomic::AtomicUsize);

impl Watch for Stages {
    fn moved(&self, _: u64) {}
    fn goes_on(&self) -> bool {
        let left = self.0.load(std::sync::atomic::Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), std::sync::atomic::Ordering::Relaxed);
        left > 0
    }
    fn stage(&self, _: &str) {}
}

/// In each of twelve containers one chunk lives and one does not.
#[test]
fn each_stage_of_a_reclaim_gives_its_space_back_and_the_next_one_goes_on() {
    let (folder, repository, lease) = made();
    // A stage copies 40,000 bytes.
    repository.make_containers_small(10_000);
    for n in 1..=12 {
        let session = repository.begin(&lease, None, session_record()).unwrap();
        for record in [data(n, 9000), data(n + 100, 9000), leaf(n, &[chunk(n)])] {
            record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
            session.append(&record).unwrap();
        }
        commit(session, n);
    }
    let bytes = || files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    let before: u64 = bytes();
    let watch = Stages(1.into());
    let first = reclaim::run_watched(&repository, &lease, OPTIONS, None, &watch).unwrap();
    let between: u64 = bytes();
    assert!((1..24).contains(&first.containers_rewritten), "{first:?}");
    assert!(before - between >= first.bytes_freed && first.bytes_freed > 0, "{first:?}");
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let after: u64 = bytes();
    assert!(after < between && after < before * 7 / 10, "{before} {between} {after}");
    for n in 1..=12 {
        repository.fetch(&chunk(n), &mut Vec::new()).unwrap();
    }
}
