//! The manifest: what makes a snapshot of a root page. Its head lies in the clear part of a
//! record, signed; its body (names, times, report) is sealed.

use crate::limits::TREE_LEVELS_MAX;
use crate::wire::Reader;
use crate::{Error, Result};
use ids::{KeyId, ObjectId, SnapshotId};

/// What signatures are over begins with what is signed and in which repository: one kind can never
/// stand for the other.
pub const MANIFEST_CONTEXT: &[u8] = b"icecore 2026 manifest v1";
/// The same for tombstones.
pub const TOMBSTONE_CONTEXT: &[u8] = b"icecore 2026 tombstone v1";
/// Newest version of the head.
pub const VERSION: u16 = 1;
/// Length of the head without its signature in bytes.
pub const UNSIGNED_BYTES: usize = 2 + 8 + 24 + 8 + 16 + 8 + 4 + 24 + 1 + 24 + 8;
/// Length of the signature in bytes (Ed25519).
pub const SIGNATURE_BYTES: usize = 64;
/// Length of the head in bytes.
pub const HEAD_BYTES: usize = UNSIGNED_BYTES + SIGNATURE_BYTES;

/// What anybody may know of a snapshot. Enough to find what it keeps alive, and to see that none
/// is missing in its chain.
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
}

impl Head {
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
        out
    }

    /// Head and signature in `clear`. Whether the signature is good is for `crypto` to say.
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
        };
        let signature = reader.array()?;
        if head.level > TREE_LEVELS_MAX || head.time_nanos >= 1_000_000_000 {
            return Err(reader.invalid());
        }
        reader.end().map(|()| (head, signature))
    }
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

    #[test]
    fn a_head_is_read_back() {
        let head = Head {
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
        };
        let clear = [&head.encode()[..], &[9; SIGNATURE_BYTES]].concat();
        assert_eq!(clear.len(), HEAD_BYTES);
        assert_eq!(Head::decode(&clear), Ok((head, [9; SIGNATURE_BYTES])));
        (0..clear.len()).for_each(|length| assert!(Head::decode(&clear[..length]).is_err()));
    }
}
