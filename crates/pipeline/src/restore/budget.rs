//! How many objects are on their way from the planner to the workers.
//!
//! A record may hold one piece of a large file or thousands of small files, so a number of records says nothing about
//! memory: what waits is counted by the objects in it.

use crossbeam_channel::Receiver;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// What a worker leaves in the queue when it ends early. The queue keeps it as long as the planner lives, with its
/// shares of the budget, and the planner would wait for these for ever: so it is taken out and dropped.
pub(super) struct LeftTasks<'a, Task> {
    pub(super) tasks: &'a Receiver<Task>,
    /// Whether all workers and the planner are to end.
    pub(super) is_over: &'a AtomicBool,
}

impl<Task> Drop for LeftTasks<'_, Task> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        // Until the planner has noticed, too. Behind an ordinary end there are none.
        self.tasks.iter().for_each(drop);
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

    /// What is sent after the worker of `run` has ended; the planner must not wait for its room.
    fn sends_on(run: fn(LeftTasks<'_, Share>)) -> AtomicBool {
        let (budget, is_over) = (Budget::new(10), AtomicBool::new(false));
        let (queue, tasks) = crossbeam_channel::bounded(2);
        let (sender, sent) = mpsc::channel();
        std::thread::spawn(move || {
            (0..5).for_each(|_| drop(queue.send(budget.take(5))));
            sender.send(()).unwrap();
        });
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| run(LeftTasks { tasks: &tasks, is_over: &is_over }));
            let is_sent = sent.recv_timeout(Duration::from_secs(60));
            let _ = worker.join();
            is_sent.expect("the planner waits for what nobody takes");
        });
        is_over
    }

    #[test]
    fn what_a_worker_leaves_does_not_keep_its_share() {
        assert!(!sends_on(|left| drop(left)).into_inner());
        let panics = |_left: LeftTasks<'_, Share>| std::panic::panic_any("a worker that panics");
        assert!(sends_on(panics).into_inner(), "the others end, too");
    }
}
