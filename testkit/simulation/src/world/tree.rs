//! What is backed up: a root page, pages below it, chunks below those.

use super::records::{chunk, chunk_of, page};
use crate::random::Random;
use ids::ObjectId;

/// Chunks that there are: few, so that trees share them.
pub(super) const CHUNKS: u64 = 48;
const LEAVES_MAX: usize = 4;
const LEAF_CHUNKS_MAX: usize = 6;

/// A tree of two levels.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    leaves: Vec<Vec<ObjectId>>,
}

impl Tree {
    /// Any tree.
    pub(super) fn any(random: &mut Random) -> Self {
        let leaves = 1 + random.index(LEAVES_MAX);
        Self { leaves: (0..leaves).map(|_| leaf(random)).collect() }
    }

    /// The tree whose leaves have these chunks.
    pub(super) fn of_chunks(leaves: &[&[u64]]) -> Self {
        let leaf = |numbers: &&[u64]| numbers.iter().map(|number| chunk(*number)).collect();
        Self { leaves: leaves.iter().map(leaf).collect() }
    }

    /// What became of it: mostly the same.
    pub(super) fn changed(&self, random: &mut Random) -> Self {
        let mut leaves = self.leaves.clone();
        let at = random.index(leaves.len());
        leaves[at] = leaf(random);
        Self { leaves }
    }

    /// The same as the backup of this number has it in a repository without deduplication: it shares nothing with those
    /// of other numbers.
    pub(super) fn apart(&self, number: u64) -> Self {
        let leaf = |chunks: &Vec<ObjectId>| chunks.iter().map(|id| chunk_of(id, number)).collect();
        Self { leaves: self.leaves.iter().map(leaf).collect() }
    }

    /// Its leaves: each a page and the chunks that it refers to.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (ObjectId, &[ObjectId])> {
        self.leaves.iter().map(|chunks| (page(chunks), &chunks[..]))
    }

    /// What its root refers to, each once.
    pub(super) fn root_refs(&self) -> Vec<ObjectId> {
        let mut refs: Vec<ObjectId> = Vec::new();
        for (leaf, _) in self.leaves() {
            if !refs.contains(&leaf) {
                refs.push(leaf);
            }
        }
        refs
    }

    /// Its root.
    pub(super) fn root(&self) -> ObjectId {
        page(&self.root_refs())
    }

    /// Everything in it.
    pub(super) fn objects(&self) -> Vec<ObjectId> {
        let below = self.leaves().flat_map(|(leaf, chunks)| [&[leaf], chunks].concat());
        let mut all: Vec<_> = below.chain([self.root()]).collect();
        all.sort_unstable_by_key(|id| id.0);
        all.dedup();
        all
    }
}

fn leaf(random: &mut Random) -> Vec<ObjectId> {
    let mut chunks: Vec<ObjectId> = Vec::new();
    for _ in 0..=random.index(LEAF_CHUNKS_MAX) {
        let id = chunk(random.below(CHUNKS));
        if !chunks.contains(&id) {
            chunks.push(id);
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_without_deduplication_share_nothing_unless_their_number_is_the_same() {
        let tree = Tree::of_chunks(&[&[1, 2], &[2, 3]]);
        let (one, two) = (tree.apart(1).objects(), tree.apart(2).objects());
        assert_eq!((one.len(), two.len()), (6, 6), "within a tree they are shared");
        assert!(!one.iter().any(|id| two.contains(id) || tree.objects().contains(id)));
        assert_eq!(one, tree.apart(1).objects(), "what an interrupted backup left is found again");
    }
}
