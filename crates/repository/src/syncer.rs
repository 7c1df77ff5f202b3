//! Makes full containers durable while the next one is filled.

use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::guard::{Guard, guarded};
use crate::lease::Lease;
use crate::pins::SessionNo;
use crate::{Error, Repository, Result};
use format::container::Row;
use format::record::verify;
use ids::{ContainerNo, RecordLocation};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Containers that may wait for the disk.
const SYNC_QUEUE: usize = 1;
/// Containers that may be unfinished at a time: the current one, those that wait, the one that is
/// synced, and its copy when that failed.
pub(crate) const UNFINISHED_MAX: usize = SYNC_QUEUE + 3;

/// Containers that had to be written again, each with the number of its copy.
pub(crate) type Renumbered = FxHashMap<ContainerNo, ContainerNo>;

/// Makes full containers durable.
pub(crate) enum Syncer {
    /// A thread: nobody waits for the disk before the queue is full.
    Thread { queue: SyncSender<ContainerWriter>, thread: JoinHandle<Result<Renumbered>> },
    /// Whoever fills the next one, with as much delay as the queue is long: what happens is the same each time.
    InTurn(Box<Mutex<InTurn>>),
}

impl Syncer {
    /// For the containers of `session`.
    pub(crate) fn start(
        repository: Arc<Repository>,
        lease: Arc<Lease>,
        session: SessionNo,
    ) -> Self {
        let writer = Writer { repository, lease, session };
        if writer.repository.is_stepwise() {
            return Self::InTurn(Box::new(Mutex::new(InTurn::new(writer))));
        }
        let (queue, full) = sync_channel(SYNC_QUEUE);
        let thread = std::thread::spawn(move || writer.sync_all(&full));
        Self::Thread { queue, thread }
    }

    pub(crate) fn send(&self, full: ContainerWriter) -> Result<()> {
        match self {
            Self::Thread { queue, .. } => queue.send(full).map_err(|_| Error::WriterStopped),
            Self::InTurn(turns) => turns.lock().send(full),
        }
    }

    /// Waits until every container is durable. Returns those that had to be written again.
    pub(crate) fn finish(self) -> Result<Renumbered> {
        match self {
            Self::Thread { queue, thread } => {
                drop(queue);
                thread.join().unwrap_or(Err(Error::WriterStopped))
            }
            Self::InTurn(turns) => turns.into_inner().finish(),
        }
    }
}

/// The thread's work without a thread.
pub(crate) struct InTurn {
    writer: Writer,
    waiting: VecDeque<ContainerWriter>,
    renumbered: Renumbered,
    /// What ended it.
    failed: Option<Error>,
}

impl InTurn {
    fn new(writer: Writer) -> Self {
        let (waiting, renumbered) = Default::default();
        Self { writer, waiting, renumbered, failed: None }
    }

    fn send(&mut self, full: ContainerWriter) -> Result<()> {
        if self.failed.is_some() {
            return Err(Error::WriterStopped);
        }
        self.waiting.push_back(full);
        // The thread has one in its hands besides those that wait.
        self.go_on(SYNC_QUEUE + 1);
        Ok(())
    }

    /// Until at most `left` wait.
    fn go_on(&mut self, left: usize) {
        while self.failed.is_none() && self.waiting.len() > left {
            let Some(full) = self.waiting.pop_front() else { return };
            self.failed = self.writer.sync(full, &mut self.renumbered).err();
        }
    }

    fn finish(mut self) -> Result<Renumbered> {
        self.go_on(0);
        self.failed.map_or(Ok(self.renumbered), Err)
    }
}

/// The session that wrote the containers.
struct Writer {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    session: SessionNo,
}

impl Writer {
    fn sync_all(&self, full: &Receiver<ContainerWriter>) -> Result<Renumbered> {
        let mut renumbered = Renumbered::default();
        for container in full {
            self.sync(container, &mut renumbered)?;
        }
        Ok(renumbered)
    }

    fn sync(&self, mut full: ContainerWriter, renumbered: &mut Renumbered) -> Result<()> {
        let number = full.number();
        if full.sync().is_ok() || !guarded(Guard::FailedSync) {
            self.lease.verify()?;
            return full.publish(&*self.repository.storage).map(|_| ());
        }
        // A failed sync is never tried again: the file is abandoned and its records are
        // written elsewhere, each checked on the way.
        let copy = self.write_again(number, full.rows())?;
        renumbered.insert(number, copy);
        Ok(())
    }

    /// Copies the records of an unpublished container to a new one, at the same offsets.
    fn write_again(&self, lost: ContainerNo, rows: &[Row]) -> Result<ContainerNo> {
        let storage = &*self.repository.storage;
        let source = ContainerReader::open_part(storage, lost)?;
        let mut copy = self.repository.new_container(&self.lease, || self.next_number())?;
        let mut buffer = Vec::new();
        for row in rows {
            let location =
                RecordLocation { container: lost, offset: row.offset, length: row.length };
            source.read(location, &mut buffer)?;
            let record = verify(&buffer)
                .map_err(|reason| Error::damaged(&crate::container::part_name(lost), reason))?;
            copy.append(record.header.kind, &[&buffer])?;
        }
        copy.sync()?;
        self.lease.verify()?;
        let number = copy.publish(storage)?;
        storage.remove(&crate::container::part_name(lost))?;
        Ok(number)
    }

    /// A number of the session: reclaim would take what nobody writes for garbage.
    fn next_number(&self) -> ContainerNo {
        match guarded(Guard::WrittenAgain) {
            true => self.repository.allocate_for(self.session),
            false => self.repository.allocate_container(),
        }
    }
}
