//! Extended attributes as bytes: inside of an attribute set while they are few and small, else by
//! themselves, in chunks.

use crate::Result;
use crate::entry::Xattr;
use crate::limits::{XATTR_BYTES_MAX, XATTRS_MAX};
use crate::wire::{Reader, put_string, put_varint};

/// Attributes of more bytes are stored as chunks: a page is no place for much that one object has.
pub const INLINE_BYTES_MAX: usize = 4096;

/// The attributes as they are stored in chunks.
pub fn encode(xattrs: &[Xattr]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(encoded_bytes_max(xattrs));
    put(&mut bytes, xattrs);
    bytes
}

/// The attributes in `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Vec<Xattr>> {
    let mut reader = Reader::new(bytes, "extended attributes");
    let xattrs = read(&mut reader)?;
    reader.end().map(|()| xattrs)
}

/// The most bytes that [`encode`] makes of them: lengths take up to three bytes.
pub fn encoded_bytes_max(xattrs: &[Xattr]) -> usize {
    3 + xattrs.iter().map(encoded_bytes_max_of).sum::<usize>()
}

/// The same of one.
pub fn encoded_bytes_max_of(xattr: &Xattr) -> usize {
    6 + xattr.name.len() + xattr.value.len()
}

/// Whether `name` is what XFS shows to root of an ACL that is an attribute under its proper name, too, and follows it
/// there. Elsewhere nothing does: the ACL would change, and this would stay, and bring the old one back on an XFS. Such
/// attributes are neither stored nor, from snapshots that have them, restored.
pub fn is_second_name_of_acl(name: &[u8]) -> bool {
    matches!(name, b"trusted.SGI_ACL_FILE" | b"trusted.SGI_ACL_DEFAULT")
}

pub(crate) fn put(out: &mut Vec<u8>, xattrs: &[Xattr]) {
    put_varint(out, xattrs.len() as u64);
    for xattr in xattrs {
        put_string(out, &xattr.name);
        put_string(out, &xattr.value);
    }
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Xattr>> {
    let count = reader.count(XATTRS_MAX)?;
    (0..count).map(|_| one(reader)).collect()
}

fn one(reader: &mut Reader<'_>) -> Result<Xattr> {
    let name = reader.string(XATTR_BYTES_MAX)?.to_vec();
    Ok(Xattr { name, value: reader.string(XATTR_BYTES_MAX)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_any_size_are_read_back() {
        let xattr = |name: &[u8], bytes| Xattr { name: name.to_vec(), value: vec![7; bytes] };
        for set in [vec![], vec![xattr(b"user.a", 0), xattr(&[b'n'; 255], XATTR_BYTES_MAX)]] {
            let bytes = encode(&set);
            assert!(bytes.len() <= encoded_bytes_max(&set));
            assert_eq!(decode(&bytes).unwrap(), set);
        }
    }

    #[test]
    fn too_many_and_too_long_ones_are_refused() {
        let long = Xattr { name: b"a".to_vec(), value: vec![7; XATTR_BYTES_MAX + 1] };
        assert!(decode(&encode(&[long])).is_err());
        let one = Xattr { name: b"a".to_vec(), value: Vec::new() };
        assert!(decode(&encode(&vec![one.clone(); XATTRS_MAX])).is_ok());
        assert!(decode(&encode(&vec![one; XATTRS_MAX + 1])).is_err());
        assert!(decode(&[0, 0]).is_err(), "bytes behind the last one");
    }
}
