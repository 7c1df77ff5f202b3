//! Records that are sealed as far as the engine can see.

use format::manifest::{Head, SIGNATURE_BYTES};
use format::page::{PageKind, put_head};
use format::record::{Codec, Header, RecordKind, SealedRecord};
use ids::{KeyId, ObjectId, SessionId, SnapshotId};

/// The session of all of them.
pub const SESSION: SessionId = SessionId([3; 16]);

/// The id of chunk `n`.
#[must_use]
pub fn chunk(n: u16) -> ObjectId {
    id(n, false)
}

/// The id of page `n`.
#[must_use]
pub fn page(n: u16) -> ObjectId {
    id(n, true)
}

/// The id of object `n`.
#[must_use]
pub fn id(n: u16, is_page: bool) -> ObjectId {
    let mut id = [n as u8; 24];
    id[0] = (n >> 8) as u8;
    id[1] = is_page as u8;
    ObjectId(id).with_type(is_page)
}

/// A record with this clear part and this sealed one.
#[must_use]
pub fn record(
    kind: RecordKind,
    ids: Vec<ObjectId>,
    clear: Vec<u8>,
    sealed: Vec<u8>,
) -> SealedRecord {
    let header = Header {
        kind,
        codec: Codec::Raw,
        session: SESSION,
        nonce: 1,
        objects: ids.len() as u32,
        clear_bytes: clear.len() as u32,
        plain_bytes: 0,
        sealed_bytes: sealed.len() as u32,
    };
    let associated = [&header.encode().unwrap()[..], &clear].concat();
    SealedRecord { kind, ids, associated, sealed }
}

/// The record that begins a session.
#[must_use]
pub fn session_record() -> SealedRecord {
    record(RecordKind::Session, vec![], vec![1; 101], vec![])
}

/// A record with chunk `n`, of so many bytes.
#[must_use]
pub fn data(n: u16, bytes: usize) -> SealedRecord {
    record(RecordKind::Data, vec![chunk(n)], chunk(n).0.to_vec(), vec![n as u8; bytes])
}

/// A record with page `n`, a leaf that refers to `refs`.
#[must_use]
pub fn leaf(n: u16, refs: &[ObjectId]) -> SealedRecord {
    let mut clear = Vec::new();
    put_head(&mut clear, PageKind::Leaf, page(n), refs);
    record(RecordKind::Pages, vec![page(n)], clear, vec![0; 40])
}

/// The manifest of the snapshot with this root and number.
#[must_use]
pub fn manifest(root: ObjectId, sequence: u64) -> SealedRecord {
    let head = Head {
        sequence,
        source: page(500),
        source_sequence: sequence,
        previous: SnapshotId([0; 16]),
        time_secs: 0,
        time_nanos: 0,
        root,
        level: 0,
        body: page(501),
        writer: KeyId([1; 8]),
        flags: 0,
        original: None,
    };
    record(
        RecordKind::Manifest,
        vec![],
        [&head.encode()[..], &[0; SIGNATURE_BYTES]].concat(),
        vec![0; 40],
    )
}

/// The record of a snapshot that was forgotten.
#[must_use]
pub fn tombstone() -> SealedRecord {
    record(RecordKind::Tombstone, vec![], vec![0; 88], vec![0; 40])
}
