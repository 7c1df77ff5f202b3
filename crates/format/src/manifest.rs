//! The manifest turns a root page into a snapshot. Its head is the signed clear part of a record; its body (names,
//! times, report) is sealed.

use crate::limits::{MANIFEST_EXTENSION_MAX, TREE_LEVELS_MAX};
use crate::wire::Reader;
use crate::{Error, Result};
use ids::{KeyId, ObjectId, SnapshotId};

/// A signed message begins with its kind and the repository, so that a signature of one kind is never valid for
/// another.
pub const MANIFEST_CONTEXT: &[u8] = b"icecore 2026 manifest v2";
/// The same for tombstones.
pub const TOMBSTONE_CONTEXT: &[u8] = b"icecore 2026 tombstone v1";
/// Newest version of the head.
pub const VERSION: u16 = 2;
/// Length of the signature in bytes (Ed25519).
pub const SIGNATURE_BYTES: usize = 64;
/// Length of a head with an empty extension, and its signature, in bytes.
pub const HEAD_BYTES: usize =
    2 + 8 + 24 + 8 + 16 + 8 + 4 + 24 + 1 + 24 + 8 + 4 + 16 + 8 + 2 + SIGNATURE_BYTES;

/// Flag: parts of the source could not be read.
pub const PARTIAL: u32 = 1;
/// Flag: rewritten with other tags; [`Head::original`] names the original.
pub const REWRITTEN: u32 = 1 << 1;
const KNOWN_FLAGS: u32 = PARTIAL | REWRITTEN;
/// Flags that a reader must know; it may ignore those of the upper half.
const FLAGS_TO_KNOW: u32 = 0xffff;

/// The clear part of a snapshot: enough to find the objects that it keeps, and to notice a missing snapshot in its
/// chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Number in the repository, rising; never used twice.
    pub sequence: u64,
    /// Name of the source: keyed hash of node and paths.
    pub source: ObjectId,
    /// Number in the chain of its source, from 1.
    pub source_sequence: u64,
    /// The snapshot before it in that chain; zeros for the first.
    pub previous: SnapshotId,
    /// When the backup began: seconds since 1970 and nanoseconds.
    pub time_secs: i64,
    /// Nanoseconds of `time_secs`.
    pub time_nanos: u32,
    /// The root page.
    pub root: ObjectId,
    /// Level of the root page, 0 for a leaf.
    pub level: u8,
    /// Keyed hash of the body.
    pub body: ObjectId,
    /// The key slot whose signing key signed this.
    pub writer: KeyId,
    /// [`PARTIAL`], [`REWRITTEN`].
    pub flags: u32,
    /// The id and number of the original snapshot; `None` unless [`REWRITTEN`].
    pub original: Option<(SnapshotId, u64)>,
}

impl Head {
    /// Whether parts of the source could not be read.
    pub fn is_partial(&self) -> bool {
        self.flags & PARTIAL != 0
    }

    /// The bytes that are signed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.source_sequence.to_le_bytes());
        out.extend_from_slice(&self.previous.0);
        out.extend_from_slice(&self.time_secs.to_le_bytes());
        out.extend_from_slice(&self.time_nanos.to_le_bytes());
        out.extend_from_slice(&self.root.0);
        out.push(self.level);
        out.extend_from_slice(&self.body.0);
        out.extend_from_slice(&self.writer.0);
        out.extend_from_slice(&self.flags.to_le_bytes());
        let (original, number) = self.original.unwrap_or((SnapshotId([0; SnapshotId::LEN]), 0));
        out.extend_from_slice(&original.0);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes()); // this version has nothing to extend
        out
    }

    /// Head and signature in `clear`. `crypto` verifies the signature.
    pub fn decode(clear: &[u8]) -> Result<(Self, [u8; SIGNATURE_BYTES])> {
        let mut reader = Reader::new(clear, "manifest head");
        check_version(reader.u16()?)?;
        let head = Self {
            sequence: reader.u64()?,
            source: ObjectId(reader.array()?),
            source_sequence: reader.u64()?,
            previous: SnapshotId(reader.array()?),
            time_secs: reader.u64()? as i64,
            time_nanos: reader.u32()?,
            root: ObjectId(reader.array()?),
            level: reader.u8()?,
            body: ObjectId(reader.array()?),
            writer: KeyId(reader.array()?),
            flags: reader.u32()?,
            original: original(reader.array()?, reader.u64()?),
        };
        skip_extension(&mut reader)?;
        let signature = reader.array()?;
        if !head.makes_sense() {
            return Err(reader.invalid());
        }
        reader.end().map(|()| (head, signature))
    }

    fn makes_sense(&self) -> bool {
        let flags = self.flags & FLAGS_TO_KNOW;
        let is_before = |(_, number): (SnapshotId, u64)| number > 0 && number < self.sequence;
        self.level <= TREE_LEVELS_MAX
            && self.time_nanos < 1_000_000_000
            && flags & !KNOWN_FLAGS == 0
            && (flags & REWRITTEN != 0) == self.original.is_some()
            && self.original.is_none_or(is_before)
    }
}

fn original(id: [u8; SnapshotId::LEN], number: u64) -> Option<(SnapshotId, u64)> {
    let is_nothing = id == [0; SnapshotId::LEN] && number == 0;
    (!is_nothing).then_some((SnapshotId(id), number))
}

/// Fields of later versions. The signature covers them.
fn skip_extension(reader: &mut Reader<'_>) -> Result<()> {
    let length = usize::from(reader.u16()?);
    if length > MANIFEST_EXTENSION_MAX {
        let (what, limit) = ("manifest extension", MANIFEST_EXTENSION_MAX as u64);
        return Err(Error::TooLarge { what, value: length as u64, limit });
    }
    reader.bytes(length).map(drop)
}

/// Of a head and its signature, the bytes that are signed.
pub fn unsigned(clear: &[u8]) -> &[u8] {
    clear.split_last_chunk::<SIGNATURE_BYTES>().map_or(&[], |(unsigned, _)| unsigned)
}

/// The name of the snapshot whose head and signature are `clear`.
pub fn snapshot_id(clear: &[u8]) -> SnapshotId {
    SnapshotId(crate::wire::checksum(&[b"icecore snapshot", clear]))
}

fn check_version(version: u16) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Version { what: "manifest", version: version.into(), known: VERSION.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            sequence: 5,
            source: ObjectId([1; 24]),
            source_sequence: 2,
            previous: SnapshotId([2; 16]),
            time_secs: -1,
            time_nanos: 3,
            root: ObjectId([4; 24]),
            level: 3,
            body: ObjectId([5; 24]),
            writer: KeyId([6; 8]),
            flags: PARTIAL,
            original: None,
        }
    }

    fn clear_of(head: &Head) -> Vec<u8> {
        [&head.encode()[..], &[9; SIGNATURE_BYTES]].concat()
    }

    #[test]
    fn a_head_is_read_back() {
        let original = Some((SnapshotId([7; 16]), 4));
        for head in [head(), Head { flags: PARTIAL | REWRITTEN, original, ..head() }] {
            let clear = clear_of(&head);
            assert_eq!(clear.len(), HEAD_BYTES);
            assert_eq!(unsigned(&clear), head.encode());
            assert_eq!(Head::decode(&clear), Ok((head, [9; SIGNATURE_BYTES])));
            (0..clear.len()).for_each(|length| assert!(Head::decode(&clear[..length]).is_err()));
        }
    }

    #[test]
    fn unknown_flags_are_refused_in_the_lower_half_and_passed_over_in_the_upper() {
        let with = |flags| Head::decode(&clear_of(&Head { flags, ..head() }));
        (2..16).for_each(|bit| assert!(with(1 << bit).is_err(), "bit {bit}"));
        (16..32).for_each(|bit| assert!(with(1 << bit).is_ok(), "bit {bit}"));
    }

    #[test]
    fn a_rewritten_snapshot_names_its_original_and_no_other_does() {
        let id = SnapshotId([7; 16]);
        let with =
            |flags, original| Head::decode(&clear_of(&Head { flags, original, ..head() })).is_ok();
        assert!(with(REWRITTEN, Some((id, 4))));
        assert!(!with(REWRITTEN, None) && !with(0, Some((id, 4))));
        assert!(!with(REWRITTEN, Some((id, 5))) && !with(REWRITTEN, Some((id, 0))));
    }

    #[test]
    fn an_extension_is_passed_over_and_has_a_limit() {
        let extended = |length: usize| {
            let mut clear = head().encode();
            clear.truncate(clear.len() - 2);
            clear.extend_from_slice(&(length as u16).to_le_bytes());
            clear.extend(vec![8; length]);
            clear.extend_from_slice(&[9; SIGNATURE_BYTES]);
            clear
        };
        let clear = extended(MANIFEST_EXTENSION_MAX);
        assert_eq!(Head::decode(&clear), Ok((head(), [9; SIGNATURE_BYTES])));
        assert_eq!(unsigned(&clear).len(), clear.len() - SIGNATURE_BYTES);
        assert!(Head::decode(&extended(MANIFEST_EXTENSION_MAX + 1)).is_err());
    }
}
