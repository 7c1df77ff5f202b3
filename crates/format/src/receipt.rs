//! The receipt: the server's signed statement of when it received a snapshot, from which node, for which policy, and
//! until when nobody may delete it. It follows the manifest, as the clear part of its own record.

use crate::limits::LOCK_SECS_MAX;
use crate::manifest::Head;
use crate::record::{Codec, Header, RecordKind, SealedRecord};
use crate::wire::Reader;
use crate::{Error, Result};
use ids::{ObjectId, SessionId, SnapshotId};

/// What signatures of receipts are over begins with this and the repository's id.
pub const RECEIPT_CONTEXT: &[u8] = b"icecore 2026 receipt v2";
/// Newest version.
pub const VERSION: u16 = 2;
/// Length of the signature in bytes (Ed25519).
pub const SIGNATURE_BYTES: usize = 64;
/// Flag: the clock of the server had jumped, so the times are uncertain.
pub const CLOCK_UNCERTAIN: u32 = 1;
/// Flags that a reader must know; it may ignore those of the upper half.
const FLAGS_TO_KNOW: u32 = 0xffff;

/// A time before which nobody may delete a snapshot. Both times are those of the repository's lock clock, in seconds
/// since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// When it was given; not 0.
    pub given_secs: i64,
    /// When it ends: later, by at most [`LOCK_SECS_MAX`].
    pub until_secs: i64,
}

impl Lock {
    /// The lock that begins at `given_secs` and lasts `secs` seconds; `None` for a length that no lock has.
    pub fn new(given_secs: i64, secs: u64) -> Option<Self> {
        let until_secs = given_secs.checked_add_unsigned(secs)?;
        let is_possible = given_secs != 0 && (1..=LOCK_SECS_MAX).contains(&secs);
        is_possible.then_some(Self { given_secs, until_secs })
    }
}

/// The statement of a server about a snapshot that it received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Its source, as its head says.
    pub source: ObjectId,
    /// Its root, as its head says.
    pub root: ObjectId,
    /// The begin of the backup, as its head says.
    pub time_secs: i64,
    /// When its session began, by the clock of the server: seconds since 1970.
    pub begun_secs: i64,
    /// When the server received it, by the same clock.
    pub received_secs: i64,
    /// Rises with every receipt of a key.
    pub counter: u64,
    /// [`CLOCK_UNCERTAIN`].
    pub flags: u32,
    /// The key that signs this.
    pub key: [u8; 32],
    /// Until when nobody may delete it.
    pub lock: Option<Lock>,
    /// The node that sent it: the name in its certificate. This and the next three have at most 255 bytes.
    pub node: String,
    /// The policy that wanted it; empty for none, as are the next two.
    pub policy: String,
    /// Its source by the name in the policy.
    pub source_name: String,
    /// Its class in the policy.
    pub class: String,
}

impl Receipt {
    /// The bytes that are signed. A text that is too long is truncated: check it before.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        out.extend_from_slice(&self.snapshot.0);
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.root.0);
        for secs in [self.time_secs, self.begun_secs, self.received_secs] {
            out.extend_from_slice(&secs.to_le_bytes());
        }
        out.extend_from_slice(&self.counter.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.key);
        let lock = self.lock.map_or([0; 2], |lock| [lock.given_secs, lock.until_secs]);
        lock.iter().for_each(|secs| out.extend_from_slice(&secs.to_le_bytes()));
        for text in [&self.node, &self.policy, &self.source_name, &self.class] {
            let text = text.as_bytes();
            let text = text.get(..usize::from(u8::MAX)).unwrap_or(text);
            out.push(text.len() as u8);
            out.extend_from_slice(text);
        }
        out
    }

    /// Whether it is of the snapshot `id` with this `head`. A rewritten snapshot keeps the receipt of its original,
    /// which has the same source, tree and time.
    pub fn matches(&self, id: SnapshotId, head: &Head) -> bool {
        let id = head.original.map_or(id, |(id, _)| id);
        let of = (self.source, self.root, self.time_secs);
        self.snapshot == id && of == (head.source, head.root, head.time_secs)
    }

    /// Receipt and signature in `clear`. Whether the signature is good is for `crypto` to say.
    pub fn decode(clear: &[u8]) -> Result<(Self, [u8; SIGNATURE_BYTES])> {
        let mut reader = Reader::new(clear, "receipt");
        check_version(reader.u16()?)?;
        let receipt = Self {
            snapshot: SnapshotId(reader.array()?),
            source: ObjectId(reader.array()?),
            root: ObjectId(reader.array()?),
            time_secs: reader.u64()? as i64,
            begun_secs: reader.u64()? as i64,
            received_secs: reader.u64()? as i64,
            counter: reader.u64()?,
            flags: reader.u32()?,
            key: reader.array()?,
            lock: lock(&mut reader)?,
            node: text(&mut reader)?,
            policy: text(&mut reader)?,
            source_name: text(&mut reader)?,
            class: text(&mut reader)?,
        };
        let signature = reader.array()?;
        if receipt.flags & FLAGS_TO_KNOW & !CLOCK_UNCERTAIN != 0 {
            return Err(reader.invalid());
        }
        reader.end().map(|()| (receipt, signature))
    }
}

/// Two zeros are no lock.
fn lock(reader: &mut Reader<'_>) -> Result<Option<Lock>> {
    let [given_secs, until_secs] = [reader.u64()? as i64, reader.u64()? as i64];
    if (given_secs, until_secs) == (0, 0) {
        return Ok(None);
    }
    let secs = until_secs.checked_sub(given_secs).and_then(|secs| u64::try_from(secs).ok());
    let lock = secs.and_then(|secs| Lock::new(given_secs, secs));
    lock.map(Some).ok_or_else(|| reader.invalid())
}

fn text(reader: &mut Reader<'_>) -> Result<String> {
    let length = reader.u8()?;
    let bytes = reader.bytes(length.into())?;
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| reader.invalid())
}

fn check_version(version: u16) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Version { what: "receipt", version: version.into(), known: VERSION.into() })
}

/// The record that holds the receipt `clear` of the snapshot of `session`. Nothing in it is sealed.
pub fn record(session: SessionId, clear: &[u8]) -> Result<SealedRecord> {
    let header = Header {
        kind: RecordKind::Receipt,
        codec: Codec::Raw,
        session,
        nonce: 0,
        objects: 0,
        clear_bytes: clear.len() as u32,
        plain_bytes: 0,
        sealed_bytes: 0,
    };
    let associated = [&header.encode()?[..], clear].concat();
    let (ids, sealed) = Default::default();
    Ok(SealedRecord { kind: RecordKind::Receipt, ids, associated, sealed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt {
            snapshot: SnapshotId([1; 16]),
            source: ObjectId([2; 24]),
            root: ObjectId([3; 24]),
            time_secs: -1,
            begun_secs: 5,
            received_secs: 6,
            counter: 7,
            flags: CLOCK_UNCERTAIN,
            key: [8; 32],
            lock: Lock::new(100, 50),
            node: "web-1".into(),
            policy: "daily".into(),
            source_name: "main".into(),
            class: "default".into(),
        }
    }

    fn clear_of(receipt: &Receipt) -> Vec<u8> {
        [&receipt.encode()[..], &[9; SIGNATURE_BYTES]].concat()
    }

    #[test]
    fn a_receipt_is_read_back() {
        let clear = clear_of(&receipt());
        assert_eq!(Receipt::decode(&clear), Ok((receipt(), [9; SIGNATURE_BYTES])));
        (0..clear.len()).for_each(|length| assert!(Receipt::decode(&clear[..length]).is_err()));
        let bytes = record(SessionId([4; 16]), &clear).unwrap().to_bytes();
        assert_eq!(crate::record::verify(&bytes).map(|record| record.clear), Ok(&clear[..]));
    }

    #[test]
    fn unknown_flags_of_a_receipt_are_refused_in_the_lower_half() {
        let with = |flags| Receipt::decode(&clear_of(&Receipt { flags, ..receipt() })).is_ok();
        assert!((1..16).all(|bit| !with(1 << bit)) && (16..32).all(|bit| with(1 << bit)));
    }

    #[test]
    fn a_text_that_is_none_or_too_long_is_nobodys() {
        let mut clear = clear_of(&receipt());
        let at = clear.len() - SIGNATURE_BYTES - 1;
        clear[at] = 0xff;
        assert!(Receipt::decode(&clear).is_err());
        for length in [0, 1, 254, 255, 256, 300] {
            let [node, policy, source_name, class] = [(); 4].map(|()| "n".repeat(length));
            let long = Receipt { node, policy, source_name, class, ..receipt() };
            let (read, _) = Receipt::decode(&clear_of(&long)).unwrap();
            for text in [read.node, read.policy, read.source_name, read.class] {
                assert_eq!(text.len(), length.min(255));
            }
        }
    }

    #[test]
    fn a_lock_has_a_begin_and_a_length_within_its_limit() {
        let most = LOCK_SECS_MAX;
        for (secs, is_one) in [(0, false), (1, true), (most, true), (most + 1, false)] {
            assert_eq!(Lock::new(7, secs).is_some(), is_one, "{secs}");
            let lock = Lock { given_secs: 7, until_secs: 7 + secs as i64 };
            let clear = clear_of(&Receipt { lock: Some(lock), ..receipt() });
            assert_eq!(Receipt::decode(&clear).is_ok(), is_one, "{secs}");
        }
        for (given_secs, until_secs) in [(0, 5), (5, 0), (5, 4), (i64::MIN, i64::MAX)] {
            let lock = Some(Lock { given_secs, until_secs });
            assert!(Receipt::decode(&clear_of(&Receipt { lock, ..receipt() })).is_err());
        }
        assert_eq!((Lock::new(0, 5), Lock::new(i64::MAX, 1)), (None, None));
        let none = Receipt { lock: None, ..receipt() };
        assert_eq!(Receipt::decode(&clear_of(&none)).unwrap().0, none);
    }
}
