//! The one connection that changes the catalog.

use super::{Backend, Purpose, Sql, again, connect};
use crate::location::Location;
use crate::schema::migrate;
use crate::{Error, Result};
use std::time::{Duration, Instant};

/// How long a server takes to end that was told to, or was killed.
const ENDING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// The connection that changes the catalog. It holds the lock of a server: while the lock is lost with the connection,
/// this server writes nothing, so two servers never write to one catalog.
pub(crate) struct Writer {
    location: Location,
    backend: Option<Box<dyn Backend>>,
    serves: bool,
}

impl Writer {
    pub(crate) fn new(location: &Location) -> Self {
        Self { location: location.clone(), backend: None, serves: false }
    }

    /// Opens the connection, and brings the catalog to the newest version of `steps`.
    pub(crate) fn begin_with(&mut self, steps: &[&str]) -> Result<()> {
        let location = self.location.clone();
        again(|| {
            let done = self.backend().and_then(|backend| migrate(&location, backend, steps));
            if done.as_ref().is_err_and(|error| error.is_disconnect()) {
                self.backend = None;
            }
            done
        })
    }

    /// Takes the lock of a server until the catalog is closed. A server that has just ended may still hold it.
    pub(crate) fn serve(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match again(|| self.lock()) {
                Err(Error::Serving { .. }) if begun.elapsed() < ENDING => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    }

    fn lock(&mut self) -> Result<()> {
        let location = self.location.clone();
        lock(&location, self.backend()?)?;
        self.serves = true;
        Ok(())
    }

    /// The connection; opened again after it was lost.
    pub(crate) fn backend(&mut self) -> Result<&mut dyn Backend> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => self.connect()?,
        };
        Ok(&mut **self.backend.insert(backend))
    }

    fn connect(&self) -> Result<Box<dyn Backend>> {
        let mut backend = connect(&self.location, Purpose::Write)?;
        if self.serves {
            lock(&self.location, &mut *backend)?;
        }
        Ok(backend)
    }

    /// Runs `work` in one transaction, alone. It is repeated when another transaction was in its way, and when the
    /// connection was lost before the commit.
    pub(crate) fn change<T>(&mut self, mut work: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        again(|| {
            let backend = self.backend()?;
            let done = transaction(backend, &mut work);
            if done.as_ref().is_err_and(|error| error.is_disconnect()) {
                self.backend = None;
            }
            done
        })
    }
}

/// Takes the lock of a server, or says that another one has it.
fn lock(location: &Location, backend: &mut dyn Backend) -> Result<()> {
    if backend.lock()? {
        return Ok(());
    }
    Err(Error::Serving { place: location.to_string(), how: backend.how_to_free() })
}

/// One transaction: everything is durable, or nothing changed.
fn transaction<T>(
    backend: &mut dyn Backend,
    work: &mut impl FnMut(&Sql<'_>) -> Result<T>,
) -> Result<T> {
    backend.begin(true)?;
    let mut open = Open { backend, ended: false };
    let done = work(&Sql::on(&mut *open.backend))?;
    open.backend.commit()?;
    open.ended = true;
    Ok(done)
}

/// A transaction that is undone when it is left, by an error or a panic, before it ended.
struct Open<'a> {
    backend: &'a mut dyn Backend,
    ended: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.backend.rollback();
        }
    }
}
