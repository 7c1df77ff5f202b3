//! Counters: each thread has its own, added up at the end.

use super::memory::MemoryWatch;
use crate::report::{BackupReport, ResourceUsage, StageTimes};
use capture::walk::SkippedCounts;
use std::time::{Duration, Instant};

/// The counters of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) report: BackupReport,
}

impl Counters {
    /// Adds the counters of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        let (sum, more) = (&mut self.report, &other.report);
        // Wrapping: a thread may subtract what another one counted.
        let add = |left: &mut u64, right: u64| *left = left.wrapping_add(right);
        add(&mut sum.objects_inspected, more.objects_inspected);
        add(&mut sum.objects_backed_up, more.objects_backed_up);
        add(&mut sum.objects_new, more.objects_new);
        add(&mut sum.objects_updated, more.objects_updated);
        add(&mut sum.objects_unchanged, more.objects_unchanged);
        add(&mut sum.objects_read_again, more.objects_read_again);
        add(&mut sum.objects_failed, more.objects_failed);
        add(&mut sum.objects_incomplete, more.objects_incomplete);
        add(&mut sum.objects_skipped, more.objects_skipped);
        add(&mut sum.objects_vanished, more.objects_vanished);
        add(&mut sum.objects_rebound, more.objects_rebound);
        add(&mut sum.objects_expired, more.objects_expired);
        add(&mut sum.objects_deduplicated, more.objects_deduplicated);
        add(&mut sum.objects_encrypted, more.objects_encrypted);
        add(&mut sum.objects_grew_on_compress, more.objects_grew_on_compress);
        add(&mut sum.objects_changed_during_read, more.objects_changed_during_read);
        add(&mut sum.retries, more.retries);
        add(&mut sum.bytes_inspected, more.bytes_inspected);
        add(&mut sum.bytes_processed, more.bytes_processed);
        add(&mut sum.bytes_before_dedup, more.bytes_before_dedup);
        add(&mut sum.bytes_after_dedup, more.bytes_after_dedup);
        add(&mut sum.chunks_total, more.chunks_total);
        add(&mut sum.chunks_new, more.chunks_new);
        sum.transfer_secs += more.transfer_secs;
        add_stages(&mut sum.stages, &more.stages);
    }

    /// Counts a new chunk.
    pub(super) fn count_new(&mut self, bytes: usize) {
        self.report.chunks_new += 1;
        self.report.bytes_after_dedup += bytes as u64;
    }

    /// Counts what the walk skipped and excluded.
    pub(super) fn count_skipped(&mut self, skipped: &SkippedCounts) {
        let by_rule = skipped.by_size + skipped.by_age + skipped.by_nodump;
        self.report.objects_skipped += by_rule;
        self.report.objects_inspected += by_rule;
        self.report.objects_excluded += skipped.by_pattern;
    }
}

fn add_stages(sum: &mut StageTimes, more: &StageTimes) {
    sum.walk_wait_secs += more.walk_wait_secs;
    sum.read_secs += more.read_secs;
    sum.hash_secs += more.hash_secs;
    sum.compressor_wait_secs += more.compressor_wait_secs;
    sum.limit_wait_secs += more.limit_wait_secs;
    sum.reply_wait_secs += more.reply_wait_secs;
    sum.compress_secs += more.compress_secs;
    sum.store_secs += more.store_secs;
    sum.reader_wait_secs += more.reader_wait_secs;
    sum.reorder_wait_secs += more.reorder_wait_secs;
}

/// Adds the seconds that `work` takes to `secs`.
pub(super) fn timed<T>(secs: &mut f64, work: impl FnOnce() -> T) -> T {
    let before = Instant::now();
    let result = work();
    *secs += before.elapsed().as_secs_f64();
    result
}

/// Measures the resources that the process uses from a moment on.
pub(super) struct UsageMeter {
    start: ResourceUsage,
    memory: MemoryWatch,
}

impl UsageMeter {
    pub(super) fn start() -> Self {
        Self { start: usage(), memory: MemoryWatch::start() }
    }

    pub(super) fn read(&self) -> ResourceUsage {
        let (now, start) = (usage(), &self.start);
        ResourceUsage {
            user_secs: now.user_secs - start.user_secs,
            system_secs: now.system_secs - start.system_secs,
            peak_memory_bytes: now.peak_memory_bytes,
            memory_byte_secs: self.memory.byte_secs(),
            minor_faults: now.minor_faults.saturating_sub(start.minor_faults),
            major_faults: now.major_faults.saturating_sub(start.major_faults),
            io_calls: now.io_calls.saturating_sub(start.io_calls),
            disk_read_bytes: now.disk_read_bytes.saturating_sub(start.disk_read_bytes),
            disk_written_bytes: now.disk_written_bytes.saturating_sub(start.disk_written_bytes),
        }
    }
}

/// What the process used so far, except memory over time.
fn usage() -> ResourceUsage {
    let mut cost = ResourceUsage::default();
    if let Ok(stat) = std::fs::read_to_string("/proc/self/stat") {
        read_stat(&stat, &mut cost);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    cost.peak_memory_bytes = field(&status, "VmHWM:") * 1024;
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    cost.io_calls = field(&io, "syscr:") + field(&io, "syscw:");
    cost.disk_read_bytes = field(&io, "\nread_bytes:");
    cost.disk_written_bytes = field(&io, "\nwrite_bytes:");
    cost
}

/// Fields by their number in proc(5): 10 and 12 are faults, 14 and 15 times in ticks.
fn read_stat(stat: &str, cost: &mut ResourceUsage) {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<u64> =
        after_name.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let get = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second() as u32;
    cost.minor_faults = get(10);
    cost.major_faults = get(12);
    cost.user_secs = get(14) as f64 * tick.as_secs_f64();
    cost.system_secs = get(15) as f64 * tick.as_secs_f64();
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}
