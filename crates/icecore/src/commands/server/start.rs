//! `icecore server start`.

use crate::codes::Code;
use crate::commands::backup::takes;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::node::policy::judge;
use crate::table::{Table, flexible, left, right};
use api::Name;
use api::jobs::{StartPolicy, StartedPolicy};
use api::options::{OptionValue, Options};
use serde::Serialize;

/// Start the backups of a policy now.
///
/// One job for each source of each node of the policy. They wait in the queue of the policy's storage unit as
/// scheduled ones do. A source whose job waits or runs already gets no second one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server start daily --dry-run\n  icecore server start daily --node web-01\n  icecore server start daily --group databases --set compression=3 --level complete\n  icecore server start daily --node web-01 --paths /etc/ssl --priority 90\n  icecore server start daily --level catch-up --since 2026-11-20"
)]
pub(crate) struct StartArgs {
    /// The policy.
    #[arg(value_name = "POLICY")]
    policy: Name,
    /// Only on this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// Only on the nodes of this group.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Force a client option for these backups. Can be given several times; for a list, once for each value.
    #[arg(long, value_name = "OPTION=VALUE", value_parser = super::options::assignment)]
    set: Vec<(String, String)>,
    /// What is read: what seems changed; that and all that changed since a time; or everything.
    #[arg(long, value_name = "LEVEL", value_parser = ["incremental", "catch-up", "complete"], default_value = "incremental",
          requires_if("catch-up", "since"))]
    level: String,
    /// For a catch-up: read again what changed since then, an age such as 7d, or a time.
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse_since)]
    since: Option<format::entry::Time>,
    /// Paths in place of those of the policy; its other sources do not start.
    #[arg(long, value_name = "PATH")]
    paths: Vec<String>,
    /// Priority, from 0 to 100, in place of that of the policy.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    priority: Option<u32>,
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
        let start = self.wanted()?;
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
        for left in &started.skipped {
            context.out.record("skipped", left)?;
            let (node, reason) = (escape::text(&left.node), escape::text(&left.reason));
            context.out.remark(&format!("{node} is skipped: {reason}"));
        }
        let (jobs, queued) =
            (started.jobs.len(), started.jobs.iter().flat_map(|job| job.job).count());
        context.out.line(&self.last_line(jobs, queued))?;
        context.out.summary(Code::Complete, &Count { jobs, queued })
    }

    /// What was typed. A value that no node would take is refused here.
    fn wanted(&self) -> Result<StartPolicy> {
        let mut options = Options::new();
        for (name, text) in &self.set {
            let new = || OptionValue { values: Vec::new(), force: true };
            options.entry(name.clone()).or_insert_with(new).values.push(text.clone());
        }
        if self.since.is_some() && self.level != "catch-up" {
            return Err(
                Failure::usage("--since is for catch-ups".to_owned()).hint("Add: --level catch-up")
            );
        }
        for (name, value) in &options {
            judge(name, value, takes).map_err(|why| {
                Failure::usage(format!("{name}: {why}"))
                    .hint("Names and values are those of: icecore options")
            })?;
        }
        Ok(StartPolicy {
            node: self.node.clone(),
            group: self.group.clone(),
            options,
            complete: self.level == "complete",
            since: self.since.map(|since| since.secs),
            paths: self.paths.clone(),
            priority: self.priority,
            dry_run: self.dry_run,
        })
    }

    fn last_line(&self, jobs: usize, queued: usize) -> String {
        match jobs - queued {
            _ if self.dry_run => "Nothing was started (--dry-run).".to_owned(),
            0 => "How they go: icecore server jobs".to_owned(),
            busy => format!(
                "{busy} of {jobs} already have a job that is waiting or running: icecore server jobs"
            ),
        }
    }
}
