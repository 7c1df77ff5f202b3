//! Makes full containers durable while the next one is filled.

use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::guard::{Guard, guarded};
use crate::lease::Lease;
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
    pub(crate) fn start(repository: Arc<Repository>, lease: Arc<Lease>) -> Self {
        if repository.is_stepwise() {
            return Self::InTurn(Box::new(Mutex::new(InTurn::new(repository, lease))));
        }
        let (queue, full) = sync_channel(SYNC_QUEUE);
        let thread = std::thread::spawn(move || sync_all(&repository, &lease, &full));
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
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    waiting: VecDeque<ContainerWriter>,
    renumbered: Renumbered,
    /// What ended it.
    failed: Option<Error>,
}

impl InTurn {
    fn new(repository: Arc<Repository>, lease: Arc<Lease>) -> Self {
        let (waiting, renumbered) = Default::default();
        Self { repository, lease, waiting, renumbered, failed: None }
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
            let Some(writer) = self.waiting.pop_front() else { return };
            self.failed = sync(&self.repository, &self.lease, writer, &mut self.renumbered).err();
        }
    }

    fn finish(mut self) -> Result<Renumbered> {
        self.go_on(0);
        self.failed.map_or(Ok(self.renumbered), Err)
    }
}

fn sync_all(
    repository: &Repository,
    lease: &Lease,
    full: &Receiver<ContainerWriter>,
) -> Result<Renumbered> {
    let mut renumbered = Renumbered::default();
    for writer in full {
        sync(repository, lease, writer, &mut renumbered)?;
    }
    Ok(renumbered)
}

fn sync(
    repository: &Repository,
    lease: &Lease,
    mut writer: ContainerWriter,
    renumbered: &mut Renumbered,
) -> Result<()> {
    let number = writer.number();
    if writer.sync().is_ok() || !guarded(Guard::FailedSync) {
        lease.verify()?;
        return writer.publish(&*repository.storage).map(|_| ());
    }
    // A failed sync is never tried again: the file is abandoned and its records are
    // written elsewhere, each checked on the way.
    let copy = write_again(repository, lease, number, writer.rows())?;
    renumbered.insert(number, copy);
    Ok(())
}

/// Copies the records of an unpublished container to a new one, at the same offsets.
fn write_again(
    repository: &Repository,
    lease: &Lease,
    lost: ContainerNo,
    rows: &[Row],
) -> Result<ContainerNo> {
    let source = ContainerReader::open_part(&*repository.storage, lost)?;
    let mut copy = repository.new_container(lease, || repository.allocate_container())?;
    let mut buffer = Vec::new();
    for row in rows {
        let location = RecordLocation { container: lost, offset: row.offset, length: row.length };
        source.read(location, &mut buffer)?;
        let record = verify(&buffer)
            .map_err(|reason| Error::damaged(&crate::container::part_name(lost), reason))?;
        copy.append(record.header.kind, &[&buffer])?;
    }
    copy.sync()?;
    lease.verify()?;
    let number = copy.publish(&*repository.storage)?;
    repository.storage.remove(&crate::container::part_name(lost))?;
    Ok(number)
}
