//! A page store in memory that counts reads, and entries to fill it.

use crate::build::{Builder, Root};
use crate::{PageData, PageSink, PageSource};
use format::entry::{Attributes, Content, Entry, Kind, Time};
use format::inner::{self, Child, Sums};
use format::page::Page;
use ids::ObjectId;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Store {
    pages: RefCell<HashMap<ObjectId, Arc<PageData>>>,
    reads: Cell<usize>,
}

impl Store {
    pub(crate) fn len(&self) -> usize {
        self.pages.borrow().len()
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.get()
    }

    pub(crate) fn reset_reads(&self) {
        self.reads.set(0);
    }

    /// The page `id` cannot be had any more.
    pub(crate) fn lose(&self, id: &ObjectId) {
        self.pages.borrow_mut().remove(id);
    }

    /// An inner page whose only child is itself.
    pub(crate) fn put_cycle(&self) -> ObjectId {
        let id = ObjectId([1; 24]);
        let page = inner::encode(5, &[Child { id, first: b"a".to_vec(), sums: Sums::EMPTY }]);
        let data = PageData { kind: page.kind, refs: page.refs, payload: page.payload };
        self.pages.borrow_mut().insert(id, Arc::new(data));
        id
    }
}

impl PageSink for &Store {
    type Error = format::Error;

    fn put(&mut self, page: Page) -> Result<ObjectId, Self::Error> {
        format::check::page(&page)?;
        let refs: Vec<u8> = page.refs.iter().flat_map(|id| id.0).collect();
        let sum = |salt| format::wire::checksum(&[&[page.kind as u8, salt], &refs, &page.payload]);
        let mut id = [0; 24];
        id[..16].copy_from_slice(&sum(0));
        id[16..].copy_from_slice(&sum(1)[..8]);
        let id = ObjectId(id).with_type(true);
        let data = PageData { kind: page.kind, refs: page.refs, payload: page.payload };
        self.pages.borrow_mut().insert(id, Arc::new(data));
        Ok(id)
    }
}

impl PageSource for Store {
    type Error = format::Error;

    fn get(&self, id: &ObjectId) -> Result<Arc<PageData>, Self::Error> {
        self.reads.set(self.reads.get() + 1);
        self.pages.borrow().get(id).cloned().ok_or(format::Error::Invalid { what: "page id" })
    }
}

pub(crate) fn build(store: &Store, entries: &[Entry]) -> Root {
    let mut builder = Builder::new(store, 7);
    entries.iter().for_each(|entry| builder.push(entry).unwrap());
    builder.finish().unwrap().0
}

/// `count` entries in order: directories of 99 files.
pub(crate) fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(entry).collect()
}

fn entry(number: usize) -> Entry {
    let (directory, file) = (number / 100, number % 100);
    let is_directory = file == 0;
    let kind = if is_directory { Kind::Directory } else { Kind::File };
    let path = if is_directory {
        format!("d{directory:03}")
    } else {
        format!("d{directory:03}/f{file:02}")
    };
    let attributes = Arc::new(Attributes::new(kind, 0o644));
    let content = if is_directory { Content::None } else { Content::Inline(vec![b'x'; file]) };
    let size = if is_directory { 0 } else { file as u64 };
    let mtime = Time { secs: number as i64, nanos: 1 };
    let inode = number as u64;
    Entry { size, mtime, ctime: mtime, inode, content, ..Entry::new(path.as_bytes(), attributes) }
}
