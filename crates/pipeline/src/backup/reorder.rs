//! Reorder: batches come back from the workers in any order, and go into the tree in path order.

use super::batch::{Batch, EntryChange, Item, Job, Read};
use super::counters::Counters;
use super::links::{LINKED_MAX, LinkedFiles};
use super::monitor::BackupMonitor;
use super::queue::Queue;
use super::storable::storable;
use crate::pages::PageWriter;
use crate::{Error, Result};
use format::entry::{Attributes, Entry};
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

/// The pending batches, and the tree that they go into.
pub(super) struct ReorderBuffer<'a> {
    pending: VecDeque<Pending>,
    builder: Builder<&'a PageWriter<'a>>,
    linked: LinkedFiles,
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
            linked: LinkedFiles::at_most(LINKED_MAX),
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
        if let Some(found_name) = read.found_name.filter(|_| read.entry.links > 1) {
            self.linked.add(&read.entry, found_name);
        }
        self.builder.push(&read.entry)
    }

    /// A further name of a file. If it is not of what was read under the first one (the inode was reused, or lies
    /// behind an overlay beside another state of it), it belongs to another group, and is read.
    fn link(&mut self, job: Job, queue: &Queue) -> Result<()> {
        let Some(entry) = self.linked.entry_of(&job) else { return self.alone(job, queue) };
        let is_new = job.previous.is_none();
        if let Err(problem) = storable(&entry, || job.directory.path_of(job.name.to_bytes())) {
            self.monitor.problem(&problem);
            return self.item(Item::Failed);
        }
        self.counters.report.objects_backed_up += 1;
        self.counters.report.objects_new += u64::from(is_new);
        self.builder.push(&entry)
    }

    fn alone(&mut self, mut job: Job, queue: &Queue) -> Result<()> {
        match job.previous.take_if(|_| job.is_unchanged) {
            None => self.read_alone(job, queue),
            Some(before) => {
                let file_system = job.entry.attributes.file_system;
                let attributes = Attributes { file_system, ..before.attributes.as_ref().clone() };
                let attributes = Arc::new(attributes);
                self.item(Item::Unchanged(Entry { attributes, ..before }))
            }
        }
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
pub(super) mod tests;
