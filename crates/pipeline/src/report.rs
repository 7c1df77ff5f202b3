//! The report of a backup: counters and ratios as administrators know them from other products, the
//! time by stage, and the resources used.

use serde::{Deserialize, Serialize};

/// The counters of a backup. Rates and ratios are computed from them, see [`BackupReport::ratios`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupReport {
    /// Objects that were inspected: backed up + updated + unchanged + failed + skipped.
    pub objects_inspected: u64,
    /// Objects that are new, or whose content changed.
    pub objects_backed_up: u64,
    /// New objects among these: not in the previous snapshot. With `--full` nothing is compared,
    /// and all count. 0 in reports of earlier versions.
    pub objects_new: u64,
    /// Objects of which only the attributes changed.
    pub objects_updated: u64,
    /// Objects that are as they were in the previous snapshot.
    pub objects_unchanged: u64,
    /// Unchanged objects that had to be read again to know: racy ones, or all with `--full`.
    pub objects_read_again: u64,
    /// Objects that could not be read.
    pub objects_failed: u64,
    /// Objects stored without some bytes or extended attributes, which could not be read.
    pub objects_incomplete: u64,
    /// Objects skipped by a rule (size, age, `nodump`) after they were inspected.
    pub objects_skipped: u64,
    /// Objects excluded by a pattern; not inspected.
    pub objects_excluded: u64,
    /// Directories whose content is not in the snapshot because of a tag in them, such as `CACHEDIR.TAG`.
    pub directories_tagged: u64,
    /// Directories that were not entered: of other file systems, of pseudo file systems, or their own parents.
    pub directories_not_entered: u64,
    /// Objects that vanished before they could be read; not counted as inspected.
    pub objects_vanished: u64,
    /// Objects of the previous snapshot that no longer exist.
    pub objects_expired: u64,
    /// Always 0: a backup never deletes sources.
    pub objects_deleted: u64,
    /// Objects of the previous snapshot that belong to another class now.
    pub objects_rebound: u64,
    /// Objects whose chunks were all stored already.
    pub objects_deduplicated: u64,
    /// Objects with at least one new chunk, sealed in this run.
    pub objects_encrypted: u64,
    /// Objects stored uncompressed because compression did not help.
    pub objects_grew_on_compress: u64,
    /// Objects that changed while they were read.
    pub objects_changed_during_read: u64,
    /// How often an object was read again because it changed meanwhile.
    pub retries: u64,
    /// Bytes of all objects inspected.
    pub bytes_inspected: u64,
    /// Bytes read.
    pub bytes_processed: u64,
    /// Bytes of files before deduplication.
    pub bytes_before_dedup: u64,
    /// Bytes of chunks that were new.
    pub bytes_after_dedup: u64,
    /// Bytes written to the repository, with all overhead except the record of the snapshot itself.
    pub bytes_transferred: u64,
    /// Bytes of new tree pages, before compression.
    pub bytes_of_pages: u64,
    /// All chunks of the files that were read.
    pub chunks_total: u64,
    /// Chunks that were new.
    pub chunks_new: u64,
    /// Seconds spent writing records to the storage, summed over threads.
    pub transfer_secs: f64,
    /// Wall time of the whole backup, in seconds.
    pub elapsed_secs: f64,
    /// The time of the threads by stage.
    pub stages: StageTimes,
    /// The resources that the process used.
    pub cost: ResourceUsage,
}

/// Seconds by stage, summed over threads; `*_wait_secs` are times in which a thread had nothing to
/// do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTimes {
    /// The ordering thread waits for the walk.
    pub walk_wait_secs: f64,
    /// Opening, reading and closing files.
    pub read_secs: f64,
    /// Chunking and hashing, and looking up what is stored.
    pub hash_secs: f64,
    /// Threads wait for a free compressor.
    #[serde(alias = "press_wait_secs")]
    pub compressor_wait_secs: f64,
    /// Compressing and sealing.
    pub compress_secs: f64,
    /// Writing records to the storage.
    pub store_secs: f64,
    /// Threads wait because of the resource limits that were set.
    pub limit_wait_secs: f64,
    /// Threads wait for replies of the server to claims.
    #[serde(alias = "answer_wait_secs")]
    pub reply_wait_secs: f64,
    /// Readers wait for work.
    pub reader_wait_secs: f64,
    /// The ordering thread waits for readers.
    #[serde(alias = "order_wait_secs")]
    pub reorder_wait_secs: f64,
    /// Making the snapshot durable and publishing it.
    pub commit_secs: f64,
}

/// The resources that a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceUsage {
    /// Processor seconds in user mode.
    pub user_secs: f64,
    /// Processor seconds in the kernel.
    pub system_secs: f64,
    /// Peak resident memory, in bytes.
    pub peak_memory_bytes: u64,
    /// Resident memory integrated over time, in byte seconds, sampled ten times a second.
    pub memory_byte_secs: f64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults that read the disk.
    pub major_faults: u64,
    /// System calls that read or write files and sockets (`syscr` and `syscw` of `/proc/self/io`);
    /// opening files, reading attributes and the like are not included.
    pub io_calls: u64,
    /// Bytes read from the disk.
    pub disk_read_bytes: u64,
    /// Bytes written to the disk.
    pub disk_written_bytes: u64,
}

/// With less measured time than this, summed over threads, no bottleneck is named.
const MEASURED_SECS_MIN: f64 = 0.5;

/// Ratios and rates of a backup, in bytes per second and as fractions of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Bytes transferred per second of transfer time.
    pub network_rate: f64,
    /// Bytes transferred per second of elapsed time.
    pub aggregate_rate: f64,
    /// 1 - transferred / after deduplication.
    pub compressed_by: f64,
    /// 1 - after / before deduplication.
    pub dedup_reduction: f64,
    /// 1 - transferred / inspected; 1 if nothing had to be sent.
    pub total_reduction: f64,
}

impl BackupReport {
    /// The ratios and rates of these counters.
    pub fn ratios(&self) -> Ratios {
        let transferred = self.bytes_transferred as f64;
        Ratios {
            network_rate: per(transferred, self.transfer_secs),
            aggregate_rate: per(transferred, self.elapsed_secs),
            compressed_by: reduction(self.bytes_transferred, self.bytes_after_dedup),
            dedup_reduction: reduction(self.bytes_after_dedup, self.bytes_before_dedup),
            total_reduction: reduction(self.bytes_transferred, self.bytes_inspected),
        }
    }

    /// Whether the counters of objects add up to `objects_inspected`.
    pub fn adds_up(&self) -> bool {
        let parts = self.objects_backed_up
            + self.objects_updated
            + self.objects_unchanged
            + self.objects_failed
            + self.objects_skipped;
        parts == self.objects_inspected
    }

    /// The bottleneck and how to remove it, in one line; `None` if too little was measured.
    pub fn bottleneck(&self) -> Option<String> {
        let stages = &self.stages;
        let candidates = [
            (
                stages.walk_wait_secs,
                "walking the source",
                "more reader threads (--threads) on network file systems",
            ),
            (
                stages.read_secs,
                "reading files",
                "faster source disks, or a higher --threads if the disks are idle",
            ),
            (stages.hash_secs, "chunking and hashing", "more processor cores"),
            (stages.compress_secs, "compressing", "more processor cores, or a lower --compression"),
            (stages.store_secs, "writing to the repository", "a faster repository disk"),
            (
                stages.commit_secs,
                "making the snapshot durable",
                "a repository disk with faster syncs, or a server or bucket that answers faster",
            ),
            (
                stages.reply_wait_secs,
                "waiting for replies of the server",
                "a less busy server, or a network with lower latency",
            ),
            (stages.limit_wait_secs, "waiting because of limits", "higher --limit-* values"),
        ];
        let total: f64 = candidates.iter().map(|(secs, ..)| secs).sum();
        let largest = candidates.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (secs, what, advice) = largest.filter(|_| total >= MEASURED_SECS_MIN)?;
        let percent = 100.0 * secs / total;
        Some(format!(
            "{percent:.0} % of the time was spent {what} ({secs:.1} s of all threads together); what helps: {advice}"
        ))
    }
}

fn per(amount: f64, secs: f64) -> f64 {
    if secs > 0.0 { amount / secs } else { 0.0 }
}

/// `1 - after / before`; 1 when nothing came out of something, 0 when there was nothing.
fn reduction(after: u64, before: u64) -> f64 {
    if before == 0 { 0.0 } else { 1.0 - after as f64 / before as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottleneck_is_named_when_it_was_measured() {
        let stages =
            StageTimes { reply_wait_secs: 0.01, read_secs: 0.002, ..StageTimes::default() };
        assert_eq!(BackupReport { stages, ..BackupReport::default() }.bottleneck(), None);
        assert_eq!(BackupReport::default().bottleneck(), None);
        let stages = StageTimes { reply_wait_secs: 0.01, read_secs: 2.0, ..StageTimes::default() };
        let said = BackupReport { stages, ..BackupReport::default() }.bottleneck().unwrap();
        assert!(said.contains("100 % of the time was spent reading files"), "{said}");
    }

    /// The figures of a report of another product, in bytes.
    #[test]
    fn a_known_report_is_computed_alike() {
        let gib = |value: f64| (value * 1024.0 * 1024.0 * 1024.0) as u64;
        let report = BackupReport {
            bytes_inspected: gib(438.16),
            bytes_before_dedup: gib(419.78),
            bytes_after_dedup: gib(262.49),
            bytes_transferred: gib(171.40),
            transfer_secs: 6_982.41,
            elapsed_secs: 89_778.0,
            ..BackupReport::default()
        };
        let ratios = report.ratios();
        let percent = |value: f64| (value * 10_000.0).round() / 100.0;
        assert_eq!(percent(ratios.dedup_reduction), 37.47);
        assert_eq!(percent(ratios.total_reduction), 60.88);
        assert!((ratios.aggregate_rate / 1024.0 - 2_001.94).abs() < 0.5);
        assert!((ratios.network_rate / 1024.0 - 25_740.56).abs() < 5.0);
    }

    #[test]
    fn a_run_without_changes_reduces_all_of_it() {
        let report = BackupReport { bytes_inspected: 5, ..BackupReport::default() };
        assert_eq!(report.ratios().total_reduction, 1.0);
        assert_eq!(BackupReport::default().ratios().total_reduction, 0.0);
    }
}
