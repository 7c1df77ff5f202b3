//! Waiting for what is being brought back from an archive: whoever reads it gets it as soon as it is there.

use crate::archived::{Readable, state};
use crate::client::Client;
use repository::storage::{StorageError, StorageResult};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// A wait notices within this time that somebody has ended it.
const NOTICED_AFTER: Duration = Duration::from_millis(200);

/// How a reader waits.
pub struct Patience {
    /// So often the storage is asked whether an object is there.
    pub every: Duration,
    /// Whether to go on: asked often.
    pub goes_on: GoesOn,
}

/// Called with the name of an object when a wait for it begins; whether to go on.
pub type GoesOn = Box<dyn Fn(Option<&str>) -> bool + Send + Sync>;

impl Patience {
    /// Waits until the object `name` can be read.
    ///
    /// # Errors
    /// `why` it cannot be read, when nobody has asked for it; [`ErrorKind::Interrupted`] when somebody ends the wait;
    /// those of the storage.
    pub(crate) fn wait(&self, client: &Client, name: &str, why: StorageError) -> StorageResult<()> {
        loop {
            match state(client, name) {
                Ok(state) if state.is_readable() => return Ok(()),
                Ok(state) if state.readable == Readable::Soon => {}
                Ok(_) => return Err(why),
                // It takes hours, and a storage may be away for some of them.
                Err(error) if error.is_unreachable() && !is_refused(&error) => {}
                Err(error) => return Err(error),
            }
            self.pause(name)?;
        }
    }

    fn pause(&self, name: &str) -> StorageResult<()> {
        let (begun, mut told) = (Instant::now(), Some(name));
        while begun.elapsed() < self.every {
            if !(self.goes_on)(told.take()) {
                return Err(StorageError::new("wait for", name, ErrorKind::Interrupted));
            }
            std::thread::sleep(NOTICED_AFTER.min(self.every));
        }
        Ok(())
    }
}

fn is_refused(error: &StorageError) -> bool {
    error.source.kind() == ErrorKind::PermissionDenied
}
