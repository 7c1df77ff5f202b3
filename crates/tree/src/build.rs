//! Building a tree from entries in order, in constant memory.

use crate::PageSink;
use format::entry::Entry;
use format::inner::{self, Child, Sums};
use format::leaf::LeafBuilder;
use ids::ObjectId;

/// A page is cut after an entry in about this many: small enough that a change costs little,
/// large enough that the ids of pages do.
const ENTRIES_AVERAGE: u64 = 128;
/// Fewer entries never make a page.
const ENTRIES_MIN: usize = 32;
/// More entries, or bytes, are never in one.
const ENTRIES_MAX: usize = 1024;
const LEAF_BYTES_MAX: usize = 256 << 10;
/// Paths of a page, written out: far from the limit of the format even after a longest path.
const PATH_BYTES: usize = 4 << 20;
/// The same for children of inner pages.
const CHILDREN_AVERAGE: u64 = 128;
const CHILDREN_MIN: usize = 16;
const CHILDREN_MAX: usize = 1024;

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its page.
    pub id: ObjectId,
    /// 0 for a leaf.
    pub level: u8,
    /// Sums over all entries.
    pub sums: Sums,
}

/// Builds a tree.
pub struct Builder<S> {
    sink: S,
    cut_key: u64,
    leaf: LeafBuilder,
    first: Vec<u8>,
    sums: Sums,
    /// Children that wait for their inner page, by level.
    levels: Vec<Vec<Child>>,
}

impl<S: PageSink> Builder<S> {
    /// A builder that ends pages by `cut_key`, a secret of the domain: without it the boundaries of pages reveal
    /// nothing about names.
    pub fn new(sink: S, cut_key: u64) -> Self {
        let (leaf, first, levels) = (LeafBuilder::default(), Vec::new(), Vec::new());
        Self { sink, cut_key, leaf, first, sums: Sums::EMPTY, levels }
    }

    /// Whether the next entry begins a page.
    pub fn at_boundary(&self) -> bool {
        self.leaf.is_empty()
    }

    /// The sink.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Adds `entry`, whose path sorts after all before it.
    pub fn push(&mut self, entry: &Entry) -> Result<(), S::Error> {
        // One that fills a page must not take what is in it beyond what a reader believes.
        if !self.leaf.is_empty() && LeafBuilder::bytes_of_content(entry) >= LEAF_BYTES_MAX {
            self.cut_leaf()?;
        }
        if self.leaf.is_empty() {
            self.first.clone_from(&entry.path);
        }
        self.leaf.push(entry);
        self.sums =
            self.sums.merge(Sums { entries: 1, bytes: entry.size, newest_secs: entry.mtime.secs });
        let chosen = hash(self.cut_key, &entry.path).is_multiple_of(ENTRIES_AVERAGE);
        let full = self.leaf.len() >= ENTRIES_MAX
            || self.leaf.bytes() >= LEAF_BYTES_MAX
            || self.leaf.path_bytes() >= PATH_BYTES;
        if full || chosen && self.leaf.len() >= ENTRIES_MIN { self.cut_leaf() } else { Ok(()) }
    }

    /// Adds a leaf page that exists, as it is. Only at a boundary.
    pub fn push_page(&mut self, page: Child) -> Result<(), S::Error> {
        debug_assert!(self.at_boundary(), "a page is taken over at a boundary only");
        self.add(0, page)
    }

    /// The root of all that was added.
    pub fn finish(mut self) -> Result<(Root, S), S::Error> {
        if !self.leaf.is_empty() || self.levels.is_empty() {
            self.cut_leaf()?;
        }
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            if let ([only], true) = (&self.levels[level][..], is_top) {
                let root = Root { id: only.id, level: level as u8, sums: only.sums };
                return Ok((root, self.sink));
            }
            if !self.levels[level].is_empty() {
                self.cut_inner(level)?;
            }
            level += 1;
        }
    }

    fn cut_leaf(&mut self) -> Result<(), S::Error> {
        let page = self.leaf.finish();
        let id = self.sink.put(page)?;
        let first = std::mem::take(&mut self.first);
        let sums = std::mem::replace(&mut self.sums, Sums::EMPTY);
        self.add(0, Child { id, first, sums })
    }

    /// Adds a child whose page is at `level`.
    fn add(&mut self, level: usize, child: Child) -> Result<(), S::Error> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        let chosen = hash(self.cut_key, &child.id.0).is_multiple_of(CHILDREN_AVERAGE);
        let waiting = &mut self.levels[level];
        waiting.push(child);
        let path_bytes: usize = waiting.iter().map(|child| child.first.len()).sum();
        let full = waiting.len() >= CHILDREN_MAX || path_bytes >= PATH_BYTES;
        if full || chosen && waiting.len() >= CHILDREN_MIN { self.cut_inner(level) } else { Ok(()) }
    }

    fn cut_inner(&mut self, level: usize) -> Result<(), S::Error> {
        let children = std::mem::take(&mut self.levels[level]);
        let sums = children.iter().fold(Sums::EMPTY, |sums, child| sums.merge(child.sums));
        let id = self.sink.put(inner::encode(level as u8 + 1, &children))?;
        let first = children.into_iter().next().map(|child| child.first).unwrap_or_default();
        self.add(level + 1, Child { id, first, sums })
    }
}

/// A quick keyed hash that decides where pages end; not for names.
fn hash(key: u64, bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(key, |state, word| mix(state, u64::from_le_bytes(*word)));
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let state = mix(mix(state, u64::from_le_bytes(tail)), bytes.len() as u64);
    (state ^ state >> 32).wrapping_mul(MULTIPLIER) >> 20
}

#[cfg(test)]
mod tests {
    use crate::Cursor;
    use crate::testing::{Store, build, entries};
    use format::check;
    use format::entry::{Attributes, Content, Entry, Kind, Segment, Xattr};
    use format::limits::{INLINE_BYTES_MAX, PAGE_REFS_MAX, PATH_BYTES_MAX};
    use ids::ObjectId;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn one_change_makes_few_new_pages() {
        let store = Store::default();
        let mut all = entries(20_000);
        build(&store, &all);
        let before = store.len();
        all[10_000].mtime.secs += 1;
        build(&store, &all);
        let added = store.len() - before;
        assert!(added <= 4, "{added} new pages of {before}");
    }

    #[test]
    fn an_insertion_moves_no_other_page() {
        let store = Store::default();
        let mut all = entries(20_000);
        build(&store, &all);
        let before = store.len();
        let mut added = all[5_001].clone();
        added.path.extend_from_slice(b"-new");
        all.insert(5_002, added);
        build(&store, &all);
        assert!(store.len() - before <= 8, "{} new pages", store.len() - before);
    }

    #[test]
    fn sums_are_over_everything() {
        let store = Store::default();
        let all = entries(5_000);
        let root = build(&store, &all);
        assert_eq!(root.sums.entries, 5_000);
        assert_eq!(root.sums.bytes, all.iter().map(|entry| entry.size).sum::<u64>());
        assert!(root.level >= 1);
    }

    #[test]
    fn an_empty_tree_has_a_root() {
        let store = Store::default();
        assert_eq!(build(&store, &[]).sums.entries, 0);
    }

    fn chunks(seed: usize, count: usize) -> Vec<Segment> {
        let id = |at: usize| {
            let mut bytes = [0; ObjectId::LEN];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            bytes[8..16].copy_from_slice(&at.to_le_bytes());
            ObjectId(bytes).with_type(false)
        };
        (0..count).map(|at| Segment::Data(id(at), 1)).collect()
    }

    /// The entry number `at`, with much of something.
    fn large(at: usize, what: u8, much: f64) -> Entry {
        let of = |limit: usize| (limit as f64 * much) as usize;
        let mut set = Attributes::new(Kind::File, 0o644);
        let value = vec![at as u8; of(4000)];
        match what {
            0 => set.xattrs = vec![Xattr { name: b"user.a".to_vec(), value }],
            1 => set.xattr_runs = chunks(at, of(20_000)),
            _ => {}
        }
        let (size, content) = match what {
            2 => (of(INLINE_BYTES_MAX), Content::Inline(vec![7; of(INLINE_BYTES_MAX)])),
            3 => (of(PAGE_REFS_MAX), Content::Segments(chunks(at, of(PAGE_REFS_MAX)).into())),
            _ => (0, Content::None),
        };
        let depth = if what == 4 { of(PATH_BYTES_MAX) / 8 } else { 0 };
        let path = [format!("{at:04}").into_bytes(), b"/nnnnnnn".repeat(depth)].concat();
        let path = &path[..path.len().min(PATH_BYTES_MAX)];
        let content = if size == 0 { Content::None } else { content };
        Entry { size: size as u64, content, ..Entry::new(path, Arc::new(set)) }
    }

    fn all_of(store: &Store, root: crate::Root) -> Vec<Entry> {
        let mut cursor = Cursor::new(store, root.id, root.level);
        std::iter::from_fn(|| cursor.next_entry().unwrap()).collect()
    }

    /// A file of many chunks once took its leaf beyond what a reader believes.
    #[test]
    fn the_largest_entries_cost_their_neighbors_nothing() {
        let store = Store::default();
        let mut all = entries(150);
        all.truncate(99);
        all.extend((0..2).map(|at| large(9000 + at, 3, 1.0)));
        all.extend((2..90).map(|at| large(9000 + at, 0, 1.0)));
        all.sort_by(|a, b| format::entry::compare_paths(&a.path, &b.path));
        let root = build(&store, &all);
        assert!(all_of(&store, root) == all);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn whatever_the_check_lets_through_makes_pages_that_a_reader_takes(
            picks in prop::collection::vec((0..6u8, 0.0..1.01f64, 0..40usize), 1..9)
        ) {
            let mut all = Vec::new();
            for (what, much, small) in picks {
                all.push(large(all.len(), what, if much > 0.9 { 1.0 } else { much }));
                (0..small).for_each(|_| all.push(large(all.len(), 9, 0.0)));
            }
            all.iter().for_each(|entry| check::entry(entry).unwrap());
            let store = Store::default();
            let root = build(&store, &all);
            prop_assert!(all_of(&store, root) == all);
        }
    }
}
