//! The names of one directory: one block of bytes and 8 bytes a name, so that a directory of
//! ten million names fits in a few hundred megabytes and is freed at once.

use rustix::fs::FileType;
use std::ffi::CStr;

/// The position of a name: offset (48 bits), length (12 bits: `PATH_MAX` is 4096), type (4 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamePosition(u64);

impl NamePosition {
    fn new(offset: usize, length: usize, code: u64) -> Self {
        debug_assert!(length < 1 << 12 && code < 1 << 4);
        NamePosition((offset as u64) << 16 | (length as u64) << 4 | code)
    }

    fn range(self) -> std::ops::Range<usize> {
        let offset = (self.0 >> 16) as usize;
        offset..offset + (self.0 >> 4 & 0xfff) as usize
    }
}

/// What a listing says about the type of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListedType {
    Unknown = 0,
    Directory = 1,
    Other = 2,
}

impl ListedType {
    pub(crate) fn from_type(kind: FileType) -> Self {
        match kind {
            FileType::Unknown => ListedType::Unknown,
            FileType::Directory => ListedType::Directory,
            _ => ListedType::Other,
        }
    }
}

/// The names of one directory. Every name is followed by a NUL, ready for the kernel.
#[derive(Default, Debug)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    positions: Vec<NamePosition>,
}

impl Names {
    /// One name.
    pub(crate) fn single(name: &[u8]) -> Self {
        let mut names = Names::default();
        names.push_bytes(name, ListedType::Unknown);
        names
    }

    pub(crate) fn push(&mut self, name: &CStr, listed: ListedType) {
        self.push_bytes(name.to_bytes(), listed);
    }

    fn push_bytes(&mut self, name: &[u8], listed: ListedType) {
        self.positions.push(NamePosition::new(self.bytes.len(), name.len(), listed as u64));
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.positions.clear();
    }

    /// Returns the names in blocks of the exact size, and keeps its own buffers.
    pub(crate) fn take_exact(&mut self) -> Names {
        let exact = Names {
            bytes: self.bytes.as_slice().into(),
            positions: self.positions.as_slice().into(),
        };
        self.clear();
        exact
    }

    /// Returns the names with their buffers, for listings that are too large to copy.
    pub(crate) fn take_whole(&mut self) -> Names {
        let mut whole = std::mem::take(self);
        whole.bytes.shrink_to_fit();
        whole.positions.shrink_to_fit();
        whole
    }

    /// Bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len()
    }

    /// Sorts by bytes, the order of the snapshot. A name that is deleted and made again while its directory is listed
    /// may be listed twice (XFS, NFS, SMB): it stays once.
    pub(crate) fn sort(&mut self) {
        let bytes = self.bytes.as_slice();
        self.positions.sort_unstable_by(|a, b| bytes[a.range()].cmp(&bytes[b.range()]));
        self.positions.dedup_by(|a, b| bytes[a.range()] == bytes[b.range()]);
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn positions(&self) -> &[NamePosition] {
        &self.positions
    }

    pub(crate) fn name(&self, position: NamePosition) -> &[u8] {
        &self.bytes[position.range()]
    }

    /// The name as a C string: `push` wrote the NUL, and names contain none.
    pub(crate) fn c_name(&self, position: NamePosition) -> &CStr {
        let range = position.range();
        CStr::from_bytes_with_nul(&self.bytes[range.start..=range.end]).unwrap_or(c"")
    }

    pub(crate) fn listed(&self, position: NamePosition) -> ListedType {
        match position.0 & 0xf {
            1 => ListedType::Directory,
            2 => ListedType::Other,
            _ => ListedType::Unknown,
        }
    }

    /// Finds a name among the sorted ones.
    pub(crate) fn find(&self, name: &[u8]) -> Option<NamePosition> {
        let found =
            self.positions.binary_search_by(|position| self.name(*position).cmp(name)).ok()?;
        Some(self.positions[found])
    }

    /// Keeps only the names that `is_kept` says.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        let bytes = self.bytes.as_slice();
        self.positions.retain(|position| is_kept(&bytes[position.range()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_sorted_by_bytes_with_their_types() {
        let mut names = Names::default();
        names.push(c"b", ListedType::Directory);
        names.push(c"\xff", ListedType::Unknown);
        names.push(c"a", ListedType::Other);
        names.push(c"a-", ListedType::Other);
        names.sort();
        let sorted: Vec<_> =
            names.positions().iter().map(|position| names.name(*position)).collect();
        assert_eq!(sorted, [&b"a"[..], b"a-", b"b", b"\xff"]);
        assert_eq!(names.listed(names.find(b"b").unwrap()), ListedType::Directory);
        assert_eq!(names.c_name(names.find(b"\xff").unwrap()), c"\xff");
        names.retain(|name| name == b"a-");
        assert_eq!(names.len(), 1);
        assert_eq!(names.find(b"a"), None);
    }

    #[test]
    fn a_name_that_is_listed_twice_is_one_name() {
        let mut names = Names::default();
        for name in [c"b", c"a", c"b", c"a", c"ab", c"b"] {
            names.push(name, ListedType::Other);
        }
        names.sort();
        let sorted: Vec<_> =
            names.positions().iter().map(|position| names.name(*position)).collect();
        assert_eq!(sorted, [&b"a"[..], b"ab", b"b"]);
    }
}
