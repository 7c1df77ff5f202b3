//! The reports there are.

use super::sheet::Cell::{Bytes, Count, Part, Secs, Text, Time};
use super::sheet::Sheet;
use crate::commands::server::word;
use api::protection::SourceProtection;
use api::reports::{BackupRow, CapacityRow, CostRow};

/// Bytes of a kilobyte in the report that administrators know.
const KILOBYTE: u64 = 1024;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn secs(ms: Option<u64>) -> Option<f64> {
    ms.map(|ms| ms as f64 / 1000.0)
}

/// How long it took, as the server saw it.
fn elapsed(row: &BackupRow) -> Option<f64> {
    row.ended.map(|ended| (ended - row.begun).max(0) as f64)
}

/// The columns of the report *Client Backups* of NetBackup.
pub(super) fn client_backups() -> Sheet<BackupRow> {
    Sheet::new(&[
        ("CLIENT", "client", |row| Text(some(&row.node))),
        ("BACKUP TIME", "backup_time", |row| Time(Some(row.begun))),
        ("POLICY", "policy", |row| Text(row.policy.clone())),
        ("FILES", "number_of_files", |row| Count(row.figures.objects)),
        ("KILOBYTES", "kilobytes", |row| {
            Count(row.figures.bytes.map(|bytes| bytes.div_ceil(KILOBYTE)))
        }),
        ("SCHEDULE", "schedule_name", |row| Text(row.schedule.clone())),
        ("TYPE", "schedule_type", |row| Text(row.level.clone())),
        ("ELAPSED", "elapsed_secs", |row| Secs(elapsed(row))),
        ("COMPRESSED", "compressed", |row| {
            let rate = row.figures.compression_rate();
            Text(rate.map(|rate| if rate > 0.0 { "yes" } else { "no" }.to_owned()))
        }),
        ("JOB", "job", |row| Count(Some(row.job))),
        ("STATE", "state", |row| Text(Some(word(&row.state)))),
    ])
}

/// What each backup read, and what of it was new.
pub(super) fn dedup() -> Sheet<BackupRow> {
    Sheet::new(&[
        ("JOB", "job", |row| Count(Some(row.job))),
        ("NODE", "node", |row| Text(some(&row.node))),
        ("POLICY", "policy", |row| Text(row.policy.clone())),
        ("TIME", "time", |row| Time(Some(row.begun))),
        ("SIZE", "bytes", |row| Bytes(row.figures.bytes)),
        ("READ", "bytes_read", |row| Bytes(row.figures.bytes_read)),
        ("NEW", "bytes_new", |row| Bytes(row.figures.bytes_new)),
        ("STORED", "bytes_stored", |row| Bytes(row.figures.bytes_stored)),
        ("DEDUP", "dedup_rate", |row| Part(row.figures.dedup_rate())),
        ("COMPRESSION", "compression_rate", |row| Part(row.figures.compression_rate())),
    ])
}

/// What backups cost each node.
pub(super) fn cost() -> Sheet<CostRow> {
    Sheet::new(&[
        ("NODE", "node", |row| Text(some(&row.node))),
        ("BACKUPS", "backups", |row| Count(Some(row.backups))),
        ("MEASURED", "measured", |row| Count(Some(row.measured))),
        ("CPU", "cpu_secs", |row| Secs(secs(row.cpu_ms))),
        ("OF ONE CPU", "cpu_part", |row| Part(row.cpu_percent.map(|percent| percent / 100.0))),
        ("ELAPSED", "elapsed_secs", |row| Secs(secs(row.elapsed_ms))),
        ("OF THE TIME", "elapsed_part", |row| {
            Part(row.elapsed_percent.map(|percent| percent / 100.0))
        }),
        ("READ", "bytes_read", |row| Bytes(row.bytes_read)),
    ])
}

/// What the backups of each source take.
pub(super) fn capacity() -> Sheet<CapacityRow> {
    Sheet::new(&[
        ("NODE", "node", |row| Text(some(&row.node))),
        ("POLICY", "policy", |row| Text(row.policy.clone())),
        ("BACKUPS", "backups", |row| Count(Some(row.backups))),
        ("OBJECTS", "objects", |row| Count(row.objects)),
        ("SIZE", "bytes", |row| Bytes(row.bytes)),
        ("STORED", "stored_bytes", |row| Bytes(row.stored_bytes)),
        ("SOURCE", "source", |row| {
            Text(row.source.as_ref().map(|source| source.replace('\n', " ")))
        }),
    ])
}

/// How well each source is backed up.
pub(super) fn protection() -> Sheet<SourceProtection> {
    Sheet::new(&[
        ("NODE", "node", |row| Text(row.node.clone())),
        ("POLICY", "policy", |row| Text(row.policy.clone())),
        ("SOURCE", "source", |row| Text(row.source.clone())),
        ("CLASS", "class", |row| Text(row.class.clone())),
        ("STATE", "state", |row| Text(Some(word(&row.state)))),
        ("LAST COMPLETE", "last_complete", |row| Time(row.last_complete)),
        ("PROMISE", "promise_secs", |row| Secs(row.promise_secs.map(|secs| secs as f64))),
        ("KEPT UNTIL", "kept_until", |row| Time(row.kept_until)),
        ("PAUSED UNTIL", "paused_until", |row| Time(row.paused_until)),
        ("WHY", "reason", |row| Text(Some(row.reason.clone()).filter(|it| !it.is_empty()))),
    ])
}
