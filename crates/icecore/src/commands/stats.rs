//! `icecore stats`.

use super::snapshots::short_id;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::filter::Filter;
use crate::table::{Table, left, right};
use crate::{escape, session_report, time, units};
use api::domains::Privacy;
use pipeline::manifest::Snapshot;
use pipeline::report::{BackupReport, Ratios};
use pipeline::totals::{self, RepositoryTotals};
use serde::Serialize;

/// Show the history of backups and the size of the repository.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore stats\n  icecore stats --node web-1 --json\n  icecore stats --report latest"
)]
pub(crate) struct Stats {
    #[command(flatten)]
    filter: Filter,
    /// Show the full report of the backup that made this snapshot.
    #[arg(long, value_name = "SNAP")]
    report: Option<String>,
}

#[derive(Serialize)]
struct Session<'a> {
    snapshot_id: String,
    time: String,
    node: &'a str,
    paths: &'a [String],
    report: &'a BackupReport,
    ratios: Ratios,
    bottleneck: Option<String>,
}

impl<'a> Session<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let (body, report) = (&snapshot.body, &snapshot.body.report);
        Self {
            snapshot_id: snapshot.id().to_string(),
            time: time::json(snapshot.time()),
            node: &body.node,
            paths: &body.paths,
            report,
            ratios: report.ratios(),
            bottleneck: report.bottleneck(),
        }
    }
}

#[derive(Serialize)]
struct Summary {
    /// What sizes and boundaries of the stored chunks reveal.
    privacy: Privacy,
    /// Parity of all that is stored, in per cent; 0 for none.
    parity_percent: u32,
    dedup: bool,
    /// What the repository contains; known only on the machine that holds it.
    #[serde(flatten)]
    totals: Option<RepositoryTotals>,
    /// Bytes of all files of all snapshots, as if each were stored in full.
    bytes_of_snapshots: u64,
    /// How many times smaller the repository is than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    reduction_factor: Option<f64>,
}

impl Stats {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open()?;
        let failed = |error| context.failure(error);
        if let Some(name) = &self.report {
            return one(context, &context.snapshot_of(&repository, name, &self.filter)?);
        }
        let all = context.snapshots(&repository)?.0;
        let bytes_of_snapshots = all
            .iter()
            .map(|snapshot| snapshot.body.report.bytes_inspected)
            .fold(0, u64::saturating_add);
        let mut table = table();
        for snapshot in all.iter().filter(|snapshot| self.filter.takes(snapshot)) {
            context.out.record("session", &Session::new(snapshot))?;
            table.row(row(snapshot));
        }
        table.print(&context.out)?;
        let is_here = context.remote().is_none();
        let totals =
            is_here.then(|| totals::repository_totals(&repository)).transpose().map_err(failed)?;
        let stored = totals.map(|totals| totals.container_bytes).filter(|bytes| *bytes > 0);
        let reduction_factor = stored.map(|stored| bytes_of_snapshots as f64 / stored as f64);
        let privacy = match repository.slot.privacy {
            crypto::Privacy::Standard => Privacy::Standard,
            crypto::Privacy::Hardened => Privacy::Hardened,
        };
        let config = repository.store.config();
        let (parity_percent, dedup) = (config.parity_percent(), config.dedup());
        let summary = Summary {
            privacy,
            parity_percent,
            dedup,
            totals,
            bytes_of_snapshots,
            reduction_factor,
        };
        context.out.print(&text(&summary, all.len()))?;
        context.out.print(&settings(&summary))?;
        context.out.summary(Code::Complete, &summary)
    }
}

fn one(context: &Context, snapshot: &Snapshot) -> Result<Code> {
    for line in session_report::lines(&snapshot.body.report) {
        context.out.print(&line)?;
    }
    context.out.summary(context.code_of_choice(Code::Complete), &Session::new(snapshot))
}

/// The columns of the history.
fn table() -> Table {
    Table::new(&[
        left("ID"),
        left("TIME"),
        left("NODE"),
        right("OBJECTS"),
        right("CHANGED"),
        right("FAILED"),
        right("SIZE"),
        right("STORED"),
        right("DEDUP"),
        right("COMPRESSED"),
        right("TOOK"),
    ])
}

fn row(snapshot: &Snapshot) -> [String; 11] {
    let (report, ratios) = (&snapshot.body.report, snapshot.body.report.ratios());
    let failed = match report.objects_failed {
        0 => String::new(),
        failed => units::count(failed),
    };
    [
        short_id(snapshot),
        time::show(snapshot.time()),
        escape::text(&snapshot.body.node),
        units::count(report.objects_inspected),
        units::count(report.objects_backed_up + report.objects_updated),
        failed,
        units::bytes(report.bytes_inspected),
        units::bytes(report.bytes_transferred),
        part(ratios.dedup_reduction),
        part(ratios.compressed_by),
        units::duration(report.elapsed_secs),
    ]
}

/// A reduction in the table; overhead that is more than the data is none.
fn part(ratio: f64) -> String {
    if ratio < 0.0 { "none".to_owned() } else { units::percent(ratio) }
}

fn settings(summary: &Summary) -> String {
    let parity = match summary.parity_percent {
        0 => "no parity".to_owned(),
        percent => format!("{percent} % parity"),
    };
    let dedup = if summary.dedup { "" } else { "; no deduplication between backups" };
    format!("privacy: {}; {parity}{dedup}", summary.privacy)
}

fn text(summary: &Summary, snapshots: usize) -> String {
    let shown = units::bytes(summary.bytes_of_snapshots);
    let Some(totals) = &summary.totals else {
        return format!(
            "repository: {}, {shown} when restored; what it takes on the server, there: icecore server domains",
            units::many(snapshots as u64, "snapshot"),
        );
    };
    let smaller = summary.reduction_factor.unwrap_or(0.0);
    format!(
        "repository: {}, {shown} when restored; {} stored{} in {}; {} chunks and pages, {}{}",
        units::many(totals.snapshots, "snapshot"),
        units::bytes(totals.container_bytes),
        if smaller >= 1.0 { format!(" ({smaller:.1} times smaller)") } else { String::new() },
        units::many(totals.containers, "container"),
        units::count(totals.objects),
        units::many(totals.keys, "key"),
        totals.free_bytes.map_or_else(String::new, |free| {
            format!("; {} free on the disk", units::bytes(free))
        }),
    )
}
