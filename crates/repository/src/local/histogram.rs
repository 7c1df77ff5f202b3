//! How long operations on a storage took: counted by all threads, without a lock.

use rustix::time::{ClockId, clock_gettime};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Buckets of a doubling: a figure is at most a quarter too high.
const BUCKETS_A_DOUBLING: usize = 4;
/// From a nanosecond to 2^44 of them, five hours.
const BUCKETS: usize = 44 * BUCKETS_A_DOUBLING;

/// Times of one kind of operation, with the bytes and the processor time of them all.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    bytes: AtomicU64,
    wall_ns: AtomicU64,
    cpu_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// Where a [`Histogram`] was, to be told what came since.
#[derive(Clone)]
pub struct Mark {
    buckets: [u64; BUCKETS],
    sums: [u64; 4],
}

impl Default for Mark {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sums: [0; 4] }
    }
}

/// What a [`Histogram`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Operations.
    pub count: u64,
    /// Bytes of them all.
    pub bytes: u64,
    /// Time of them all, in nanoseconds. Several threads count several times.
    pub wall_ns: u64,
    /// Processor time of the calling threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Half took no longer, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 took no longer, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Without operations.
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            wall_ns: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Does `work` on `bytes` bytes, and counts it.
    pub fn time<T>(&self, bytes: u64, work: impl FnOnce() -> T) -> T {
        let (start, cpu) = (Instant::now(), thread_cpu_ns());
        let done = work();
        self.note(bytes, start.elapsed().as_nanos() as u64, thread_cpu_ns().saturating_sub(cpu));
        done
    }

    fn note(&self, bytes: u64, wall_ns: u64, cpu_ns: u64) {
        self.buckets[bucket(wall_ns)].fetch_add(1, Relaxed);
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.wall_ns.fetch_add(wall_ns, Relaxed);
        self.cpu_ns.fetch_add(cpu_ns, Relaxed);
        self.max_ns.fetch_max(wall_ns, Relaxed);
    }

    /// What it says now.
    pub fn latencies(&self) -> Latencies {
        let max_ns = self.max_ns.load(Relaxed);
        Latencies {
            count: self.count.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            wall_ns: self.wall_ns.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
            p50_ns: self.percentile(50).min(max_ns),
            p99_ns: self.percentile(99).min(max_ns),
            max_ns,
        }
    }

    /// What came since `mark`, which is set to now. The longest is at most a quarter too high.
    pub fn since(&self, mark: &mut Mark) -> Latencies {
        let buckets = self.counts();
        let sums =
            [&self.count, &self.bytes, &self.wall_ns, &self.cpu_ns].map(|sum| sum.load(Relaxed));
        let new: [u64; BUCKETS] =
            std::array::from_fn(|at| buckets[at].saturating_sub(mark.buckets[at]));
        let [count, bytes, wall_ns, cpu_ns] =
            std::array::from_fn(|at| sums[at].saturating_sub(mark.sums[at]));
        *mark = Mark { buckets, sums };
        let last = new.iter().rposition(|count| *count > 0);
        let max_ns = last.map_or(0, highest_of).min(self.max_ns.load(Relaxed));
        let percentile = |percent| percentile(&new, percent).min(max_ns);
        let (p50_ns, p99_ns) = (percentile(50), percentile(99));
        Latencies { count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns }
    }

    fn percentile(&self, percent: u64) -> u64 {
        percentile(&self.counts(), percent)
    }

    fn counts(&self) -> [u64; BUCKETS] {
        self.buckets.each_ref().map(|bucket| bucket.load(Relaxed))
    }
}

fn percentile(counts: &[u64; BUCKETS], percent: u64) -> u64 {
    let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    found.map_or(0, highest_of)
}

impl std::fmt::Display for Latencies {
    /// As [`Latencies::from_str`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns } = self;
        write!(f, "{count} {bytes} {wall_ns} {cpu_ns} {p50_ns} {p99_ns} {max_ns}")
    }
}

impl FromStr for Latencies {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        let numbers: [u64; 7] = numbers.map_err(drop)?.try_into().map_err(drop)?;
        let [count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns] = numbers;
        Ok(Self { count, bytes, wall_ns, cpu_ns, p50_ns, p99_ns, max_ns })
    }
}

/// Buckets are as wide as a quarter of the power of two below them; those of the first numbers are empty.
fn bucket(value: u64) -> usize {
    let value = value.max(BUCKETS_A_DOUBLING as u64);
    let power = value.ilog2() as usize;
    let quarter = (value >> (power - 2)) as usize % BUCKETS_A_DOUBLING;
    (power * BUCKETS_A_DOUBLING + quarter).min(BUCKETS - 1)
}

fn highest_of(bucket: usize) -> u64 {
    let (power, quarter) = (bucket / BUCKETS_A_DOUBLING, bucket % BUCKETS_A_DOUBLING);
    let width = (1_u64 << power) / BUCKETS_A_DOUBLING as u64;
    (1_u64 << power) + (quarter as u64 + 1) * width - 1
}

/// Processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process, in nanoseconds.
pub(super) fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_at_most_a_quarter_too_high() {
        for value in (4..5_000_u64).chain([1 << 30, (1 << 40) + 12_345]) {
            let shown = highest_of(bucket(value));
            assert!(shown >= value && shown <= value + value / 4, "{value} is shown as {shown}");
        }
        assert_eq!(bucket(0), bucket(4));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn half_and_nearly_all_are_told_apart() {
        let histogram = Histogram::new();
        assert_eq!(histogram.latencies(), Latencies::default());
        (0..98).for_each(|_| histogram.note(10, 1_000, 1));
        histogram.note(10, 50_000, 1);
        histogram.note(10, 900_000, 1);
        let found = histogram.latencies();
        assert_eq!((found.count, found.bytes, found.cpu_ns), (100, 1_000, 100));
        assert!((1_000..1_250).contains(&found.p50_ns), "{found:?}");
        assert!((50_000..62_500).contains(&found.p99_ns), "{found:?}");
        assert_eq!(found.max_ns, 900_000);
        assert_eq!(found.to_string().parse(), Ok(found));
        assert!("1 2 3".parse::<Latencies>().is_err());
    }

    #[test]
    fn what_came_since_a_mark_says_nothing_of_what_came_before() {
        let (histogram, mut mark) = (Histogram::new(), Mark::default());
        assert_eq!(histogram.since(&mut mark), Latencies::default());
        (0..100).for_each(|_| histogram.note(10, 1_000_000, 5));
        assert_eq!(histogram.since(&mut mark).count, 100);
        (0..10).for_each(|_| histogram.note(1, 1_000, 2));
        let found = histogram.since(&mut mark);
        assert_eq!((found.count, found.bytes, found.wall_ns, found.cpu_ns), (10, 10, 10_000, 20));
        for figure in [found.p50_ns, found.p99_ns, found.max_ns] {
            assert!((1_000..1_250).contains(&figure), "{found:?}");
        }
        assert_eq!(histogram.since(&mut mark), Latencies::default());
        assert_eq!(histogram.latencies().count, 110);
    }
}
