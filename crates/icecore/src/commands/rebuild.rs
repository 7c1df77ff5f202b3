//! `icecore rebuild`.

use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::secret::Ask;
use crate::units;
use crate::wait::Wait;
use client::rebuild;

/// Make the chunk index and the list of snapshots anew, from the containers alone.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore rebuild\n\nSnapshots that were forgotten stay forgotten. Run it when `check` or another command says so."
)]
pub(crate) struct Rebuild {
    /// Also bring snapshots back of which something is missing: what there is of them can be
    /// restored. Without this they are counted and left alone.
    #[arg(long)]
    incomplete: bool,
    #[command(flatten)]
    wait: Wait,
}

impl Rebuild {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let storage = context.storage()?;
        let secret = context.secret(Ask::Once)?;
        context.watch_signals();
        let run = || rebuild::run(storage.clone(), secret.slot(), self.incomplete);
        let report = self
            .wait
            .patiently(context, run)
            .map_err(|error| Failure::from(error).at(&context.place()))?;
        for damage in &report.damages {
            let told = context.out.print(&format!("damage: {}", escape::text(damage)));
            Failure::heard_or_not(told)?;
        }
        context.out.line(&format!(
            "{} read: {} in the index, {} ({} found again, {} forged and left alone) in {}",
            units::many(report.containers, "container"),
            units::many(report.objects, "object"),
            units::many(report.snapshots, "snapshot"),
            units::count(report.snapshots_restored),
            units::count(report.forged),
            units::duration(report.elapsed_secs),
        ))?;
        if report.incomplete > 0 {
            context.out.line(&format!(
                "{} not brought back: not all of their data is there. If you miss any: icecore rebuild --incomplete",
                units::many(report.incomplete, "snapshot"),
            ))?;
        }
        if report.key_list_restored {
            context.out.line(
                "the key list was lost or out of date and was made anew from the key slots; check that every key belongs there: icecore key list",
            )?;
        }
        let code = if report.damages.is_empty() { Code::Complete } else { Code::Damage };
        context.out.summary(code, &report)
    }
}
