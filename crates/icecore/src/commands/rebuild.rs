//! `icecore rebuild`.

use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::secret::Ask;
use crate::units;
use crate::wait::Wait;
use pipeline::rebuild;

/// Rebuild the chunk index and the list of snapshots from the containers.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore rebuild\n\nForgotten snapshots stay forgotten. Run this if `check` or another command says so."
)]
pub(crate) struct Rebuild {
    /// Also list snapshots again whose data is incomplete, so that the rest of it can be restored.
    /// By default they are only counted.
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
            .map_err(|error| Failure::from(error).at(&context.location()))?;
        for damage in &report.damages {
            let printed = context.out.print(&format!("damage: {}", escape::text(damage)));
            Failure::ignore_broken_pipe(printed)?;
        }
        let mut lines = vec![
            format!("Rebuilt the index in {}", units::duration(report.elapsed_secs)),
            format!(
                "  {}, {} and {}",
                units::many(report.containers, "container"),
                units::many(report.objects, "object"),
                units::many(report.snapshots, "snapshot"),
            ),
        ];
        if report.snapshots_restored > 0 {
            let found = units::many(report.snapshots_restored, "snapshot");
            let are = if report.snapshots_restored == 1 { "is" } else { "are" };
            lines.push(format!("  {found} had been lost and {are} listed again"));
        }
        if report.forged > 0 {
            let forged = units::many(report.forged, "snapshot");
            lines.push(format!("  {forged} signed by no known key: left alone"));
        }
        lines.iter().try_for_each(|line| context.out.line(line))?;
        if report.incomplete > 0 {
            context.out.line(&format!(
                "  {} not listed again: part of their data is missing. If you miss one: icecore rebuild --incomplete",
                units::many(report.incomplete, "snapshot"),
            ))?;
        }
        if report.key_list_restored {
            context.out.line(
                "The key list was lost or out of date and was rebuilt from the key slots. Check that every key belongs there: icecore key list",
            )?;
        }
        let code = if report.damages.is_empty() { Code::Complete } else { Code::Damage };
        context.out.summary(code, &report)
    }
}
