//! When another stream helps: one is held back by loss or by a window, and there is more to send.
//! Where one fills the link, more would only take from others.

use crate::figures::WireReport;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Streams that a session opens by itself.
pub(crate) const STREAMS_MAX: usize = 4;
/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(2);
/// Part of the time that pipelines must have waited for room: otherwise the network is not behind.
const WAITED_MIN: f64 = 0.5;
/// Segments sent again, of all, from which on a path is lossy.
const LOSS_MIN: f64 = 0.001;
/// Part of the busy time in which a window held the sender back.
const WINDOW_MIN: f64 = 0.25;

/// Decides, from time to time.
#[derive(Default)]
pub(crate) struct Growth(Mutex<Option<(Instant, WireReport)>>);

impl Growth {
    /// Whether it is time to look.
    pub(crate) fn is_due(&self) -> bool {
        self.0.lock().as_ref().is_none_or(|(at, _)| at.elapsed() >= EVERY)
    }

    /// Whether another stream helps, by what happened since the last look.
    pub(crate) fn helps(&self, now: WireReport) -> bool {
        let before = self.0.lock().replace((Instant::now(), now));
        before.is_some_and(|(at, before)| helps(&before, &now, at.elapsed().as_secs_f64()))
    }
}

fn helps(before: &WireReport, now: &WireReport, secs: f64) -> bool {
    let waited = now.empty_wait_secs - before.empty_wait_secs;
    if now.min_rtt_ms < 1.0 || waited < secs * WAITED_MIN {
        return false;
    }
    let segments = (now.sent_bytes - before.sent_bytes) as f64 / 1400.0;
    let again = f64::from(now.retransmitted.saturating_sub(before.retransmitted));
    let busy = (now.busy_secs - before.busy_secs).max(1e-3);
    let held = |now: f64, before: f64| (now - before) / busy > WINDOW_MIN;
    again > segments * LOSS_MIN
        || held(now.receiver_limited_secs, before.receiver_limited_secs)
        || held(now.send_buffer_limited_secs, before.send_buffer_limited_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_and_is_held_back_on_a_long_way_gets_another_stream() {
        let before = WireReport { min_rtt_ms: 28.0, ..WireReport::default() };
        let waits =
            WireReport { empty_wait_secs: 2.0, busy_secs: 2.0, sent_bytes: 14_000_000, ..before };
        let lossy = WireReport { retransmitted: 100, ..waits };
        let narrow = WireReport { receiver_limited_secs: 1.0, ..waits };
        let near = WireReport { min_rtt_ms: 0.1, ..lossy };
        let idle = WireReport { empty_wait_secs: 0.1, ..lossy };
        for (now, expected) in
            [(waits, false), (lossy, true), (narrow, true), (near, false), (idle, false)]
        {
            assert_eq!(helps(&before, &now, 2.0), expected, "{now:?}");
        }
    }
}
