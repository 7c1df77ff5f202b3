//! `icecore reclaim`.

use super::check::parse_percent;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::units;
use client::reclaim::{self, Options, Report};

/// Give back the space of what no snapshot needs.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore reclaim --dry-run\n  icecore reclaim\n  icecore reclaim --max-waste 0%\n\nWhen anything is not as it should be, nothing is deleted from then on. It works on a full disk too,\nstep by step."
)]
pub(crate) struct Reclaim {
    /// Say what would be done, and do nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Dead bytes that may stay: less means more copying.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    max_waste: f64,
}

impl Reclaim {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let archive = context.open()?;
        let options = Options { max_waste_percent: self.max_waste, dry_run: self.dry_run };
        let report = reclaim::run(&archive, &options).map_err(|error| context.failure(error))?;
        if report.snapshots_restored > 0 {
            let back = units::many(report.snapshots_restored, "snapshot");
            context.out.note(&format!("{back} that nobody forgot had lost their files and are listed again: icecore snapshots"));
        }
        if report.containers_left > 0 {
            let left = units::many(report.containers_left, "container");
            context.out.note(&format!(
                "the disk has no room to rewrite {left}: make some, then icecore reclaim"
            ));
        }
        context.out.line(&text(&report))?;
        context.out.summary(Code::Complete, &report)
    }
}

fn text(report: &Report) -> String {
    format!(
        "{} {} of {}: {} containers removed, {} rewritten ({} copied) of {}; {} dead objects of {}; {} of waste stay; {}",
        if report.dry_run { "would free" } else { "freed" },
        units::bytes(report.bytes_freed),
        units::bytes(report.bytes),
        units::count(report.containers_removed),
        units::count(report.containers_rewritten),
        units::bytes(report.bytes_copied),
        units::count(report.containers),
        units::count(report.dead_objects),
        units::count(report.dead_objects + report.live_objects),
        units::bytes(report.bytes_wasted),
        units::duration(report.elapsed_secs),
    )
}
