//! The directories whose complete content a snapshot has: those below the paths that were backed
//! up. Of directories above them it has only the path; removing extraneous objects there would
//! remove what was never backed up.

use std::collections::BTreeSet;
use tree::cursor::is_below;

/// The paths that were backed up, as paths of the snapshot.
pub(super) struct Roots(Vec<Vec<u8>>);

impl Roots {
    /// From the paths in a manifest; invalid ones are ignored.
    pub(super) fn new(paths: &[String]) -> Self {
        let clean = |path: Vec<u8>| path.strip_prefix(b"/").map(<[u8]>::to_vec).unwrap_or(path);
        Self(paths.iter().filter_map(|path| unescaped(path)).map(clean).collect())
    }

    /// These paths below a target into which the content of `subpath` goes; none if all of that was backed up.
    pub(super) fn below(&self, subpath: &[u8]) -> BTreeSet<Vec<u8>> {
        if self.know(subpath) {
            return BTreeSet::new();
        }
        let strip = |root: &Vec<u8>| match subpath {
            [] => Some(root.clone()),
            _ => is_below(root, subpath).then(|| root[subpath.len() + 1..].to_vec()),
        };
        self.0.iter().filter_map(strip).collect()
    }

    /// Whether the snapshot has the complete content of the directory `path`.
    pub(super) fn know(&self, path: &[u8]) -> bool {
        self.0.iter().any(|root| path == root || is_below(path, root))
    }
}

/// Unescapes a path of a manifest (`docs/FORMAT.md`, section 12).
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((byte, rest)) = left.split_first() {
        left = rest;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let (kind, rest) = left.split_first()?;
        left = rest;
        match kind {
            b'\\' => bytes.push(b'\\'),
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'x' => {
                let (digits, rest) = left.split_at_checked(2)?;
                left = rest;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(paths: &[&str]) -> Roots {
        Roots::new(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_parent_of_what_was_backed_up_is_never_known_wholly() {
        let roots = roots(&["/home/x", "/etc"]);
        for (path, known) in [
            ("", false),
            ("home", false),
            ("home/x", true),
            ("home/x/deep/er", true),
            ("home/xy", false),
            ("etc", true),
            ("et", false),
        ] {
            assert_eq!(roots.know(path.as_bytes()), known, "{path}");
        }
        assert!(self::roots(&["/"]).know(b"") && self::roots(&["/"]).know(b"any/where"));
        assert!(!self::roots(&[]).know(b"x"));
    }

    #[test]
    fn paths_are_told_below_a_part_of_a_snapshot() {
        let roots = roots(&["/home/x", "/home/y/z", "/etc"]);
        let below = |subpath: &str| {
            let paths = roots.below(subpath.as_bytes()).into_iter();
            paths.map(|path| String::from_utf8(path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(below(""), ["etc", "home/x", "home/y/z"]);
        assert_eq!(below("home"), ["x", "y/z"]);
        assert_eq!(below("home/y"), ["z"]);
        assert!(below("home/x").is_empty() && below("home/x/deep").is_empty());
        assert!(below("home/y/z").is_empty() && below("elsewhere").is_empty());
    }

    #[test]
    fn paths_that_are_no_text_are_read_back_and_nonsense_is_no_root() {
        let roots = roots(&[r"/a\xff", r"/b\\c\n", r"/d\q", r"/e\x4"]);
        assert!(roots.know(b"a\xff/x") && roots.know(b"b\\c\n"));
        assert_eq!(roots.0.len(), 2);
    }
}
