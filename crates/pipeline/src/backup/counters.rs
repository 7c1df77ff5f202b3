//! Counters: each thread has its own, added up at the end.

use super::memory::MemoryWatch;
use crate::report::{BackupReport, ResourceUsage, StageTimes};
use capture::walk::SkippedCounts;
use std::time::{Duration, Instant};

/// A counter that threads share.
trait Sum: Copy {
    fn join(&mut self, more: Self);
}

impl Sum for u64 {
    /// Wrapping: a thread may subtract what another one counted.
    fn join(&mut self, more: Self) {
        *self = self.wrapping_add(more);
    }
}

impl Sum for f64 {
    fn join(&mut self, more: Self) {
        *self += more;
    }
}

/// Adds `$more` to `$sum`, both of type `$type`. A field that is in neither list does not compile: without its sum, what
/// all threads but one counted would be lost in silence.
macro_rules! add_fields {
    ($type:ident, $sum:expr, $more:expr, added: [$($field:ident),* $(,)?], left: [$($other:ident),* $(,)?]) => {{
        let $type { $($field,)* $($other: _,)* } = $more;
        $(Sum::join(&mut $sum.$field, *$field);)*
    }};
}

/// The counters of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) report: BackupReport,
}

impl Counters {
    /// Adds the counters of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        add_report(&mut self.report, &other.report);
        add_stages(&mut self.report.stages, &other.report.stages);
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
        self.report.directories_tagged += skipped.tagged_directories;
        self.report.directories_not_entered += skipped.not_entered;
    }
}

/// What is left was counted once for the whole backup.
fn add_report(sum: &mut BackupReport, more: &BackupReport) {
    add_fields!(
        BackupReport,
        sum,
        more,
        added: [
            objects_inspected,
            objects_backed_up,
            objects_new,
            objects_updated,
            objects_unchanged,
            objects_read_again,
            objects_failed,
            objects_incomplete,
            objects_skipped,
            objects_vanished,
            objects_rebound,
            objects_expired,
            objects_deduplicated,
            objects_encrypted,
            objects_grew_on_compress,
            objects_changed_during_read,
            retries,
            bytes_inspected,
            bytes_processed,
            bytes_before_dedup,
            bytes_after_dedup,
            chunks_total,
            chunks_new,
            transfer_secs,
        ],
        left: [
            objects_excluded,
            directories_tagged,
            directories_not_entered,
            objects_deleted,
            bytes_transferred,
            bytes_of_pages,
            elapsed_secs,
            stages,
            cost,
        ]
    );
}

fn add_stages(sum: &mut StageTimes, more: &StageTimes) {
    add_fields!(
        StageTimes,
        sum,
        more,
        added: [
            walk_wait_secs,
            read_secs,
            hash_secs,
            compressor_wait_secs,
            compress_secs,
            store_secs,
            limit_wait_secs,
            reply_wait_secs,
            reader_wait_secs,
            reorder_wait_secs,
        ],
        left: [commit_secs]
    );
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
