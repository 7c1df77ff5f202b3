//! Logs refusals: a few a minute, and how many more there were. A log that anybody can fill is useless.

use parking_lot::Mutex;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of lines in a window.
const LINES: u64 = 20;

/// Counts refusals in a window.
#[derive(Default)]
pub(crate) struct RefusalLog(Mutex<Option<Window>>);

struct Window {
    since: Instant,
    count: u64,
}

impl RefusalLog {
    /// Logs a refusal with its reason.
    pub(crate) fn refused(&self, what: &str, why: &dyn std::fmt::Display, from: Option<IpAddr>) {
        let (is_told, untold) = self.count(Instant::now());
        if untold > 0 {
            tracing::warn!(count = untold, "more refusals than the log shows");
        }
        if is_told {
            let from = from.map_or_else(|| "a storage server".to_owned(), |ip| ip.to_string());
            tracing::warn!(%why, from, "refused: {what}");
        }
    }

    /// Whether to log this one, and how many of the last window were not logged.
    fn count(&self, now: Instant) -> (bool, u64) {
        let mut window = self.0.lock();
        let is_over = |window: &Window| now.duration_since(window.since) >= WINDOW;
        let before = window.take_if(|window| is_over(window)).map_or(0, |window| window.count);
        let window = window.get_or_insert(Window { since: now, count: 0 });
        window.count += 1;
        (window.count <= LINES, before.saturating_sub(LINES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_refusals_are_a_few_lines_and_a_number() {
        let (notices, now) = (RefusalLog::default(), Instant::now());
        let told = (0..1_000).filter(|_| notices.count(now).0).count();
        assert_eq!(told as u64, LINES);
        assert_eq!(notices.count(now + WINDOW), (true, 1_000 - LINES));
        assert_eq!(notices.count(now + WINDOW), (true, 0));
    }
}
