//! ACLs as tar archives have them: text, with numbers for users and groups.

use restore::acl::{AclEntry, OWNING_GROUP, entries};

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

#[cfg(test)]
mod tests {
    use super::*;

    /// user::rw-, user:5:rw-, group::---, mask::rw-, other::r--
    const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x06\0\x05\0\0\0\x04\0\0\0\xff\xff\xff\xff\x10\0\x06\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

    #[test]
    fn an_acl_is_told_as_text() {
        let told = text(ACL).unwrap();
        assert_eq!(told, "user::rw-\nuser:5:rw-\ngroup::---\nmask::rw-\nother::r--");
        for none in [&ACL[..43], &ACL[1..], b"", b"\x02\0\0\0\x03\0\x06\0\0\0\0\0"] {
            assert_eq!(text(none).filter(|text| !text.is_empty()), None);
        }
    }
}
