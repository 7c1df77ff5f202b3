//! The session report for people: the fields administrators know, then what it cost, then what
//! held it back.

use crate::units::{bytes, clock, count, duration, percent};
use client::report::BackupReport;

/// Width of the labels.
const LABEL_WIDTH: usize = 44;

/// The lines of the report.
pub(crate) fn lines(report: &BackupReport) -> Vec<String> {
    let fields = objects(report).into_iter().chain(amounts(report));
    let mut lines: Vec<_> = fields
        .map(|(label, value)| format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")))
        .collect();
    lines.extend(cost(report));
    lines.push(format!("Where the time went: {}", stages(report)));
    lines.extend(report.bottleneck().map(|why| format!("What held it back: {why}")));
    lines
}

type Field = (&'static str, String);

fn objects(report: &BackupReport) -> Vec<Field> {
    vec![
        ("Total number of objects inspected", count(report.objects_inspected)),
        ("Total number of objects backed up", count(report.objects_backed_up)),
        ("Total number of objects updated", count(report.objects_updated)),
        ("Total number of objects unchanged", unchanged(report)),
        ("Total number of objects failed", count(report.objects_failed)),
        ("Total number of objects incomplete", count(report.objects_incomplete)),
        ("Total number of objects skipped by rule", count(report.objects_skipped)),
        ("Total number of objects excluded", count(report.objects_excluded)),
        ("Total number of objects vanished", count(report.objects_vanished)),
        ("Total number of objects rebound", count(report.objects_rebound)),
        ("Total number of objects deleted", count(report.objects_deleted)),
        ("Total number of objects expired", count(report.objects_expired)),
        ("Total number of objects encrypted", count(report.objects_encrypted)),
        ("Total number of objects deduplicated", count(report.objects_deduplicated)),
        ("Total number of objects grew", count(report.objects_grew_on_compress)),
        ("Total number of objects changed while read", count(report.objects_changed_during_read)),
        ("Total number of retries", count(report.retries)),
    ]
}

/// What was changed a moment before a backup is read again by the next one: its times cannot tell
/// whether it was changed once more in that moment.
fn unchanged(report: &BackupReport) -> String {
    let all = count(report.objects_unchanged);
    match report.objects_read_again {
        0 => all,
        again => format!(
            "{all} (read again, unchanged: {}; had changed just before the last backup)",
            count(again)
        ),
    }
}

fn amounts(report: &BackupReport) -> Vec<Field> {
    let ratios = report.ratios();
    vec![
        ("Total number of bytes inspected", exact(report.bytes_inspected)),
        ("Total number of bytes processed", exact(report.bytes_processed)),
        ("Total bytes before deduplication", exact(report.bytes_before_dedup)),
        ("Total bytes after deduplication", exact(report.bytes_after_dedup)),
        ("Total number of bytes transferred", exact(report.bytes_transferred)),
        ("Data transfer time", format!("{:.2} s", report.transfer_secs)),
        ("Network data transfer rate", format!("{:.2} KiB/s", ratios.network_rate / 1024.0)),
        ("Aggregate data transfer rate", format!("{:.2} KiB/s", ratios.aggregate_rate / 1024.0)),
        ("Objects compressed by", reduced(report.bytes_transferred, report.bytes_after_dedup)),
        ("Deduplication reduction", reduced(report.bytes_after_dedup, report.bytes_before_dedup)),
        ("Total data reduction ratio", reduced(report.bytes_transferred, report.bytes_inspected)),
        (
            "Elapsed processing time",
            format!("{} ({})", clock(report.elapsed_secs), duration(report.elapsed_secs)),
        ),
    ]
}

/// By how much `after` is less than `before`. Of hardly any data the overhead is more than the data, and
/// a part of nothing says nothing.
pub(crate) fn reduced(after: u64, before: u64) -> String {
    match (before, after) {
        (0, 0) => "nothing to reduce".to_owned(),
        (before, after) if after > before => {
            format!("none: {} more than the data, for names and seals", bytes(after - before))
        }
        _ => percent(1.0 - after as f64 / before as f64),
    }
}

fn exact(value: u64) -> String {
    if value < 1024 { bytes(value) } else { format!("{} ({} bytes)", bytes(value), count(value)) }
}

/// Of fewer bytes, calls per GiB say nothing of a GiB.
const PER_GIB_FROM: u64 = 1 << 20;

fn cost(report: &BackupReport) -> [String; 2] {
    let cost = &report.cost;
    let cpu = cost.user_secs + cost.system_secs;
    let calls = cost.io_calls as f64;
    let per_object = calls / report.objects_inspected.max(1) as f64;
    let gib = report.bytes_processed as f64 / f64::from(1 << 30);
    let per_gib = match report.bytes_processed {
        0 => "nothing read".to_owned(),
        1..PER_GIB_FROM => "less than 1 MiB read".to_owned(),
        _ => format!("{:.0} per GiB read", calls / gib),
    };
    [
        format!(
            "Cost: {cpu:.2} CPU s ({:.2} user, {:.2} system), peak memory {}, {:.2} GiB s of memory",
            cost.user_secs,
            cost.system_secs,
            bytes(cost.peak_memory_bytes),
            cost.memory_byte_secs / f64::from(1 << 30),
        ),
        format!(
            "      {} minor and {} major page faults, {} read and write calls ({per_object:.2} per object, {per_gib}), disk: {} read, {} written",
            count(cost.minor_faults),
            count(cost.major_faults),
            count(cost.io_calls),
            bytes(cost.disk_read_bytes),
            bytes(cost.disk_written_bytes),
        ),
    ]
}

fn stages(report: &BackupReport) -> String {
    let stages = &report.stages;
    let named = [
        ("read", stages.read_secs),
        ("hash", stages.hash_secs),
        ("compress", stages.compress_secs),
        ("store", stages.store_secs),
        ("commit", stages.commit_secs),
        ("waits: walk", stages.walk_wait_secs),
        ("compressor", stages.compressor_wait_secs),
        ("replies", stages.reply_wait_secs),
        ("limits", stages.limit_wait_secs),
        ("readers", stages.reader_wait_secs),
        ("reorder", stages.reorder_wait_secs),
    ];
    named.map(|(name, secs)| format!("{name} {secs:.2} s")).join(", ")
}

/// What a dry run found, in one line.
pub(crate) fn planned(report: &BackupReport, bytes_to_read: u64) -> String {
    format!(
        "{} objects ({} new or changed, {} unchanged, {} failed), {} to read",
        count(report.objects_inspected),
        count(report.objects_backed_up + report.objects_updated),
        count(report.objects_unchanged),
        count(report.objects_failed),
        bytes(bytes_to_read),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_say_nothing_are_not_shown() {
        assert_eq!(reduced(25, 100), "75.00 %");
        assert_eq!(reduced(0, 100), "100.00 %");
        assert_eq!(reduced(0, 0), "nothing to reduce");
        assert_eq!(reduced(1165, 2), "none: 1.14 KiB more than the data, for names and seals");
        assert!(!lines(&BackupReport::default()).join("\n").contains("held it back"));
    }

    #[test]
    fn every_field_of_the_seed_is_there() {
        let stages = client::report::StageTimes { read_secs: 9.0, ..Default::default() };
        let text = lines(&BackupReport {
            bytes_inspected: 470_469_000_000,
            stages,
            ..BackupReport::default()
        })
        .join("\n");
        let fields = [
            "objects inspected",
            "objects backed up",
            "objects updated",
            "objects rebound",
            "objects deleted",
            "objects expired",
            "objects failed",
            "objects encrypted",
            "objects deduplicated",
            "objects grew",
            "number of retries",
            "bytes inspected",
            "bytes processed",
            "before deduplication",
            "after deduplication",
            "bytes transferred",
            "Data transfer time",
            "Network data transfer rate",
            "Aggregate data transfer rate",
            "Objects compressed by",
            "Deduplication reduction",
            "Total data reduction ratio",
            "Elapsed processing time",
            "CPU s",
            "peak memory",
            "page faults",
            "per object",
            "What held it back",
        ];
        fields.iter().for_each(|field| assert!(text.contains(field), "{field}"));
        assert!(text.contains("438.16 GiB"));
    }
}
