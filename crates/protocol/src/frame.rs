//! The frame around every packet: what it is, which request it belongs to, and how long it is.
//!
//! ```text
//!  0     1         4             8            12
//! | kind | 0  0  0 | request (4) | length (4) | body…
//! ```
//! There is no checksum: TLS protects every byte, and records carry their own.

use crate::packet::{self, End};
use crate::{Error, Result};
use format::wire::Reader;

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 12;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the packet.
    pub kind: u8,
    /// Number of the request that this packet is or answers; 0 for neither.
    pub request: u32,
    /// Length of the body in bytes.
    pub body_bytes: usize,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind;
        bytes[4..8].copy_from_slice(&self.request.to_le_bytes());
        bytes[8..].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes
    }

    /// Decodes a header. The packet must be one that `from` may send, and within its limit.
    pub fn decode(bytes: &[u8; HEADER_BYTES], from: End) -> Result<Self> {
        let (kind, rest) = (bytes[0], &bytes[1..]);
        let rule = packet::rule(kind).ok_or(Error::Unknown(kind))?;
        let malformed = |reason| Error::Malformed { packet: rule.name, reason };
        let mut reader = Reader::new(rest, "frame header");
        if reader.array().map_err(malformed)? != [0; 3] {
            return Err(malformed(reader.invalid()));
        }
        let request = reader.u32().map_err(malformed)?;
        let body_bytes = reader.u32().map_err(malformed)? as usize;
        if rule.from != from {
            return Err(Error::WrongEnd(rule.name));
        }
        if body_bytes > rule.limit {
            return Err(Error::TooLong { packet: rule.name, bytes: body_bytes, limit: rule.limit });
        }
        Ok(Self { kind, request, body_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SMALL_BYTES_MAX;

    #[test]
    fn a_header_is_read_back() {
        let header = Header { kind: 1, request: 0x0102_0304, body_bytes: 77 };
        assert_eq!(Header::decode(&header.encode(), End::Client), Ok(header));
    }

    #[test]
    fn what_is_unknown_too_long_or_of_the_other_end_is_refused() {
        let header = |kind, body_bytes| Header { kind, request: 1, body_bytes }.encode();
        let refused = |bytes| Header::decode(&bytes, End::Client).unwrap_err();
        assert_eq!(refused(header(0, 0)), Error::Unknown(0));
        assert!(matches!(refused(header(1, SMALL_BYTES_MAX + 1)), Error::TooLong { .. }));
        assert!(matches!(refused(header(0x81, 0)), Error::WrongEnd(_)));
        let mut reserved = header(1, 0);
        reserved[2] = 1;
        assert!(matches!(refused(reserved), Error::Malformed { .. }));
    }
}
