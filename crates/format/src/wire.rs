//! Reading and writing of numbers and byte strings: little-endian, varints as in LEB128.

use crate::limits::EXTENSION_BYTES_MAX;
use crate::{Error, Result};

/// Reads from untrusted bytes.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`; errors call them `what`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(length).ok_or(self.truncated())?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(self.truncated())?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A varint of up to 64 bits; only the shortest spelling is valid, so that equal values have
    /// equal bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let overflows = shift == 63 && bits > 1;
            let padded = shift > 0 && byte == 0;
            if overflows || padded {
                return Err(self.invalid());
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.invalid())
    }

    /// A signed varint in zigzag spelling.
    #[inline]
    pub fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A varint that fits 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| self.invalid())
    }

    /// A varint that counts something: at most `limit`.
    pub fn count(&mut self, limit: usize) -> Result<usize> {
        let value = self.varint()?;
        if value > limit as u64 {
            return Err(Error::TooLarge { what: self.what, value, limit: limit as u64 });
        }
        Ok(value as usize)
    }

    /// A byte string: its length as a varint, at most `limit`, then the bytes.
    pub fn string(&mut self, limit: usize) -> Result<&'a [u8]> {
        let length = self.count(limit)?;
        self.bytes(length)
    }

    /// An extension: bytes that this version need not understand.
    pub fn extension(&mut self) -> Result<Vec<u8>> {
        let bytes = self.string(EXTENSION_BYTES_MAX)?;
        if bytes.is_empty() { Err(self.invalid()) } else { Ok(bytes.to_vec()) }
    }

    /// Nothing may be left of a page but an extension of a later version.
    pub fn end_of_page(&mut self) -> Result<()> {
        if !self.rest.is_empty() {
            self.extension()?;
        }
        self.end()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.invalid()) }
    }

    /// The error for a value that is not allowed here.
    pub fn invalid(&self) -> Error {
        Error::Invalid { what: self.what }
    }

    fn truncated(&self) -> Error {
        Error::Truncated { what: self.what }
    }
}

/// Appends `value` as a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a zigzag varint.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1) as u64 ^ (value >> 63) as u64);
}

/// Appends a byte string with its length.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The checksum of the format: the first 16 bytes of BLAKE3 over `parts`.
/// It is taken over what lies on the disk, so that damage is found without any key.
pub fn checksum(parts: &[&[u8]]) -> [u8; 16] {
    let mut checksum = Checksum::default();
    parts.iter().for_each(|part| checksum.update(part));
    checksum.finish()
}

/// [`checksum`] of what is not in memory at once.
#[derive(Clone, Default)]
pub struct Checksum(blake3::Hasher);

impl Checksum {
    /// What comes next.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The checksum of all parts.
    pub fn finish(&self) -> [u8; 16] {
        let mut sum = [0; 16];
        self.0.finalize_xof().fill(&mut sum);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_signed(&mut out, value as i64);
            let mut reader = Reader::new(&out, "test");
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.signed(), Ok(value as i64));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn only_the_shortest_spelling_is_valid() {
        for bytes in [&[0x80, 0][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0x80, 0]] {
            assert!(Reader::new(bytes, "test").varint().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_short_buffer_is_an_error() {
        assert_eq!(Reader::new(&[5, 1], "test").string(9), Err(Error::Truncated { what: "test" }));
    }
}
