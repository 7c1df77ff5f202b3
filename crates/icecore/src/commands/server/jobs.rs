//! `icecore server sessions`, `jobs`, `cancel`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Column, Table, flexible, left, right};
use crate::terminal::Paint;
use crate::{escape, units};
use api::Name;
use api::jobs::{Job, JobPlan, JobState, Jobs};
use api::status::Done;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;

/// Show running jobs, with their rates.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore server sessions\n  icecore server sessions --json")]
pub(crate) struct Sessions {}

#[derive(Serialize)]
struct Page {
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

impl Sessions {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let Jobs { jobs, next } = reach.get("/sessions")?;
        if jobs.is_empty() {
            context.out.line("No job is running. Earlier ones: icecore server jobs")?;
        }
        jobs.iter().try_for_each(|job| context.out.record("job", job))?;
        running(&jobs).print(&context.out)?;
        if let Some(job) = jobs.first() {
            context.out.line(&format!("To cancel one: icecore server cancel {}", job.id))?;
        }
        context.out.summary(Code::Complete, &Page { count: jobs.len(), next })
    }
}

/// Jobs that run.
fn running(jobs: &[Job]) -> Table {
    let mut columns = vec![
        right("JOB"),
        left("KIND"),
        left("NODE"),
        left("SINCE"),
        left("STAGE"),
        right("OBJECTS"),
        right("SIZE"),
        right("RATE"),
        flexible("PATH"),
    ];
    let has_domain = with_domain(jobs, &mut columns, 3);
    let mut table = Table::new(&columns);
    for job in jobs {
        let progress = &job.progress;
        // A job that was asked to end does so at the next packet.
        let stage =
            if job.cancelled { "cancelled".to_owned() } else { escape::text(&progress.stage) };
        let mut row = vec![
            job.id.to_string(),
            escape::text(&job.kind),
            escape::text(&job.node),
            when(job.begun),
            stage,
            units::count(progress.objects),
            units::bytes(progress.bytes),
            job.bytes_per_sec.map_or_else(String::new, units::rate),
            escape::text(&progress.path),
        ];
        if has_domain {
            row.insert(3, escape::text(&job.domain));
        }
        table.row(row);
    }
    table
}

/// Adds a column for the domain if a job has no node, as those have that the server does itself; whether it did.
fn with_domain(jobs: &[Job], columns: &mut Vec<Column>, at: usize) -> bool {
    let is_needed = jobs.iter().any(|job| job.node.is_empty());
    if is_needed {
        columns.insert(at, left("DOMAIN"));
    }
    is_needed
}

/// List jobs, newest first, or show one with its report.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server jobs --node web-01\n  icecore server jobs --state failed --limit 20\n  icecore server jobs 17 --json\n  icecore server jobs 17 --log\n  icecore server jobs --by-cause --since 7d\n  icecore server jobs --watch"
)]
pub(crate) struct JobsArgs {
    /// Show this job with its report.
    #[arg(value_name = "JOB")]
    id: Option<u64>,
    /// Show what happened to the job, step by step.
    #[arg(long, requires = "id")]
    log: bool,
    /// Group jobs that did not end well by cause, with what to do.
    #[arg(long, conflicts_with_all = ["id", "node", "domain", "kind", "state", "before"])]
    by_cause: bool,
    /// Show jobs as they come and go, until it is stopped: a table on a terminal, else a line for each change.
    #[arg(long, conflicts_with_all = ["id", "by_cause", "since", "domain", "kind", "state", "before"])]
    watch: bool,
    /// Only jobs that began since then: an age such as 7d, or a time.
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse_since)]
    since: Option<format::entry::Time>,
    /// Only jobs of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// Only jobs of this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Option<String>,
    /// Only jobs of this kind.
    #[arg(long, value_name = "KIND", value_parser = ["backup", "restore", "read", "expire", "copy", "reclaim", "check", "move"])]
    kind: Option<String>,
    /// Only jobs in this state.
    #[arg(long, value_name = "STATE", value_parser = states())]
    state: Option<String>,
    /// Only jobs with lower numbers than this: the next page.
    #[arg(long, value_name = "JOB")]
    before: Option<u64>,
    /// Maximum number of jobs.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// The names of [`JobState`]. The other spelling is taken as well.
fn states() -> impl TypedValueParser<Value = String> {
    let names = [
        "queued",
        "suspended",
        "running",
        "complete",
        "partial",
        "failed",
        "cancelled",
        "missed",
        "lost",
    ];
    let states = names.map(|name| match name {
        "cancelled" => PossibleValue::new(name).alias("canceled"),
        name => PossibleValue::new(name),
    });
    PossibleValuesParser::new(states).map(|state| state.replace("canceled", "cancelled"))
}

impl JobsArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match self.id {
            Some(id) if self.log => return super::causes::log(reach, context, id),
            Some(id) => return show(reach, context, id),
            None if self.by_cause => return super::causes::by_cause(reach, context, self.since()),
            None if self.watch => return super::watch::jobs(reach, context, self.node.as_ref()),
            None => {}
        }
        let Jobs { jobs, next } = reach.get(&self.path())?;
        jobs.iter().try_for_each(|job| context.out.record("job", job))?;
        listed(&jobs).print(&context.out)?;
        if jobs.is_empty() {
            context.out.line("No job matches. All of them: icecore server jobs")?;
        }
        if let Some(next) = next {
            context.out.line(&format!("Older jobs: icecore server jobs --before {next}"))?;
        }
        context.out.summary(Code::Complete, &Page { count: jobs.len(), next })
    }

    /// In whole seconds, as the API takes it.
    fn since(&self) -> Option<String> {
        let whole = |time| crate::time::json(format::entry::Time { nanos: 0, ..time });
        self.since.map(whole)
    }

    /// Names, words and numbers: nothing that would need to be escaped.
    fn path(&self) -> String {
        let mut path = format!("/jobs?limit={}", self.limit);
        let node = self.node.as_ref().map(ToString::to_string);
        let words = [
            ("node", &node),
            ("domain", &self.domain),
            ("kind", &self.kind),
            ("state", &self.state),
        ];
        for (key, word) in words.iter().filter_map(|(key, word)| Some((key, word.as_ref()?))) {
            path.push_str(&format!("&{key}={word}"));
        }
        self.since().iter().for_each(|since| path.push_str(&format!("&since={since}")));
        self.before.iter().for_each(|before| path.push_str(&format!("&before={before}")));
        path
    }
}

/// Jobs of any state.
fn listed(jobs: &[Job]) -> Table {
    let mut columns = vec![
        right("JOB"),
        left("STATE"),
        left("KIND"),
        left("NODE"),
        left("STARTED"),
        right("TOOK"),
        right("OBJECTS"),
        right("SIZE"),
        flexible("WHY"),
    ];
    let has_domain = with_domain(jobs, &mut columns, 4);
    let mut table = Table::new(&columns);
    for job in jobs {
        let took = job.ended.map(|ended| units::duration((ended - job.begun).max(0) as f64));
        let mut row = vec![
            job.id.to_string(),
            word(&job.state),
            escape::text(&job.kind),
            escape::text(&job.node),
            when(job.begun),
            took.unwrap_or_default(),
            units::count(job.progress.objects),
            units::bytes(job.progress.bytes),
            escape::line(job.error.as_deref().or(job.waits.as_deref()).unwrap_or_default()),
        ];
        if has_domain {
            row.insert(4, escape::text(&job.domain));
        }
        table.row(row);
        match job.state {
            JobState::Failed | JobState::Lost | JobState::Missed => table.paint(1, Paint::Red),
            JobState::Partial | JobState::Cancelled | JobState::Suspended => {
                table.paint(1, Paint::Yellow)
            }
            JobState::Complete | JobState::Running | JobState::Queued => {}
        }
    }
    table
}

fn show(reach: &Reach, context: &Context, id: u64) -> Result<Code> {
    let job: Job = reach.get(&format!("/jobs/{id}"))?;
    context.out.record("job", &job)?;
    listed(std::slice::from_ref(&job)).print(&context.out)?;
    context.out.line(&format!(
        "\n{} of the domain {}",
        escape::text(&job.what),
        escape::text(&job.domain)
    ))?;
    for line in job.plan.iter().flat_map(of_plan) {
        context.out.line(&line)?;
    }
    if let Some(waits) = &job.waits {
        context.out.line(&escape::text(waits))?;
    }
    if let Some(error) = &job.error {
        error.lines().enumerate().try_for_each(|(number, line)| {
            let start = if number == 0 { "error: " } else { "  " };
            context.out.line(&format!("{start}{}", escape::text(line)))
        })?;
    }
    for line in job.report.as_deref().map(of_report).unwrap_or_default() {
        context.out.line(&line)?;
    }
    context.out.summary(Code::Complete, &Page { count: 1, next: None })
}

/// What a policy wants of a job.
fn of_plan(plan: &JobPlan) -> Vec<String> {
    let by = plan.schedule.as_ref().map_or_else(
        || "started by hand".to_owned(),
        |schedule| format!("schedule {}, due {}", escape::text(schedule), when(plan.due)),
    );
    let mut lines = vec![format!(
        "policy {}, {by}, unit {}",
        escape::text(&plan.policy),
        escape::text(&plan.unit)
    )];
    if plan.attempt > 1 {
        lines.push(format!("attempt {}", plan.attempt));
    }
    if plan.runs > 1 {
        let last = plan.until.map_or_else(String::new, when);
        lines.push(format!("{} runs, the last due {last}", plan.runs));
    }
    if plan.late {
        lines.push("makes up for missed runs".to_owned());
    }
    lines
}

/// The fields of a node's report that are not zero; the report itself as it came where it is of another kind.
fn of_report(text: &str) -> Vec<String> {
    let Ok(serde_json::Value::Object(report)) = serde_json::from_str(text) else {
        return vec![escape::text(text)];
    };
    let mut lines = Vec::new();
    fields(&report, "", &mut lines);
    lines
}

fn fields(
    object: &serde_json::Map<String, serde_json::Value>,
    above: &str,
    lines: &mut Vec<String>,
) {
    use serde_json::Value;
    for (name, value) in object {
        match value {
            Value::Object(inner) => fields(inner, &format!("{above}{name}."), lines),
            Value::Null | Value::Bool(false) => {}
            Value::Number(number) if number.as_f64() == Some(0.0) => {}
            Value::String(text) => lines.push(field(above, name, &escape::text(text))),
            Value::Number(number) => {
                let shown = number.as_u64().map_or_else(
                    || number.as_f64().map_or_else(String::new, |value| format!("{value:.2}")),
                    units::count,
                );
                lines.push(field(above, name, &shown));
            }
            other => lines.push(field(above, name, &escape::text(&other.to_string()))),
        }
    }
}

fn field(above: &str, name: &str, value: &str) -> String {
    format!("  {:<40}{value}", escape::text(&format!("{above}{name}")))
}

/// Cancel a job that waits or runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server cancel 17")]
pub(crate) struct Cancel {
    /// The job.
    #[arg(value_name = "JOB")]
    id: u64,
}

impl Cancel {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let done: Done = reach.post(&format!("/jobs/{}/cancel", self.id), &())?;
        context.out.line(&format!("Asked job {} to end: icecore server jobs {0}", self.id))?;
        context.out.summary(Code::Complete, &done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::jobs::Progress;

    #[test]
    fn sessions_stand_below_their_headings() {
        let progress = Progress {
            objects: 331_902,
            bytes: 13_529_146_982,
            bytes_read: 0,
            bytes_wire: 0,
            stage: "store".to_owned(),
            path: "/home/\u{1b}[2Jx".to_owned(),
        };
        let job = Job {
            id: 12,
            node: "web-01".to_owned(),
            domain: "web-01".to_owned(),
            kind: "backup".to_owned(),
            what: "/home".to_owned(),
            begun: 0,
            ended: None,
            state: JobState::Running,
            progress,
            objects_per_sec: None,
            bytes_per_sec: Some(155_189_248.0),
            snapshot: None,
            error: None,
            cause: None,
            waits: None,
            plan: None,
            cancelled: false,
            report: None,
        };
        let lines = |job: Job| running(&[job]).plain();
        let [heading, row] = &lines(job.clone())[..] else { panic!("a heading and a row") };
        for (name, value) in [("KIND", "backup"), ("NODE", "web-01"), ("STAGE", "store")] {
            assert_eq!(heading.find(name), row.find(value), "{heading}\n{row}");
        }
        for (name, value) in [("OBJECTS", "331,902"), ("SIZE", "12.6 GiB"), ("RATE", "148 MiB/s")] {
            let end = |text: &str, part: &str| text.find(part).map(|at| at + part.len());
            assert_eq!(end(heading, name), end(row, value), "{heading}\n{row}");
        }
        assert!(!row.contains('\u{1b}'), "{row}");
        let cancelled = lines(Job { cancelled: true, bytes_per_sec: None, ..job.clone() });
        assert!(cancelled[1].contains(" cancelled "), "{cancelled:?}");
        assert!(!heading.contains("DOMAIN"), "{heading}");
        let of_server = [Job { node: String::new(), domain: "shop".to_owned(), ..job }];
        for shown in [running(&of_server).plain(), listed(&of_server).plain()] {
            assert_eq!(shown[0].find("DOMAIN"), shown[1].find("shop"), "{shown:?}");
        }
    }

    #[test]
    fn a_state_is_taken_in_both_spellings() {
        let command =
            clap::Command::new("jobs").arg(clap::Arg::new("state").value_parser(states()));
        let state = |word: &str| {
            let matches = command.clone().try_get_matches_from(["jobs", word]).ok()?;
            matches.get_one::<String>("state").cloned()
        };
        for word in ["cancelled", "canceled"] {
            assert_eq!(state(word).as_deref(), Some("cancelled"));
        }
        assert_eq!(state("lost").as_deref(), Some("lost"));
        assert_eq!(state("cancel"), None);
    }

    #[test]
    fn a_report_is_shown_field_by_field_without_zeros() {
        let text = r#"{"partial":false,"report":{"files":5122,"failed":0,"elapsed_secs":1.25},"target":"/tmp"}"#;
        let lines = of_report(text);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines.iter().any(|line| line.ends_with(" 5,122") && line.contains("report.files")));
        assert_eq!(of_report("no JSON"), ["no JSON"]);
    }
}
