//! Inner pages: for every page below its first path and the sums over all that is under it.

use crate::limits::{PAGE_ENTRIES_MAX, PAGE_PATH_BYTES_MAX, PATH_BYTES_MAX, TREE_LEVELS_MAX};
use crate::page::{Page, PageKind};
use crate::wire::{Reader, put_signed, put_string, put_varint};
use crate::{Error, Result};
use ids::ObjectId;

/// Sums over entries: sizes and growth of directories without reading the leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Number of entries.
    pub entries: u64,
    /// Sum of the sizes in bytes.
    pub bytes: u64,
    /// Newest change of content, seconds since 1970.
    pub newest_secs: i64,
}

impl Sums {
    /// Sums over nothing.
    pub const EMPTY: Self = Self { entries: 0, bytes: 0, newest_secs: i64::MIN };

    /// Sums over both. Saturates: a hostile page must not make it panic.
    pub fn merge(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_add(other.entries),
            bytes: self.bytes.saturating_add(other.bytes),
            newest_secs: self.newest_secs.max(other.newest_secs),
        }
    }
}

/// A page as the page above shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    /// Its id.
    pub id: ObjectId,
    /// Path of its first entry.
    pub first: Vec<u8>,
    /// Sums over its entries.
    pub sums: Sums,
}

/// The inner page of `children` at `level` (1 is just above the leaves).
pub fn encode(level: u8, children: &[Child]) -> Page {
    let mut payload = vec![level];
    put_varint(&mut payload, children.len() as u64);
    let mut before: &[u8] = &[];
    for child in children {
        let shared = before.iter().zip(&child.first).take_while(|(a, b)| a == b).count();
        put_varint(&mut payload, shared as u64);
        put_string(&mut payload, child.first.get(shared..).unwrap_or_default());
        put_varint(&mut payload, child.sums.entries);
        put_varint(&mut payload, child.sums.bytes);
        put_signed(&mut payload, child.sums.newest_secs);
        before = &child.first;
    }
    let refs = children.iter().map(|child| child.id).collect();
    Page { kind: PageKind::Inner, refs, payload }
}

/// Level and children of an inner page.
pub fn decode(refs: &[ObjectId], payload: &[u8]) -> Result<(u8, Vec<Child>)> {
    let mut reader = Reader::new(payload, "inner page");
    let level = reader.u8()?;
    let count = reader.count(PAGE_ENTRIES_MAX)?;
    let all_pages = refs.iter().all(ObjectId::is_page);
    if level == 0 || level > TREE_LEVELS_MAX || count != refs.len() || count == 0 || !all_pages {
        return Err(reader.invalid());
    }
    let mut path_bytes = 0;
    let mut children: Vec<Child> = Vec::with_capacity(count);
    for id in refs {
        let before = children.last().map_or(&[][..], |child| &child.first);
        let first = first_path(&mut reader, before)?;
        path_bytes += first.len();
        if path_bytes > PAGE_PATH_BYTES_MAX {
            return Err(reader.invalid());
        }
        let sums = Sums {
            entries: reader.varint()?,
            bytes: reader.varint()?,
            newest_secs: reader.signed()?,
        };
        children.push(Child { id: *id, first, sums });
    }
    reader.end_of_page().map(|()| (level, children))
}

fn first_path(reader: &mut Reader<'_>, before: &[u8]) -> Result<Vec<u8>> {
    let shared = reader.count(before.len())?;
    let suffix = reader.string(PATH_BYTES_MAX)?;
    let path = [before.get(..shared).unwrap_or_default(), suffix].concat();
    if path.len() > PATH_BYTES_MAX {
        return Err(Error::Invalid { what: "first path in an inner page" });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Child> {
        let sums = Sums { entries: 3, bytes: 1 << 50, newest_secs: -1 };
        let child = |byte, first: &[u8]| Child {
            id: ObjectId([byte; 24]).with_type(true),
            first: first.to_vec(),
            sums,
        };
        vec![child(1, b"a"), child(2, b"a/bc"), child(3, b"a/bd")]
    }

    #[test]
    fn children_are_read_back() {
        let page = encode(2, &samples());
        assert_eq!(decode(&page.refs, &page.payload).unwrap(), (2, samples()));
    }

    #[test]
    fn truncations_and_flips_never_panic() {
        let page = encode(2, &samples());
        for length in 0..page.payload.len() {
            assert!(decode(&page.refs, &page.payload[..length]).is_err());
        }
        for bit in 0..page.payload.len() * 8 {
            let mut damaged = page.payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let _ = decode(&page.refs, &damaged);
        }
    }
}
