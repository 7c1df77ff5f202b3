//! Limits concurrent queries to the control server. Each blocks a thread that nodes need for their data: a control
//! server that does not answer must not delay running jobs.

use super::ControlServerError;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of concurrent queries.
const WAITING_MAX: usize = 64;
/// After a query without a reply none is sent for this long.
const REST: Duration = Duration::from_millis(500);

/// The limiter of queries.
#[derive(Default)]
pub(super) struct QueryLimiter {
    waiting: AtomicUsize,
    failed_at: Mutex<Option<Instant>>,
}

/// A permit for a query, until it is dropped.
#[derive(Debug)]
pub(super) struct QueryPermit<'a>(&'a QueryLimiter);

impl Drop for QueryPermit<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for QueryLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} questions", self.waiting.load(Ordering::Relaxed))
    }
}

impl QueryLimiter {
    /// A permit for a query.
    pub(super) fn permit(&self) -> Result<QueryPermit<'_>, ControlServerError> {
        let rests = self.failed_at.lock().is_some_and(|at| at.elapsed() < REST);
        if rests {
            return Err(ControlServerError::Unreachable(
                "it did not answer a moment ago".to_owned(),
            ));
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(ControlServerError::Unreachable("too many requests at once".to_owned()));
        }
        Ok(QueryPermit(self))
    }

    /// Records a query without a reply.
    pub(super) fn failed(&self, trouble: &ControlServerError) {
        if let ControlServerError::Unreachable(_) = trouble {
            *self.failed_at.lock() = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_everybody_waits_for_who_does_not_answer() {
        let limiter = QueryLimiter::default();
        let permits: Vec<_> = (0..WAITING_MAX).map(|_| limiter.permit().unwrap()).collect();
        assert!(limiter.permit().is_err());
        drop(permits);
        assert!(limiter.permit().is_ok());
        let (message, hint) = Default::default();
        limiter.failed(&ControlServerError::Refused { message, hint });
        assert!(limiter.permit().is_ok(), "a no is an answer");
        limiter.failed(&ControlServerError::Unreachable("gone".to_owned()));
        assert!(limiter.permit().is_err());
    }
}
