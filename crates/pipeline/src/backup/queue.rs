//! The queue between the main thread and the workers.

use super::batch::Batch;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use seal::Block;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

/// A task for a worker.
pub(super) enum Task {
    /// Read the jobs of a batch, and send it back.
    Read(Batch, SyncSender<Batch>),
    /// Compress, seal and store what another worker gathered.
    Seal(Block),
}

/// Tasks that wait.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    idle: usize,
    closed: bool,
    failed: bool,
}

impl Queue {
    /// Adds a batch to read. The sender bounds the number of pending batches.
    pub(super) fn push(&self, batch: Batch, reply: SyncSender<Batch>) -> Result<()> {
        let mut state = self.state.lock();
        if state.failed {
            return Err(Error::WorkerPanicked);
        }
        state.tasks.push_back(Task::Read(batch, reply));
        self.wake.notify_one();
        Ok(())
    }

    /// Hands a block to an idle worker, or returns it if there is none. So one huge file keeps all
    /// cores busy, and many small files need no handover.
    pub(super) fn offer(&self, block: Block) -> Option<Block> {
        let mut state = self.state.lock();
        let waiting = state.tasks.len();
        if state.idle <= waiting {
            return Some(block);
        }
        state.tasks.push_front(Task::Seal(block));
        self.wake.notify_one();
        None
    }

    /// The next task; `None` when the queue is closed.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if state.failed {
                return None;
            }
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            self.wake.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// No more batches will come.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_all();
    }

    /// A worker failed: the others stop, and waiting for a batch ends.
    pub(super) fn fail(&self) {
        let mut state = self.state.lock();
        state.failed = true;
        state.tasks.clear();
        self.wake.notify_all();
    }
}
