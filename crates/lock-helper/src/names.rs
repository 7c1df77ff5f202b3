//! Which names a request may have.

/// Bytes of a name.
const BYTES_MAX: usize = 1024;
/// Parts of a name: `domains/NAME/containers/DIRECTORY/FILE`, and some more.
const PARTS_MAX: usize = 8;

/// The parts of `name`, the last of which is the file. Relative and down only; nothing that begins with a dot, as the
/// helper's own directory does, and nothing with the sign that separates the parts of its entries.
pub(crate) fn parts(name: &str) -> Option<(Vec<&str>, &str)> {
    let mut parts: Vec<&str> = name.split('/').collect();
    let is_good =
        |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '@']);
    if name.len() > BYTES_MAX || parts.len() > PARTS_MAX || !parts.iter().all(is_good) {
        return None;
    }
    let file = parts.pop()?;
    Some((parts, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_down_and_never_to_the_own_directory() {
        assert_eq!(parts("domains/web/config"), Some((vec!["domains", "web"], "config")));
        assert_eq!(parts("superblock"), Some((vec![], "superblock")));
        for bad in [
            "",
            "/etc/passwd",
            "a//b",
            "a/",
            "..",
            "a/../b",
            ".locked/a",
            "a/.b",
            "a\0b",
            "a/./b",
            "a@1@2/b",
        ] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
        assert_eq!(parts(&"a/".repeat(9)), None);
        assert_eq!(parts(&"a".repeat(BYTES_MAX + 1)), None);
    }
}
