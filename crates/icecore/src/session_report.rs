//! The report of a backup for people: a summary of a few lines, or every field.

use crate::units::{bytes, clock, count, duration, exact_bytes, many, percent, rate};
use crate::{escape, width};
use pipeline::report::BackupReport;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Failed paths that the summary names; all of them were reported when they failed.
const FAILED_MAX: usize = 3;
/// Nobody needs advice on how a shorter backup would be faster.
const BOTTLENECK_SECS_MIN: f64 = 5.0;
/// Width of the labels of the summary.
const SHORT_WIDTH: usize = 12;

/// Objects that could not be read or written, for the end of a summary.
#[derive(Default)]
pub(crate) struct Failed {
    count: AtomicU64,
    /// The first of them: path and reason.
    first: Mutex<Vec<(String, String)>>,
}

/// Reasons stand below each other, behind paths of at most this width.
const PATH_WIDTH_MAX: usize = 60;

impl Failed {
    /// Notes an object, and why it failed.
    pub(crate) fn note(&self, path: &[u8], reason: &str) {
        self.count.fetch_add(1, Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() < FAILED_MAX {
            first.push((escape::escape(path), escape::text(reason)));
        }
    }

    /// The heading that `heading` makes of their number, and the first of them; `others` says where the rest is.
    /// Nothing when there are none.
    pub(crate) fn lines(&self, heading: impl FnOnce(u64) -> String, others: &str) -> Vec<String> {
        let all = self.count.load(Relaxed);
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if all == 0 {
            return Vec::new();
        }
        let widest = first.iter().map(|(path, _)| width::columns(path)).max().unwrap_or(0);
        let widest = widest.min(PATH_WIDTH_MAX); // one long path makes no other line long
        let mut lines = vec![heading(all)];
        lines.extend(
            first
                .iter()
                .map(|(path, reason)| format!("    {}  {reason}", width::pad_right(path, widest))),
        );
        let more = all - first.len() as u64;
        if more > 0 {
            lines.push(format!("    and {} more: {others}", count(more)));
        }
        lines
    }
}

/// What a backup came to.
pub(crate) struct Saved<'a> {
    pub(crate) report: &'a BackupReport,
    /// Enough of the snapshot's id to name it.
    pub(crate) id: &'a str,
    pub(crate) node: &'a str,
    pub(crate) is_partial: bool,
    /// Nothing had changed: the snapshot is the one before.
    pub(crate) is_skipped: bool,
    /// Nothing was compared with the snapshot before.
    pub(crate) is_full: bool,
    /// What slowed the job down in the network.
    pub(crate) network: Option<String>,
    pub(crate) failed: &'a Failed,
}

impl Saved<'_> {
    /// At most twelve lines; what is zero is not said.
    pub(crate) fn lines(&self) -> Vec<String> {
        let report = self.report;
        let row = |label: &str, text: String| format!("  {label:<SHORT_WIDTH$}{text}");
        let mut lines = vec![self.first()];
        lines.push(row("objects", self.objects()));
        lines.push(row("data", data(report)));
        lines.extend(also(report).map(|text| row("also", text)));
        let is_long = report.elapsed_secs >= BOTTLENECK_SECS_MIN;
        let bottleneck = report.bottleneck().filter(|_| is_long);
        lines.extend(bottleneck.map(|text| row("bottleneck", text)));
        lines.extend(self.network.clone().map(|text| row("network", text)));
        let failed =
            |count| format!("  {} could not be read completely (exit 3):", many(count, "object"));
        lines.extend(self.failed.lines(failed, &format!("icecore map --failed {}", self.id)));
        if !self.is_skipped {
            lines.push(row("report", format!("icecore stats --report {}", self.id)));
        }
        lines
    }

    fn first(&self) -> String {
        let Self { id, node, .. } = self;
        let took = duration(self.report.elapsed_secs);
        if self.is_skipped {
            return format!(
                "Nothing has changed since snapshot {id} of {node}: no new one was made ({took})"
            );
        }
        let partial = if self.is_partial { "partial " } else { "" };
        format!("Saved {partial}snapshot {id} of {node} in {took}")
    }

    fn objects(&self) -> String {
        let report = self.report;
        let changed =
            (report.objects_backed_up + report.objects_updated).saturating_sub(report.objects_new);
        let parts = if self.is_full {
            vec![(report.objects_backed_up + report.objects_updated, "read again (--full)")]
        } else {
            vec![(report.objects_new, "new"), (changed, "changed")]
        };
        // What was changed a moment before a backup is read again by the next one: its times cannot tell whether it was
        // changed once more in that moment.
        let again = report.objects_read_again.min(report.objects_unchanged);
        let mut parts = named(&parts);
        parts.extend(named(&[
            (report.objects_unchanged - again, "unchanged"),
            (again, "read again, unchanged"),
            (report.objects_failed, "failed"),
            (report.objects_expired, "gone since the last backup"),
        ]));
        format!("{}: {}", count(report.objects_inspected), parts.join(" · "))
    }
}

/// Those that are not zero.
fn named(parts: &[(u64, &str)]) -> Vec<String> {
    let some = parts.iter().filter(|(amount, _)| *amount > 0);
    some.map(|(amount, what)| format!("{} {what}", count(*amount))).collect()
}

fn data(report: &BackupReport) -> String {
    let mut parts = Vec::new();
    if report.bytes_processed > 0 {
        let per_sec = report.bytes_processed as f64 / report.elapsed_secs.max(0.001);
        parts.push(format!("{} read ({})", bytes(report.bytes_processed), rate(per_sec)));
    }
    if report.bytes_after_dedup > 0 {
        parts.push(format!("{} new", bytes(report.bytes_after_dedup)));
    }
    if report.bytes_transferred > 0 {
        let ratio = report.bytes_after_dedup as f64 / report.bytes_transferred as f64;
        let ratio =
            if ratio >= 1.05 { format!(" (compressed {ratio:.1}×)") } else { String::new() };
        parts.push(format!("{} stored{ratio}", bytes(report.bytes_transferred)));
    }
    format!("{}: {}", bytes(report.bytes_inspected), parts.join(" · "))
        .trim_end_matches(": ")
        .to_owned()
}

/// What rules kept out, and what changed under the backup's hands.
fn also(report: &BackupReport) -> Option<String> {
    let parts = named(&[
        (report.objects_incomplete, "stored without all of their bytes or attributes"),
        (report.objects_changed_during_read, "changed while they were read"),
        (report.objects_vanished, "vanished before they were read"),
        (report.objects_excluded, "excluded by pattern"),
        (report.objects_skipped, "left out by size, age or nodump"),
    ]);
    let directories = [
        (report.directories_tagged, "whose content a tag leaves out (CACHEDIR.TAG)"),
        (report.directories_not_entered, "of other file systems or of the kernel, not entered"),
    ];
    let directories = directories.into_iter().filter(|(number, _)| *number > 0);
    let directories =
        directories.map(|(number, what)| format!("{} {what}", many(number, "directory")));
    let parts: Vec<_> = parts.into_iter().chain(directories).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// What a dry run found, in one line.
pub(crate) fn planned(report: &BackupReport, bytes_to_read: u64) -> String {
    let changed =
        (report.objects_backed_up + report.objects_updated).saturating_sub(report.objects_new);
    let parts = named(&[
        (report.objects_new, "new"),
        (changed, "changed or to be read again"),
        (report.objects_unchanged, "unchanged"),
        (report.objects_failed, "failed"),
        (report.objects_skipped, "left out by size, age or nodump"),
    ]);
    format!(
        "Would back up {}: {}; {} to read",
        many(report.objects_inspected.saturating_sub(report.objects_skipped), "object"),
        parts.join(" · "),
        bytes(bytes_to_read),
    )
}

/// Width of the labels.
const LABEL_WIDTH: usize = 44;

/// Every field of the report, a line each.
pub(crate) fn lines(report: &BackupReport) -> Vec<String> {
    let fields = objects(report).into_iter().chain(amounts(report));
    let mut lines: Vec<_> = fields
        .map(|(label, value)| format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")))
        .collect();
    lines.extend(cost(report));
    lines.push(format!("Where the time went: {}", stages(report)));
    lines.extend(report.bottleneck().map(|why| format!("Bottleneck: {why}")));
    lines
}

type Field = (&'static str, String);

fn objects(report: &BackupReport) -> Vec<Field> {
    vec![
        ("Total number of objects inspected", count(report.objects_inspected)),
        ("Total number of objects backed up", count(report.objects_backed_up)),
        ("  of these new", count(report.objects_new)),
        ("Total number of objects updated", count(report.objects_updated)),
        ("Total number of objects unchanged", count(report.objects_unchanged)),
        ("  of these read again", count(report.objects_read_again)),
        ("Total number of objects failed", count(report.objects_failed)),
        ("Total number of objects incomplete", count(report.objects_incomplete)),
        ("Total number of objects skipped by rule", count(report.objects_skipped)),
        ("Total number of objects excluded", count(report.objects_excluded)),
        ("Total number of directories with a tag", count(report.directories_tagged)),
        ("Total number of directories not entered", count(report.directories_not_entered)),
        ("Total number of objects vanished", count(report.objects_vanished)),
        ("Total number of objects rebound", count(report.objects_rebound)),
        ("Total number of objects deleted", count(report.objects_deleted)),
        ("Total number of objects expired", count(report.objects_expired)),
        ("Total number of objects encrypted", count(report.objects_encrypted)),
        ("Total number of objects deduplicated", count(report.objects_deduplicated)),
        ("Total number of objects grown", count(report.objects_grew_on_compress)),
        ("Total number of objects changed while read", count(report.objects_changed_during_read)),
        ("Total number of retries", count(report.retries)),
    ]
}

fn amounts(report: &BackupReport) -> Vec<Field> {
    let ratios = report.ratios();
    vec![
        ("Total number of bytes inspected", exact_bytes(report.bytes_inspected)),
        ("Total number of bytes processed", exact_bytes(report.bytes_processed)),
        ("Total bytes before deduplication", exact_bytes(report.bytes_before_dedup)),
        ("Total bytes after deduplication", exact_bytes(report.bytes_after_dedup)),
        ("Total number of bytes transferred", exact_bytes(report.bytes_transferred)),
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
            format!("none: {} more than the data, for names and encryption", bytes(after - before))
        }
        _ => percent(1.0 - after as f64 / before as f64),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_say_nothing_are_not_shown() {
        assert_eq!(reduced(25, 100), "75.00 %");
        assert_eq!(reduced(0, 100), "100.00 %");
        assert_eq!(reduced(0, 0), "nothing to reduce");
        assert_eq!(reduced(1165, 2), "none: 1.14 KiB more than the data, for names and encryption");
        assert!(!lines(&BackupReport::default()).join("\n").contains("Bottleneck"));
    }

    #[test]
    fn a_long_path_that_failed_makes_no_other_line_long() {
        let failed = Failed::default();
        failed.note(b"/short", "is gone");
        failed.note("/a".repeat(2000).as_bytes(), "is gone");
        let lines = failed.lines(|_| String::new(), "");
        assert_eq!(lines[1].len(), 4 + PATH_WIDTH_MAX + 2 + "is gone".len());
        assert!(lines[2].contains(&"/a".repeat(2000)), "it is shown as a whole");
    }

    fn saved(report: &BackupReport) -> Vec<String> {
        let failed = Failed::default();
        for number in 0..report.objects_failed {
            failed.note(format!("/srv/{number}").as_bytes(), "permission denied");
        }
        let saved = Saved {
            report,
            id: "0703513b",
            node: "web-01",
            is_partial: report.objects_failed > 0,
            is_skipped: false,
            is_full: false,
            network: Some("round trip".into()),
            failed: &failed,
        };
        saved.lines()
    }

    #[test]
    fn a_summary_has_at_most_twelve_lines_and_failures_stand_last() {
        let report = BackupReport {
            objects_inspected: 331_902,
            objects_backed_up: 5_000,
            objects_new: 112,
            objects_updated: 233,
            objects_unchanged: 326_662,
            objects_read_again: 40,
            objects_failed: 7,
            objects_incomplete: 1,
            objects_excluded: 2,
            objects_vanished: 3,
            bytes_inspected: 13_529_146_982,
            bytes_processed: 224_395_264,
            bytes_after_dedup: 63_963_136,
            bytes_transferred: 25_165_824,
            elapsed_secs: 112.0,
            stages: pipeline::report::StageTimes { read_secs: 9.0, ..Default::default() },
            ..BackupReport::default()
        };
        let lines = saved(&report);
        assert!(lines.len() <= 12, "{lines:#?}");
        assert_eq!(lines[0], "Saved partial snapshot 0703513b of web-01 in 112 s");
        assert_eq!(
            lines[1],
            "  objects     331,902: 112 new · 5,121 changed · 326,622 unchanged · 40 read again, unchanged · 7 failed"
        );
        assert_eq!(
            lines[2],
            "  data        12.6 GiB: 214 MiB read (1.91 MiB/s) · 61.0 MiB new · 24.0 MiB stored (compressed 2.5×)"
        );
        let failed = lines.iter().position(|line| line.contains("7 objects could not be read"));
        assert_eq!(lines[failed.unwrap() + 1], "    /srv/0  permission denied");
        let more = "and 4 more: icecore map --failed 0703513b";
        assert!(lines.iter().any(|line| line.ends_with(more)), "{lines:#?}");
    }

    #[test]
    fn what_is_zero_is_not_in_the_summary() {
        let report =
            BackupReport { objects_inspected: 3, objects_unchanged: 3, ..BackupReport::default() };
        let without = saved(&BackupReport { elapsed_secs: 0.5, ..report });
        assert_eq!(without[1], "  objects     3: 3 unchanged");
        assert_eq!(without[2], "  data        0 B");
        assert_eq!(without.len(), 5, "{without:#?}");
    }

    #[test]
    fn the_full_report_has_every_field() {
        let stages = pipeline::report::StageTimes { read_secs: 9.0, ..Default::default() };
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
            "objects grown",
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
            "Bottleneck",
        ];
        fields.iter().for_each(|field| assert!(text.contains(field), "{field}"));
        assert!(text.contains("438.16 GiB (470,469,000,000 bytes)"));
    }
}
