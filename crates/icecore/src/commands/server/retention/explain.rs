//! `icecore server retention explain`.

use super::listed;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::units;
use api::retention::{RetainedSnapshot, RetainedSnapshots};
use serde::Serialize;

/// Show of each snapshot what becomes of it, every reason that keeps it, and what ends that.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server retention explain servers\n  icecore server retention explain 40db6ceb\n  icecore server retention explain servers --node web-01 --json"
)]
pub(crate) struct Explain {
    /// A policy, or the id of a snapshot.
    #[arg(value_name = "POLICY|SNAPSHOT")]
    what: String,
    /// Only snapshots of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<api::Name>,
    /// Maximum number of snapshots, the newest first.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u32,
}

#[derive(Serialize)]
struct Count {
    snapshots: usize,
    total: u64,
}

impl Explain {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        site::check_name(&self.what).map_err(|error| Failure::usage(error.to_string()))?;
        let node = self.node.as_ref().map_or_else(String::new, |node| format!("&node={node}"));
        let query = format!("?policy={}&limit={}{node}", self.what, self.limit);
        let found: RetainedSnapshots = reach.get(&format!("/retention/snapshots{query}"))?;
        if found.total == 0 && self.is_id() {
            return self.one(reach, context);
        }
        listed::doubts(&found, context);
        found.snapshots.iter().try_for_each(|one| self.show(one, context))?;
        let (snapshots, total) = (found.snapshots.len(), found.total);
        let line = match total {
            0 => format!("There are no snapshots of the policy {}.", self.what),
            _ => {
                format!("{} of {}.", units::many(snapshots as u64, "snapshot"), units::count(total))
            }
        };
        context.out.line(&line)?;
        context.out.summary(Code::Complete, &Count { snapshots, total })
    }

    /// Whether it may be the beginning of an id.
    fn is_id(&self) -> bool {
        self.what.len() >= 4 && self.what.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn one(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let one: RetainedSnapshot = reach.get(&format!("/retention/snapshots/{}", self.what))?;
        listed::explained(&one, context)?;
        context.out.summary(Code::Complete, &one)
    }

    fn show(&self, one: &RetainedSnapshot, context: &Context) -> Result<()> {
        context.out.record("snapshot", one)?;
        listed::explained(one, context)
    }
}
