//! How often and how long an end waited: for something to send or work on (a *full* buffer to come),
//! or for room to put it (an *empty* one).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Waits shorter than this are the price of asking.
const WAIT_MIN: Duration = Duration::from_micros(50);

/// A count of waits and their time. Shared by threads.
#[derive(Debug, Default)]
pub struct Waits {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Waits {
    /// Notes a wait.
    pub fn add(&self, time: Duration) {
        if time >= WAIT_MIN {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.micros.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// Waits so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Their time in seconds.
    pub fn secs(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}
