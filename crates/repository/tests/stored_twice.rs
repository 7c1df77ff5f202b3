//! Objects that two sessions stored at the same time: the index knows one place, and the other one is nobody's.

use ids::ObjectId;
use repository::Repository;
use repository::lease::Lease;
use repository::reclaim::{self, ReclaimOptions};
use repository::session::Session;
use std::sync::Arc;
use stored::*;

const BIG: usize = 1 << 20;
const ALL: ReclaimOptions =
    ReclaimOptions { max_waste_percent: 0.0, free_interrupted: true, ..OPTIONS };

/// Two snapshots, each with a small object of its own; both sessions stored the big one, too, and `owners` of the
/// snapshots refer to it.
fn stored_twice(owners: &[u16]) -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    let (folder, repository, lease) = made();
    let begin = || repository.begin(&lease, None, session_record()).unwrap();
    let sessions = [begin(), begin()];
    for session in &sessions {
        assert!(session.claim(&chunk(9)).unwrap(), "neither is durable yet");
        session.append(&data(9, BIG)).unwrap();
    }
    for (session, n) in sessions.into_iter().zip(1..) {
        let mut children = vec![chunk(n)];
        children.extend(owners.contains(&n).then_some(chunk(9)));
        store_last(session, n, &children);
    }
    (folder, repository, lease)
}

fn store_last(session: Session, n: u16, children: &[ObjectId]) {
    for record in [data(n, 100), leaf(n, children)] {
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(n), sequence)).unwrap();
}

fn bytes(folder: &tempfile::TempDir) -> u64 {
    files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum()
}

/// Found by 10,000 runs of five years: its row went with the second copy, and no count of the index showed the first.
#[test]
fn all_space_gives_back_a_copy_that_the_index_does_not_know() {
    for (owners, copies) in [(&[][..], 0), (&[1], 1), (&[2], 1), (&[1, 2], 1)] {
        let (folder, repository, lease) = stored_twice(owners);
        let expected = copies * BIG as u64..(copies + 1) * BIG as u64;
        assert!(bytes(&folder) > 2 * BIG as u64);
        let planned =
            reclaim::run(&repository, &lease, ReclaimOptions { dry_run: true, ..ALL }, None);
        let done = reclaim::run(&repository, &lease, ALL, None).unwrap();
        assert!(
            expected.contains(&bytes(&folder)),
            "{owners:?}: {} bytes, {done:?}",
            bytes(&folder)
        );
        assert!(planned.unwrap().bytes_freed >= BIG as u64, "a dry run says so before");
        for n in 1..=2 {
            assert!(repository.is_complete(page(n)).unwrap());
            repository.fetch(&chunk(n), &mut Vec::new()).unwrap();
        }
        assert_eq!(repository.fetch(&chunk(9), &mut Vec::new()).is_ok(), copies > 0);
        let again = reclaim::run(&repository, &lease, ALL, None).unwrap();
        assert_eq!((again.containers_rewritten, again.bytes_wasted), (0, 0), "{again:?}");
    }
}

#[test]
fn a_damaged_footer_is_no_reason_to_stop() {
    let (folder, repository, lease) = stored_twice(&[2]);
    // That of the container that the index names.
    let first = files(folder.path()).remove(0);
    let mut there = std::fs::read(&first).unwrap();
    *there.last_mut().unwrap() ^= 1;
    std::fs::write(&first, there).unwrap();
    drop(repository);
    let repository = reopened(folder.path());
    reclaim::run(&repository, &lease, ALL, None).unwrap();
    assert!(bytes(&folder) < 2 * BIG as u64, "the copy in the other one is gone");
    repository.fetch(&chunk(9), &mut Vec::new()).unwrap();
}
