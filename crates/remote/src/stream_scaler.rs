//! Decides when another stream helps: loss or a window limits the streams, and there is more to send.
//! Where one fills the link, more would only lose packets, their own and those of others.

use crate::metrics::NetworkReport;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Maximum number of streams that are added automatically, the first included.
pub(crate) const STREAMS_MAX: usize = 4;
/// Shortest interval between decisions...
const EVERY: Duration = Duration::from_secs(2);
/// ...and in round trips: a new stream first probes for its rate, and loses packets doing so.
const ROUND_TRIPS: u32 = 16;
/// Part of the time that pipelines must have waited for room: otherwise the network is not the
/// bottleneck.
const WAITED_MIN: f64 = 0.5;
/// Part of retransmitted segments from which on a route is lossy.
const LOSS_MIN: f64 = 0.001;
/// Part of the busy time in which a window limited the sender.
const WINDOW_MIN: f64 = 0.25;
/// Required gain in throughput by another stream. The fourth of four can make it 1.33.
const FASTER_MIN: f64 = 1.2;

/// What to do about streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Stay,
    Add,
    /// The last one added no throughput: it goes idle, and no other is tried.
    Rest,
}

/// Decides whether to add streams.
#[derive(Default)]
pub(crate) struct StreamScaler(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<(Instant, NetworkReport)>,
    /// Whether the first interval has passed, in which every stream loses packets.
    is_warm: bool,
    /// Throughput in bytes per second before a stream was added.
    before: Option<f64>,
    is_over: bool,
}

impl StreamScaler {
    /// Whether a decision is due.
    pub(crate) fn is_due(&self) -> bool {
        let state = self.0.lock();
        let every = |report: &NetworkReport| {
            EVERY.max(Duration::from_secs_f64(report.min_rtt_ms.max(0.0) / 1e3) * ROUND_TRIPS)
        };
        !state.is_over
            && state.last.as_ref().is_none_or(|(at, report)| at.elapsed() >= every(report))
    }

    /// Decides by the metrics since the last call.
    pub(crate) fn look(&self, now: NetworkReport) -> Step {
        let mut state = self.0.lock();
        match state.last.replace((Instant::now(), now)) {
            Some((at, before)) => state.step(&before, &now, at.elapsed().as_secs_f64()),
            None => Step::Stay,
        }
    }
}

impl State {
    fn step(&mut self, before: &NetworkReport, now: &NetworkReport, secs: f64) -> Step {
        let rate = now.acked_bytes.saturating_sub(before.acked_bytes) as f64 / secs;
        if self.before.take().is_some_and(|before| rate < before * FASTER_MIN) {
            self.is_over = true;
            return Step::Rest;
        }
        let is_warm = std::mem::replace(&mut self.is_warm, true);
        if !is_warm || !helps(before, now, secs) {
            return Step::Stay;
        }
        self.before = Some(rate);
        Step::Add
    }
}

fn helps(before: &NetworkReport, now: &NetworkReport, secs: f64) -> bool {
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
    fn another_stream_is_added_only_when_a_long_route_limits_a_waiting_sender() {
        let before = NetworkReport { min_rtt_ms: 28.0, ..NetworkReport::default() };
        let waits = NetworkReport {
            empty_wait_secs: 2.0,
            busy_secs: 2.0,
            sent_bytes: 14_000_000,
            ..before
        };
        let lossy = NetworkReport { retransmitted: 100, ..waits };
        let narrow = NetworkReport { receiver_limited_secs: 1.0, ..waits };
        let near = NetworkReport { min_rtt_ms: 0.1, ..lossy };
        let idle = NetworkReport { empty_wait_secs: 0.1, ..lossy };
        for (now, expected) in
            [(waits, false), (lossy, true), (narrow, true), (near, false), (idle, false)]
        {
            assert_eq!(helps(&before, &now, 2.0), expected, "{now:?}");
        }
    }

    #[test]
    fn a_stream_that_makes_nothing_faster_rests_and_no_other_is_tried() {
        // A look every two seconds; in each so many megabytes arrive, and some packets are lost.
        let mut report = NetworkReport { min_rtt_ms: 28.0, ..NetworkReport::default() };
        let mut state = State::default();
        let mut look = |megabytes: u64| {
            let before = report;
            report.acked_bytes += megabytes << 20;
            report.sent_bytes += megabytes << 20;
            report.retransmitted += 100;
            report.empty_wait_secs += 2.0;
            (state.step(&before, &report, 2.0), state.is_over)
        };
        assert_eq!(look(10), (Step::Stay, false), "what is lost at the start says nothing");
        assert_eq!(look(10), (Step::Add, false));
        assert_eq!(look(20), (Step::Add, false), "it was worth it");
        assert_eq!(look(21), (Step::Rest, true));
    }

    #[test]
    fn who_is_far_away_looks_seldom() {
        let scaler = StreamScaler::default();
        let far = NetworkReport { min_rtt_ms: 1e6, ..NetworkReport::default() };
        assert!(scaler.is_due());
        assert_eq!(scaler.look(far), Step::Stay);
        scaler.0.lock().last.as_mut().unwrap().0 -= EVERY;
        assert!(!scaler.is_due());
        scaler.0.lock().last.as_mut().unwrap().1.min_rtt_ms = 28.0;
        assert!(scaler.is_due());
    }
}
