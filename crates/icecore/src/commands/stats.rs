//! `icecore stats`.

use super::snapshots::{Filter, short_id};
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::{escape, session_report, time, units};
use client::history::{self, Totals};
use client::manifest::Snapshot;
use client::report::{Ratios, Report};
use serde::Serialize;

/// Show what backups did over time, and what the repository holds.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore stats\n  icecore stats --node web-1 --json\n  icecore stats --report latest"
)]
pub(crate) struct Stats {
    #[command(flatten)]
    filter: Filter,
    /// Show the whole session report of this snapshot.
    #[arg(long, value_name = "SNAP")]
    report: Option<String>,
}

#[derive(Serialize)]
struct Session<'a> {
    snapshot_id: String,
    time: String,
    node: &'a str,
    paths: &'a [String],
    report: &'a Report,
    ratios: Ratios,
    bottleneck: String,
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
    #[serde(flatten)]
    totals: Totals,
    /// Bytes of all files of all snapshots, as if each were stored in full.
    bytes_of_snapshots: u64,
    /// How many times smaller the repository is than that.
    reduction_factor: f64,
}

impl Stats {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let archive = context.open()?;
        let failed = |error| context.failure(error);
        if let Some(name) = &self.report {
            return one(context, &context.snapshot(&archive, name)?);
        }
        let all = context.snapshots(&archive)?.0;
        let bytes_of_snapshots = all
            .iter()
            .map(|snapshot| snapshot.body.report.bytes_inspected)
            .fold(0, u64::saturating_add);
        context.out.line(&heading())?;
        for snapshot in all.iter().filter(|snapshot| self.filter.takes(snapshot)) {
            context.out.item("session", &Session::new(snapshot), || row(snapshot))?;
        }
        let totals = history::totals(&archive).map_err(failed)?;
        let reduction_factor = bytes_of_snapshots as f64 / totals.container_bytes.max(1) as f64;
        let summary = Summary { totals, bytes_of_snapshots, reduction_factor };
        context.out.print(&text(&summary))?;
        context.out.summary(Code::Complete, &summary)
    }
}

fn one(context: &Context, snapshot: &Snapshot) -> Result<Code> {
    for line in session_report::lines(&snapshot.body.report) {
        context.out.print(&line)?;
    }
    context.out.summary(Code::Complete, &Session::new(snapshot))
}

fn heading() -> String {
    format!(
        "{:<10}{:<21}{:<14}{:>12}{:>10}{:>7}{:>12}{:>12}{:>9}{:>9}{:>11}",
        "ID",
        "Time",
        "Node",
        "Objects",
        "Changed",
        "Failed",
        "Size",
        "Stored",
        "Dedup",
        "Packed",
        "Took"
    )
}

fn row(snapshot: &Snapshot) -> String {
    let (report, ratios) = (&snapshot.body.report, snapshot.body.report.ratios());
    format!(
        "{:<10}{:<21}{:<14}{:>12}{:>10}{:>7}{:>12}{:>12}{:>9}{:>9}{:>11}",
        short_id(snapshot),
        time::show(snapshot.time()),
        escape::text(&snapshot.body.node),
        units::count(report.objects_inspected),
        units::count(report.objects_backed_up + report.objects_updated),
        units::count(report.objects_failed),
        units::bytes(report.bytes_inspected),
        units::bytes(report.bytes_transferred),
        units::percent(ratios.dedup_reduction),
        units::percent(ratios.compressed_by),
        units::duration(report.elapsed_secs),
    )
}

fn text(summary: &Summary) -> String {
    let totals = &summary.totals;
    format!(
        "repository: {} of {} in {} ({}, {} chunks and pages, {}): {:.1} times smaller; {} free on the disk",
        units::many(totals.snapshots, "snapshot"),
        units::bytes(summary.bytes_of_snapshots),
        units::bytes(totals.container_bytes),
        units::many(totals.containers, "container"),
        units::count(totals.objects),
        units::many(totals.keys, "key"),
        summary.reduction_factor,
        units::bytes(totals.free_bytes),
    )
}
