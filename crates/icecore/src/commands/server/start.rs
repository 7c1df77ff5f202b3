//! `icecore server start`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use api::Name;
use api::jobs::{StartPolicy, StartedPolicy};
use serde::Serialize;

/// Start the backups of a policy now.
///
/// One job for each source of each node of the policy. They wait in the queue of the policy's storage unit as
/// scheduled ones do. A source whose job waits or runs already gets no second one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server start daily --dry-run\n  icecore server start daily --node web-01"
)]
pub(crate) struct StartArgs {
    /// The policy.
    #[arg(value_name = "POLICY")]
    policy: Name,
    /// Only on this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// Show what would start, and start nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Count {
    jobs: usize,
    queued: usize,
}

impl StartArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let start = StartPolicy { node: self.node.clone(), dry_run: self.dry_run };
        let started: StartedPolicy =
            reach.post(&format!("/policies/{}/start", self.policy), &start)?;
        let mut table = Table::new(&[right("JOB"), left("NODE"), left("UNIT"), flexible("SOURCE")]);
        for job in &started.jobs {
            context.out.record("job", job)?;
            let number = job.job.map_or_else(|| "-".to_owned(), |job| job.to_string());
            let source = escape::text(&job.source.replace('\n', " "));
            table.row([number, escape::text(&job.node), escape::text(&job.unit), source]);
        }
        table.print(&context.out)?;
        let (jobs, queued) =
            (started.jobs.len(), started.jobs.iter().flat_map(|job| job.job).count());
        context.out.line(&self.last_line(jobs, queued))?;
        context.out.summary(Code::Complete, &Count { jobs, queued })
    }

    fn last_line(&self, jobs: usize, queued: usize) -> String {
        match jobs - queued {
            _ if self.dry_run => "Nothing was started (--dry-run).".to_owned(),
            0 => "How they go: icecore server jobs".to_owned(),
            busy => format!(
                "{busy} of {jobs} have a job already that waits or runs: icecore server jobs"
            ),
        }
    }
}
