//! The names of one directory: one block of bytes and 8 bytes a name, so that a directory of
//! ten million names fits in a few hundred megabytes and is freed at once.

use rustix::fs::FileType;
use std::ffi::CStr;

/// Where a name lies: offset (48 bits), length (12 bits: `PATH_MAX` is 4096), type (4 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u64);

impl Place {
    fn new(offset: usize, length: usize, code: u64) -> Self {
        debug_assert!(length < 1 << 12 && code < 1 << 4);
        Place((offset as u64) << 16 | (length as u64) << 4 | code)
    }

    fn range(self) -> std::ops::Range<usize> {
        let offset = (self.0 >> 16) as usize;
        offset..offset + (self.0 >> 4 & 0xfff) as usize
    }
}

/// What a listing says about the type of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    Unknown = 0,
    Directory = 1,
    Other = 2,
}

impl Listed {
    pub(crate) fn from_type(kind: FileType) -> Self {
        match kind {
            FileType::Unknown => Listed::Unknown,
            FileType::Directory => Listed::Directory,
            _ => Listed::Other,
        }
    }
}

/// The names of one directory. Every name is followed by a NUL, ready for the kernel.
#[derive(Default, Debug)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Names {
    /// One name.
    pub(crate) fn single(name: &[u8]) -> Self {
        let mut names = Names::default();
        names.push_bytes(name, Listed::Unknown);
        names
    }

    pub(crate) fn push(&mut self, name: &CStr, listed: Listed) {
        self.push_bytes(name.to_bytes(), listed);
    }

    fn push_bytes(&mut self, name: &[u8], listed: Listed) {
        self.places.push(Place::new(self.bytes.len(), name.len(), listed as u64));
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Gives the names away in blocks of just the right size and keeps the room for the next.
    pub(crate) fn take_exact(&mut self) -> Names {
        let exact =
            Names { bytes: self.bytes.as_slice().into(), places: self.places.as_slice().into() };
        self.clear();
        exact
    }

    /// A listing too big to be copied for the sake of tidiness is handed over as it is.
    pub(crate) fn take_whole(&mut self) -> Names {
        let mut whole = std::mem::take(self);
        whole.bytes.shrink_to_fit();
        whole.places.shrink_to_fit();
        whole
    }

    /// Bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len()
    }

    /// Sorts by bytes, the order of the snapshot.
    pub(crate) fn sort(&mut self) {
        let bytes = self.bytes.as_slice();
        self.places.sort_unstable_by(|a, b| bytes[a.range()].cmp(&bytes[b.range()]));
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn name(&self, place: Place) -> &[u8] {
        &self.bytes[place.range()]
    }

    /// The name as the kernel takes it. `push` wrote the NUL and names have none inside.
    pub(crate) fn c_name(&self, place: Place) -> &CStr {
        let range = place.range();
        CStr::from_bytes_with_nul(&self.bytes[range.start..=range.end]).unwrap_or(c"")
    }

    pub(crate) fn listed(&self, place: Place) -> Listed {
        match place.0 & 0xf {
            1 => Listed::Directory,
            2 => Listed::Other,
            _ => Listed::Unknown,
        }
    }

    /// Where this name is among the sorted ones.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Place> {
        let found = self.places.binary_search_by(|place| self.name(*place).cmp(name)).ok()?;
        Some(self.places[found])
    }

    /// Leaves only this name.
    pub(crate) fn retain_only(&mut self, name: &[u8]) {
        let kept = self.find(name);
        self.places.clear();
        self.places.extend(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_sorted_by_bytes_with_their_types() {
        let mut names = Names::default();
        names.push(c"b", Listed::Directory);
        names.push(c"\xff", Listed::Unknown);
        names.push(c"a", Listed::Other);
        names.push(c"a-", Listed::Other);
        names.sort();
        let sorted: Vec<_> = names.places().iter().map(|place| names.name(*place)).collect();
        assert_eq!(sorted, [&b"a"[..], b"a-", b"b", b"\xff"]);
        assert_eq!(names.listed(names.find(b"b").unwrap()), Listed::Directory);
        assert_eq!(names.c_name(names.find(b"\xff").unwrap()), c"\xff");
        names.retain_only(b"a-");
        assert_eq!(names.len(), 1);
        assert_eq!(names.find(b"a"), None);
    }
}
