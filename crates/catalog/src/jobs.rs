//! Jobs: written when they begin and when they end.

use crate::stored::Word;
use crate::{Catalog, Error, Result};
use api::jobs::{Job, JobFilter, JobState, Progress};
use rusqlite::{OptionalExtension, Row};

const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;
const COLUMNS: &str = "id, node, domain, kind, what, begun, ended, state, objects, bytes,
    bytes_read, bytes_wire, stage, path, snapshot, error, cancelled";

/// A new job.
#[derive(Clone, Copy, Debug)]
pub struct NewJob<'a> {
    /// The node.
    pub node: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// `backup` or `restore`.
    pub kind: &'a str,
    /// What is backed up or restored.
    pub what: &'a str,
    /// Start time.
    pub begun: i64,
}

/// How a job ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// End time.
    pub ended: i64,
    /// Final state.
    pub state: JobState,
    /// Final progress.
    pub progress: &'a Progress,
    /// Id of the snapshot.
    pub snapshot: Option<&'a str>,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
    /// Its report.
    pub report: &'a str,
}

impl Catalog {
    /// Adds a job and returns its number.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn begin_job(&self, new: NewJob<'_>) -> Result<u64> {
        self.change(|change| {
            change.execute(
                "INSERT INTO jobs (node, domain, kind, what, begun, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'running')",
                (new.node, new.domain, new.kind, new.what, new.begun),
            )?;
            Ok(change.last_insert_rowid().unsigned_abs())
        })
    }

    /// Records the end of a job. A job that has ended does not change.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn end_job(&self, id: u64, end: Ending<'_>) -> Result<()> {
        let Progress { objects, bytes, bytes_read, bytes_wire, stage, path } = end.progress;
        let number = |value: &u64| i64::try_from(*value).unwrap_or(i64::MAX);
        self.change(|change| {
            change.execute(
                "UPDATE jobs SET ended = ?2, state = ?3, objects = ?4, bytes = ?5,
                 bytes_read = ?6, bytes_wire = ?7, stage = ?8, path = ?9, snapshot = ?10,
                 error = ?11, cancelled = ?12, report = ?13 WHERE id = ?1 AND state = 'running'",
                rusqlite::params![
                    number(&id),
                    end.ended,
                    Word(end.state),
                    number(objects),
                    number(bytes),
                    number(bytes_read),
                    number(bytes_wire),
                    stage,
                    path,
                    end.snapshot,
                    end.error,
                    end.cancelled,
                    end.report,
                ],
            )?;
            Ok(())
        })
    }

    /// Marks jobs as lost that were running when the server stopped. Returns how many.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn lose_running_jobs(&self, now_secs: i64) -> Result<usize> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE jobs SET state = 'lost', ended = ?1, error = 'the server stopped'
                 WHERE state = 'running'",
                [now_secs],
            )?;
            Ok(rows)
        })
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.look_long(|look| {
            let mut select = look.prepare_cached(&format!(
                "SELECT {COLUMNS}, NULL FROM jobs WHERE id < ?1
                 AND (?2 IS NULL OR node = ?2) AND (?3 IS NULL OR domain = ?3)
                 AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR state = ?5)
                 AND (?6 IS NULL OR begun >= ?6) ORDER BY id DESC LIMIT ?7"
            ))?;
            let rows = select.query_map(
                (
                    filter.before.map_or(i64::MAX, number),
                    &filter.node,
                    &filter.domain,
                    &filter.kind,
                    Word(filter.state),
                    filter.since,
                    page(filter),
                ),
                job,
            )?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// One job with its report.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Sqlite`].
    pub fn job(&self, id: u64) -> Result<Job> {
        let missing = || Error::Missing { what: "job", name: id.to_string() };
        self.look(|look| {
            let mut select =
                look.prepare_cached(&format!("SELECT {COLUMNS}, report FROM jobs WHERE id = ?1"))?;
            let number = i64::try_from(id).unwrap_or(i64::MAX);
            select.query_row([number], job).optional()?.ok_or_else(missing)
        })
    }
}

/// Number of jobs on a page.
pub fn page(filter: &JobFilter) -> u32 {
    filter.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let number = |at: usize| -> rusqlite::Result<u64> { Ok(row.get::<_, i64>(at)?.unsigned_abs()) };
    Ok(Job {
        id: number(0)?,
        node: row.get(1)?,
        domain: row.get(2)?,
        kind: row.get(3)?,
        what: row.get(4)?,
        begun: row.get(5)?,
        ended: row.get(6)?,
        state: row.get::<_, Word<_>>(7)?.0,
        progress: Progress {
            objects: number(8)?,
            bytes: number(9)?,
            bytes_read: number(10)?,
            bytes_wire: number(11)?,
            stage: row.get(12)?,
            path: row.get(13)?,
        },
        objects_per_sec: None,
        bytes_per_sec: None,
        snapshot: row.get(14)?,
        error: row.get(15)?,
        cancelled: row.get(16)?,
        report: row.get(17)?,
    })
}
