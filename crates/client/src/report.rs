//! What a backup did: the session report, with the fields and formulas that administrators know
//! from the first seed, plus where the time went and what it cost.

use serde::{Deserialize, Serialize};

/// Counters of a backup. Rates and ratios are computed from them, see [`BackupReport::ratios`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupReport {
    /// Objects that the walk met: backed up + updated + unchanged + failed + skipped.
    pub objects_inspected: u64,
    /// Objects whose content was read and stored, or that are new.
    pub objects_backed_up: u64,
    /// Part of these that the snapshot before does not have. With `--full` nothing is compared, and all of them count;
    /// 0 in snapshots of earlier versions.
    pub objects_new: u64,
    /// Objects of which only attributes changed.
    pub objects_updated: u64,
    /// Objects taken over from the snapshot before.
    pub objects_unchanged: u64,
    /// Part of these that were read again and found the same: changed a moment before the snapshot before, or
    /// with `--full`.
    pub objects_read_again: u64,
    /// Objects that could not be read.
    pub objects_failed: u64,
    /// Objects of which bytes or extended attributes are missing; stored without them.
    pub objects_incomplete: u64,
    /// Objects left out by a rule after they were inspected.
    pub objects_skipped: u64,
    /// Objects left out by a pattern before anything was asked of them; not inspected.
    pub objects_excluded: u64,
    /// Objects that were gone when they were to be read; not inspected any more.
    pub objects_vanished: u64,
    /// Objects of the snapshot before that are no more.
    pub objects_expired: u64,
    /// Always 0: a backup never deletes sources.
    pub objects_deleted: u64,
    /// Always 0: there are no management classes.
    pub objects_rebound: u64,
    /// Objects all of whose stored chunks were there already.
    pub objects_deduplicated: u64,
    /// Objects with content that was sealed in this run.
    pub objects_encrypted: u64,
    /// Objects stored raw since compressing them did not pay.
    pub objects_grew_on_compress: u64,
    /// Objects that changed while they were read.
    pub objects_changed_during_read: u64,
    /// Readings that were repeated since the object changed.
    pub retries: u64,
    /// Bytes of all objects inspected.
    pub bytes_inspected: u64,
    /// Bytes read.
    pub bytes_processed: u64,
    /// Bytes of files before deduplication.
    pub bytes_before_dedup: u64,
    /// Bytes of chunks that were new.
    pub bytes_after_dedup: u64,
    /// Bytes written to the repository, with all overhead but the snapshot's own record.
    pub bytes_transferred: u64,
    /// Bytes of tree pages that were new, before compression.
    pub bytes_of_pages: u64,
    /// Chunks asked for.
    pub chunks_total: u64,
    /// Chunks that were new.
    pub chunks_new: u64,
    /// Time spent handing records to the storage, summed over threads.
    pub transfer_secs: f64,
    /// Wall time of the whole backup.
    pub elapsed_secs: f64,
    /// Where the time of the threads went.
    pub stages: StageTimes,
    /// What it cost the machine.
    pub cost: ResourceUsage,
}

/// Seconds by stage, summed over threads; `*_wait` is time in which a thread had nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTimes {
    /// The ordering thread waits for the walk.
    pub walk_wait_secs: f64,
    /// Reading files, with opening and closing.
    pub read_secs: f64,
    /// Cutting and hashing, asking what is there.
    pub hash_secs: f64,
    /// Readers wait until a core is free to compress.
    #[serde(alias = "press_wait_secs")]
    pub compressor_wait_secs: f64,
    /// Compressing and sealing.
    pub compress_secs: f64,
    /// Handing records to the storage.
    pub store_secs: f64,
    /// Threads wait because of the caps that were asked for.
    pub limit_wait_secs: f64,
    /// Readers wait for the server to say what it has.
    #[serde(alias = "answer_wait_secs")]
    pub reply_wait_secs: f64,
    /// Readers wait for work.
    pub reader_wait_secs: f64,
    /// The ordering thread waits for readers.
    #[serde(alias = "order_wait_secs")]
    pub reorder_wait_secs: f64,
    /// Making it durable and publishing it.
    pub commit_secs: f64,
}

/// What a run cost the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceUsage {
    /// Processor seconds in the program.
    pub user_secs: f64,
    /// Processor seconds in the kernel for it.
    pub system_secs: f64,
    /// Largest memory in use in bytes.
    pub peak_memory_bytes: u64,
    /// Memory in use, added up over the time it was, in byte seconds: looked at ten times a second.
    pub memory_byte_secs: f64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults that read the disk.
    pub major_faults: u64,
    /// System calls that read or wrote, files and sockets (`syscr` and `syscw` of `/proc/self/io`): of
    /// all calls a part, without opening, asking for attributes and the like.
    pub io_calls: u64,
    /// Bytes that had to come from the disk.
    pub disk_read_bytes: u64,
    /// Bytes that were sent to the disk.
    pub disk_written_bytes: u64,
}

/// Less work than this, summed over threads, tells nothing of what held a backup back.
const MEASURED_SECS_MIN: f64 = 0.5;

/// Ratios and rates, by the formulas of the seed (1 KB = 1,024 bytes there).
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
    /// 1 - transferred / inspected. All of it when nothing had to be sent.
    pub total_reduction: f64,
}

impl BackupReport {
    /// Ratios and rates of these counters.
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

    /// Whether the counts add up.
    pub fn adds_up(&self) -> bool {
        let parts = self.objects_backed_up
            + self.objects_updated
            + self.objects_unchanged
            + self.objects_failed
            + self.objects_skipped;
        parts == self.objects_inspected
    }

    /// One line: what held this backup back, and what would help; nothing when too little was measured
    /// to say.
    pub fn bottleneck(&self) -> Option<String> {
        let stages = &self.stages;
        let candidates = [
            (
                stages.walk_wait_secs,
                "walking the source",
                "more reader threads help on network file systems; a change journal would skip the walk",
            ),
            (
                stages.read_secs,
                "reading files",
                "faster source disks, or --threads higher if the disks are idle",
            ),
            (stages.hash_secs, "cutting and hashing", "more processor cores"),
            (stages.compress_secs, "compressing", "more processor cores, or a lower --compression"),
            (stages.store_secs, "writing to the repository", "a faster repository disk"),
            (stages.commit_secs, "making it durable", "a repository disk with faster syncs"),
            (
                stages.reply_wait_secs,
                "waiting for the server's answers",
                "a server with less to do, or a shorter way to it",
            ),
            (stages.limit_wait_secs, "waiting for its own limits", "higher --limit-* values"),
        ];
        let total: f64 = candidates.iter().map(|(secs, ..)| secs).sum();
        let largest = candidates.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (secs, what, advice) = largest.filter(|_| total >= MEASURED_SECS_MIN)?;
        let percent = 100.0 * secs / total;
        Some(format!("{percent:.0} % of the work was {what} ({secs:.1} s); what helps: {advice}"))
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
    fn what_held_a_backup_back_is_said_when_it_was_measured() {
        let stages =
            StageTimes { reply_wait_secs: 0.01, read_secs: 0.002, ..StageTimes::default() };
        assert_eq!(BackupReport { stages, ..BackupReport::default() }.bottleneck(), None);
        assert_eq!(BackupReport::default().bottleneck(), None);
        let stages = StageTimes { reply_wait_secs: 0.01, read_secs: 2.0, ..StageTimes::default() };
        let said = BackupReport { stages, ..BackupReport::default() }.bottleneck().unwrap();
        assert!(said.contains("100 % of the work was reading files"), "{said}");
    }

    /// The figures of the first seed, in bytes.
    #[test]
    fn the_seeds_report_is_computed_alike() {
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
