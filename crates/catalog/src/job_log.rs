//! What happened to each job, in the order in which it happened.

use crate::jobs::Ending;
use crate::sql::{Row, Sql, Word, values};
use crate::{Catalog, Result};
use api::job_log::{JobLogEntry, LogLevel};
use api::jobs::{JobPlan, JobState};
use api::reports::Figures;
use serde_json::Value;

/// Entries of a job; what comes later is left out, except how it ended.
const ENTRIES_MAX: i64 = 200;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A new entry.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The job.
    pub job: u64,
    /// When it happened.
    pub time: i64,
    /// How much it matters.
    pub level: LogLevel,
    /// A word that never changes its meaning.
    pub code: &'a str,
    /// The same for people.
    pub message: &'a str,
}

/// Adds an entry to the running transaction.
pub(crate) fn note(change: &Sql<'_>, new: &NewEntry<'_>) -> Result<()> {
    let count = "SELECT count(*) FROM job_log WHERE job = $1";
    let count: i64 = change.one(count, values![new.job], |row| row.get(0))?;
    if count >= ENTRIES_MAX && new.code != ENDED {
        return Ok(());
    }
    let message = &new.message[..new.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    change.execute(
        "INSERT INTO job_log (job, time, level, code, message) VALUES ($1, $2, $3, $4, $5)",
        values![new.job, new.time, Word(new.level), new.code, message],
    )?;
    Ok(())
}

/// The code of the last entry of a job.
const ENDED: &str = "ended";

fn info(job: u64, time: i64, code: &'static str, message: &str) -> Vec<Entry> {
    vec![Entry { job, time, level: LogLevel::Info, code, message: message.to_owned() }]
}

/// An entry that is written with others.
struct Entry {
    job: u64,
    time: i64,
    level: LogLevel,
    code: &'static str,
    message: String,
}

fn write(change: &Sql<'_>, entries: &[Entry]) -> Result<()> {
    entries.iter().try_for_each(|entry| {
        let Entry { job, time, level, code, message } = entry;
        note(change, &NewEntry { job: *job, time: *time, level: *level, code, message })
    })
}

/// The job waits in its queue from now on.
pub(crate) fn queued(change: &Sql<'_>, job: u64, time: i64, plan: &JobPlan) -> Result<()> {
    let by =
        plan.schedule.as_ref().map_or("by hand".to_owned(), |name| format!("by schedule {name}"));
    let attempt =
        if plan.attempt > 1 { format!(", attempt {}", plan.attempt) } else { String::new() };
    let message = format!("queued {by} for unit {}{attempt}", plan.unit);
    write(change, &info(job, time, "queued", &message))
}

/// Its node has the command.
pub(crate) fn started(change: &Sql<'_>, job: u64, time: i64, command: u64) -> Result<()> {
    write(change, &info(job, time, "started", &format!("command {command} was given to the node")))
}

/// Its session is there.
pub(crate) fn began(change: &Sql<'_>, job: u64, time: i64) -> Result<()> {
    write(change, &info(job, time, "session", "the node began its session"))
}

/// How it ended, and what its report warns of.
pub(crate) fn ended(change: &Sql<'_>, job: u64, end: &Ending<'_>) -> Result<()> {
    let mut entries = warnings(job, end);
    let level = match end.state {
        JobState::Complete => LogLevel::Info,
        JobState::Partial | JobState::Cancelled => LogLevel::Warning,
        _ => LogLevel::Error,
    };
    let state = word(&end.state);
    let cause = end.cause.map_or_else(String::new, |cause| format!(" ({})", word(&cause)));
    let error = end.error.map_or_else(String::new, |error| format!(": {error}"));
    let message = format!("{state}{cause}{error}");
    entries.push(Entry { job, time: end.ended, level, code: ENDED, message });
    write(change, &entries)
}

fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Objects that failed, and hooks. Which objects they are the server cannot know: their paths are sealed.
fn warnings(job: u64, end: &Ending<'_>) -> Vec<Entry> {
    let Figures { objects_failed, objects_incomplete, .. } = Figures::of_report(end.report);
    let counts = [
        (objects_failed, "objects-failed", "could not be read"),
        (objects_incomplete, "objects-incomplete", "were stored without a part of them"),
    ];
    let entry = |level, code, message| Entry { job, time: end.ended, level, code, message };
    let some = counts.into_iter().filter_map(|(count, code, what)| {
        let count = count.filter(|count| *count > 0)?;
        let message = format!("{count} objects {what}; on the node: icecore map --failed");
        Some(entry(LogLevel::Warning, code, message))
    });
    let report: Value = serde_json::from_str(end.report).unwrap_or_default();
    let hooks = report["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let hooks = hooks.iter().take(HOOKS_MAX).map(|hook| {
        let is_good = hook["ending"] == "good";
        let (level, code) =
            if is_good { (LogLevel::Info, "hook") } else { (LogLevel::Warning, "hook-failed") };
        let text = |key: &str| hook[key].as_str().unwrap_or_default().to_owned();
        let output = text("output").trim().replace('\n', "; ");
        let message = format!("{} {}: {} {output}", text("stage"), text("name"), text("status"));
        entry(level, code, message.trim_end().to_owned())
    });
    some.chain(hooks).collect()
}

/// Hooks of a report that are noted.
const HOOKS_MAX: usize = 16;

impl Catalog {
    /// Adds entries.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn note_jobs(&self, new: &[NewEntry<'_>]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        self.change(|change| new.iter().try_for_each(|new| note(change, new)))
    }

    /// The log of a job, oldest first.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn job_log(&self, job: u64) -> Result<Vec<JobLogEntry>> {
        let select = "SELECT time, level, code, message FROM job_log WHERE job = $1 ORDER BY id";
        self.look(|look| look.rows(select, values![job], read))
    }
}

fn read(row: &Row) -> Result<JobLogEntry> {
    let (time, level, code) = (row.get(0)?, row.get::<Word<_>>(1)?.0, row.get(2)?);
    Ok(JobLogEntry { time, level, code, message: row.get(3)? })
}
