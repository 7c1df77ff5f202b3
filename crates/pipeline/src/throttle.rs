//! Resource limits of a backup: bytes per second read and written, and a share of the processors.

use crate::Result;
use crate::progress::Progress;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The resource limits of a run; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes per second read from the source.
    pub read_bytes_per_sec: u64,
    /// Bytes per second written to the repository.
    pub write_bytes_per_sec: u64,
    /// The share of all processors of the machine that the process may use, in percent.
    pub cpu_percent: u32,
}

/// The longest sleep between two checks for a cancellation.
const NAP: Duration = Duration::from_millis(100);

/// Enforces the limits of a run; shared by its threads.
pub(crate) struct Throttle<'a> {
    progress: &'a Progress,
    read: Rate,
    write: Rate,
    cpu: CpuShare,
    written: AtomicU64,
}

impl<'a> Throttle<'a> {
    pub(crate) fn new(limits: &ResourceLimits, progress: &'a Progress) -> Self {
        let (read, write) =
            (Rate::new(limits.read_bytes_per_sec), Rate::new(limits.write_bytes_per_sec));
        let (cpu, written) = (CpuShare::new(limits.cpu_percent), AtomicU64::new(0));
        Self { progress, read, write, cpu, written }
    }

    /// Waits because `bytes` of the source are read. Returns the seconds waited.
    pub(crate) fn read(&self, bytes: u64) -> Result<f64> {
        self.wait(self.read.due(bytes).max(self.cpu.due()))
    }

    /// Waits after a write to the repository; `total` is what all threads wrote in this run.
    /// Returns the seconds waited.
    pub(crate) fn wrote(&self, total: u64) -> Result<f64> {
        let bytes = total.saturating_sub(self.written.fetch_max(total, Ordering::Relaxed));
        self.wait(self.write.due(bytes).max(self.cpu.due()))
    }

    fn wait(&self, due: Duration) -> Result<f64> {
        let (begun, mut left) = (Instant::now(), due);
        while !left.is_zero() {
            self.progress.check()?;
            std::thread::sleep(left.min(NAP));
            left = due.saturating_sub(begun.elapsed());
        }
        Ok(due.as_secs_f64())
    }
}

/// A limit in bytes per second.
struct Rate {
    bytes_per_sec: u64,
    /// When the bytes let through so far are within the rate.
    paid: Mutex<Instant>,
}

impl Rate {
    fn new(bytes_per_sec: u64) -> Self {
        Self { bytes_per_sec, paid: Mutex::new(Instant::now()) }
    }

    /// How long to wait for `bytes` more; later callers wait longer.
    fn due(&self, bytes: u64) -> Duration {
        if self.bytes_per_sec == 0 || bytes == 0 {
            return Duration::ZERO;
        }
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_sec as f64);
        let mut paid = self.paid.lock();
        let now = Instant::now();
        // Idle time is not saved up: there are no bursts above the rate.
        *paid = (*paid).max(now) + cost;
        paid.saturating_duration_since(now)
    }
}

/// Processor time of the process, all threads together.
struct CpuShare {
    /// The number of processors to use; 0 for all.
    processors: f64,
    begun: Instant,
    used: Duration,
}

impl CpuShare {
    fn new(percent: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = f64::from(percent.min(100) % 100) / 100.0 * cores as f64;
        Self { processors, begun: Instant::now(), used: cpu_time() }
    }

    /// How long to sleep to stay within the share.
    fn due(&self) -> Duration {
        if self.processors == 0.0 {
            return Duration::ZERO;
        }
        self.due_after(cpu_time().saturating_sub(self.used), self.begun.elapsed())
    }

    fn due_after(&self, used: Duration, elapsed: Duration) -> Duration {
        used.div_f64(self.processors).saturating_sub(elapsed)
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_by_all_threads_together() {
        let progress = Progress::default();
        let limits = ResourceLimits { read_bytes_per_sec: 1_000_000, ..ResourceLimits::default() };
        let (throttle, begun) = (Throttle::new(&limits, &progress), Instant::now());
        std::thread::scope(|scope| {
            (0..4).for_each(|_| {
                scope.spawn(|| (0..5).map(|_| throttle.read(10_000).unwrap()).sum::<f64>());
            });
        });
        let secs = begun.elapsed().as_secs_f64();
        assert!((0.19..20.0).contains(&secs), "200,000 bytes took {secs} s at 1,000,000 a second");
    }

    #[test]
    fn no_cap_costs_nothing() {
        let (progress, begun) = (Progress::default(), Instant::now());
        let throttle = Throttle::new(&ResourceLimits::default(), &progress);
        assert_eq!(throttle.read(u64::MAX).unwrap() + throttle.wrote(u64::MAX).unwrap(), 0.0);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn who_waits_is_cancelled() {
        let progress = Progress::default();
        let limits = ResourceLimits { write_bytes_per_sec: 1, ..ResourceLimits::default() };
        let throttle = Throttle::new(&limits, &progress);
        progress.cancel.store(true, Ordering::Relaxed);
        assert!(matches!(throttle.wrote(1_000_000), Err(crate::Error::Cancelled)));
    }

    #[test]
    fn who_used_more_than_its_share_rests() {
        let share = CpuShare::new(50);
        let full = Duration::from_secs_f64(share.processors);
        assert_eq!(share.due_after(full, Duration::from_millis(400)), Duration::from_millis(600));
        assert_eq!(share.due_after(full, Duration::from_secs(1)), Duration::ZERO);
        assert!(CpuShare::new(100).due().is_zero() && CpuShare::new(0).due().is_zero());
    }
}
