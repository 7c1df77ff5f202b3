//! `icecore server jobs --by-cause` and `icecore server jobs JOB --log`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use crate::terminal::Paint;
use crate::{escape, units};
use api::job_log::{JobLog, LogLevel};
use api::reports::Causes;
use serde::Serialize;

#[derive(Serialize)]
struct Count {
    count: usize,
}

/// What happened to a job, oldest first.
pub(super) fn log(reach: &Reach, context: &Context, id: u64) -> Result<Code> {
    let JobLog { entries } = reach.get(&format!("/jobs/{id}/log"))?;
    let mut table = Table::new(&[left("TIME"), left("LEVEL"), left("CODE"), flexible("MESSAGE")]);
    for entry in &entries {
        context.out.record("entry", entry)?;
        table.row([
            when(entry.time),
            word(&entry.level),
            escape::text(&entry.code),
            escape::line(&entry.message),
        ]);
        match entry.level {
            LogLevel::Error => table.paint(1, Paint::Red),
            LogLevel::Warning => table.paint(1, Paint::Yellow),
            LogLevel::Info => {}
        }
    }
    table.print(&context.out)?;
    if entries.is_empty() {
        context.out.line(&format!("Nothing was noted of it. The job: icecore server jobs {id}"))?;
    }
    context.out.summary(Code::Complete, &Count { count: entries.len() })
}

/// Jobs that did not end well, by cause.
pub(super) fn by_cause(reach: &Reach, context: &Context, since: Option<String>) -> Result<Code> {
    let since = since.map_or_else(String::new, |since| format!("?since={since}"));
    let Causes { causes } = reach.get(&format!("/reports/causes{since}"))?;
    let mut table = Table::new(&[
        left("STATE"),
        left("CAUSE"),
        right("JOBS"),
        right("NODES"),
        right("LAST JOB"),
        left("ENDED"),
        flexible("ERROR"),
        flexible("WHAT TO DO"),
    ]);
    for row in &causes {
        context.out.record("cause", row)?;
        table.row([
            word(&row.state),
            row.cause.as_ref().map_or_else(|| "unknown".to_owned(), word),
            units::count(row.jobs),
            units::count(row.nodes),
            row.last_job.to_string(),
            row.last.map_or_else(String::new, when),
            escape::line(row.error.as_deref().unwrap_or_default()),
            escape::line(&row.advice),
        ]);
    }
    table.print(&context.out)?;
    if causes.is_empty() {
        context.out.line("Every job ended well.")?;
    }
    context.out.summary(Code::Complete, &Count { count: causes.len() })
}
