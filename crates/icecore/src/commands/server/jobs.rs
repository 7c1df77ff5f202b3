//! `icecore server sessions`, `jobs`, `cancel`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::{escape, units};
use api::Name;
use api::jobs::{Job, Jobs};
use api::status::Done;
use serde::Serialize;

/// Show the jobs that run, with their rates.
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
            context.out.line("nothing runs; what ran before: icecore server jobs")?;
        } else {
            context.out.line(&heading())?;
        }
        for job in &jobs {
            context.out.item("job", job, || running(job))?;
        }
        if let Some(job) = jobs.first() {
            context.out.line(&format!("To end one: icecore server cancel {}", job.id))?;
        }
        context.out.summary(Code::Complete, &Page { count: jobs.len(), next })
    }
}

fn heading() -> String {
    columns(["JOB", "KIND", "NODE", "SINCE", "AT", "OBJECTS", "SIZE", "RATE", "PATH"])
}

fn running(job: &Job) -> String {
    let progress = &job.progress;
    let rate = job.bytes_per_sec.map_or("-".to_owned(), units::rate);
    // Who was asked to end does so at the next packet.
    let stage = if job.cancelled { "cancelled".to_owned() } else { escape::text(&progress.stage) };
    columns([
        &job.id.to_string(),
        &escape::text(&job.kind),
        &escape::text(&job.node),
        &when(job.begun),
        &stage,
        &units::count(progress.objects),
        &units::bytes(progress.bytes),
        &rate,
        &escape::text(&progress.path),
    ])
}

fn columns([job, kind, node, since, at, objects, size, rate, path]: [&str; 9]) -> String {
    let line = format!(
        "{job:>6}  {kind:<8} {node:<16} {since:<19}  {at:<9} {objects:>12} {size:>12} {rate:>14}  {path}"
    );
    line.trim_end().to_owned()
}

/// List jobs, newest first, or show one with its report.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server jobs --node web-01\n  icecore server jobs --state failed --limit 20\n  icecore server jobs 17 --json"
)]
pub(crate) struct JobsArgs {
    /// Show this job.
    #[arg(value_name = "JOB")]
    id: Option<u64>,
    /// Of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// With this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Option<String>,
    /// Of this kind.
    #[arg(long, value_name = "KIND", value_parser = ["backup", "restore"])]
    kind: Option<String>,
    /// In this state.
    #[arg(long, value_name = "STATE", value_parser = ["running", "complete", "failed", "lost"])]
    state: Option<String>,
    /// With lower numbers than this: the next page.
    #[arg(long, value_name = "JOB")]
    before: Option<u64>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

impl JobsArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        if let Some(id) = self.id {
            return show(reach, context, id);
        }
        let Jobs { jobs, next } = reach.get(&self.path())?;
        for job in &jobs {
            context.out.item("job", job, || row(job))?;
        }
        if let Some(next) = next {
            context.out.line(&format!("Older ones: icecore server jobs --before {next}"))?;
        }
        context.out.summary(Code::Complete, &Page { count: jobs.len(), next })
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
        self.before.iter().for_each(|before| path.push_str(&format!("&before={before}")));
        path
    }
}

fn row(job: &Job) -> String {
    let (state, bytes) = (word(&job.state), units::bytes(job.progress.bytes));
    let error =
        job.error.as_deref().map_or(String::new(), |error| format!("  {}", escape::text(error)));
    format!(
        "{:>6}  {}  {state:<9} {:<8} {:<24} {:>12} objects {bytes:>12}{error}",
        job.id,
        when(job.begun),
        escape::text(&job.kind),
        escape::text(&job.node),
        units::count(job.progress.objects),
    )
}

fn show(reach: &Reach, context: &Context, id: u64) -> Result<Code> {
    let job: Job = reach.get(&format!("/jobs/{id}"))?;
    context.out.item("job", &job, || row(&job))?;
    context.out.line(&format!("  {}", escape::text(&job.what)))?;
    if let Some(report) = &job.report {
        context.out.line(&escape::text(report))?;
    }
    context.out.summary(Code::Complete, &Page { count: 1, next: None })
}

/// Ask a running job to end.
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
        context.out.line(&format!("job {} was asked to end", self.id))?;
        context.out.summary(Code::Complete, &done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::jobs::{JobState, Progress};

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
            cancelled: false,
            report: None,
        };
        let (heading, row) = (heading(), running(&job));
        for (name, value) in [("KIND", "backup"), ("NODE", "web-01"), ("AT", "store")] {
            assert_eq!(heading.find(name), row.find(value), "{heading}\n{row}");
        }
        for (name, value) in
            [("OBJECTS", "331,902"), ("SIZE", "12.60 GiB"), ("RATE", "148.00 MiB/s")]
        {
            let end = |text: &str, part: &str| text.find(part).map(|at| at + part.len());
            assert_eq!(end(&heading, name), end(&row, value), "{heading}\n{row}");
        }
        assert!(!row.contains('\u{1b}'), "{row}");
        let cancelled = running(&Job { cancelled: true, bytes_per_sec: None, ..job });
        assert!(cancelled.contains(" cancelled "), "{cancelled}");
    }
}
