//! `icecore server retention`: what is declared, and what comes of it.

use super::objects;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::commands::server::retention::{Explain, Simulate};
use crate::context::Context;
use crate::failure::Result;
use ::site::Kind;

/// Retentions, and the snapshots that they keep.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server retention create standard --set class.standard.keep_daily=14\n  icecore server retention change standard --set class.standard.keep_daily=30 --dry-run\n  icecore server retention show standard\n  icecore server retention explain servers\n  icecore server retention simulate servers --days 90\n\n`explain` and `simulate` take the name of a policy. Keys and values are those of a file for `icecore server apply`."
)]
pub(crate) struct Retention {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    #[command(flatten)]
    Objects(objects::Action),
    Explain(Explain),
    Simulate(Simulate),
}

impl Retention {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Objects(action) => action.run(Kind::Retention, reach, context),
            Action::Explain(explain) => explain.run(reach, context),
            Action::Simulate(simulate) => simulate.run(reach, context),
        }
    }
}
