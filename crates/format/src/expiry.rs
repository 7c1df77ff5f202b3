//! The expiry: a server's signed statement that it removed snapshots because nothing kept them any more. It is to a
//! server what a tombstone is to the holder of a key, and needs no key of the repository.

use crate::limits::EXPIRY_NAMES_MAX;
use crate::record::{Codec, Header, RecordKind, SealedRecord};
use crate::wire::Reader;
use crate::{Error, Result};
use ids::{SessionId, SnapshotId};

/// What signatures of expiries are over begins with this and the repository's id.
pub const EXPIRY_CONTEXT: &[u8] = b"icecore 2026 expiry v1";
/// Newest version.
pub const VERSION: u16 = 1;
/// Length of the signature in bytes (Ed25519).
pub const SIGNATURE_BYTES: usize = 64;

/// The statement of a server that snapshots expired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// The key for receipts that signs this.
    pub key: [u8; 32],
    /// When they were removed, by the clock of the server: seconds since 1970.
    pub expired_secs: i64,
    /// The snapshots: one to [`EXPIRY_NAMES_MAX`].
    pub snapshots: Vec<SnapshotId>,
}

impl Expiry {
    /// The bytes that are signed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.expired_secs.to_le_bytes());
        self.snapshots.iter().for_each(|id| out.extend_from_slice(&id.0));
        out
    }

    /// Expiry and signature in `clear`. Whether the signature is good is for `crypto` to say.
    pub fn decode(clear: &[u8]) -> Result<(Self, [u8; SIGNATURE_BYTES])> {
        let truncated = Error::Truncated { what: "expiry" };
        let (message, signature) = clear.split_last_chunk().ok_or(truncated)?;
        let mut reader = Reader::new(message, "expiry");
        check_version(reader.u16()?)?;
        let (key, expired_secs) = (reader.array()?, reader.u64()? as i64);
        let (ids, rest) = reader.bytes(reader.remaining())?.as_chunks::<{ SnapshotId::LEN }>();
        if !rest.is_empty() || ids.is_empty() || ids.len() > EXPIRY_NAMES_MAX {
            return Err(reader.invalid());
        }
        let snapshots = ids.iter().map(|id| SnapshotId(*id)).collect();
        Ok((Self { key, expired_secs, snapshots }, *signature))
    }
}

fn check_version(version: u16) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Version { what: "expiry", version: version.into(), known: VERSION.into() })
}

/// The record that holds the expiry `clear`. It is of no session, and nothing in it is sealed.
pub fn record(clear: &[u8]) -> Result<SealedRecord> {
    let (nonce, objects, plain_bytes, sealed_bytes) = (0, 0, 0, 0);
    let header = Header {
        kind: RecordKind::Expiry,
        codec: Codec::Raw,
        session: SessionId([0; SessionId::LEN]),
        nonce,
        objects,
        clear_bytes: clear.len() as u32,
        plain_bytes,
        sealed_bytes,
    };
    let associated = [&header.encode()?[..], clear].concat();
    let (ids, sealed) = Default::default();
    Ok(SealedRecord { kind: RecordKind::Expiry, ids, associated, sealed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiry(count: usize) -> Expiry {
        let snapshots = (0..count).map(|at| SnapshotId((at as u128).to_le_bytes())).collect();
        Expiry { key: [8; 32], expired_secs: -5, snapshots }
    }

    fn clear_of(expiry: &Expiry) -> Vec<u8> {
        [&expiry.encode()[..], &[9; SIGNATURE_BYTES]].concat()
    }

    #[test]
    fn an_expiry_is_read_back_with_as_many_names_as_it_may_have() {
        for (count, is_one) in [
            (0, false),
            (1, true),
            (2, true),
            (EXPIRY_NAMES_MAX, true),
            (EXPIRY_NAMES_MAX + 1, false),
        ] {
            let read = Expiry::decode(&clear_of(&expiry(count)));
            assert_eq!(read.is_ok(), is_one, "{count}");
            assert!(read.is_err() || read == Ok((expiry(count), [9; SIGNATURE_BYTES])));
        }
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_no_expiry() {
        let clear = clear_of(&expiry(2));
        for length in 0..clear.len() {
            let is_one_less = length == clear.len() - SnapshotId::LEN;
            assert_eq!(Expiry::decode(&clear[..length]).is_ok(), is_one_less, "{length}");
        }
        let other = [&[2, 0], &clear[2..]].concat();
        assert!(matches!(Expiry::decode(&other), Err(Error::Version { .. })));
        let bytes = record(&clear).unwrap().to_bytes();
        assert_eq!(crate::record::verify(&bytes).map(|record| record.clear), Ok(&clear[..]));
    }
}
