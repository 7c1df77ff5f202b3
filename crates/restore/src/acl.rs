//! POSIX ACLs in the binary form of the kernel: a version of 4 bytes, then entries of tag (2), permissions (2) and
//! id (4), little-endian.

const VERSION: [u8; 4] = [2, 0, 0, 0];
const ENTRY_BYTES: usize = 8;
/// The tag of the owning group.
pub const OWNING_GROUP: u16 = 0x04;

/// An entry of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is for: `ACL_USER_OBJ` and so on.
    pub tag: u16,
    /// What these may do, as in a mode: 4 read, 2 write, 1 execute.
    pub bits: u16,
    /// The number of a user or a group, if the tag is one of these.
    pub id: u32,
}

/// The entries of an ACL; `None` if it is none.
pub fn entries(value: &[u8]) -> Option<Vec<AclEntry>> {
    let (entries, []) = value.strip_prefix(&VERSION)?.as_chunks::<ENTRY_BYTES>() else {
        return None;
    };
    let entry = |[a, b, c, d, id @ ..]: &[u8; ENTRY_BYTES]| AclEntry {
        tag: u16::from_le_bytes([*a, *b]),
        bits: u16::from_le_bytes([*c, *d]),
        id: u32::from_le_bytes(*id),
    };
    Some(entries.iter().map(entry).collect())
}

/// `mode` without this ACL. With it the group bits are its mask, which would give the owning group the rights of all
/// that the ACL names; it gets its own instead.
pub fn mode_without(value: &[u8], mode: u32) -> u32 {
    let all = entries(value).unwrap_or_default();
    match all.iter().find(|entry| entry.tag == OWNING_GROUP) {
        Some(group) => (mode & !0o070) | (mode & (u32::from(group.bits & 7) << 3)),
        None => mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ACL;

    #[test]
    fn the_owning_group_is_not_the_mask() {
        // It may read; the mask is 6.
        assert_eq!(mode_without(&ACL, 0o4664), 0o4644);
        for none in [&b""[..], &[2, 0, 0, 0, 4], &ACL[1..], &ACL[..ACL.len() - 1]] {
            assert_eq!((entries(none), mode_without(none, 0o664)), (None, 0o664));
        }
    }
}
