//! Records that name objects which lie elsewhere. Whoever may store anything may store such: no server can open them.
//! What they say of those objects counts for nothing.

use format::page::{PageKind, put_head};
use format::record::{RecordKind, SealedRecord};
use ids::ObjectId;
use repository::Repository;
use repository::copy::{self, CopyTo};
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::reclaim;
use repository::session::Session;
use repository::storage::Storage;
use repository::watch::Unwatched;
use std::sync::Arc;
use stored::*;

/// A chunk of the victim, which no record of a liar is as long as.
const BIG: usize = 100_000;

/// Begun before the victim stores page and chunk 1, so that its snapshot, of page 2, may have the lower number.
struct Liar {
    session: Session,
    sequence: u64,
}

impl Liar {
    fn begin(repository: &Arc<Repository>, lease: &Arc<Lease>) -> Self {
        let session = repository.begin(lease, None, session_record()).unwrap();
        let sequence = session.next_snapshot();
        Self { session, sequence }
    }

    fn sends(self, records: &[SealedRecord]) -> Self {
        for SealedRecord { associated, sealed, .. } in records {
            let sum = format::wire::checksum(&[associated, sealed]);
            self.session.append_bytes(&[&associated[..], sealed, &sum].concat()).unwrap();
        }
        self
    }

    fn commits(self) {
        self.session.commit(&manifest(page(2), self.sequence)).unwrap();
    }
}

/// Page 2, which refers to page 1, and page 1 without references in the same record.
fn pages() -> SealedRecord {
    let mut clear = Vec::new();
    put_head(&mut clear, PageKind::Leaf, page(2), &[page(1)]);
    put_head(&mut clear, PageKind::Leaf, page(1), &[]);
    record(RecordKind::Pages, vec![page(2), page(1)], clear, vec![0; 40])
}

/// A record that says that it has these chunks.
fn chunks(numbers: &[u16]) -> SealedRecord {
    let ids: Vec<_> = numbers.iter().map(|n| chunk(*n)).collect();
    let clear = ids.iter().flat_map(|id| id.0).collect();
    record(RecordKind::Data, ids, clear, vec![0; 40])
}

/// A snapshot of page and chunk `n` in a container that the next reclaim rewrites.
fn store_with_waste(repository: &Arc<Repository>, lease: &Arc<Lease>, n: u16) {
    let session = repository.begin(lease, None, session_record()).unwrap();
    for record in [data(n, BIG), data(10 + n, 9 << 20), leaf(n, &[chunk(n)])] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(n), sequence)).unwrap();
}

fn length_of(repository: &Repository, id: &ObjectId) -> usize {
    let mut bytes = Vec::new();
    repository.fetch(id, &mut bytes).unwrap();
    bytes.len()
}

/// Seen: the next reclaim removed all that a node of the same domain had stored, locked or not.
#[test]
fn a_page_refers_to_what_it_says_where_the_index_has_it() {
    let (_folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    Liar::begin(&repository, &lease).sends(&[pages()]).commits();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(length_of(&repository, &chunk(1)) > BIG);
    assert!(repository.is_complete(page(1)).unwrap());
}

/// Seen: the index named the record of a liar instead, and each later backup took the chunk for stored.
#[test]
fn a_reclaim_moves_nothing_to_a_record_that_only_names_it() {
    let (_folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    let before = repository.index().find(&chunk(1)).unwrap();
    // What is dead in the container has it rewritten.
    let sent = [chunks(&[2, 1]), data(3, 9 << 20), leaf(2, &[chunk(2)])];
    Liar::begin(&repository, &lease).sends(&sent).commits();
    let done = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(done.bytes_freed >= 9 << 20, "{done:?}");
    assert_eq!(repository.index().find(&chunk(1)).unwrap(), before);
    assert!(length_of(&repository, &chunk(2)) < BIG, "its own is moved");
}

/// The same where one container has both: a reclaim puts records of many sessions together.
#[test]
fn a_reclaim_tells_records_of_one_container_apart() {
    let (_folder, repository, lease) = made();
    store_with_waste(&repository, &lease, 1);
    store_with_waste(&repository, &lease, 4);
    let sent = [chunks(&[2, 1]), data(3, 9 << 20), leaf(2, &[chunk(2)])];
    Liar::begin(&repository, &lease).sends(&sent).commits();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let [victim, liar] = [1, 2].map(|n| repository.index().find(&chunk(n)).unwrap().unwrap());
    assert_eq!(victim.container, liar.container, "what the rest of this test needs");
    // Page 4 and its chunk die, so that this container is rewritten as well.
    let dead = repository.snapshots().unwrap().into_iter().find(|name| name.sequence == 2);
    repository.forget(&lease, &[dead.unwrap()], &session_record(), &tombstone()).unwrap();
    let done = reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    assert!(done.bytes_freed >= BIG as u64, "{done:?}");
    assert!(length_of(&repository, &chunk(1)) > BIG);
}

/// Seen: the copy was complete by its own account, and lacked what the victim had stored.
#[test]
fn a_copy_walks_each_page_where_the_index_has_it() {
    let (_folder, repository, lease) = made();
    let liar = Liar::begin(&repository, &lease);
    store(&repository, &lease, 1, BIG);
    liar.sends(&[pages()]).commits();
    let (_copy, target, copying) = made();
    let names = repository.snapshots().unwrap();
    assert_eq!(names.len(), 2);
    let to = CopyTo::Repository(&target, &copying);
    copy::run(&repository, to, &names, false, &Unwatched).unwrap();
    assert!(length_of(&target, &chunk(1)) > BIG);
}

#[test]
fn a_copy_takes_from_a_record_only_what_the_index_has_in_it() {
    let (_folder, repository, lease) = made();
    let liar = Liar::begin(&repository, &lease);
    store(&repository, &lease, 1, BIG);
    liar.sends(&[chunks(&[2, 1]), leaf(2, &[chunk(2)])]).commits();
    let (_copy, target, copying) = made();
    let names = repository.snapshots().unwrap();
    let to = CopyTo::Repository(&target, &copying);
    copy::run(&repository, to, &names, false, &Unwatched).unwrap();
    assert!(length_of(&target, &chunk(1)) > BIG);
    assert!(length_of(&target, &chunk(2)) < BIG);
}

/// Seen: a rebuild took the last record that named an object for the one that has it.
#[test]
fn a_rebuild_finds_what_is_named_twice_where_the_index_had_it() {
    let (folder, repository, lease) = made();
    store_with_waste(&repository, &lease, 1);
    Liar::begin(&repository, &lease).sends(&[chunks(&[2, 1]), leaf(2, &[chunk(2)])]).commits();
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
    let [victim, liar] = [1, 2].map(|n| repository.index().find(&chunk(n)).unwrap().unwrap());
    assert!(victim.container > liar.container, "the oldest record is not always the right one");
    drop((repository, lease));
    let (repository, _lease) = rebuilt(&folder, 1 << 18);
    assert!(length_of(&repository, &chunk(1)) > BIG);
    assert!(length_of(&repository, &chunk(2)) < BIG);
}

#[test]
fn without_an_index_the_oldest_record_counts() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    Liar::begin(&repository, &lease).sends(&[chunks(&[2, 1]), leaf(2, &[chunk(2)])]).commits();
    for n in 100..170 {
        store(&repository, &lease, n, 10);
    }
    drop((repository, lease));
    // With as many runs as there may be ids: those are merged in several steps.
    for ids_max in [1, 1 << 18] {
        std::fs::remove_dir_all(folder.path().join("index")).unwrap();
        let (repository, _lease) = rebuilt(&folder, ids_max);
        assert!(length_of(&repository, &chunk(1)) > BIG);
        assert!(length_of(&repository, &chunk(2)) < BIG);
    }
}

/// On a full disk they would be in the place of what forget and reclaim need.
#[test]
fn a_rebuild_that_fails_leaves_no_runs_of_its_own() {
    let (folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    drop((repository, lease));
    let index = folder.path().join("index");
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir_all(index.join("state")).unwrap(); // nothing can be put there
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let failed = repository::rebuild::rebuild(&storage, "test").err().unwrap();
    assert!(failed.to_string().contains("index/state"), "{failed}");
    let left = storage.list("index").unwrap();
    assert!(left.iter().any(|name| name.starts_with("run-")), "it came that far: {left:?}");
    assert!(!left.iter().any(|name| name.starts_with("spill-")), "{left:?}");
}

/// Seen: one such snapshot ended each reclaim and copy of the domain, and where it was locked nothing helped.
#[test]
fn no_snapshot_refers_to_what_is_not_stored() {
    let (_folder, repository, lease) = made();
    store(&repository, &lease, 1, BIG);
    for missing in [chunk(7), page(7)] {
        let Liar { session, sequence } =
            Liar::begin(&repository, &lease).sends(&[leaf(2, &[chunk(1), missing])]);
        let refused = session.commit(&manifest(page(2), sequence)).err().unwrap();
        let expected = repository::Error::NothingBehind(missing);
        assert_eq!(refused.to_string(), expected.to_string());
    }
    assert_eq!(repository.snapshots().unwrap().len(), 1);
    // It may come behind the page.
    let sent = [leaf(2, &[page(1), chunk(7)]), data(7, 10)];
    Liar::begin(&repository, &lease).sends(&sent).commits();
    assert_eq!(repository.snapshots().unwrap().len(), 2);
    reclaim::run(&repository, &lease, OPTIONS, None).unwrap();
}

fn rebuilt(folder: &tempfile::TempDir, ids_max: usize) -> (Repository, Lease) {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let (repository, lease, _) =
        repository::rebuild::rebuild_in_parts(&storage, "test", ids_max).unwrap();
    (repository, lease)
}
