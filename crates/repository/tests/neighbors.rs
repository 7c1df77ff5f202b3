//! Many objects are found by what lies with them, and the index has the last word.

use format::record::{RecordKind, SealedRecord};
use ids::ObjectId;
use repository::Repository;
use repository::session::Session;
use std::sync::Arc;
use stored::*;

const IDS_A_RECORD: u64 = 500;

fn tiny(n: u64) -> ObjectId {
    // As random as ids of chunks are.
    let random = |part: u64| {
        let n = (n * 3 + part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (n ^ n >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes()
    };
    let mut id = [0; ObjectId::LEN];
    (0..3).for_each(|part| id[part * 8..][..8].copy_from_slice(&random(part as u64)));
    ObjectId(id).with_type(false)
}

fn tiny_record(first: u64, count: u64) -> SealedRecord {
    let ids: Vec<_> = (first..first + count).map(tiny).collect();
    let clear = ids.iter().flat_map(|id| id.0).collect();
    record(RecordKind::Data, ids, clear, vec![0; 64])
}

fn append(session: &Session, count: u64) {
    for first in (0..count).step_by(IDS_A_RECORD as usize) {
        let record = tiny_record(first, IDS_A_RECORD);
        record.ids.iter().for_each(|id| assert!(session.claim(id).unwrap()));
        session.append(&record).unwrap();
    }
}

fn of_ids(count: u64) -> (tempfile::TempDir, Arc<Repository>) {
    let (folder, repository, lease) = made();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    append(&session, count);
    drop(session);
    drop(lease);
    (folder, repository)
}

#[test]
fn in_whatever_order_they_are_asked_for_the_answer_is_that_of_the_index() {
    let (folder, _) = of_ids(20_000);
    let in_order: Vec<_> = (0..20_500).map(tiny).collect();
    let far_apart: Vec<_> = (0..20_500).map(|n| tiny(n * 7919 % 20_500)).collect();
    let twice = [&in_order[..300], &in_order[..300]].concat();
    for ids in [&in_order[..], &far_apart, &twice, &in_order[..3], &in_order[19_900..]] {
        let repository = reopened(folder.path());
        let expected = repository.index().find_many(ids).unwrap();
        for _ in 0..2 {
            assert_eq!(repository.locate_neighbors(ids).unwrap(), expected);
        }
    }
}

#[test]
fn what_cannot_be_read_is_found_all_the_same() {
    let (folder, _) = of_ids(20_000);
    let ids: Vec<_> = (0..1000).map(tiny).collect();
    let expected = reopened(folder.path()).index().find_many(&ids).unwrap();
    files(folder.path()).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!(reopened(folder.path()).locate_neighbors(&ids).unwrap(), expected);
}

/// Chunks of a few bytes would fill the memory of a session before they fill a container.
#[test]
fn a_container_ends_after_so_many_objects() {
    let (folder, repository, lease) = made();
    let session = repository.begin(&lease, None, session_record()).unwrap();
    append(&session, 300_000);
    drop(session);
    assert_eq!(files(folder.path()).len(), 3);
    assert_eq!(repository.index().entries(), 300_000);
}
