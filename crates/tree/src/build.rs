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
    /// A builder that cuts by `cut_key`, which belongs to the domain: who does not know it cannot
    /// tell names from where pages end.
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
        if self.leaf.is_empty() {
            self.first.clone_from(&entry.path);
        }
        self.leaf.push(entry);
        self.sums =
            self.sums.plus(Sums { entries: 1, bytes: entry.size, newest_secs: entry.mtime.secs });
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
        let sums = children.iter().fold(Sums::EMPTY, |sums, child| sums.plus(child.sums));
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
    use crate::testing::{Store, build, entries};

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
        let mut added = all[5_000].clone();
        added.path.extend_from_slice(b"-new");
        all.insert(5_001, added);
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
}
