//! Runs of a file: inside of an entry, or in list pages when there are very many.

use crate::Result;
use crate::entry::Segment;
use crate::leaf::{RefCursor, Refs};
use crate::limits::{CHUNK_BYTES_MAX, PAGE_REFS_MAX};
use crate::page::{Page, PageKind};
use crate::wire::{Reader, put_varint};
use ids::ObjectId;

/// Appends `segments`: their count; for each `length * 2 + hole`, for data also its reference.
pub(crate) fn put_segments(out: &mut Vec<u8>, refs: &mut Refs, segments: &[Segment]) {
    put_varint(out, segments.len() as u64);
    for segment in segments {
        match segment {
            Segment::Data(id, length) => {
                put_varint(out, u64::from(*length) << 1);
                put_varint(out, refs.code(*id));
            }
            Segment::Hole(length) => put_varint(out, length << 1 | 1),
        }
    }
}

pub(crate) struct SegmentReader;

impl SegmentReader {
    pub(crate) fn read(reader: &mut Reader<'_>, refs: &mut RefCursor<'_>) -> Result<Vec<Segment>> {
        let count = reader.count(PAGE_REFS_MAX)?;
        // A run takes at least a byte: the count cannot make us reserve more than there is.
        let mut segments = Vec::with_capacity(count.min(reader.remaining()));
        for _ in 0..count {
            segments.push(Self::segment(reader, refs)?);
        }
        Ok(segments)
    }

    fn segment(reader: &mut Reader<'_>, refs: &mut RefCursor<'_>) -> Result<Segment> {
        let value = reader.varint()?;
        let length = value >> 1;
        if value & 1 == 1 {
            return if length > 0 { Ok(Segment::Hole(length)) } else { Err(reader.invalid()) };
        }
        if length == 0 || length > CHUNK_BYTES_MAX as u64 {
            return Err(reader.invalid());
        }
        let code = reader.varint()?;
        Ok(Segment::Data(refs.chunk(code)?, length as u32))
    }
}

/// The list page of `segments`.
pub fn encode(segments: &[Segment]) -> Page {
    let (mut payload, mut refs) = (Vec::new(), Refs::default());
    put_segments(&mut payload, &mut refs, segments);
    Page { kind: PageKind::List, refs: refs.into_ids(), payload }
}

/// The runs of a list page.
pub fn decode(refs: &[ObjectId], payload: &[u8]) -> Result<Vec<Segment>> {
    let mut reader = Reader::new(payload, "list page");
    let mut cursor = RefCursor::new(refs);
    let segments = SegmentReader::read(&mut reader, &mut cursor)?;
    cursor.end()?;
    reader.end_of_page().map(|()| segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_back() {
        let data = |byte| Segment::Data(ObjectId([byte; 24]).with_type(false), 5);
        let segments = [data(1), data(2), Segment::Hole(u64::MAX >> 1), data(1)];
        let page = encode(&segments);
        assert_eq!(page.refs.len(), 2);
        assert_eq!(decode(&page.refs, &page.payload).unwrap(), segments);
    }

    #[test]
    fn empty_runs_and_a_billion_runs_are_refused() {
        assert!(decode(&[], &[1, 0]).is_err());
        assert!(decode(&[], &[1, 1]).is_err());
        assert!(decode(&[], &[0xff, 0xff, 0xff, 0xff, 3]).is_err());
    }
}
