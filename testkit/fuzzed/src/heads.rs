//! Page heads in the clear part of a record: whatever decodes is encoded to the same bytes.

use format::page::{heads, put_head};
use format::record::{Codec, HEADER_BYTES, Header, Record, RecordKind};
use ids::SessionId;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some((count, clear)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let header = Header {
        kind: RecordKind::Pages,
        codec: Codec::Raw,
        session: SessionId([0; 16]),
        nonce: 0,
        objects: u16::from_le_bytes(*count).into(),
        clear_bytes: clear.len() as u32,
        plain_bytes: 0,
        sealed_bytes: 0,
    };
    let associated = [&[0; HEADER_BYTES][..], clear].concat();
    let record = Record { header, associated: &associated, clear, sealed: &[] };
    if let Ok(found) = heads(&record) {
        let mut again = Vec::new();
        for head in found {
            put_head(&mut again, head.kind, head.id, &head.refs().collect::<Vec<_>>());
        }
        assert_eq!(again, clear);
    }
}
