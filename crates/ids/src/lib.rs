//! Newtypes for ids, numbers and record locations, so that no function mixes them up.
//!
//! `crypto` makes ids, and `format` defines their bytes.

use std::fmt;

/// A byte as two digits.
fn hex_digits(byte: u8) -> [u8; 2] {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    [digit(byte >> 4), digit(byte & 15)]
}

macro_rules! byte_id {
    ($(#[$doc:meta])* $name:ident, $len:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// The id whose bytes are `bytes`; `None` when the length is wrong.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// The id written as lower-case hex; `None` when `text` is not exactly that.
            pub fn from_hex(text: &str) -> Option<Self> {
                decode_hex(text).and_then(|bytes| Self::from_slice(&bytes))
            }

            /// Whether the id, written as hex, begins with `text`.
            pub fn begins_with(&self, text: &str) -> bool {
                let digits = self.0.iter().flat_map(|byte| hex_digits(*byte));
                text.len() <= 2 * $len && text.bytes().zip(digits).all(|(a, b)| a == b)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut digits = [0; 2 * $len];
                let pairs = digits.as_chunks_mut::<2>().0.iter_mut();
                pairs.zip(&self.0).for_each(|(pair, byte)| *pair = hex_digits(*byte));
                f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

byte_id!(
    /// Id of a chunk or page: a keyed hash of its type and plaintext. With 24 bytes a collision costs 2^95 work, even
    /// for a holder of the key. The last bit tells pages from chunks.
    ObjectId, 24
);
impl ObjectId {
    /// Whether it names a page; else it names a chunk.
    pub fn is_page(&self) -> bool {
        self.0[Self::LEN - 1] & 1 == 1
    }

    /// The same hash as the id of a page or a chunk.
    #[must_use]
    pub fn with_type(mut self, is_page: bool) -> Self {
        self.0[Self::LEN - 1] = self.0[Self::LEN - 1] & !1 | u8::from(is_page);
        self
    }
}

byte_id!(
    /// Name of a snapshot: hash of its manifest.
    SnapshotId, 16
);
byte_id!(
    /// Name of a writing session: random.
    SessionId, 16
);
byte_id!(
    /// Name of a repository: random, given at `init`.
    RepositoryId, 16
);
byte_id!(
    /// Name of a key slot: random.
    KeyId, 8
);

/// Number of a container; a repository never uses one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ContainerNo(pub u64);

impl fmt::Display for ContainerNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010x}", self.0)
    }
}

/// Number of a key epoch: a session that is sealed in one opens with the keys of that epoch and later ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct KeyEpoch(pub u32);

impl fmt::Display for KeyEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Location of a record: container, offset and length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordLocation {
    /// The container.
    pub container: ContainerNo,
    /// Offset of the record's first byte in the container.
    pub offset: u32,
    /// Length of the record in bytes, header included.
    pub length: u32,
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?))
        .collect()
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_back() {
        let id = KeyId([0, 1, 0x7f, 0x80, 0xff, 5, 6, 7]);
        assert_eq!(KeyId::from_hex(&id.to_string()), Some(id));
    }

    #[test]
    fn an_id_begins_with_its_first_digits_and_with_nothing_else() {
        let id = KeyId([0, 1, 0x7f, 0x80, 0xff, 5, 6, 7]);
        let text = "00017f80ff050607";
        assert_eq!(id.to_string(), text);
        (0..=text.len()).for_each(|end| assert!(id.begins_with(&text[..end])));
        for other in ["1", "00017f8f", "00017f80ff0506070", "00017F"] {
            assert!(!id.begins_with(other), "{other}");
        }
    }

    #[test]
    fn bad_hex_is_refused() {
        for text in ["", "0", "00", "zz00000000000000", "00000000000000000", "+000000000000000"] {
            assert_eq!(KeyId::from_hex(text), None, "{text}");
        }
    }
}
