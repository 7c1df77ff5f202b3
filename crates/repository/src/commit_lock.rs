//! The commit lock. It knows for how long it was held at most: whoever commits waits as long.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The lock.
#[derive(Default)]
pub(crate) struct CommitLock {
    lock: Mutex<()>,
    longest_micros: AtomicU64,
}

/// Whoever has this may change the index and the list of snapshots.
pub(crate) struct CommitGuard<'a> {
    lock: &'a CommitLock,
    since: Instant,
    _guard: MutexGuard<'a, ()>,
}

impl CommitLock {
    /// Waits until nobody else has it.
    pub(crate) fn lock(&self) -> CommitGuard<'_> {
        let guard = self.lock.lock();
        CommitGuard { lock: self, since: Instant::now(), _guard: guard }
    }

    /// Whether somebody has it.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// The longest time for which it was held until now.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_micros.load(Ordering::Relaxed))
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        let micros = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.lock.longest_micros.fetch_max(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_its_longest_time() {
        let lock = CommitLock::default();
        let hold = |millis| {
            let _guard = lock.lock();
            std::thread::sleep(Duration::from_millis(millis));
        };
        [1, 30, 2].into_iter().for_each(hold);
        assert!(lock.longest() >= Duration::from_millis(30));
    }
}
