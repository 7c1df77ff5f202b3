//! Files that mark the directory they lie in: what is in it is no part of the backup.

use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A tag is a tag by its first bytes: <https://bford.info/cachedir/>.
const CACHE_HEADER: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// Most bytes of a header: it is compared, not searched for.
const HEADER_BYTES_MAX: usize = 4096;
/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// A file whose presence leaves out the rest of its directory. The file itself stays in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludeTag {
    name: CString,
    header: Vec<u8>,
}

/// Why a text names no tag.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is no name of a file, or its header is too long; write NAME or NAME:HEADER")]
pub struct InvalidTag(String);

impl ExcludeTag {
    /// The `CACHEDIR.TAG` of caches.
    pub fn of_caches() -> Self {
        Self { name: c"CACHEDIR.TAG".to_owned(), header: CACHE_HEADER.to_vec() }
    }

    /// Reads `NAME` or `NAME:HEADER`; with a header, the file must begin with it.
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

    /// Name of the file, for the kernel.
    pub(crate) fn c_name(&self) -> &CString {
        &self.name
    }

    /// Name of the file.
    pub fn name(&self) -> &[u8] {
        self.name.to_bytes()
    }

    /// What the file must begin with; nothing when its presence is enough.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Whether it marks `directory`: for one question, not for a walk.
    pub fn marks(&self, directory: &Path) -> bool {
        let file = directory.join(OsStr::from_bytes(self.name()));
        let Ok(metadata) = std::fs::symlink_metadata(&file) else { return false };
        if self.header.is_empty() {
            return true;
        }
        let mut start = vec![0; self.header.len()];
        // Only regular files are opened: a FIFO would wait for ever.
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
