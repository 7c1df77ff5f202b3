//! Encoding of the fields of packets: little-endian numbers, byte strings with their length as a varint.

use crate::limits::{IDS_MAX, KEYS_MAX, PATH_BYTES_MAX, SLOTS_MAX, SNAPSHOTS_MAX, TEXT_BYTES_MAX};
use format::wire::{Reader, put_string, put_varint};
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation, SnapshotId};

/// A field of a packet.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(reader: &mut Reader<'_>) -> format::Result<Self>;
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
                reader.array().map(Self::from_le_bytes)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 i64);

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        reader.array()
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(reader.invalid()),
        }
    }
}

/// Text: UTF-8 without control characters.
impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, self.as_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        let bytes = reader.string(TEXT_BYTES_MAX)?;
        let text = str::from_utf8(bytes).map_err(|_| reader.invalid())?;
        if text.chars().any(char::is_control) {
            return Err(reader.invalid());
        }
        Ok(text.to_owned())
    }
}

/// A path: any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathBytes(pub Vec<u8>);

impl Field for PathBytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, &self.0);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        reader.string(PATH_BYTES_MAX).map(|bytes| Self(bytes.to_vec()))
    }
}

macro_rules! ids {
    ($($type:ident)*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0);
            }
            fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
                reader.array().map(Self)
            }
        }
    )*};
}
ids!(ObjectId KeyId SnapshotId);

impl Field for ContainerNo {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        reader.u64().map(Self)
    }
}

impl Field for RecordLocation {
    fn put(&self, out: &mut Vec<u8>) {
        self.container.put(out);
        self.offset.put(out);
        self.length.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        let container = ContainerNo::take(reader)?;
        Ok(Self { container, offset: reader.u32()?, length: reader.u32()? })
    }
}

macro_rules! purposes {
    ($($(#[$doc:meta])* $name:ident = $number:literal)*) => {
        /// What a connection is for. The server shows it in its list of jobs; permissions do not
        /// depend on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Purpose {
            $($(#[$doc])* $name = $number,)*
        }

        impl Purpose {
            /// All of them, by number.
            pub const ALL: &[Purpose] = &[$(Purpose::$name),*];
        }

        impl Field for Purpose {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
            fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
                match reader.u8()? {
                    $($number => Ok(Purpose::$name),)*
                    _ => Err(reader.invalid()),
                }
            }
        }
    };
}
purposes! {
    /// A backup.
    Backup = 1
    /// A restore.
    Restore = 2
    /// Any other reading: lists, searches.
    Read = 3
    /// An agent that waits for node commands.
    Agent = 4
    /// A measurement of the network.
    Measure = 5
    /// A check: it sees what the domain itself has, and no copies.
    Check = 6
}

/// Name of a snapshot: its number and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotName {
    /// Its number.
    pub sequence: u64,
    /// Its id.
    pub id: SnapshotId,
}

impl SnapshotName {
    /// Whether a page of names comes after the number `after`, in order. Two have one number where a history was forked:
    /// `check` says so, and both are restored.
    pub fn rise(after: u64, names: &[Self]) -> bool {
        names.first().is_none_or(|first| first.sequence > after)
            && names.is_sorted_by(|one, next| {
                one.sequence < next.sequence || (one.sequence == next.sequence && one.id != next.id)
            })
    }
}

impl Field for SnapshotName {
    fn put(&self, out: &mut Vec<u8>) {
        self.sequence.put(out);
        self.id.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        Ok(Self { sequence: reader.u64()?, id: SnapshotId::take(reader)? })
    }
}

/// Until when nobody can remove a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLock {
    /// The snapshot.
    pub id: SnapshotId,
    /// When its lock ends, in seconds since 1970.
    pub until_secs: i64,
}

impl Field for SnapshotLock {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.until_secs.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        Ok(Self { id: SnapshotId::take(reader)?, until_secs: i64::take(reader)? })
    }
}

/// A key slot: its id and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The key.
    pub id: KeyId,
    /// The slot as it lies in the repository.
    pub bytes: Vec<u8>,
}

impl Field for Slot {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        put_string(out, &self.bytes);
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        let id = KeyId::take(reader)?;
        Ok(Self { id, bytes: reader.string(TEXT_BYTES_MAX)?.to_vec() })
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        if bool::take(reader)? { T::take(reader).map(Some) } else { Ok(None) }
    }
}

/// A type that lists may contain, with the maximum number of items.
pub(crate) trait Item: Field {
    const COUNT_MAX: usize;
}

impl Item for ObjectId {
    const COUNT_MAX: usize = IDS_MAX;
}
impl Item for Option<RecordLocation> {
    const COUNT_MAX: usize = IDS_MAX;
}
impl Item for SnapshotName {
    const COUNT_MAX: usize = SNAPSHOTS_MAX;
}
impl Item for SnapshotLock {
    const COUNT_MAX: usize = SNAPSHOTS_MAX;
}
impl Item for Slot {
    const COUNT_MAX: usize = SLOTS_MAX;
}
/// Sealed session keys, or other short byte strings.
impl Item for PathBytes {
    const COUNT_MAX: usize = KEYS_MAX;
}

impl<T: Item> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(reader: &mut Reader<'_>) -> format::Result<Self> {
        let count = reader.count(T::COUNT_MAX)?;
        (0..count).map(|_| T::take(reader)).collect()
    }
}
