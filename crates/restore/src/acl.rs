//! The part of POSIX ACLs that a restore must understand, in the binary form of the kernel: a
//! version of 4 bytes, then entries of tag (2), permissions (2) and id (4), little-endian.

const VERSION: [u8; 4] = [2, 0, 0, 0];
const TAG_OWNING_GROUP: u16 = 0x04;

/// The permissions of the owning group; `None` if this is not an ACL.
pub(crate) fn owning_group_bits(value: &[u8]) -> Option<u32> {
    let entries = value.strip_prefix(&VERSION)?;
    let short = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    let group = entries.chunks_exact(8).find(|entry| short(entry) == TAG_OWNING_GROUP)?;
    Some(u32::from(short(&group[2..])) & 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ACL;

    #[test]
    fn the_owning_group_is_not_the_mask() {
        assert_eq!(owning_group_bits(&ACL), Some(4)); // the mask is 6
        assert_eq!(owning_group_bits(b""), None);
        assert_eq!(owning_group_bits(&[2, 0, 0, 0, 4]), None);
    }
}
