//! Makes full containers durable while the next one is filled.

use crate::container::part_name;
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
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Containers that may wait for the disk.
const SYNC_QUEUE: usize = 1;
/// What became of the containers of a session, as far as the index does not know of them.
#[derive(Default)]
pub(crate) struct Synced {
    /// Durable under their final names.
    durable: BTreeSet<ContainerNo>,
    /// Those that had to be written again, each with the number of its copy, which is durable.
    renumbered: FxHashMap<ContainerNo, ContainerNo>,
    /// Why nothing can become durable any more.
    failed: Option<Error>,
}

impl Synced {
    /// Where what was appended at `location` is durable; `None` while it is not.
    pub(crate) fn durable(&self, location: RecordLocation) -> Option<RecordLocation> {
        let container = *self.renumbered.get(&location.container).unwrap_or(&location.container);
        let is_durable = self.durable.contains(&container) || !guarded(Guard::DurableCheckpoint);
        is_durable.then_some(RecordLocation { container, ..location })
    }

    /// The numbers of which it knows what became.
    pub(crate) fn numbers(&self) -> BTreeSet<ContainerNo> {
        self.durable.iter().chain(self.renumbered.keys()).copied().collect()
    }

    /// Forgets `numbers`: the index knows of them.
    pub(crate) fn forget(&mut self, numbers: &BTreeSet<ContainerNo>) {
        self.durable.retain(|number| !numbers.contains(number));
        self.renumbered.retain(|number, _| !numbers.contains(number));
    }

    /// Nothing can become durable any more. The first reason counts: others follow from it.
    pub(crate) fn fail(&mut self, why: &Error) {
        self.failed.get_or_insert_with(|| why.again());
    }

    /// Why nothing can become durable any more: for each who wants to go on.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.as_ref().map(Error::again)
    }
}

/// Makes full containers durable.
pub(crate) enum Syncer {
    /// Threads, as many as the storage takes containers at a time: nobody waits for it before the queue is full.
    Threads { queue: SyncSender<ContainerWriter>, threads: Vec<JoinHandle<Result<()>>> },
    /// Whoever fills the next one, with as much delay as the queue is long: what happens is the same each time.
    InTurn(Box<Mutex<InTurn>>),
}

impl Syncer {
    /// For the containers of `session`; what becomes of them it notes in `synced`.
    pub(crate) fn start(
        repository: Arc<Repository>,
        lease: Arc<Lease>,
        session: SessionNo,
        synced: Arc<Mutex<Synced>>,
    ) -> Self {
        let writer = Writer { repository, lease, session, synced };
        if writer.repository.is_stepwise() {
            return Self::InTurn(Box::new(Mutex::new(InTurn::new(writer))));
        }
        let (queue, full) = sync_channel(SYNC_QUEUE);
        let at_once = writer.repository.storage.published_at_once();
        let work = Arc::new((writer, Mutex::new(full)));
        let start = |_| {
            let work = work.clone();
            Builder::new().spawn(move || work.0.sync_all(&work.1)).ok()
        };
        let threads: Vec<_> = (0..at_once).map_while(start).collect();
        match Arc::try_unwrap(work) {
            // None started.
            Ok((writer, _)) => Self::InTurn(Box::new(Mutex::new(InTurn::new(writer)))),
            Err(_) => Self::Threads { queue, threads },
        }
    }

    pub(crate) fn send(&self, full: ContainerWriter) -> Result<()> {
        match self {
            Self::Threads { queue, .. } => queue.send(full).map_err(|_| Error::WriterStopped),
            Self::InTurn(turns) => turns.lock().send(full),
        }
    }

    /// Waits until every container is durable.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Threads { queue, threads } => {
                drop(queue);
                let mut all = Ok(());
                // All of them, also behind one that failed.
                for thread in threads {
                    all = all.and(thread.join().unwrap_or(Err(Error::WriterStopped)));
                }
                all
            }
            Self::InTurn(turns) => turns.into_inner().finish(),
        }
    }
}

/// The thread's work without a thread.
pub(crate) struct InTurn {
    writer: Writer,
    waiting: VecDeque<ContainerWriter>,
    /// What ended it.
    failed: Option<Error>,
}

impl InTurn {
    fn new(writer: Writer) -> Self {
        Self { writer, waiting: VecDeque::new(), failed: None }
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
            self.failed = self.writer.sync(full).err();
        }
    }

    fn finish(mut self) -> Result<()> {
        self.go_on(0);
        self.failed.map_or(Ok(()), Err)
    }
}

/// The session that wrote the containers.
struct Writer {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    session: SessionNo,
    synced: Arc<Mutex<Synced>>,
}

impl Writer {
    /// Until there are no more, or one could not be made durable, by whichever thread.
    fn sync_all(&self, full: &Mutex<Receiver<ContainerWriter>>) -> Result<()> {
        let next = || full.lock().recv().ok();
        while let Some(container) = next() {
            if let Some(failed) = self.synced.lock().failure() {
                return Err(failed);
            }
            self.sync(container)?;
        }
        Ok(())
    }

    /// Makes one durable, whatever number it gets, and notes what came of it.
    fn sync(&self, full: ContainerWriter) -> Result<()> {
        let number = full.number();
        let synced = self.publish(full);
        let mut noted = self.synced.lock();
        match synced {
            Ok(place) => {
                noted.durable.insert(place);
                if place != number {
                    noted.renumbered.insert(number, place);
                }
                Ok(())
            }
            Err(error) => {
                noted.fail(&error);
                Err(error)
            }
        }
    }

    fn publish(&self, mut full: ContainerWriter) -> Result<ContainerNo> {
        if full.sync().is_ok() || !guarded(Guard::FailedSync) {
            self.lease.verify()?;
            match full.publish(&*self.repository.storage) {
                Err(error) if error.is_taken() => {}
                published => return published,
            }
        }
        // A failed sync is never tried again: the file is abandoned and its records are written elsewhere, each checked
        // on the way. So it is when a writer that was overtaken woke up and took the name.
        self.write_again(full.number(), full.rows())
    }

    /// Copies the records of an unpublished container to a new one, at the same offsets.
    fn write_again(&self, lost: ContainerNo, rows: &[Row]) -> Result<ContainerNo> {
        let storage = &*self.repository.storage;
        let source = ContainerReader::open_part(storage, lost)?;
        let next = || self.next_number();
        let number = self.repository.write_container(&self.lease, next, |copy| {
            copy_all(&source, rows, copy)?;
            copy.sync()
        })?;
        storage.remove(&part_name(lost))?;
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

/// Appends all records of `source` to `copy`.
fn copy_all(source: &ContainerReader, rows: &[Row], copy: &mut ContainerWriter) -> Result<()> {
    let (container, mut buffer) = (source.number(), Vec::new());
    for row in rows {
        let location = RecordLocation { container, offset: row.offset, length: row.length };
        source.read(location, &mut buffer)?;
        let record =
            verify(&buffer).map_err(|reason| Error::damaged(&part_name(container), reason))?;
        copy.append(record.header.kind, &[&buffer])?;
    }
    Ok(())
}
