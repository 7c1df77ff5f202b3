//! Batches: neighboring objects of the walk that are processed together, so that they are stored
//! together and threads exchange few messages.

use capture::FoundName;
use capture::walk::{Directory, Row};
use format::entry::Entry;
use format::inner::Child;
use std::ffi::CString;
use std::sync::Arc;
use tree::PageData;

/// The most objects in a batch.
const ITEMS_MAX: usize = 1024;
/// The most objects to read in a batch.
const JOBS_MAX: usize = 64;
/// The most bytes to read in a batch: about the plaintext of one record.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// An object to read.
pub(super) struct Job {
    /// What is known; the worker adds the content.
    pub(super) entry: Entry,
    pub(super) directory: Arc<Directory>,
    pub(super) name: CString,
    pub(super) row: Row,
    /// Its entry in the previous snapshot.
    pub(super) previous: Option<Entry>,
    /// Nothing changed since then: it is to be read only as a name of a file that another name shows to be changed.
    pub(super) is_unchanged: bool,
}

/// Where an object to read is.
pub(super) fn found_name_of(job: &Job) -> FoundName {
    FoundName::new(&job.directory, &job.name)
}

/// An object that was read.
pub(super) struct Read {
    pub(super) entry: Entry,
    /// Where it is, if it may have more names.
    pub(super) found_name: Option<FoundName>,
    /// What changed since the previous snapshot.
    pub(super) change: EntryChange,
}

/// What changed in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryChange {
    /// The previous snapshot does not have it.
    New,
    /// Its content.
    Content,
    /// Only its attributes.
    Attributes,
    /// Nothing, which only reading could show.
    Nothing,
}

/// One object of a batch, or a whole page of unchanged ones.
pub(super) enum Item {
    /// Taken over from the previous snapshot.
    Unchanged(Entry),
    /// A whole page taken over, and what it holds, in case it does not fit here.
    Page(Child, Arc<PageData>),
    /// To be read.
    Job(Box<Job>),
    /// A further name of a file that was read in this run.
    Link(Box<Job>),
    /// Read.
    Done(Box<Read>),
    /// Could not be read; already reported to the monitor.
    Failed,
    /// Vanished before it could be read.
    Vanished,
}

/// Neighboring objects of the walk.
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
                self.job_bytes = self.job_bytes.saturating_add(job.row.size);
            }
            Item::Page(page, _) => self.objects += page.sums.entries as usize,
            _ => {}
        }
        self.items.push(item);
    }

    /// Whether it is time to send it.
    pub(super) fn is_full(&self) -> bool {
        self.objects >= ITEMS_MAX || self.jobs >= JOBS_MAX || self.job_bytes >= JOB_BYTES_MAX
    }

    /// Whether it has work for a worker.
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
