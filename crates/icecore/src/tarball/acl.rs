//! ACLs as tar archives have them: text, with numbers for users and groups.

const VERSION: [u8; 4] = [2, 0, 0, 0];
const ENTRY_BYTES: usize = 8;
/// The tag of the owning group.
const OWNING_GROUP: u16 = 0x04;

struct AclEntry {
    tag: u16,
    bits: u16,
    id: u32,
}

/// The entries of an ACL in the form of the kernel; `None` if it is none.
fn entries(value: &[u8]) -> Option<Vec<AclEntry>> {
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

/// An ACL as `SCHILY.acl.*` has it, an entry in a line.
pub(super) fn text(value: &[u8]) -> Option<String> {
    let lines: Option<Vec<_>> = entries(value)?.iter().map(line).collect();
    lines.map(|lines| lines.join("\n"))
}

fn line(entry: &AclEntry) -> Option<String> {
    let who = match entry.tag {
        0x01 => "user:".to_owned(),
        0x02 => format!("user:{}", entry.id),
        OWNING_GROUP => "group:".to_owned(),
        0x08 => format!("group:{}", entry.id),
        0x10 => "mask:".to_owned(),
        0x20 => "other:".to_owned(),
        _ => return None,
    };
    let bit = |mask: u16, letter: char| if entry.bits & mask == 0 { '-' } else { letter };
    Some(format!("{who}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x')))
}

/// The mode of an object with this ACL for who does not restore that: its group bits are the mask, and the owning group
/// gets its own.
pub(super) fn mode_without(value: &[u8], mode: u32) -> u32 {
    let all = entries(value).unwrap_or_default();
    match all.iter().find(|entry| entry.tag == OWNING_GROUP) {
        Some(group) => (mode & !0o070) | (mode & (u32::from(group.bits & 7) << 3)),
        None => mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// user::rw-, user:5:rw-, group::---, mask::rw-, other::r--
    const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x06\0\x05\0\0\0\x04\0\0\0\xff\xff\xff\xff\x10\0\x06\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

    #[test]
    fn an_acl_is_told_as_text_and_narrows_the_mode() {
        let told = text(ACL).unwrap();
        assert_eq!(told, "user::rw-\nuser:5:rw-\ngroup::---\nmask::rw-\nother::r--");
        assert_eq!(mode_without(ACL, 0o4664), 0o4604);
        for none in [&ACL[..43], &ACL[1..], b"", b"\x02\0\0\0\x03\0\x06\0\0\0\0\0"] {
            assert_eq!(text(none).filter(|text| !text.is_empty()), None);
            assert_eq!(mode_without(none, 0o664), 0o664);
        }
    }
}
