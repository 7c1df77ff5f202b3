//! `icecore tag`.

mod many;

use super::backup::parse_tag;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::wait::Wait;
use pipeline::tags::{self, TagChange};
use serde::Serialize;

/// Change the tags of snapshots. A snapshot gets a new id when its tags change.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore tag add latest release\n  icecore tag remove 3fa9c1d2 daily test\n  icecore tag --add kept --node web-1 --path /etc\n  icecore tag --set monthly,kept 3fa9c1d2 81b0e6aa\n\nName the snapshots, or select them by --node, --path and --with-tag. Join several tags by commas."
)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Tag {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    many: many::Many,
    #[command(flatten)]
    wait: Wait,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add tags to a snapshot.
    Add(Words),
    /// Remove tags from a snapshot.
    Remove(Words),
}

#[derive(clap::Args, Debug)]
struct Words {
    /// The snapshot.
    #[arg(value_name = "SNAP")]
    snapshot: String,
    /// The tags.
    #[arg(value_name = "TAG", required = true, value_parser = parse_tag)]
    tags: Vec<String>,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct Changed {
    snapshot_id: String,
    previous_id: String,
    is_changed: bool,
}

impl Tag {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let (words, change) = match &self.action {
            None => return self.many.run(context, self.wait),
            Some(Action::Add(words)) => {
                (words, TagChange { add: words.tags.clone(), remove: Vec::new() })
            }
            Some(Action::Remove(words)) => {
                (words, TagChange { add: Vec::new(), remove: words.tags.clone() })
            }
        };
        let repository = context.open()?;
        let snapshot = context.snapshot(&repository, &words.snapshot)?;
        context.refuse_doubtful_choice(&snapshot)?;
        let previous_id = snapshot.id().to_string();
        let new = words.wait.patiently(context, || tags::change(&repository, &snapshot, &change));
        let new = new.map_err(|error| context.failure(error))?;
        let snapshot_id = new.map_or_else(|| previous_id.clone(), |name| name.id.to_string());
        match new {
            Some(_) => context.out.line(&format!(
                "Snapshot {} is now {}",
                &previous_id[..8],
                &snapshot_id[..8]
            ))?,
            None => {
                context.out.line("The snapshot has these tags already: nothing was changed.")?
            }
        }
        context.out.summary(
            Code::Complete,
            &Changed { snapshot_id, previous_id, is_changed: new.is_some() },
        )
    }
}
