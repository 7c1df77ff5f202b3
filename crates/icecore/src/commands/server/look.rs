//! `icecore server status`, `audit`.

use super::when;
use crate::clock_advice::advised;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::table::{Table, flexible, left, right};
use crate::{escape, units};
use api::status::{Audit as Log, KeptLocks, Status as ServerStatus, StorageKeptLocks};
use serde::Serialize;

/// Show server status.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server status")]
pub(crate) struct Status {}

impl Status {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let status: ServerStatus = reach.get("/status")?;
        let mut lines = vec![
            format!(
                "server       {}, version {}, running since {}",
                status.address,
                status.version,
                when(status.started)
            ),
            format!(
                "holds        {}, {}, {}",
                units::many(status.nodes, "node"),
                units::many(status.domains, "domain"),
                units::many(status.running, "running job"),
            ),
            format!(
                "disk         {} of {} free, {}",
                maybe_bytes(status.free_bytes),
                maybe_bytes(status.total_bytes),
                units::many(status.storage_servers, "storage server"),
            ),
            format!("authority    {} (SHA-256)", status.ca_fingerprint),
            format!("certificate  valid until {}", when(status.certificate_expires)),
        ];
        if status.alarms > 0 {
            let machines = units::many(status.alarms, "machine");
            lines.push(format!(
                "ALARM        {machines}: icecore server nodes, and icecore server storage-servers"
            ));
        }
        lines.extend(status.catalog_faults.iter().map(|why| format!("ALARM        {why}")));
        let doubted = |doubt: &String| {
            let advised = advised(doubt, "icecore server clock confirm");
            format!(
                "ALARM        nothing expires, and jobs start by a time other than that of the machine's clock: {advised}"
            )
        };
        lines.extend(status.clock_doubt.iter().map(doubted));
        let fault = |why: &String| format!("ALARM        the pool {why}: icecore server pool list");
        lines.extend(status.pool_faults.iter().map(fault));
        lines.extend(status.domain_faults.iter().map(|why| format!("ALARM        {why}")));
        let own = status.kept_locks.as_ref().map(|locks| self::kept(locks, ""));
        lines.extend(own.into_iter().flatten());
        for StorageKeptLocks { storage, kept: locks } in &status.storage_kept_locks {
            lines.extend(kept(locks, &format!(" of {storage}")));
        }
        lines.iter().try_for_each(|line| context.out.print(&escape::text(line)))?;
        context.out.summary(Code::Complete, &status)
    }
}

/// What others than the server, or `of` a storage server, keep of locked snapshots, and what they do not.
fn kept(locks: &KeptLocks, of: &str) -> Vec<String> {
    // What failed may be kept all the same.
    let known = if locks.problems.is_empty() { "kept" } else { "known to be kept" };
    let told = |count: Option<u64>, what: &str, by: &str| {
        count.map(|count| format!("locks        {} {known} by {by}{of}", units::many(count, what)))
    };
    let files = told(locks.files, "file", "the lock helper");
    let objects = told(locks.objects, "object", "Object Lock");
    let problem = |why: &String| format!("  ALARM      what is locked may not be kept{of}: {why}");
    files.into_iter().chain(objects).chain(locks.problems.iter().map(problem)).collect()
}

pub(super) fn maybe_bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), units::bytes)
}

/// Show the audit log, and verify that it was not changed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server audit\n  icecore server audit --limit 1000 --json\n\nThe last line contains the hash of the newest entry. Keep it elsewhere: it shows later whether entries were cut off at the end."
)]
pub(crate) struct Audit {
    /// Only entries with lower numbers than this.
    #[arg(long, value_name = "ENTRY")]
    before: Option<u64>,
    /// Maximum number of entries.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

#[derive(Serialize)]
struct Verdict<'a> {
    total: u64,
    head: &'a str,
}

impl Audit {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let before = self.before.map_or(String::new(), |before| format!("&before={before}"));
        let log: Log = reach.get(&format!("/audit?limit={}{before}", self.limit))?;
        let mut table = Table::new(&[
            right("ENTRY"),
            left("TIME"),
            left("WHO"),
            left("ACTION"),
            left("SUBJECT"),
            flexible("DETAIL"),
        ]);
        for entry in &log.entries {
            context.out.record("entry", entry)?;
            table.row([
                entry.id.to_string(),
                when(entry.time),
                escape::text(&entry.who),
                escape::text(&entry.action),
                escape::text(&entry.subject),
                escape::text(&entry.detail),
            ]);
        }
        table.print(&context.out)?;
        if let Some(id) = log.broken_at {
            let message =
                format!("the audit log was changed: entry {id} does not match the one before it");
            return Err(Failure::new(Code::Failed, message).hint(
                "Somebody had write access to the catalog. Compare it with a backup of it.",
            ));
        }
        context.out.line(&format!(
            "{}, unchanged since they were written; hash of the newest: {}",
            units::many(log.total, "entry"),
            log.head
        ))?;
        context.out.summary(Code::Complete, &Verdict { total: log.total, head: &log.head })
    }
}
