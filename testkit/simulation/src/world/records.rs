//! Records as the engine sees them: what lies in the clear is real, what is sealed stands for
//! itself. The bytes of an object follow from its id, so that wrong ones are found.

use crate::random::Random;
use format::manifest::{Head, SIGNATURE_BYTES};
use format::page::{PageKind, put_head};
use format::record::{self, Codec, Header, RecordKind, SealedRecord};
use format::wire::checksum;
use ids::{KeyId, ObjectId, SessionId, SnapshotId};

const WRITER: KeyId = KeyId([6; 8]);
/// Length of what a session record shows in the clear.
const SESSION_BYTES: usize = 101;
const RECEIPT_BYTES: u64 = 200;
const OBJECT_BYTES_MAX: u64 = 1500;

/// Chunk number `number` of all that there are.
pub(super) fn chunk(number: u64) -> ObjectId {
    name(&[b"chunk", &number.to_le_bytes()], false)
}

/// The content of `id` in backup `number`, where equal content of two backups has two ids.
pub(super) fn chunk_of(id: &ObjectId, number: u64) -> ObjectId {
    name(&[&id.0, &number.to_le_bytes()], false)
}

/// The page that refers to `refs`.
pub(super) fn page(refs: &[ObjectId]) -> ObjectId {
    let parts: Vec<&[u8]> = refs.iter().map(|id| &id.0[..]).collect();
    name(&parts, true)
}

fn name(parts: &[&[u8]], is_page: bool) -> ObjectId {
    let sum = checksum(parts);
    let mut id = [0; ObjectId::LEN];
    id[..16].copy_from_slice(&sum);
    id[16..].copy_from_slice(&sum[..8]);
    ObjectId(id).with_type(is_page)
}

/// What the object `id` consists of.
fn payload(id: &ObjectId) -> Vec<u8> {
    let (seed, _) = id.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let mut random = Random::new(u64::from_le_bytes(*seed));
    let length = random.below(OBJECT_BYTES_MAX);
    random.bytes(length)
}

/// The seals of one session.
pub(super) struct SessionSeals {
    session: SessionId,
}

impl SessionSeals {
    /// Of session number `number`.
    pub(super) fn new(number: u64) -> Self {
        Self { session: SessionId(checksum(&[b"session", &number.to_le_bytes()])) }
    }

    pub(super) fn session_record(&self) -> SealedRecord {
        self.record(RecordKind::Session, Vec::new(), vec![1; SESSION_BYTES])
    }

    pub(super) fn chunks(&self, ids: Vec<ObjectId>) -> SealedRecord {
        let clear = ids.iter().flat_map(|id| id.0).collect();
        self.record(RecordKind::Data, ids, clear)
    }

    pub(super) fn page(&self, id: ObjectId, refs: &[ObjectId]) -> SealedRecord {
        let kind =
            if refs.iter().any(ObjectId::is_page) { PageKind::Inner } else { PageKind::Leaf };
        let mut clear = Vec::new();
        put_head(&mut clear, kind, id, refs);
        self.record(RecordKind::Pages, vec![id], clear)
    }

    /// A record that names chunks and has other bytes.
    pub(super) fn other_bytes(&self, ids: Vec<ObjectId>) -> SealedRecord {
        let clear = ids.iter().flat_map(|id| id.0).collect();
        let mut record = self.record(RecordKind::Data, ids, clear);
        // Not one byte of any object: the length is in the header.
        record.sealed.iter_mut().for_each(|byte| *byte = !*byte);
        record
    }

    pub(super) fn manifest(
        &self,
        root: ObjectId,
        sequence: u64,
        previous: SnapshotId,
    ) -> SealedRecord {
        let head = Head {
            sequence,
            source: root,
            source_sequence: sequence,
            previous,
            time_secs: sequence as i64,
            time_nanos: 0,
            root,
            level: 0,
            body: root,
            writer: WRITER,
            flags: 0,
            original: None,
        };
        let clear = [&head.encode()[..], &[0; SIGNATURE_BYTES]].concat();
        self.record(RecordKind::Manifest, Vec::new(), clear)
    }

    pub(super) fn tombstone(&self, dead: &[SnapshotId]) -> SealedRecord {
        let clear = dead.iter().flat_map(|id| id.0).collect();
        self.record(RecordKind::Tombstone, Vec::new(), clear)
    }

    fn record(&self, kind: RecordKind, ids: Vec<ObjectId>, clear: Vec<u8>) -> SealedRecord {
        let sealed: Vec<u8> = ids.iter().flat_map(payload).collect();
        let header = Header {
            kind,
            codec: Codec::Raw,
            session: self.session,
            nonce: 1,
            objects: ids.len() as u32,
            clear_bytes: clear.len() as u32,
            plain_bytes: 0,
            sealed_bytes: sealed.len() as u32,
        };
        let associated = [&header.encode().expect("a small record")[..], &clear].concat();
        SealedRecord { kind, ids, associated, sealed }
    }
}

/// The receipt of snapshot number `number`, in the clear: every other one has one.
pub(super) fn receipt(number: u64) -> Option<Vec<u8>> {
    number.is_multiple_of(2).then(|| Random::new(number).bytes(RECEIPT_BYTES))
}

/// Snapshots that the tombstone with this clear part names.
pub(super) fn dead(clear: &[u8]) -> impl Iterator<Item = SnapshotId> {
    clear.as_chunks::<{ SnapshotId::LEN }>().0.iter().map(|id| SnapshotId(*id))
}

/// What a reader with the key could not tell from the right ones.
pub(super) const OTHER_BYTES: &str = "it has other bytes";

/// The session that sealed `bytes`, when it is a record that holds `id` and every byte is right.
pub(super) fn holds(bytes: &[u8], id: &ObjectId) -> Result<SessionId, String> {
    let record = record::verify(bytes).map_err(|error| error.to_string())?;
    let ids = record::object_ids(&record).map_err(|error| error.to_string())?;
    let expected: Vec<u8> = ids.iter().flat_map(payload).collect();
    match () {
        () if !ids.contains(id) => Err("the record does not hold it".into()),
        () if record.sealed != expected => Err(OTHER_BYTES.into()),
        () => Ok(record.header.session),
    }
}
