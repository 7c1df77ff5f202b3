//! Racy files: modified so recently that a later change may not show in their times.
//!
//! A store through a shared mapping changes the times of a file only if it dirties a clean page. A
//! store into a page that is already dirty, after our read, never changes any time. Dirty pages are
//! written back after a known time at most: a file with a younger ctime may change unseen, so it is
//! read again next time.

use format::entry::Time;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;

/// Write-back itself takes its time on a busy disk.
const MARGIN: Duration = Duration::from_secs(25);
/// 30 s + 5 s, what kernels come with, and the margin.
const FALLBACK: Duration = Duration::from_secs(60);

/// How long after its ctime a file is racy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacyWindow(pub Duration);

impl RacyWindow {
    /// Stores within a tick of the clock may leave equal times (4 ms at 250 Hz, 10 ms at 100,
    /// a second and two on old file systems).
    pub(super) const CLOCK_GRAIN: RacyWindow = RacyWindow(Duration::from_secs(2));

    /// For file systems that never write back.
    pub(super) const FOR_EVER: RacyWindow = RacyWindow(Duration::MAX);

    /// From the write-back settings of the kernel: `dirty_expire` + `dirty_writeback` + 25 s. Read
    /// once.
    pub fn of_this_machine() -> Self {
        static WINDOW: OnceLock<Duration> = OnceLock::new();
        RacyWindow(*WINDOW.get_or_init(|| write_back_time().map_or(FALLBACK, |time| time + MARGIN)))
    }
}

fn write_back_time() -> Option<Duration> {
    let expire = centisecs("/proc/sys/vm/dirty_expire_centisecs")?;
    let period = centisecs("/proc/sys/vm/dirty_writeback_centisecs")?;
    // Without a period nothing is written back by age, so there is no bound: use an hour.
    (period > Duration::ZERO).then_some(expire + period).or(Some(Duration::from_secs(3600)))
}

fn centisecs(file: &str) -> Option<Duration> {
    let number: u64 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    Some(Duration::from_millis(number.saturating_mul(10)))
}

/// Whether a file with this ctime, read at `read_time`, is racy. A ctime in the future always is.
pub fn racy(ctime: Time, read_time: Time, window: RacyWindow) -> bool {
    let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    nanos(read_time) - nanos(ctime) < window.0.as_nanos() as i128
}

/// The clock that file times come from.
pub(super) fn now() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    Time { secs: now.tv_sec, nanos: now.tv_nsec as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_and_future_files_are_racy_and_old_ones_are_not() {
        let at = |secs, nanos| Time { secs, nanos };
        let window = RacyWindow(Duration::from_secs(60));
        assert!(racy(at(1000, 0), at(1059, 999_999_999), window));
        assert!(!racy(at(1000, 0), at(1060, 0), window));
        assert!(racy(at(2000, 0), at(1000, 0), window));
        assert!(!racy(at(i64::MIN, 0), at(i64::MAX, 0), window));
        assert!(racy(at(i64::MIN, 0), at(i64::MAX, 0), RacyWindow::FOR_EVER));
    }

    /// Times of a file server are compared with the clock of this machine. It does not matter for
    /// stores through mappings: before it tells the times, the client of a network file system
    /// sends what is dirty, and the server gives it a new time. What is left is a change by
    /// another machine within the same tick of a server that is behind by the whole window
    /// (`docs/FORMAT.md`, F-6.18).
    #[test]
    fn a_file_server_that_is_behind_by_the_window_makes_young_files_look_old() {
        let at = |secs| Time { secs, nanos: 0 };
        let window = RacyWindow(Duration::from_secs(60));
        let (now_here, now_there) = (at(1000), at(940));
        assert!(!racy(now_there, now_here, window));
        assert!(racy(at(941), now_here, window));
    }

    #[test]
    fn the_window_of_this_machine_is_at_least_the_margin() {
        assert!(RacyWindow::of_this_machine().0 >= MARGIN);
    }
}
