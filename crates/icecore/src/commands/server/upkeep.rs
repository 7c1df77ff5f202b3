//! `icecore server upkeep`.

use super::site::ObjectAction;
use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use crate::terminal::Paint;
use ::site::Kind;
use api::Name;
use api::upkeep::{DomainUpkeep, StartUpkeep, StartedUpkeep, UpkeepStatus};
use serde::Serialize;

/// Declare upkeep of domains: expire, copy, reclaim, check and check-copy, when and how fast; start it, or show how it
/// goes.
///
/// The upkeep `default` does what no declared one does: every Sunday night, reclaim, and a check of a twentieth of what
/// is stored, in domains and in their copies in directories. Snapshots expire once a day, unless an upkeep with a
/// schedule says when.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server upkeep status\n  icecore server upkeep start default --domain web-01\n  icecore server upkeep start default --task check --dry-run\n  icecore server upkeep create nights --set 'tasks=[\"reclaim\"]' --set 'schedules=[\"nightly\"]' --set throttle=50M\n  icecore server upkeep create second --set 'tasks=[\"copy\"]' --set to=/mnt/second --set 'schedules=[\"nightly\"]'"
)]
pub(crate) struct UpkeepArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show each task in each domain: when it is due, how it went, and alarms.
    #[command(after_help = "Example:\n  icecore server upkeep status --json")]
    Status,
    Start(StartArgs),
    #[command(flatten)]
    Declare(ObjectAction),
}

/// Start the tasks of an upkeep now, as jobs of the server.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server upkeep start default --domain web-01\n  icecore server upkeep start default --task reclaim --dry-run\n\nNodes can back up meanwhile. How the jobs go: icecore server jobs"
)]
struct StartArgs {
    /// The upkeep.
    #[arg(value_name = "UPKEEP")]
    upkeep: Name,
    /// Only in this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Option<String>,
    /// Only this task.
    #[arg(long, value_name = "TASK", value_parser = ["expire", "copy", "reclaim", "check", "check-copy"])]
    task: Option<String>,
    /// Show what would start, and start nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Count {
    jobs: usize,
    queued: usize,
}

#[derive(Serialize)]
struct Alarms {
    rows: usize,
    alarms: usize,
}

impl UpkeepArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Status => status(reach, context),
            Action::Start(start) => start.run(reach, context),
            Action::Declare(action) => action.run(Kind::Upkeep, reach, context),
        }
    }
}

impl StartArgs {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let domain = super::domain(self.domain.as_ref())?;
        let how = StartUpkeep { domain, task: self.task.clone(), dry_run: self.dry_run };
        let started: StartedUpkeep = reach.post(&format!("/upkeep/{}/start", self.upkeep), &how)?;
        let mut table = Table::new(&[right("JOB"), left("TASK"), flexible("DOMAIN")]);
        for job in &started.jobs {
            context.out.record("job", job)?;
            let number = job.job.map_or_else(|| "-".to_owned(), |job| job.to_string());
            table.row([number, escape::text(&job.task), escape::text(&job.domain)]);
        }
        table.print(&context.out)?;
        let (jobs, queued) =
            (started.jobs.len(), started.jobs.iter().flat_map(|job| job.job).count());
        context.out.line(&self.last_line(jobs - queued))?;
        context.out.summary(Code::Complete, &Count { jobs, queued })
    }

    fn last_line(&self, open: usize) -> String {
        match open {
            _ if self.dry_run => "Nothing was started (--dry-run).".to_owned(),
            0 => "How they go: icecore server jobs".to_owned(),
            open => {
                format!("{open} already have a job that is waiting or running: icecore server jobs")
            }
        }
    }
}

fn status(reach: &Reach, context: &Context) -> Result<Code> {
    let UpkeepStatus { domains } = reach.get("/upkeep")?;
    let mut table = Table::new(&[
        left("DOMAIN"),
        left("TASK"),
        left("UPKEEP"),
        left("NEXT"),
        right("JOB"),
        left("ENDED"),
        left("STATE"),
        flexible("ALARM"),
    ]);
    for row in &domains {
        context.out.record("upkeep", row)?;
        add(&mut table, row);
    }
    table.print(&context.out)?;
    if domains.is_empty() {
        context.out.line("There is no domain yet. To enroll a node: icecore server token NODE")?;
    }
    let alarms = domains.iter().filter(|row| row.alarm.is_some()).count();
    context.out.summary(Code::Complete, &Alarms { rows: domains.len(), alarms })
}

fn add(table: &mut Table, row: &DomainUpkeep) {
    table.row([
        escape::text(&row.domain),
        escape::text(&row.task),
        escape::text(&row.upkeeps.join(" ")),
        row.next.map_or_else(|| "-".to_owned(), when),
        row.job.map_or_else(|| "-".to_owned(), |job| job.to_string()),
        row.ended.map_or_else(|| "never".to_owned(), when),
        row.state.map_or_else(String::new, |state| word(&state)),
        escape::text(row.alarm.as_deref().unwrap_or_default()),
    ]);
    if row.alarm.is_some() {
        table.paint(6, Paint::Red);
    }
}
