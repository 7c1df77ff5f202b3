//! The record: what a container is made of. Header, clear part, sealed part, checksum.
//!
//! ```text
//!  0        4  5  6  7  8                24       32    36    40    44    48
//! | "IREC" |ve|ki|co|0 | session id (16) | nonce  |count|clear|plain|sealed| clear… | sealed… | sum (16) |
//! ```
//! Header and clear part together are the associated data of the sealed part. The checksum is
//! over all bytes before it, so that scrub needs no key.

use crate::limits::{
    MANIFEST_BODY_MAX, MANIFEST_CLEAR_MAX, MANIFEST_SEALED_MAX, RECORD_CLEAR_MAX,
    RECORD_OBJECTS_MAX, RECORD_PLAIN_MAX, RECORD_SEALED_MAX,
};
use crate::wire::{Reader, checksum};
use crate::{Error, Result};
use ids::{ObjectId, SessionId};

/// First bytes of every record.
pub const MAGIC: [u8; 4] = *b"IREC";
/// Version of the record format.
pub const VERSION: u8 = 1;
/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 48;
/// Length of the checksum in bytes.
pub const CHECKSUM_BYTES: usize = 16;

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Chunks.
    Data = 1,
    /// Pages of snapshot trees.
    Pages = 2,
    /// A session key, sealed to the readers.
    Session = 3,
    /// The manifest of a snapshot.
    Manifest = 4,
    /// Names of snapshots that were forgotten.
    Tombstone = 5,
    /// A server's word of when it took a snapshot.
    Receipt = 6,
    /// A server's word that it let snapshots expire.
    Expiry = 7,
}

/// How the plaintext was made small before it was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Raw = 0,
    /// One Zstandard frame.
    Zstd = 1,
}

/// The header of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it holds.
    pub kind: RecordKind,
    /// How the plaintext was made small.
    pub codec: Codec,
    /// The session whose key seals it.
    pub session: SessionId,
    /// Nonce counter, used once in the session.
    pub nonce: u64,
    /// Number of objects.
    pub objects: u32,
    /// Length of the clear part in bytes.
    pub clear_bytes: u32,
    /// Length of the plaintext in bytes, before it was made small.
    pub plain_bytes: u32,
    /// Length of the sealed part in bytes, with padding and tag.
    pub sealed_bytes: u32,
}

impl Header {
    /// The header as bytes. Every record that is written gets its header here: one that a reader
    /// would refuse is not made.
    pub fn encode(&self) -> Result<[u8; HEADER_BYTES]> {
        self.check().map(|()| self.bytes())
    }

    fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, self.kind as u8, self.codec as u8, 0]);
        out.extend_from_slice(&self.session.0);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        for value in [self.objects, self.clear_bytes, self.plain_bytes, self.sealed_bytes] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Whether all counts and lengths are within the limits.
    fn check(&self) -> Result<()> {
        // With a session record and a receipt, a manifest is a snapshot file, which is read as one.
        let [clear_max, plain_max, sealed_max] = match self.kind {
            RecordKind::Manifest => [MANIFEST_CLEAR_MAX, MANIFEST_BODY_MAX, MANIFEST_SEALED_MAX],
            _ => [RECORD_CLEAR_MAX, RECORD_PLAIN_MAX, RECORD_SEALED_MAX],
        };
        limited(self.objects, RECORD_OBJECTS_MAX, "record object count")?;
        limited(self.clear_bytes, clear_max, "record clear part")?;
        limited(self.plain_bytes, plain_max, "record plaintext")?;
        limited(self.sealed_bytes, sealed_max, "record sealed part").map(drop)
    }

    /// The header at the start of `bytes`. Its lengths are within the limits; nothing else is
    /// known of it before [`verify`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "record header");
        if reader.array()? != MAGIC {
            return Err(reader.invalid());
        }
        check_version(reader.u8()?)?;
        let kind = kind_from(reader.u8()?)?;
        let codec = codec_from(reader.u8()?)?;
        if reader.u8()? != 0 {
            return Err(reader.invalid());
        }
        let header = Self {
            kind,
            codec,
            session: SessionId(reader.array()?),
            nonce: reader.u64()?,
            objects: reader.u32()?,
            clear_bytes: reader.u32()?,
            plain_bytes: reader.u32()?,
            sealed_bytes: reader.u32()?,
        };
        header.check().map(|()| header)
    }

    /// Length of the whole record in bytes.
    pub fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.clear_bytes as usize + self.sealed_bytes as usize + CHECKSUM_BYTES
    }

    /// Length of header and clear part: the associated data of the sealed part.
    pub fn associated_bytes(&self) -> usize {
        HEADER_BYTES + self.clear_bytes as usize
    }
}

/// A whole record, split into its parts.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The header.
    pub header: Header,
    /// Header and clear part: what the seal vouches for besides its own bytes.
    pub associated: &'a [u8],
    /// Clear part.
    pub clear: &'a [u8],
    /// Sealed part.
    pub sealed: &'a [u8],
}

/// A record on its way into a container, with the ids that it will answer to.
#[derive(Clone, Debug)]
pub struct SealedRecord {
    /// What it holds.
    pub kind: RecordKind,
    /// Ids of its objects, in order.
    pub ids: Vec<ObjectId>,
    /// Header and clear part.
    pub associated: Vec<u8>,
    /// Sealed part.
    pub sealed: Vec<u8>,
}

impl SealedRecord {
    /// The checksum that follows the other two parts.
    pub fn checksum(&self) -> [u8; CHECKSUM_BYTES] {
        checksum(&[&self.associated, &self.sealed])
    }

    /// The whole record.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.associated[..], &self.sealed, &self.checksum()].concat()
    }
}

/// Length of a sealed session, the clear part of a session record.
pub const SEALED_SESSION_BYTES: usize = 101;

/// The record of the key of `session`, sealed to the readers.
pub fn session_record(session: SessionId, sealed: &[u8; SEALED_SESSION_BYTES]) -> SealedRecord {
    let (kind, codec) = (RecordKind::Session, Codec::Raw);
    let clear_bytes = SEALED_SESSION_BYTES as u32;
    let (nonce, objects, plain_bytes, sealed_bytes) = (0, 0, 0, 0);
    let header =
        Header { kind, codec, session, nonce, objects, clear_bytes, plain_bytes, sealed_bytes };
    let associated = [&header.bytes()[..], sealed].concat();
    SealedRecord { kind, ids: Vec::new(), associated, sealed: Vec::new() }
}

/// The ids that a record answers to; none for kinds that hold no objects.
pub fn object_ids(record: &Record<'_>) -> Result<Vec<ObjectId>> {
    match record.header.kind {
        RecordKind::Data => Ok(chunk_ids(record)?.collect()),
        RecordKind::Pages => Ok(crate::page::heads(record)?.iter().map(|head| head.id).collect()),
        RecordKind::Session
        | RecordKind::Manifest
        | RecordKind::Tombstone
        | RecordKind::Receipt
        | RecordKind::Expiry => Ok(Vec::new()),
    }
}

/// The record whose header and clear part are `associated`, without its sealed part.
pub fn head_only(associated: &[u8]) -> Result<Record<'_>> {
    let header = Header::decode(associated)?;
    let clear = associated.get(HEADER_BYTES..).ok_or(TRUNCATED)?;
    if clear.len() != header.clear_bytes as usize {
        return Err(TRUNCATED);
    }
    Ok(Record { header, associated, clear, sealed: &[] })
}

/// The record at the start of `bytes`, its checksum verified.
pub fn verify(bytes: &[u8]) -> Result<Record<'_>> {
    let record = split(bytes)?;
    let covered = record.associated.len() + record.sealed.len();
    let (body, rest) = bytes.split_at_checked(covered).ok_or(TRUNCATED)?;
    let stored = rest.get(..CHECKSUM_BYTES).ok_or(TRUNCATED)?;
    if stored != checksum(&[body]) {
        return Err(Error::Checksum { what: "record" });
    }
    Ok(record)
}

/// The record at the start of `bytes`, without verifying its checksum: for callers that open the seal, which
/// is the stronger check over the same bytes.
pub fn split(bytes: &[u8]) -> Result<Record<'_>> {
    let header = Header::decode(bytes)?;
    let mut reader = Reader::new(bytes, "record");
    let associated = reader.bytes(header.associated_bytes())?;
    let sealed = reader.bytes(header.sealed_bytes as usize)?;
    let clear = associated.get(HEADER_BYTES..).ok_or(TRUNCATED)?;
    Ok(Record { header, associated, clear, sealed })
}

/// The ids in the clear part of a record of chunks.
pub fn chunk_ids<'a>(
    record: &Record<'a>,
) -> Result<impl ExactSizeIterator<Item = ObjectId> + use<'a>> {
    let (ids, rest) = record.clear.as_chunks::<{ ObjectId::LEN }>();
    if !rest.is_empty() || ids.len() != record.header.objects as usize {
        return Err(Error::Invalid { what: "chunk ids of a record" });
    }
    Ok(ids.iter().map(|id| ObjectId(*id)))
}

/// The payloads of a plaintext that holds `objects` of them: they lie one after the other, their
/// lengths (32 bits each) at the end.
pub fn payloads(plain: &[u8], objects: usize) -> Result<Vec<&[u8]>> {
    let what = "lengths of a record";
    let table = objects.checked_mul(4).ok_or(Error::Invalid { what })?;
    let split = plain.len().checked_sub(table).ok_or(Error::Truncated { what })?;
    let (data, table) = plain.split_at(split);
    let mut reader = Reader::new(data, what);
    let lengths = table.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let parts = lengths.map(|length| reader.bytes(length as usize)).collect::<Result<Vec<_>>>()?;
    reader.end().map(|()| parts)
}

const TRUNCATED: Error = Error::Truncated { what: "record" };

fn check_version(version: u8) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Version { what: "record", version: version.into(), known: VERSION.into() })
}

fn kind_from(value: u8) -> Result<RecordKind> {
    use RecordKind::*;
    let kinds = [Data, Pages, Session, Manifest, Tombstone, Receipt, Expiry];
    let found = kinds.into_iter().find(|kind| *kind as u8 == value);
    found.ok_or(Error::Invalid { what: "record kind" })
}

fn codec_from(value: u8) -> Result<Codec> {
    match value {
        0 => Ok(Codec::Raw),
        1 => Ok(Codec::Zstd),
        _ => Err(Error::Invalid { what: "record codec" }),
    }
}

fn limited(value: u32, limit: usize, what: &'static str) -> Result<u32> {
    if value as usize > limit {
        return Err(Error::TooLarge { what, value: value.into(), limit: limit as u64 });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let clear = [7u8; 48];
        let header = Header {
            kind: RecordKind::Data,
            codec: Codec::Zstd,
            session: SessionId([3; 16]),
            nonce: 9,
            objects: 2,
            clear_bytes: clear.len() as u32,
            plain_bytes: 100,
            sealed_bytes: 5,
        };
        let mut bytes = [&header.encode().unwrap()[..], &clear, b"sealx"].concat();
        let sum = checksum(&[&bytes]);
        bytes.extend_from_slice(&sum);
        bytes
    }

    #[test]
    fn a_record_is_read_back() {
        let bytes = sample();
        let record = verify(&bytes).unwrap();
        assert_eq!(record.sealed, b"sealx");
        assert_eq!(chunk_ids(&record).unwrap().collect::<Vec<_>>(), [ObjectId([7; 24]); 2]);
        assert_eq!(record.header.record_bytes(), bytes.len());
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_found() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(verify(&bytes[..length]).is_err(), "length {length}");
        }
    }

    /// Every length at its limit is written and read, one above is neither.
    #[test]
    fn no_header_is_made_that_a_reader_refuses() {
        let header = |kind, counts: [usize; 4]| {
            let [objects, clear_bytes, plain_bytes, sealed_bytes] = counts.map(|n| n as u32);
            let (codec, session, nonce) = (Codec::Raw, SessionId([3; 16]), 9);
            Header { kind, codec, session, nonce, objects, clear_bytes, plain_bytes, sealed_bytes }
        };
        let of_data = [RECORD_CLEAR_MAX, RECORD_PLAIN_MAX, RECORD_SEALED_MAX];
        let of_manifest = [MANIFEST_CLEAR_MAX, MANIFEST_BODY_MAX, MANIFEST_SEALED_MAX];
        for (kind, [clear_max, plain_max, sealed_max]) in
            [(RecordKind::Data, of_data), (RecordKind::Manifest, of_manifest)]
        {
            let limits = [RECORD_OBJECTS_MAX, clear_max, plain_max, sealed_max];
            let most = header(kind, limits);
            assert_eq!(Header::decode(&most.encode().unwrap()).unwrap(), most);
            for at in 0..limits.len() {
                let mut above = limits;
                above[at] += 1;
                let above = header(kind, above);
                assert!(matches!(above.encode(), Err(Error::TooLarge { .. })), "{above:?}");
                assert!(Header::decode(&above.bytes()).is_err(), "{above:?}");
            }
        }
    }

    #[test]
    fn payloads_must_fill_the_plaintext() {
        let plain = [&b"abcde"[..], &2u32.to_le_bytes(), &3u32.to_le_bytes()].concat();
        assert_eq!(payloads(&plain, 2).unwrap(), [&b"ab"[..], b"cde"]);
        assert!(payloads(&plain, 1).is_err());
        assert!(payloads(&plain, 3).is_err());
        assert!(payloads(&plain, usize::MAX).is_err());
    }
}
