//! Reorder: batches come back from the workers in any order, and go into the tree in path order.

use super::batch::{Batch, EntryChange, Item, Job, Read};
use super::counters::Counters;
use super::monitor::BackupMonitor;
use super::queue::Queue;
use super::storable::storable;
use crate::pages::PageWriter;
use crate::{Error, Result};
use format::entry::{Attributes, Content, Entry, Kind, LinkGroup, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use tree::Builder;

/// The most pending batches; bounds the memory between walk and tree.
const BATCHES_MAX: usize = 48;

/// A pending batch.
enum Pending {
    Ready(Batch),
    AtWorker(Receiver<Batch>),
}

/// What further names of a file take over from the first one.
struct Linked {
    attributes: Arc<Attributes>,
    size: u64,
    mtime: Time,
    ctime: Time,
    status: u8,
    content: Content,
    names_left: u32,
}

/// The pending batches, and the tree that they go into.
pub(super) struct ReorderBuffer<'a> {
    pending: VecDeque<Pending>,
    builder: Builder<&'a PageWriter<'a>>,
    linked: FxHashMap<LinkGroup, Linked>,
    monitor: &'a dyn BackupMonitor,
    counters: Counters,
}

impl<'a> ReorderBuffer<'a> {
    pub(super) fn new(
        pages: &'a PageWriter<'a>,
        cut_key: u64,
        monitor: &'a dyn BackupMonitor,
    ) -> Self {
        let builder = Builder::new(pages, cut_key);
        Self {
            pending: VecDeque::new(),
            builder,
            linked: FxHashMap::default(),
            monitor,
            counters: Counters::default(),
        }
    }

    /// Sends a batch to the workers, if it has work. Waits for the oldest one if too many are
    /// pending.
    pub(super) fn send(&mut self, batch: Batch, queue: &Queue) -> Result<()> {
        if batch.has_jobs() {
            let (reply, answer) = sync_channel(1);
            queue.push(batch, reply)?;
            self.pending.push_back(Pending::AtWorker(answer));
        } else {
            self.pending.push_back(Pending::Ready(batch));
        }
        self.take_ready(queue)?;
        while self.pending.len() >= BATCHES_MAX {
            self.take_one(queue)?;
        }
        Ok(())
    }

    /// Waits for all batches.
    pub(super) fn drain(&mut self, queue: &Queue) -> Result<()> {
        while !self.pending.is_empty() {
            self.take_one(queue)?;
        }
        Ok(())
    }

    /// The root of the tree, and what was counted.
    pub(super) fn finish(self) -> Result<(tree::Root, Counters)> {
        let (root, _) = self.builder.finish()?;
        Ok((root, self.counters))
    }

    /// Takes the ready batches at the front, without waiting.
    fn take_ready(&mut self, queue: &Queue) -> Result<()> {
        while let Some(front) = self.pending.front_mut() {
            if let Pending::AtWorker(answer) = front {
                let Ok(batch) = answer.try_recv() else { return Ok(()) };
                *front = Pending::Ready(batch);
            }
            self.take_one(queue)?;
        }
        Ok(())
    }

    fn take_one(&mut self, queue: &Queue) -> Result<()> {
        let mut batch = match self.pending.pop_front() {
            Some(Pending::Ready(batch)) => batch,
            Some(Pending::AtWorker(answer)) => self.wait(&answer)?,
            None => return Ok(()),
        };
        batch.take().into_iter().try_for_each(|item| match item {
            Item::Link(job) => self.link(*job, queue),
            item => self.item(item),
        })
    }

    fn wait(&mut self, answer: &Receiver<Batch>) -> Result<Batch> {
        let before = Instant::now();
        let batch = answer.recv().map_err(|_| Error::WorkerPanicked)?;
        self.counters.report.stages.reorder_wait_secs += before.elapsed().as_secs_f64();
        Ok(batch)
    }

    fn item(&mut self, item: Item) -> Result<()> {
        let report = &mut self.counters.report;
        match item {
            Item::Unchanged(entry) => {
                report.objects_unchanged += 1;
                self.builder.push(&entry)
            }
            Item::Page(page, data) => {
                report.objects_unchanged += page.sums.entries;
                if self.builder.at_boundary() {
                    return self.builder.push_page(page);
                }
                let mut entries = Vec::new();
                tree::read_leaf(&data, &mut entries)?;
                entries.iter().try_for_each(|entry| self.builder.push(entry))
            }
            Item::Done(read) => self.read(*read),
            Item::Failed | Item::Job(_) | Item::Link(_) => {
                report.objects_failed += 1;
                Ok(())
            }
            Item::Vanished => {
                report.objects_inspected = report.objects_inspected.wrapping_sub(1);
                report.objects_vanished += 1;
                Ok(())
            }
        }
    }

    fn read(&mut self, read: Read) -> Result<()> {
        let report = &mut self.counters.report;
        match read.change {
            EntryChange::New => {
                report.objects_backed_up += 1;
                report.objects_new += 1;
            }
            EntryChange::Content => report.objects_backed_up += 1,
            EntryChange::Attributes => report.objects_updated += 1,
            EntryChange::Nothing => {
                report.objects_unchanged += 1;
                report.objects_read_again += 1;
            }
        }
        let entry = read.entry;
        if entry.kind() == Kind::File && entry.links > 1 {
            let linked = Linked {
                attributes: entry.attributes.clone(),
                size: entry.size,
                mtime: entry.mtime,
                ctime: entry.ctime,
                status: entry.status,
                content: entry.content.clone(),
                names_left: entry.links - 1,
            };
            self.linked.insert(entry.link_group(), linked);
        }
        self.builder.push(&entry)
    }

    /// A further name of a file: everything but the path comes from the first name. If the inode
    /// was reused since the first name was read, it belongs to another group; so it does if the file changed meanwhile,
    /// and is read again: if both were read in the end as it is now, the snapshot has them in one.
    fn link(&mut self, job: Job, queue: &Queue) -> Result<()> {
        let (key, is_new) = (job.entry.link_group(), job.previous.is_none());
        let Some(first) = self.linked.get_mut(&key) else { return self.read_alone(job, queue) };
        let entry = Entry {
            attributes: first.attributes.clone(),
            size: first.size,
            mtime: first.mtime,
            ctime: first.ctime,
            status: first.status,
            content: first.content.clone(),
            ..job.entry
        };
        first.names_left = first.names_left.saturating_sub(1);
        if first.names_left == 0 {
            self.linked.remove(&key);
        }
        if let Err(problem) = storable(&entry, || job.directory.path_of(job.name.to_bytes())) {
            self.monitor.problem(&problem);
            return self.item(Item::Failed);
        }
        self.counters.report.objects_backed_up += 1;
        self.counters.report.objects_new += u64::from(is_new);
        self.builder.push(&entry)
    }

    /// The first name could not be read or vanished: the file is read under this name, which
    /// becomes the first.
    fn read_alone(&mut self, job: Job, queue: &Queue) -> Result<()> {
        let mut alone = Batch::default();
        alone.push(Item::Job(Box::new(job)));
        let (reply, answer) = sync_channel(1);
        queue.push(alone, reply)?;
        self.wait(&answer)?.take().into_iter().try_for_each(|item| self.item(item))
    }
}

#[cfg(test)]
mod tests;
