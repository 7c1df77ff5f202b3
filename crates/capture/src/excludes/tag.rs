//! Tag files, which exclude the directory that contains them.

use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A cache tag is recognized by its first bytes: <https://bford.info/cachedir/>.
const CACHE_HEADER: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 4096;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A file whose presence excludes the rest of its directory. The file itself is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludeTag {
    name: CString,
    header: Vec<u8>,
}

/// The text does not name a tag file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a file name, or its header is too long; write NAME or NAME:HEADER")]
pub struct InvalidTag(String);

impl ExcludeTag {
    /// The `CACHEDIR.TAG` of caches.
    pub fn of_caches() -> Self {
        Self { name: c"CACHEDIR.TAG".to_owned(), header: CACHE_HEADER.to_vec() }
    }

    /// Parses `NAME` or `NAME:HEADER`; with a header, the file must begin with it.
    pub fn parse(text: &OsStr) -> Result<Self, InvalidTag> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let (name, header) = (&bytes[..colon], bytes.get(colon + 1..).unwrap_or_default());
        let is_name = !matches!(name, b"" | b"." | b"..")
            && name.len() <= NAME_BYTES_MAX
            && !name.contains(&b'/');
        let name = CString::new(name).ok().filter(|_| is_name);
        let name = name.filter(|_| header.len() <= HEADER_BYTES_MAX);
        let name = name.ok_or_else(|| InvalidTag(text.to_string_lossy().into_owned()))?;
        Ok(Self { name, header: header.to_vec() })
    }

    /// The name of the file, for the kernel.
    pub(crate) fn c_name(&self) -> &CString {
        &self.name
    }

    /// The name of the file.
    pub fn name(&self) -> &[u8] {
        self.name.to_bytes()
    }

    /// What the file must begin with; empty if its presence is enough.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Whether `directory` contains the tag; for a single path, not for a walk.
    pub fn marks(&self, directory: &Path) -> bool {
        let file = directory.join(OsStr::from_bytes(self.name()));
        let Ok(metadata) = std::fs::symlink_metadata(&file) else { return false };
        if self.header.is_empty() {
            return true;
        }
        let mut start = vec![0; self.header.len()];
        // Only regular files are opened: a FIFO would block forever.
        metadata.is_file()
            && std::fs::File::open(&file).and_then(|mut file| file.read_exact(&mut start)).is_ok()
            && start == self.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_of_tags_are_read_and_nonsense_is_refused() {
        let parsed =
            |text: &str| ExcludeTag::parse(OsStr::new(text)).map(|tag| (tag.name, tag.header));
        assert_eq!(parsed(".nobackup"), Ok((c".nobackup".into(), vec![])));
        assert_eq!(parsed("a:b:c"), Ok((c"a".into(), b"b:c".to_vec())));
        for text in ["", ":x", "a/b", ".", "..", "/"] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(parsed(&"n".repeat(256)).is_err());
        assert!(parsed(&format!("a:{}", "h".repeat(4097))).is_err());
    }

    #[test]
    fn a_header_must_be_there_from_the_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        let tag = |text: &str| ExcludeTag::parse(OsStr::new(text)).unwrap();
        assert!(!tag("t").marks(folder.path()));
        std::fs::write(folder.path().join("t"), "keep out").unwrap();
        assert!(tag("t").marks(folder.path()) && tag("t:keep").marks(folder.path()));
        assert!(!tag("t:out").marks(folder.path()) && !tag("t:keep out!").marks(folder.path()));
    }
}
