//! `icecore server jobs --watch`.

mod stream;

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::table::{Table, flexible, left, right};
use crate::{escape, terminal, units};
use api::Name;
use api::events::{JOB, PROGRESS, RESET};
use api::jobs::{Job, Jobs};
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use stream::{Event, Parser};

/// Pause before the server is asked again that could not be reached.
const AGAIN: Duration = Duration::from_secs(2);
/// Parts of the stream that wait to be shown; further ones wait on the server.
const PARTS_MAX: usize = 16;

/// Shows jobs as they come and go, until somebody stops it.
pub(super) fn jobs(reach: &Reach, context: &Context, node: Option<&Name>) -> Result<Code> {
    let mut view = View { reach, context, node, open: BTreeMap::new(), drawn: 0 };
    let mut parser = Parser::default();
    let mut was_reached = false;
    loop {
        let done = follow(reach, &mut parser, |events| view.take(events));
        was_reached |= parser.last_id().is_some();
        match done {
            // A stream ends after a while, and goes on where it was.
            Ok(()) => {}
            Err(failure) if was_reached && failure.code == Code::Unreachable => {
                context.out.note("The server cannot be reached; trying again.");
                view.drawn = 0;
                std::thread::sleep(AGAIN);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Follows one stream, in a thread of its own: what is shown may need to ask the server itself.
fn follow(
    reach: &Reach,
    parser: &mut Parser,
    mut take: impl FnMut(Vec<Event>) -> Result<()>,
) -> Result<()> {
    let after = parser.last_id().map_or_else(String::new, |id| format!("?after={id}"));
    let (path, reach) = (format!("/events{after}"), reach.clone());
    let (sender, parts) = sync_channel::<Vec<u8>>(PARTS_MAX);
    let following = move || reach.follow(&path, |part| sender.send(part.to_vec()).is_ok());
    let thread = std::thread::Builder::new().spawn(following).map_err(pipeline::Error::NoThread)?;
    parser.begin();
    for part in parts {
        take(parser.feed(&part)?)?;
    }
    thread.join().unwrap_or_else(|_| Err(Failure::new(Code::Failed, "a thread broke")))
}

/// What is shown.
struct View<'a> {
    reach: &'a Reach,
    context: &'a Context,
    node: Option<&'a Name>,
    open: BTreeMap<u64, Job>,
    /// Lines of the table on the terminal.
    drawn: usize,
}

impl View<'_> {
    fn take(&mut self, events: Vec<Event>) -> Result<()> {
        let mut lines = Vec::new();
        for event in events {
            match event.kind.as_str() {
                RESET => lines.extend(self.read_again()?),
                JOB => {
                    if let Ok(job) = serde_json::from_str(&event.data) {
                        lines.extend(self.changed(job)?);
                    }
                }
                PROGRESS => self.goes_on(&event.data),
                _ => {}
            }
        }
        self.draw(&lines)?;
        self.context.out.flush()
    }

    /// Reads all open jobs; the lines of those that ended meanwhile.
    fn read_again(&mut self) -> Result<Vec<String>> {
        let before = std::mem::take(&mut self.open);
        for state in ["queued", "running"] {
            let Jobs { jobs, .. } = self.reach.get(&format!("/jobs?state={state}&limit=1000"))?;
            let wanted = jobs.into_iter().filter(|job| is_wanted(self.node, job));
            self.open.extend(wanted.map(|job| (job.id, job)));
        }
        let mut lines = Vec::new();
        for id in
            before.keys().filter(|id| !self.open.contains_key(id)).copied().collect::<Vec<_>>()
        {
            lines.extend(self.changed(self.reach.get(&format!("/jobs/{id}"))?)?);
        }
        Ok(lines)
    }

    /// The line of a job that was entered, began or ended.
    fn changed(&mut self, job: Job) -> Result<Option<String>> {
        if !is_wanted(self.node, &job) {
            return Ok(None);
        }
        self.context.out.record("job", &job)?;
        let (line, is_open) = (line(&job), job.state.is_open());
        if is_open {
            self.open.insert(job.id, job);
        } else {
            self.open.remove(&job.id);
        }
        // On a terminal the table has those that are open.
        Ok((!is_open || terminal::height().is_none()).then_some(line))
    }

    fn goes_on(&mut self, data: &str) {
        if let Ok(job) = serde_json::from_str::<Job>(data)
            && is_wanted(self.node, &job)
        {
            self.open.insert(job.id, job);
        }
    }

    fn draw(&mut self, lines: &[String]) -> Result<()> {
        let out = &self.context.out;
        let Some(height) = terminal::height().filter(|_| !out.json) else {
            return lines.iter().try_for_each(|line| out.print(line));
        };
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        let mut shown = table(self.open.values()).shown(out);
        let rows = height.saturating_sub(2).max(2);
        if self.open.is_empty() {
            shown = vec!["No job waits or runs.".to_owned()];
        } else if shown.len() > rows {
            let more = shown.len() - rows + 1;
            shown.truncate(rows - 1);
            shown.push(format!("… and {more} more: icecore server jobs"));
        }
        text.push_str(&shown.join("\n"));
        self.drawn = shown.len();
        out.print(&text)
    }
}

fn is_wanted(node: Option<&Name>, job: &Job) -> bool {
    node.is_none_or(|node| node.as_str() == job.node)
}

/// `2026-11-23 07:00:00  job 12 of web: complete`.
fn line(job: &Job) -> String {
    let time = when(job.ended.unwrap_or(job.begun));
    let why = job.error.as_deref().or(job.waits.as_deref());
    let why = why.map_or_else(String::new, |why| format!("; {why}"));
    let what = format!("job {} of {}: {} {}{why}", job.id, job.node, job.kind, word(&job.state));
    format!("{time}  {}", escape::text(&what))
}

fn table<'a>(jobs: impl Iterator<Item = &'a Job>) -> Table {
    let mut table = Table::new(&[
        right("JOB"),
        left("STATE"),
        left("KIND"),
        left("NODE"),
        left("SINCE"),
        right("OBJECTS"),
        right("SIZE"),
        right("RATE"),
        flexible("NOW"),
    ]);
    for job in jobs {
        let progress = &job.progress;
        let now = job.waits.as_deref().unwrap_or(&progress.path);
        table.row([
            job.id.to_string(),
            word(&job.state),
            escape::text(&job.kind),
            escape::text(&job.node),
            when(job.begun),
            units::count(progress.objects),
            units::bytes(progress.bytes),
            job.bytes_per_sec.map_or_else(String::new, units::rate),
            escape::text(now),
        ]);
    }
    table
}
