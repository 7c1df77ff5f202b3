//! What a command takes from the machine besides files: random bytes, the time of day, and the cipher
//! that it is good at. All may be others, so tests set them.

use crate::Result;
use crypto::Cipher;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Fills bytes with random ones. Keys are made of them: nobody may guess them.
pub type Random = Arc<dyn Fn(&mut [u8]) -> std::result::Result<(), getrandom::Error> + Send + Sync>;
/// Tells the time. It may jump: nothing may depend on it but what people are shown, and rules that
/// they gave.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Where random bytes and times come from, and how records are sealed.
#[derive(Clone)]
pub struct Environment {
    /// Random bytes.
    pub random: Random,
    /// The time.
    pub clock: Clock,
    /// What seals the records of new sessions.
    pub cipher: Cipher,
}

impl Default for Environment {
    /// Those of the operating system and the processor.
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
    /// Fills `bytes`; after an error they are of no use.
    pub fn fill_random(&self, bytes: &mut [u8]) -> Result<()> {
        Ok((self.random)(bytes)?)
    }

    /// Time since 1970; none before.
    pub fn now(&self) -> Duration {
        (self.clock)().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
    }

    /// The same in whole seconds.
    pub fn now_secs(&self) -> i64 {
        i64::try_from(self.now().as_secs()).unwrap_or(i64::MAX)
    }

    /// Makes something out of random bytes by a function that knows no error; one of the source is
    /// the error of all.
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
