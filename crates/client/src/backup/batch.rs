//! Batches: neighbours of the walk that travel together, so that they lie together at rest and
//! hand-overs between threads are few.

use capture::walk::{Directory, Row};
use format::entry::Entry;
use format::inner::Child;
use std::ffi::CString;
use std::sync::Arc;

/// Objects of a batch at most.
const ITEMS_MAX: usize = 1024;
/// Objects of a batch that have to be read, at most.
const JOBS_MAX: usize = 64;
/// Bytes of a batch that have to be read: about the plaintext of one record.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// An object that has to be read.
pub(super) struct Job {
    /// What is known of it; its content is what the worker adds.
    pub(super) entry: Entry,
    pub(super) directory: Arc<Directory>,
    pub(super) name: CString,
    pub(super) row: Row,
    /// What it was in the snapshot before.
    pub(super) previous: Option<Entry>,
}

/// An object that was read.
pub(super) struct Read {
    pub(super) entry: Entry,
    /// What differs from the snapshot before.
    pub(super) change: EntryChange,
}

/// What reading an object brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryChange {
    /// The snapshot before does not have it.
    New,
    /// Another content.
    Content,
    /// Only its attributes differ.
    Attributes,
    /// It is as it was: it had to be read to know.
    Nothing,
}

/// One object of a batch, or a whole page of unchanged ones.
pub(super) enum Item {
    /// Taken over from the snapshot before.
    Unchanged(Entry),
    /// A whole page taken over; its entries in case it does not fit here.
    Page(Child, Vec<Entry>),
    /// To be read.
    Job(Box<Job>),
    /// A further name of a file that was read in this run.
    Link(Box<Job>),
    /// Read.
    Done(Box<Read>),
    /// Could not be read; told to the monitor already.
    Failed,
    /// Was gone when it was to be read.
    Vanished,
}

/// Neighbours of the walk.
#[derive(Default)]
pub(super) struct Batch {
    items: Vec<Item>,
    jobs: usize,
    job_bytes: u64,
    objects: usize,
}

impl Batch {
    pub(super) fn push(&mut self, item: Item) {
        self.objects += 1;
        match &item {
            Item::Job(job) => {
                self.jobs += 1;
                self.job_bytes += job.row.size;
            }
            Item::Page(_, entries) => self.objects += entries.len(),
            _ => {}
        }
        self.items.push(item);
    }

    /// Whether it is time to hand it over.
    pub(super) fn is_full(&self) -> bool {
        self.objects >= ITEMS_MAX || self.jobs >= JOBS_MAX || self.job_bytes >= JOB_BYTES_MAX
    }

    /// Whether a worker has anything to do in it.
    pub(super) fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [Item] {
        &mut self.items
    }

    /// Takes the items out; the batch is empty again.
    pub(super) fn take(&mut self) -> Vec<Item> {
        std::mem::take(self).items
    }
}
