//! How many objects are on their way from the planner to the workers.
//!
//! A record may hold one piece of a large file or thousands of small files, so a number of records says nothing about
//! memory: what waits is counted by the objects in it.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The objects that may be on their way.
pub(super) struct Budget {
    max: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// A part of the budget, given back when it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    count: usize,
}

impl Budget {
    /// For `max` objects at a time.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: Mutex::new(0), freed: Condvar::new() })
    }

    /// Waits until there is room for `count` objects. What is larger than the whole budget goes alone.
    pub(super) fn take(self: &Arc<Self>, count: usize) -> Share {
        let mut used = self.used.lock();
        while *used > 0 && *used + count > self.max {
            self.freed.wait(&mut used);
        }
        *used += count;
        Share { budget: self.clone(), count }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.budget.used.lock() -= self.count;
        self.budget.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn who_wants_more_than_there_is_waits_until_it_is_given_back() {
        let budget = Budget::new(10);
        let (first, second) = (budget.take(6), budget.take(4));
        let (sender, taken) = mpsc::channel();
        let waiting = budget.clone();
        let thread = std::thread::spawn(move || sender.send(waiting.take(7)).unwrap());
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err(), "there is no room");
        drop(second);
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err(), "there is too little");
        drop(first);
        let third = taken.recv_timeout(Duration::from_secs(60)).unwrap();
        thread.join().unwrap();
        assert_eq!(*budget.used.lock(), 7);
        drop(third);
        drop(budget.take(11));
        assert_eq!(*budget.used.lock(), 0, "what is too much for all of it goes alone");
    }
}
