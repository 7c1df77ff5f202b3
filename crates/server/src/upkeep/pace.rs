//! How fast upkeep goes.

use ids::ContainerNo;
use parking_lot::Mutex;
use repository::watch::Watch;
use std::time::{Duration, Instant};

/// The longest sleep between two looks whether to go on.
const NAP: Duration = Duration::from_millis(100);
/// Steps of nice by which a thread of upkeep stands behind the others.
const NICE: i32 = 10;

/// This thread gives way to others, for the processor and for the disk. Where that is not possible it competes.
pub(crate) fn step_back() {
    if let Err(error) = capture::priority::lower_priority(NICE, true) {
        tracing::debug!(%error, "upkeep runs with the priority of backups");
    }
}

/// Passes on to a watch, and waits so that a rate is kept.
pub(crate) struct Pace<'a> {
    watch: &'a dyn Watch,
    bytes_per_sec: Option<u64>,
    /// When everything moved so far would have been moved at this rate.
    paid_until: Mutex<Instant>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(watch: &'a dyn Watch, bytes_per_sec: Option<u64>) -> Self {
        Self { watch, bytes_per_sec, paid_until: Mutex::new(Instant::now()) }
    }

    fn pay(&self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_sec.filter(|rate| *rate > 0) else { return Duration::ZERO };
        let mut paid_until = self.paid_until.lock();
        *paid_until = (*paid_until).max(now) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        paid_until.saturating_duration_since(now)
    }
}

impl Watch for Pace<'_> {
    fn moved(&self, bytes: u64) {
        self.watch.moved(bytes);
        let begun = Instant::now();
        let due = self.pay(bytes, begun);
        while begun.elapsed() < due && self.watch.goes_on() {
            std::thread::sleep(NAP.min(due.saturating_sub(begun.elapsed())));
        }
    }

    fn goes_on(&self) -> bool {
        self.watch.goes_on()
    }

    fn stage(&self, name: &str) {
        self.watch.stage(name);
    }

    fn passed(&self, container: ContainerNo) {
        self.watch.passed(container);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use repository::watch::Unwatched;

    #[test]
    fn a_rate_is_kept_over_many_pieces() {
        let pace = Pace::new(&Unwatched, Some(1 << 20));
        let now = Instant::now();
        let waits: Vec<_> = (0..4).map(|_| pace.pay(1 << 19, now).as_millis()).collect();
        assert!(
            waits.windows(2).all(|pair| (490..=510).contains(&(pair[1] - pair[0]))),
            "{waits:?}"
        );
        assert_eq!(Pace::new(&Unwatched, None).pay(1 << 40, now), Duration::ZERO);
    }
}
