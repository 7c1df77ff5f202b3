//! Scheduling of the workers, and how far they run ahead of the consumer.
//!
//! Three rules: workers take units in the order of the walk; they stop at [`LOOKAHEAD`] unread
//! rows; but the first unit, if the consumer waits for it, may always run. So memory is bounded and
//! nobody waits forever.

use super::batch::{Job, RowBatch};
use super::units::{UnitId, Units};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The most unread rows: 32,768 × about 150 bytes = 5 MB.
pub(super) const LOOKAHEAD: usize = 32 * 1024;
/// Idle workers are woken when this few unread rows are left, not for each.
const REFILL: usize = LOOKAHEAD / 2;
/// A waiting consumer is woken for this many rows: a thread switch costs as much as ten rows.
const WORTH_WAKING: usize = 256;
/// … but checks by itself after this time, in case the rest is slow.
const PATIENCE: Duration = Duration::from_millis(2);

struct State {
    units: Units<Job, Box<RowBatch>>,
    /// Weight of the batches that are done and not taken.
    ahead: usize,
    most_ahead: usize,
    /// What the consumer waits for.
    wanted: Option<UnitId>,
    /// How long the consumer waited.
    waited: Duration,
    idle: usize,
    stopped: bool,
}

/// What workers and the consumer share.
pub(super) struct Scheduler {
    state: Mutex<State>,
    work: Condvar,
    result: Condvar,
}

/// The result of a worker: the batch, and the jobs below its rows.
pub(super) struct Finished {
    pub(super) unit: UnitId,
    pub(super) batch: Box<RowBatch>,
    pub(super) below: Vec<(usize, Job)>,
}

impl Scheduler {
    pub(super) fn starting_with(job: Job) -> Self {
        let units = Units::starting_with(job);
        let state = State {
            units,
            ahead: 0,
            most_ahead: 0,
            wanted: None,
            waited: Duration::ZERO,
            idle: 0,
            stopped: false,
        };
        Scheduler { state: Mutex::new(state), work: Condvar::new(), result: Condvar::new() }
    }

    /// Delivers a result and waits for the next unit; `None` when the walk is over.
    pub(super) fn exchange(&self, finished: Option<Finished>) -> Option<(UnitId, Job)> {
        let mut state = self.state.lock();
        if let Some(finished) = finished {
            state.link(finished);
        }
        while !state.stopped {
            if let Some(claimed) = state.claim() {
                self.wake_others(&state);
                return Some(claimed);
            }
            self.wake_consumer_if(state.has_wanted());
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
        None
    }

    fn wake_others(&self, state: &State) {
        if state.idle > 0 && state.units.pending() > 0 && state.ahead < LOOKAHEAD {
            self.work.notify_one();
        }
        self.wake_consumer_if(state.ahead >= WORTH_WAKING && state.has_wanted());
    }

    fn wake_consumer_if(&self, condition: bool) {
        if condition {
            self.result.notify_one();
        }
    }

    /// Adds more of the same directory, which other workers can start at once.
    pub(super) fn add_after(&self, running: UnitId, job: Job) -> UnitId {
        let mut state = self.state.lock();
        let id = state.units.insert_after(running, job);
        if state.idle > 0 {
            self.work.notify_one();
        }
        id
    }

    /// The result of a unit; waits for it. `None` when the workers are gone.
    pub(super) fn take(&self, id: UnitId) -> Option<Box<RowBatch>> {
        let mut state = self.state.lock();
        loop {
            if let Some(batch) = state.units.take(id) {
                state.wanted = None;
                state.ahead -= batch.weight();
                self.refill(&state);
                return Some(batch);
            }
            if state.stopped {
                return None;
            }
            self.wait_for(id, &mut state);
        }
    }

    fn wait_for(&self, id: UnitId, state: &mut MutexGuard<'_, State>) {
        state.wanted = Some(id);
        if state.idle > 0 && state.units.pending() > 0 {
            self.work.notify_one();
        }
        let since = Instant::now();
        self.result.wait_for(state, PATIENCE);
        state.waited += since.elapsed();
    }

    fn refill(&self, state: &State) {
        if state.idle > 0 && state.units.pending() > 0 && state.ahead <= REFILL {
            self.work.notify_all();
        }
    }

    /// Ends the walk early.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.work.notify_all();
        self.result.notify_all();
    }

    pub(super) fn waited(&self) -> Duration {
        self.state.lock().waited
    }

    /// The largest number of unread rows so far.
    pub(super) fn most_ahead(&self) -> usize {
        self.state.lock().most_ahead
    }
}

impl State {
    fn claim(&mut self) -> Option<(UnitId, Job)> {
        if self.ahead < LOOKAHEAD {
            return self.units.claim(false);
        }
        let starving = self.wanted.is_some_and(|id| !self.units.is_done(id));
        if starving { self.units.claim(true) } else { None }
    }

    fn has_wanted(&self) -> bool {
        self.wanted.is_some_and(|id| self.units.is_done(id))
    }

    fn link(&mut self, finished: Finished) {
        let Finished { unit, mut batch, below } = finished;
        for (row, job) in below {
            batch.rows[row].child = self.units.insert_before(unit, job);
        }
        self.ahead += batch.weight();
        self.most_ahead = self.most_ahead.max(self.ahead);
        self.units.finish(unit, batch);
    }
}
