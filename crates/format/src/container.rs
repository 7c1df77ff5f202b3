//! The container: a header, records, a footer that lists them, a trailer.
//!
//! The footer is a convenience: when it is lost, the records still hold everything that it said.

use crate::limits::{CONTAINER_BYTES_MAX, CONTAINER_RECORDS_MAX};
use crate::record::{self, RecordKind};
use crate::wire::{Reader, checksum};
use crate::{Error, Result};
use ids::{ContainerNo, RepositoryId};

/// First bytes of a container.
pub const MAGIC: [u8; 8] = *b"ICECONT1";
/// Last bytes of a container that was finished.
pub const TRAILER_MAGIC: [u8; 8] = *b"ICEFOOT1";
/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 64;
/// Length of the trailer in bytes: footer length, checksum, magic.
pub const TRAILER_BYTES: usize = 4 + 16 + 8;
/// Length of one row of the footer: kind, offset, length.
const ROW_BYTES: usize = 1 + 4 + 4;

/// The identity of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The repository that it belongs to.
    pub repository: RepositoryId,
    /// Its number.
    pub number: ContainerNo,
    /// Generation of the lease under which it was written.
    pub generation: u64,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.repository.0);
        out.extend_from_slice(&self.number.0.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let sum = checksum(&[&out]);
        out.extend_from_slice(&sum);
        out
    }

    /// The header at the start of `bytes`, its checksum verified.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "container header");
        let covered = reader.clone().bytes(HEADER_BYTES - 16)?;
        if reader.array()? != MAGIC {
            return Err(reader.invalid());
        }
        let header = Self {
            repository: RepositoryId(reader.array()?),
            number: ContainerNo(reader.u64()?),
            generation: reader.u64()?,
        };
        reader.bytes(8)?;
        if reader.array()? != checksum(&[covered]) {
            return Err(Error::Checksum { what: "container header" });
        }
        Ok(header)
    }
}

/// One row of the footer: a record of the container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// What the record holds, as `RecordKind`'s number.
    pub kind: u8,
    /// Offset of its first byte in the container.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl Row {
    /// Whether it holds records of `kind`.
    pub fn has_kind(&self, kind: RecordKind) -> bool {
        self.kind == kind as u8
    }
}

/// Footer and trailer for `rows`.
pub fn encode_footer(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len() * ROW_BYTES + TRAILER_BYTES);
    for row in rows {
        out.push(row.kind);
        out.extend_from_slice(&row.offset.to_le_bytes());
        out.extend_from_slice(&row.length.to_le_bytes());
    }
    let sum = checksum(&[&out]);
    out.extend_from_slice(&(out.len() as u32).to_le_bytes());
    out.extend_from_slice(&sum);
    out.extend_from_slice(&TRAILER_MAGIC);
    out
}

/// Length in bytes of the footer in front of a trailer, when `trailer` is one.
pub fn footer_bytes(trailer: &[u8]) -> Result<usize> {
    let mut reader = Reader::new(trailer, "container trailer");
    let length = reader.u32()? as usize;
    reader.bytes(16)?;
    if reader.array()? != TRAILER_MAGIC || !length.is_multiple_of(ROW_BYTES) {
        return Err(reader.invalid());
    }
    let limit = CONTAINER_RECORDS_MAX * ROW_BYTES;
    if length > limit {
        return Err(Error::TooLarge {
            what: "container footer",
            value: length as u64,
            limit: limit as u64,
        });
    }
    Ok(length)
}

/// The rows of `footer`, checked against `trailer` and against the container's length in bytes.
pub fn decode_footer(footer: &[u8], trailer: &[u8], container_bytes: u64) -> Result<Vec<Row>> {
    let what = "container footer";
    if footer_bytes(trailer)? != footer.len() || container_bytes > CONTAINER_BYTES_MAX {
        return Err(Error::Invalid { what });
    }
    if trailer.get(4..20) != Some(&checksum(&[footer])[..]) {
        return Err(Error::Checksum { what });
    }
    let mut reader = Reader::new(footer, what);
    let mut rows = Vec::with_capacity(footer.len() / ROW_BYTES);
    let mut end = HEADER_BYTES as u64;
    while reader.remaining() > 0 {
        let row = Row { kind: reader.u8()?, offset: reader.u32()?, length: reader.u32()? };
        let short = (row.length as usize) < record::HEADER_BYTES + record::CHECKSUM_BYTES;
        if u64::from(row.offset) != end || short {
            return Err(reader.invalid());
        }
        end += u64::from(row.length);
        rows.push(row);
    }
    if end + (footer.len() + TRAILER_BYTES) as u64 != container_bytes {
        return Err(Error::Invalid { what });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { repository: RepositoryId([1; 16]), number: ContainerNo(7), generation: 2 }
    }

    #[test]
    fn a_header_is_read_back_and_flips_are_found() {
        let bytes = header().encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Ok(header()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_footer_is_read_back_and_must_fit_the_container() {
        let rows =
            [Row { kind: 1, offset: 64, length: 100 }, Row { kind: 2, offset: 164, length: 64 }];
        let bytes = encode_footer(&rows);
        let (footer, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let total = 228 + bytes.len() as u64;
        assert_eq!(footer_bytes(trailer), Ok(footer.len()));
        assert_eq!(decode_footer(footer, trailer, total).unwrap(), rows);
        assert!(decode_footer(footer, trailer, total + 1).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (footer, trailer) = damaged.split_at(bytes.len() - TRAILER_BYTES);
            assert!(decode_footer(footer, trailer, total).is_err(), "bit {bit}");
        }
    }
}
