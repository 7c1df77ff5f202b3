//! Bandwidth limits that can change at any time.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

/// How much may be sent at once after a pause.
const BURST: Duration = Duration::from_millis(50);
/// Size of the pieces of a limited stream.
const PIECE_BYTES_MIN: usize = 4 << 10;
const PIECE_BYTES_MAX: usize = 256 << 10;

/// A bandwidth limit in bytes per second, shared by all its users.
#[derive(Debug, Default)]
pub struct Rate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// 0 for no limit.
    bytes_per_sec: u64,
    /// When everything taken so far would have been sent at this rate.
    paid_until: Option<Instant>,
}

impl Rate {
    /// A limit; 0 for none.
    pub fn new(bytes_per_sec: u64) -> Self {
        Self(Mutex::new(State { bytes_per_sec, paid_until: None }))
    }

    /// Changes the limit, from now on.
    pub fn set(&self, bytes_per_sec: u64) {
        let mut state = self.state();
        if state.bytes_per_sec != bytes_per_sec {
            *state = State { bytes_per_sec, paid_until: None };
        }
    }

    /// The limit; 0 for none.
    pub fn bytes_per_sec(&self) -> u64 {
        self.state().bytes_per_sec
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.bytes_per_sec() > 0
    }

    /// How much to send at once so that the limit is kept evenly.
    pub fn piece_bytes(&self) -> usize {
        let per_burst = self.bytes_per_sec() as f64 * BURST.as_secs_f64();
        (per_burst as usize).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Waits until `bytes` may be sent.
    pub async fn take(&self, bytes: usize) {
        let Some(until) = self.pay(bytes, Instant::now()) else { return };
        tokio::time::sleep_until(until).await;
    }

    /// When `bytes` may be sent; `None` for at once.
    fn pay(&self, bytes: usize, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        if state.bytes_per_sec == 0 {
            return None;
        }
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let from = state.paid_until.unwrap_or(now).max(earliest);
        let cost = Duration::from_secs_f64(bytes as f64 / state.bytes_per_sec as f64);
        let until = from + cost;
        state.paid_until = Some(until);
        (until > now).then_some(until)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_kept_over_time_and_can_change() {
        let rate = Rate::new(1_000_000);
        let start = Instant::now();
        for _ in 0..100 {
            rate.take(50_000).await;
        }
        let secs = start.elapsed().as_secs_f64();
        assert!((4.9..=5.1).contains(&secs), "{secs}");
        rate.set(0);
        let start = Instant::now();
        rate.take(1 << 30).await;
        assert!(start.elapsed() < Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_used_is_not_saved_up() {
        let rate = Rate::new(1_000_000);
        rate.take(1).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let start = Instant::now();
        rate.take(1_000_000).await;
        assert!(start.elapsed() > Duration::from_millis(900));
    }
}
