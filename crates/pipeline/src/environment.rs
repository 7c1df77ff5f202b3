//! What a command takes from the machine besides files: random bytes, the time of day, and the
//! cipher that the processor runs fastest. Tests replace them.

use crate::Result;
use crypto::Cipher;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Fills a buffer with random bytes. Keys are derived from them, so they must be unpredictable.
pub type Random = Arc<dyn Fn(&mut [u8]) -> std::result::Result<(), getrandom::Error> + Send + Sync>;
/// Returns the current time. It may jump: only what people see, and rules that they set, may depend
/// on it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The source of random bytes and times, and the cipher of new records.
#[derive(Clone)]
pub struct Environment {
    /// The source of random bytes.
    pub random: Random,
    /// The clock.
    pub clock: Clock,
    /// The cipher of new sessions.
    pub cipher: Cipher,
}

impl Default for Environment {
    /// The environment of the operating system and the processor.
    fn default() -> Self {
        Self {
            random: Arc::new(getrandom::fill),
            clock: Arc::new(SystemTime::now),
            cipher: Cipher::fastest(),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

impl Environment {
    /// Fills `bytes` with random bytes.
    ///
    /// # Errors
    /// When the source fails; `bytes` must not be used then.
    pub fn fill_random(&self, bytes: &mut [u8]) -> Result<()> {
        Ok((self.random)(bytes)?)
    }

    /// The time since 1970, or zero for earlier times.
    pub fn now(&self) -> Duration {
        (self.clock)().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
    }

    /// The time since 1970, in whole seconds.
    pub fn now_secs(&self) -> i64 {
        i64::try_from(self.now().as_secs()).unwrap_or(i64::MAX)
    }

    /// Calls `make` with a source of random bytes; an error of the source is returned instead of
    /// the result.
    pub(crate) fn with_random<T>(
        &self,
        make: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> T,
    ) -> Result<T> {
        let mut failed = None;
        let made = make(&mut |bytes| {
            if let Err(error) = (self.random)(bytes) {
                failed.get_or_insert(error);
            }
        });
        failed.map_or(Ok(made), |error| Err(error.into()))
    }
}
