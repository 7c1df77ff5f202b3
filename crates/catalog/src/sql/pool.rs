//! Connections for reading: at most so many, opened when they are needed.

use super::{Backend, Purpose, Sql, again, connect};
use crate::Result;
use crate::location::Location;
use parking_lot::{Condvar, Mutex};

/// Connections for reading.
pub(crate) struct Pool {
    location: Location,
    max: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Box<dyn Backend>>,
    open: usize,
}

/// A connection that goes back when it is dropped, unless it is broken.
struct Taken<'a> {
    pool: &'a Pool,
    backend: Option<Box<dyn Backend>>,
}

impl Pool {
    /// At most `max` connections to `location`.
    pub(crate) fn new(location: &Location, max: usize) -> Self {
        let (state, freed) = Default::default();
        Self { location: location.clone(), max, state, freed }
    }

    /// Reads committed data. `work` is repeated on another connection when its own is lost.
    pub(crate) fn look<T>(&self, work: impl Fn(&Sql<'_>) -> Result<T>) -> Result<T> {
        again(|| {
            let mut taken = self.take();
            let done = taken.backend().and_then(|backend| work(&Sql::on(backend)));
            if done.as_ref().is_err_and(|error| error.is_disconnect()) {
                taken.backend = None;
                taken.pool.forget_idle();
            }
            done
        })
    }

    fn take(&self) -> Taken<'_> {
        let mut state = self.state.lock();
        while state.idle.is_empty() && state.open == self.max {
            self.freed.wait(&mut state);
        }
        let backend = state.idle.pop();
        state.open += usize::from(backend.is_none());
        Taken { pool: self, backend }
    }

    /// Where one connection was lost, the idle ones were lost too, or cost little to open again.
    fn forget_idle(&self) {
        let mut state = self.state.lock();
        state.open -= state.idle.len();
        state.idle.clear();
    }
}

impl Taken<'_> {
    fn backend(&mut self) -> Result<&mut dyn Backend> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => connect(&self.pool.location, Purpose::Read)?,
        };
        Ok(&mut **self.backend.insert(backend))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        match self.backend.take().filter(|_| !std::thread::panicking()) {
            Some(backend) => state.idle.push(backend),
            None => state.open -= 1,
        }
        self.pool.freed.notify_one();
    }
}
