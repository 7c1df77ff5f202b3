//! Reading a tree in order, from any path.
//!
//! Pages are untrusted: levels must fall, first paths must be as announced, and paths must
//! rise, so that no hostile tree makes a reader run in circles.

use crate::{PageData, PageSource};
use format::entry::{Entry, compare_paths};
use format::inner::{self, Child};
use format::leaf::LeafReader;
use format::page::PageKind;
use ids::ObjectId;
use std::collections::VecDeque;
use std::sync::Arc;

/// A position in a tree. Pages are read only when the cursor reaches them.
pub struct Cursor<'a, S: PageSource> {
    source: &'a S,
    /// Unread children by level, the root's first; each with the level of its pages.
    stack: Vec<(u8, VecDeque<Child>)>,
    /// Unread entries of the current leaf.
    leaf: VecDeque<Entry>,
    last: Vec<u8>,
    /// The page that could not be read when an error was returned.
    lost: Option<Child>,
    lost_pages: usize,
}

/// A leaf as the page above names it, and what it holds.
pub type NamedLeaf = (Child, Arc<PageData>);

/// Pages that may be lost of one tree before a reader gives up: a hostile one could name any
/// number of them. Four million entries, if they are as large as pages are.
const LOST_PAGES_MAX: usize = 1 << 15;

impl<'a, S: PageSource> Cursor<'a, S> {
    /// A cursor at the first entry of the tree with this root page and level.
    pub fn new(source: &'a S, root: ObjectId, level: u8) -> Self {
        let root = Child { id: root, first: Vec::new(), sums: inner::Sums::EMPTY };
        let stack = vec![(level, VecDeque::from([root]))];
        Self { source, stack, leaf: VecDeque::new(), last: Vec::new(), lost: None, lost_pages: 0 }
    }

    /// The next entry.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, S::Error> {
        while self.step()? {
            if let Some(entry) = self.leaf.pop_front() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The next entry, without moving on.
    pub fn peek(&mut self) -> Result<Option<&Entry>, S::Error> {
        while self.leaf.is_empty() && self.step()? {}
        Ok(self.leaf.front())
    }

    /// Reads the next leaf page as a whole, and passes over its entries: `entries` becomes them, in
    /// the memory that it has. Only when no entry waits. Returns the page as the page above names
    /// it, and the page.
    pub fn next_leaf(&mut self, entries: &mut Vec<Entry>) -> Result<Option<NamedLeaf>, S::Error> {
        debug_assert!(self.leaf.is_empty(), "entries of a page are not skipped by accident");
        while let Some((level, child)) = self.pop_child() {
            if level > 0 {
                self.descend(level, &child)?;
                continue;
            }
            let page = self.load_into(&child, entries)?;
            return Ok(Some((child, page)));
        }
        entries.clear();
        Ok(None)
    }

    /// Reads one page towards the next entry, unless one is buffered; `false` at the end.
    pub fn step(&mut self) -> Result<bool, S::Error> {
        if !self.leaf.is_empty() {
            return Ok(true);
        }
        let Some((level, child)) = self.pop_child() else { return Ok(false) };
        if level > 0 {
            self.descend(level, &child)?
        } else {
            self.load(&child)?
        }
        Ok(true)
    }

    /// Pages that come next, as far as the pages above them were read.
    pub fn upcoming_pages(&self) -> impl Iterator<Item = &Child> {
        self.stack.iter().rev().flat_map(|(_, children)| children)
    }

    /// Unread entries of the current page.
    pub fn buffered(&self) -> &VecDeque<Entry> {
        &self.leaf
    }

    /// Goes forward to the first entry whose path is `path` or sorts after it.
    pub fn seek(&mut self, path: &[u8]) -> Result<(), S::Error> {
        let before = |other: &[u8]| compare_paths(other, path).is_lt();
        // A page that ends before the goal is not read: damage to it would hide what lies behind. The
        // empty path is no goal, and as the first one of a page it says nothing.
        self.seek_by(before, |next| before(next) || !path.is_empty() && next == path)
    }

    /// Goes forward past everything below the directory `path`.
    pub fn skip_below(&mut self, path: &[u8]) -> Result<(), S::Error> {
        let before = |other: &[u8]| compare_paths(other, path).is_le() || is_below(other, path);
        self.seek_by(before, before)
    }

    /// Goes forward while `before` says that a path lies before the goal. Pages are passed over when `ends_before` says
    /// it of the first path of the next one.
    fn seek_by(
        &mut self,
        before: impl Fn(&[u8]) -> bool,
        ends_before: impl Fn(&[u8]) -> bool,
    ) -> Result<(), S::Error> {
        loop {
            while self.leaf.front().is_some_and(|entry| before(&entry.path)) {
                self.leaf.pop_front();
            }
            if !self.leaf.is_empty() {
                return Ok(());
            }
            while let Some((_, children)) = self.stack.last_mut()
                && children.get(1).is_some_and(|next| ends_before(&next.first))
            {
                children.pop_front();
            }
            let Some((level, child)) = self.pop_child() else { return Ok(()) };
            if level > 0 {
                self.descend(level, &child)?;
            } else {
                self.load(&child)?;
            }
        }
    }

    /// What the ids of all pages with the content of `id` have in common.
    pub(crate) fn content_of(&self, id: &ObjectId) -> ObjectId {
        self.source.content_of(id)
    }

    /// Pages that begin exactly here, the largest first: what could be skipped as a whole. Empty
    /// inside of a leaf.
    pub(crate) fn heads(&mut self) -> Result<Vec<ObjectId>, S::Error> {
        let mut heads = Vec::new();
        if !self.leaf.is_empty() {
            return Ok(heads);
        }
        self.drop_finished();
        let Some((level, children)) = self.stack.last() else { return Ok(heads) };
        let mut level = *level;
        let mut id = children.front().map(|child| child.id);
        while let Some(head) = id {
            heads.push(head);
            if level == 0 {
                break;
            }
            // One that cannot be read is an error when the cursor gets there, if it is not skipped.
            let Ok(page) = self.source.get(&head) else { break };
            let (below, children) = decode_inner(&page, level)?;
            (level, id) = (below, children.first().map(|child| child.id));
        }
        Ok(heads)
    }

    /// Skips the page `id`, which is one of [`Cursor::heads`].
    pub(crate) fn skip_head(&mut self, id: &ObjectId) -> Result<(), S::Error> {
        while let Some((level, child)) = self.pop_child() {
            if child.id == *id {
                return Ok(());
            }
            if level == 0 {
                return Err(invalid().into());
            }
            self.descend(level, &child)?;
        }
        Ok(())
    }

    fn pop_child(&mut self) -> Option<(u8, Child)> {
        self.drop_finished();
        let (level, children) = self.stack.last_mut()?;
        children.pop_front().map(|child| (*level, child))
    }

    fn drop_finished(&mut self) {
        while self.stack.last().is_some_and(|(_, children)| children.is_empty()) {
            self.stack.pop();
        }
    }

    /// After an error: the page that could not be read, as the page above names it. The cursor is behind it, and what
    /// follows can still be read. `None` when the pages do not form a tree, or when too many were unreadable: then
    /// reading ends.
    pub fn take_unreadable_page(&mut self) -> Option<Child> {
        self.lost_pages += 1;
        self.lost.take().filter(|_| self.lost_pages <= LOST_PAGES_MAX)
    }

    fn page(&mut self, child: &Child) -> Result<Arc<PageData>, S::Error> {
        let page = self.source.get(&child.id);
        self.lost = page.is_err().then(|| child.clone());
        page
    }

    fn descend(&mut self, level: u8, child: &Child) -> Result<(), S::Error> {
        let page = self.page(child)?;
        let (below, children) = decode_inner(&page, level)?;
        self.stack.push((below, children.into()));
        Ok(())
    }

    fn load(&mut self, child: &Child) -> Result<(), S::Error> {
        let mut leaf = Vec::new();
        self.load_into(child, &mut leaf)?;
        self.leaf = leaf.into();
        Ok(())
    }

    /// Reads the leaf `child`. Inside of a leaf paths rise (its decoder sees to that); here they
    /// must rise from the leaf before, and begin as the page above says.
    fn load_into(
        &mut self,
        child: &Child,
        leaf: &mut Vec<Entry>,
    ) -> Result<Arc<PageData>, S::Error> {
        let page = self.page(child)?;
        read_leaf(&page, leaf)?;
        // Only an empty tree has an empty page. A hostile one could hold it a billion times.
        if leaf.is_empty() && self.stack.len() > 1 {
            return Err(invalid().into());
        }
        if let (Some(first), Some(last)) = (leaf.first(), leaf.last()) {
            let announced = child.first.is_empty() || child.first == first.path;
            let rises = self.last.is_empty() || compare_paths(&self.last, &first.path).is_lt();
            if !announced || !rises {
                return Err(invalid().into());
            }
            self.last.clone_from(&last.path);
        }
        Ok(page)
    }
}

/// Whether `path` lies below the directory `directory`; everything lies below the empty path.
pub fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn decode_inner(page: &PageData, level: u8) -> Result<(u8, Vec<Child>), format::Error> {
    let (found, children) = inner::decode(&page.refs, &page.payload)?;
    if page.kind != PageKind::Inner || found != level {
        return Err(invalid());
    }
    Ok((level - 1, children))
}

/// Makes `entries` those of the leaf `page`, in the memory that it has. After an error it is
/// anything.
pub fn read_leaf(page: &PageData, entries: &mut Vec<Entry>) -> Result<(), format::Error> {
    if page.kind != PageKind::Leaf {
        return Err(invalid());
    }
    let mut reader = LeafReader::new(&page.refs, &page.payload)?;
    entries.truncate(reader.left());
    entries.reserve_exact(reader.left() - entries.len());
    let mut count = 0;
    while let Some(entry) = entries.get_mut(count)
        && reader.next_into(entry)?
    {
        count += 1;
    }
    entries.truncate(count);
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok(())
}

fn invalid() -> format::Error {
    format::Error::Invalid { what: "snapshot tree" }
}

/// The entry at `path`, if there is one.
pub fn find<S: PageSource>(
    source: &S,
    root: ObjectId,
    level: u8,
    path: &[u8],
) -> Result<Option<Entry>, S::Error> {
    let mut cursor = Cursor::new(source, root, level);
    cursor.seek(path)?;
    Ok(cursor.next_entry()?.filter(|entry| entry.path == path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Store, build, entries};

    #[test]
    fn all_entries_come_in_order() {
        let store = Store::default();
        let all = entries(10_000);
        let root = build(&store, &all);
        let mut cursor = Cursor::new(&store, root.id, root.level);
        for entry in &all {
            assert_eq!(cursor.next_entry().unwrap().as_ref(), Some(entry));
        }
        assert_eq!(cursor.next_entry().unwrap(), None);
    }

    #[test]
    fn leaves_come_whole_and_in_order_whatever_was_in_the_memory_before() {
        let store = Store::default();
        let all = entries(10_000);
        let root = build(&store, &all);
        let mut cursor = Cursor::new(&store, root.id, root.level);
        let (mut found, mut leaf) = (Vec::new(), all.iter().rev().take(700).cloned().collect());
        while let Some((child, page)) = cursor.next_leaf(&mut leaf).unwrap() {
            assert_eq!(child.sums.entries, leaf.len() as u64);
            let mut again = Vec::new();
            read_leaf(&page, &mut again).unwrap();
            assert_eq!(again, leaf);
            found.extend_from_slice(&leaf);
        }
        assert!(leaf.is_empty() && found == all);
    }

    #[test]
    fn a_lookup_reads_few_pages() {
        let store = Store::default();
        let all = entries(20_000);
        let root = build(&store, &all);
        for entry in all.iter().step_by(997) {
            store.reset_reads();
            assert_eq!(
                find(&store, root.id, root.level, &entry.path).unwrap().as_ref(),
                Some(entry)
            );
            assert!(store.reads() <= 4, "{} pages read", store.reads());
        }
        assert_eq!(find(&store, root.id, root.level, b"nothing").unwrap(), None);
    }

    #[test]
    fn what_is_below_a_directory_is_skipped() {
        let store = Store::default();
        let root = build(&store, &entries(10_000));
        let mut cursor = Cursor::new(&store, root.id, root.level);
        cursor.seek(b"d003").unwrap();
        let directory = cursor.next_entry().unwrap().unwrap();
        assert_eq!(directory.path, b"d003");
        cursor.skip_below(&directory.path).unwrap();
        assert_eq!(cursor.next_entry().unwrap().unwrap().path, b"d004");
    }

    #[test]
    fn behind_a_lost_page_the_rest_is_read() {
        let store = Store::default();
        let all = entries(5_000);
        let root = build(&store, &all);
        let mut cursor = Cursor::new(&store, root.id, root.level);
        let mut entries = Vec::new();
        let mut next = || {
            let (child, _) = cursor.next_leaf(&mut entries).unwrap().unwrap();
            (child, entries.len())
        };
        let ((first, second), (lost, _)) = (next(), next());
        store.lose(&lost.id);
        let mut cursor = Cursor::new(&store, root.id, root.level);
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        loop {
            match cursor.next_entry() {
                Ok(Some(entry)) => found.push(entry.path),
                Ok(None) => break,
                Err(_) => failed.push(cursor.take_unreadable_page().unwrap()),
            }
        }
        assert!(failed.len() == 1 && failed[0] == lost, "told as the page above names it");
        let entries = lost.sums.entries as usize;
        assert_eq!(found.len() + entries, all.len());
        assert!(first.id != lost.id && found[second] == all[second + entries].path);
    }

    #[test]
    fn a_lost_page_before_the_goal_hides_nothing() {
        let store = Store::default();
        let root = build(&store, &entries(5_000));
        let mut cursor = Cursor::new(&store, root.id, root.level);
        let mut leaf = Vec::new();
        let (before, _) = cursor.next_leaf(&mut leaf).unwrap().unwrap();
        cursor.next_leaf(&mut leaf).unwrap().unwrap();
        store.lose(&before.id);
        let found = find(&store, root.id, root.level, &leaf[0].path).unwrap();
        assert_eq!(found.as_ref(), leaf.first());
    }

    #[test]
    fn a_page_that_names_itself_is_refused() {
        let store = Store::default();
        let root = store.put_cycle();
        let mut cursor = Cursor::new(&store, root, 5);
        assert!(cursor.next_entry().is_err());
    }
}
