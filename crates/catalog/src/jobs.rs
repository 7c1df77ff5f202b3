//! Jobs: written when they begin and when they end.

use crate::queued::suspend_running;
use crate::schedules::job_ended;
use crate::sql::{Row, Sql, ToValue, Value, Word, values};
use crate::{Catalog, Error, Result, backup_states, job_log, reports};
use api::jobs::{Job, JobCause, JobFilter, JobPlan, JobState, Progress};

const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;
/// So many jobs are read quickly, in whatever order.
const FEW: i64 = 2 * PAGE_MAX as i64;
pub(crate) const COLUMNS: &str =
    "id, node, domain, kind, what, begun, ended, state, objects, bytes,
    bytes_read, bytes_wire, stage, path, snapshot, error, cancelled, cause, policy, schedule,
    source, unit, priority, due, until, attempt, late, runs, source_name, class";
/// What a query selects behind [`COLUMNS`].
pub(crate) const BEHIND: usize = 30;

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
    /// The same in a word.
    pub cause: Option<JobCause>,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
    /// Its report.
    pub report: &'a str,
}

impl Catalog {
    /// Adds a job and returns its number.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn begin_job(&self, new: NewJob<'_>) -> Result<u64> {
        self.change(|change| begin(change, new))
    }

    /// Records the end of a running job, and what it means for its source and schedule. A job that has ended does not
    /// change.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn end_job(&self, id: u64, end: Ending<'_>) -> Result<()> {
        self.change(|change| finish(change, id, end))
    }

    /// Adds a job that could not be added when it began, with its end, and returns its number.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn add_ended_job(&self, new: NewJob<'_>, end: Ending<'_>) -> Result<u64> {
        self.change(|change| {
            let id = begin(change, new)?;
            finish(change, id, end)?;
            Ok(id)
        })
    }

    /// Marks jobs as lost that were running when the server stopped. Returns how many. Those that a node command
    /// carries out go on: the node has the command still, and reports its end.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn lose_running_jobs(&self, now_secs: i64) -> Result<usize> {
        self.change(|change| {
            let select = "SELECT id FROM jobs WHERE state = 'running' AND NOT EXISTS (
                     SELECT 1 FROM commands WHERE commands.id = jobs.command
                     AND commands.state IN ('pending', 'taken')) ORDER BY id";
            let lost: Vec<u64> = change.rows(select, &[], |row| row.get(0))?;
            lost.iter().try_for_each(|id| lose(change, *id, now_secs))?;
            Ok(lost.len())
        })
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>> {
        self.look_long(|look| {
            let first = filter.since.map(|since| first_since(look, since)).transpose()?;
            let (select, values) = wanted(filter, first)?;
            look.rows(&select, &values, job)
        })
    }

    /// Whether a job of this domain has made the snapshot.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn has_snapshot(&self, domain: &str, snapshot: &str) -> Result<bool> {
        let select = "SELECT 1 FROM jobs WHERE domain = $1 AND snapshot = $2 LIMIT 1";
        self.look_long(|look| look.exists(select, values![domain, snapshot]))
    }

    /// The ids of snapshots that backups made in this domain, by jobs that ended at `since` or later.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn snapshots_made(&self, domain: &str, since: i64) -> Result<Vec<String>> {
        let select = "SELECT DISTINCT snapshot FROM jobs WHERE domain = $1 AND ended >= $2
            AND kind = 'backup' AND snapshot IS NOT NULL";
        self.look_long(|look| look.rows(select, values![domain, since], |row| row.get(0)))
    }

    /// One job with its report.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Database`].
    pub fn job(&self, id: u64) -> Result<Job> {
        let missing = || Error::Missing { what: "job", name: id.to_string() };
        self.look(|look| {
            let select = format!("SELECT {COLUMNS}, report FROM jobs WHERE id = $1");
            look.row(&select, values![id], |row| Ok(Job { report: row.get(BEHIND)?, ..job(row)? }))?
                .ok_or_else(missing)
        })
    }
}

fn begin(change: &Sql<'_>, new: NewJob<'_>) -> Result<u64> {
    let id = change.one(
        "INSERT INTO jobs (node, domain, kind, what, begun, state)
         VALUES ($1, $2, $3, $4, $5, 'running') RETURNING id",
        values![new.node, new.domain, new.kind, new.what, new.begun],
        |row| row.get(0),
    )?;
    job_log::began(change, id, new.begun)?;
    Ok(id)
}

fn finish(change: &Sql<'_>, id: u64, end: Ending<'_>) -> Result<()> {
    let Progress { objects, bytes, bytes_read, bytes_wire, stage, path } = end.progress;
    let rows = change.execute(
        "UPDATE jobs SET ended = $2, state = $3, objects = $4, bytes = $5,
         bytes_read = $6, bytes_wire = $7, stage = $8, path = $9, snapshot = $10,
         error = $11, cancelled = $12, report = $13, cause = $14 WHERE id = $1 AND state = 'running'",
        values![
            id,
            end.ended,
            Word(end.state),
            objects,
            bytes,
            bytes_read,
            bytes_wire,
            stage,
            path,
            end.snapshot,
            end.error,
            end.cancelled,
            end.report,
            end.cause.map(Word),
        ],
    )?;
    match end.state {
        _ if rows == 0 => Ok(()),
        JobState::Suspended => suspend_running(change, id),
        _ => job_ended(change, id, &end),
    }
}

/// The server stopped while the job ran. Its schedule is not told: the node may come back and go on.
fn lose(change: &Sql<'_>, id: u64, now_secs: i64) -> Result<()> {
    let (state, error, cause) = (JobState::Lost, Some("the server stopped"), None);
    let update = "UPDATE jobs SET state = 'lost', ended = $2, error = $3 WHERE id = $1";
    change.execute(update, values![id, now_secs, error])?;
    let (progress, snapshot, cancelled, report) = (&Progress::default(), None, false, "");
    let end =
        Ending { ended: now_secs, state, progress, snapshot, error, cause, cancelled, report };
    end_is_shown(change, &whole(change, id)?, &end)
}

/// What people are shown of the end of a job.
pub(crate) fn end_is_shown(change: &Sql<'_>, job: &Job, end: &Ending<'_>) -> Result<()> {
    reports::keep_figures(change, job.id, end.report)?;
    backup_states::ended(change, job, end)?;
    job_log::ended(change, job.id, end)
}

/// A job that exists.
pub(crate) fn whole(change: &Sql<'_>, id: u64) -> Result<Job> {
    change.one(&format!("SELECT {COLUMNS} FROM jobs WHERE id = $1"), values![id], job)
}

/// Number of jobs on a page.
pub fn page(filter: &JobFilter) -> u32 {
    filter.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}

/// No job that began at `since` or later has a lower number than this. Of many jobs it is 0: then reading from the
/// newest on finds a page of them soon. Of few it is exact, or reading would go on to the first job there is.
fn first_since(look: &Sql<'_>, since: i64) -> Result<i64> {
    let select = format!(
        "SELECT count(*), coalesce(min(id), {}) FROM (
           SELECT id FROM jobs WHERE begun >= $1 ORDER BY begun LIMIT {}) AS later",
        i64::MAX,
        FEW + 1
    );
    let read = |row: &Row| Ok((row.get::<i64>(0)?, row.get(1)?));
    let (count, first) = look.one(&select, values![since], read)?;
    Ok(if count > FEW { 0 } else { first })
}

/// The query for what `filter` names. Each combination of conditions is a text of its own, so that the database chooses
/// its index.
fn wanted(filter: &JobFilter, first: Option<i64>) -> Result<(String, Vec<Value>)> {
    let mut values = vec![filter.before.unwrap_or(u64::MAX).to_value()?];
    let mut conditions = String::from("id < $1");
    let texts = [("node", &filter.node), ("domain", &filter.domain), ("kind", &filter.kind)];
    let texts = texts.map(|(column, text)| (column, text.to_value()));
    for (column, value) in texts.into_iter().chain([("state", filter.state.map(Word).to_value())]) {
        let value = value?;
        if value != Value::Null {
            values.push(value);
            conditions += &format!(" AND {column} = ${}", values.len());
        }
    }
    for (column, least) in [("begun", filter.since), ("id", first)] {
        if let Some(least) = least {
            values.push(least.to_value()?);
            conditions += &format!(" AND {column} >= ${}", values.len());
        }
    }
    values.push(page(filter).to_value()?);
    let limit = values.len();
    let select =
        format!("SELECT {COLUMNS} FROM jobs WHERE {conditions} ORDER BY id DESC LIMIT ${limit}");
    Ok((select, values))
}

pub(crate) fn job(row: &Row) -> Result<Job> {
    Ok(Job {
        id: row.get(0)?,
        node: row.get(1)?,
        domain: row.get(2)?,
        kind: row.get(3)?,
        what: row.get(4)?,
        begun: row.get(5)?,
        ended: row.get(6)?,
        state: row.get::<Word<_>>(7)?.0,
        progress: Progress {
            objects: row.get(8)?,
            bytes: row.get(9)?,
            bytes_read: row.get(10)?,
            bytes_wire: row.get(11)?,
            stage: row.get(12)?,
            path: row.get(13)?,
        },
        objects_per_sec: None,
        bytes_per_sec: None,
        snapshot: row.get(14)?,
        error: row.get(15)?,
        cancelled: row.get(16)?,
        cause: row.get::<Option<Word<_>>>(17)?.map(|word| word.0),
        waits: None,
        plan: plan(row)?,
        report: None,
    })
}

/// What a policy wants of a job, if one does.
fn plan(row: &Row) -> Result<Option<JobPlan>> {
    let Some(policy) = row.get(18)? else { return Ok(None) };
    Ok(Some(JobPlan {
        policy,
        schedule: row.get(19)?,
        source: row.get(20)?,
        unit: row.get(21)?,
        priority: row.get(22)?,
        due: row.get(23)?,
        until: row.get(24)?,
        attempt: row.get(25)?,
        late: row.get(26)?,
        runs: row.get(27)?,
        source_name: row.get(28)?,
        class: row.get(29)?,
    }))
}
