//! Repeats what failed for a reason that passes.

use crate::Result;
use std::time::{Duration, Instant};

/// For how long. A database that restarts is back by then.
const REPEAT_FOR: Duration = Duration::from_secs(15);
/// But so often at least: a machine that slept meanwhile, or a long wait for a lock, was no attempt.
const ATTEMPTS_MIN: u32 = 3;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Runs `attempt` until it succeeds or fails for good: with growing pauses, for a limited time.
pub(crate) fn again<T>(attempt: impl FnMut() -> Result<T>) -> Result<T> {
    again_for(REPEAT_FOR, attempt)
}

fn again_for<T>(most: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    let (mut pause, mut attempts) = (PAUSE_FIRST, 0);
    loop {
        attempts += 1;
        let is_early = || attempts < ATTEMPTS_MIN || begun.elapsed() < most;
        match attempt() {
            Err(error) if error.passes() && is_early() => std::thread::sleep(pause),
            done => return done,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::error::Failure;

    #[test]
    fn what_passes_is_repeated_and_nothing_else() {
        let mut attempts = 0;
        let done = again(|| {
            attempts += 1;
            if attempts < 3 { Err(Error::failed(Failure::Busy, "busy")) } else { Ok(attempts) }
        });
        assert_eq!(done.unwrap(), 3);
        for lasting in [Error::OutcomeUnknown, Error::database("no such table")] {
            let mut attempts = 0;
            let mut lasting = Some(lasting);
            let done: Result<()> = again(|| {
                attempts += 1;
                Err(lasting.take().expect("repeated"))
            });
            assert!(done.is_err() && attempts == 1);
        }
    }

    #[test]
    fn repeating_ends_at_its_limit() {
        let most = Duration::from_millis(30);
        let mut attempts = 0;
        let done: Result<()> = again_for(most, || {
            attempts += 1;
            Err(Error::failed(Failure::Disconnected, "gone"))
        });
        assert!(done.unwrap_err().to_string().contains("gone"));
        assert!((2..10).contains(&attempts), "{attempts}");
    }
}
