//! `icecore server apply`.

use super::{given, shown};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::units;
use api::sites::{ApplySite, ObjectAction, SiteChange};
use std::path::PathBuf;

/// Make the site what a file declares: units, retentions, schedules, nodes, groups, policies, holds, upkeeps and
/// quotas.
///
/// The file is the whole site: what it does not have is removed. The command shows what changes before it changes
/// anything, all of it or nothing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server export > site.toml\n  icecore server apply site.toml --dry-run\n  icecore server apply site.toml\n\nIf somebody else changes the site between the plan and its execution, nothing is changed."
)]
pub(crate) struct Apply {
    /// The file; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "named")]
    file: Option<PathBuf>,
    /// The same as FILE, as other programs have it.
    #[arg(short = 'f', long = "file", value_name = "FILE", hide = true, conflicts_with = "file")]
    named: Option<PathBuf>,
    /// Show what would change, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove what the file does not have without asking.
    #[arg(short, long)]
    yes: bool,
}

impl Apply {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let file = self.file.as_ref().or(self.named.as_ref());
        let file = file.ok_or_else(|| Failure::usage("no file is named"))?;
        let text = given::text(file)?;
        let plan: SiteChange =
            post(reach, ApplySite { text: text.clone(), version: None, dry_run: true })?;
        if self.dry_run || plan.changes.is_empty() {
            return shown::change(&plan, context);
        }
        self.confirm(&plan, file.as_os_str() == "-", context)?;
        // Exactly what was shown, or nothing.
        let version = Some(plan.version);
        let done = post(reach, ApplySite { text, version, dry_run: false })?;
        shown::change(&done, context)
    }

    /// What goes is named before, on a terminal; elsewhere somebody must have said that it may.
    fn confirm(
        &self,
        plan: &SiteChange,
        is_read_from_terminal: bool,
        context: &Context,
    ) -> Result<()> {
        let removed = |change: &&api::sites::ObjectChange| change.action == ObjectAction::Removed;
        let removed = plan.changes.iter().filter(removed).count() as u64;
        let going = shown::going(plan);
        if removed + going == 0 || self.yes {
            return Ok(());
        }
        let objects = units::many(removed, "object");
        let snapshots = units::many(going, "snapshot");
        let (message, question) = match (removed, going) {
            (_, 0) => (
                format!("the file does not have {objects} of the site: nothing was changed"),
                format!("Remove {objects} that the file does not have?"),
            ),
            (0, _) => (
                format!("{snapshots} would go: nothing was changed"),
                format!("Let {snapshots} go?"),
            ),
            _ => (
                format!(
                    "the file does not have {objects} of the site, and {snapshots} would go: nothing was changed"
                ),
                format!("Remove {objects} that the file does not have, and let {snapshots} go?"),
            ),
        };
        if is_read_from_terminal {
            let hint = "To see what goes: --dry-run. To let it go: --yes";
            return Err(Failure::usage(message).hint(hint));
        }
        shown::ask(plan, &message, &question, context)
    }
}

fn post(reach: &Reach, body: ApplySite) -> Result<SiteChange> {
    reach.post("/site", &body)
}
