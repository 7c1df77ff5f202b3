//! `icecore server source`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use api::retention::SourceDeletion;
use api::status::Done;
use std::io::IsTerminal;

/// Say that a source is gone for good, so that the rules for versions of deleted sources apply to its snapshots.
///
/// A source that is merely not backed up any more is not gone: its last complete snapshot stays. With `versions` in its
/// class, a deleted source keeps as many versions, for as long, as `deleted` and `retain_only` say.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server source delete web-01 servers\n  icecore server source delete web-01 servers data --yes\n  icecore server source undelete web-01 servers"
)]
pub(crate) struct SourceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Declare that a source is gone for good.
    Delete {
        #[command(flatten)]
        which: Which,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Declare that a source exists after all.
    Undelete {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(clap::Args, Debug)]
struct Which {
    /// The node.
    #[arg(value_name = "NODE")]
    node: api::Name,
    /// The policy.
    #[arg(value_name = "POLICY")]
    policy: api::Name,
    /// The source, by its name in the policy.
    #[arg(value_name = "SOURCE", default_value = "main")]
    source: String,
}

impl SourceArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let (which, deleted) = match &self.action {
            Action::Delete { which, yes } => {
                which.confirm(*yes, context)?;
                (which, true)
            }
            Action::Undelete { which } => (which, false),
        };
        let (node, policy) = (which.node.to_string(), which.policy.to_string());
        let wanted = SourceDeletion { node, policy, source: which.source.clone(), deleted };
        let _: Done = reach.post("/retention/sources", &wanted)?;
        let word = if deleted { "is gone from now on" } else { "is there" };
        context.out.line(&format!("{} {word}.", which.name()))?;
        context.out.summary(Code::Complete, &wanted)
    }
}

impl Which {
    fn name(&self) -> String {
        let text = format!("The source {} of {} (policy {})", self.source, self.node, self.policy);
        escape::text(&text)
    }

    fn confirm(&self, yes: bool, context: &Context) -> Result<()> {
        let is_watched = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        match (yes, is_watched && !context.out.json) {
            (true, _) => Ok(()),
            (_, false) => Err(Failure::usage("its last snapshot may go then: nothing was changed")
                .hint("To do it: --yes")),
            _ if crate::secret::confirm(&format!("{} is gone for good?", self.name()))? => Ok(()),
            _ => Err(Failure::new(Code::Failed, "not confirmed: nothing was changed")),
        }
    }
}
