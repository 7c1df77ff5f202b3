//! Jobs of the server's own: what upkeep does to domains, and what came of it.
//!
//! A run is settled in the transaction that queues its jobs; a task of an upkeep has at most one open job in a domain.

use crate::audit::note;
use crate::jobs::{COLUMNS, Ending, job};
use crate::sql::{Row, Sql, Word, values};
use crate::{By, Catalog, Result};
use api::Name;
use api::jobs::{Job, JobState};

/// The task whose outcome is that of its upkeep.
const OF_COPIES: [&str; 2] = ["copy", "check-copy"];

/// A schedule of an upkeep for one domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpkeepKey {
    /// The upkeep.
    pub upkeep: String,
    /// The schedule.
    pub schedule: String,
    /// The domain.
    pub domain: String,
}

/// A job for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUpkeepJob {
    /// The upkeep that wants it.
    pub upkeep: String,
    /// The schedule; `None` when it was started by hand.
    pub schedule: Option<String>,
    /// The domain.
    pub domain: String,
    /// What is done.
    pub task: String,
    /// When it ends between two stages, or is missed.
    pub until: Option<i64>,
    /// Where it moves the domain, if that is what it does.
    pub to: Option<MoveTo>,
}

/// Where a job moves a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveTo {
    /// The pool.
    pub pool: Name,
    /// Whether it ends what runs in the domain, instead of waiting for it.
    pub interrupt: bool,
    /// The most bytes that it copies in a second while the domain is in use; `None` for no limit.
    pub bytes_per_sec: Option<u64>,
}

/// What is settled of a schedule at once.
#[derive(Clone, Debug)]
pub struct UpkeepSettlement {
    /// The schedule.
    pub key: UpkeepKey,
    /// What was settled before, as its caller knows it; `None` for a new schedule.
    pub before: Option<i64>,
    /// What is settled from now on.
    pub settled: i64,
    /// What is due, in order.
    pub jobs: Vec<NewUpkeepJob>,
}

/// A job that waits or runs.
#[derive(Clone, Debug)]
pub struct OpenUpkeepJob {
    /// The job.
    pub job: Job,
    /// What it is to do.
    pub wanted: NewUpkeepJob,
}

/// What the last job of a task did to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainUpkeep {
    /// The domain.
    pub domain: String,
    /// The task.
    pub task: String,
    /// The upkeep that makes or reads the copy, since each has another one; empty for other tasks.
    pub upkeep: String,
    /// The last job that ended.
    pub job: u64,
    /// When it ended.
    pub ended: i64,
    /// How it ended.
    pub state: JobState,
    /// The container up to which checks have read; 0 before the first one.
    pub position: u64,
    /// What the checks found since they began with the first container.
    pub damaged: u64,
    /// What is wrong with the domain, and the command that helps.
    pub alarm: Option<String>,
}

impl NewUpkeepJob {
    /// Whose outcome its end is: see [`DomainUpkeep::upkeep`].
    pub fn outcome_of(&self) -> &str {
        if OF_COPIES.contains(&&*self.task) { &self.upkeep } else { "" }
    }
}

impl Catalog {
    /// How far all schedules of upkeep are settled.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn upkeep_states(&self) -> Result<Vec<(UpkeepKey, i64)>> {
        let select = "SELECT upkeep, schedule, domain, settled FROM upkeep_states";
        let read = |row: &Row| {
            let (upkeep, schedule, domain) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((UpkeepKey { upkeep, schedule, domain }, row.get(3)?))
        };
        self.look_long(|look| look.rows(select, &[], read))
    }

    /// Settles runs of schedules, all in one transaction. Returns the numbers of the jobs that were queued. What
    /// somebody else has settled meanwhile is left alone.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn settle_upkeep(&self, now_secs: i64, all: &[UpkeepSettlement]) -> Result<Vec<u64>> {
        self.change(|change| {
            let mut queued = Vec::new();
            for new in all {
                if settled(change, &new.key)? != new.before {
                    continue;
                }
                set_settled(change, &new.key, new.settled)?;
                for wanted in &new.jobs {
                    queued.extend(queue(change, now_secs, wanted)?);
                }
            }
            Ok(queued)
        })
    }

    /// Queues jobs that an administrator wants now: for each its number, or `None` if its task has an open job of its
    /// upkeep in its domain.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn queue_upkeep(&self, by: By<'_>, all: &[NewUpkeepJob]) -> Result<Vec<Option<u64>>> {
        self.change(|change| {
            let one = |wanted: &NewUpkeepJob| {
                let queued = queue(change, by.now_secs, wanted)?;
                if let Some(id) = queued {
                    let detail = format!("job {id}: {} of {}", wanted.task, wanted.domain);
                    note(change, by, "upkeep.start", &wanted.upkeep, &detail)?;
                }
                Ok(queued)
            };
            all.iter().map(one).collect()
        })
    }

    /// Jobs of upkeep that wait or run, oldest first.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn open_upkeep_jobs(&self) -> Result<Vec<OpenUpkeepJob>> {
        let select = format!(
            "SELECT {COLUMNS} FROM jobs WHERE state IN ('queued', 'running')
             AND id IN (SELECT job FROM upkeep_jobs) ORDER BY id"
        );
        self.look_long(|look| {
            let jobs = look.rows(&select, &[], job)?;
            jobs.into_iter()
                .map(|job| Ok(OpenUpkeepJob { wanted: wanted(look, &job)?, job }))
                .collect()
        })
    }

    /// Starts a queued job. Returns whether it waited still.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn start_upkeep_job(&self, now_secs: i64, id: u64) -> Result<bool> {
        self.change(|change| {
            let update = "UPDATE jobs SET state = 'running', begun = $2
                 WHERE id = $1 AND state = 'queued'";
            Ok(change.execute(update, values![id, now_secs])? > 0)
        })
    }

    /// Records what came of a running job, and then its end: who is killed in between does it again.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn end_upkeep_job(&self, id: u64, end: Ending<'_>, came: &DomainUpkeep) -> Result<()> {
        self.change(|change| {
            let runs = "SELECT 1 FROM jobs WHERE id = $1 AND state = 'running'";
            if !change.exists(runs, values![id])? {
                return Ok(());
            }
            change.execute(
                "INSERT INTO domain_upkeep
                     (domain, task, upkeep, job, ended, state, position, damaged, alarm)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (domain, task, upkeep)
                 DO UPDATE SET job = $4, ended = $5, state = $6, position = $7, damaged = $8,
                     alarm = $9",
                values![
                    &came.domain,
                    &came.task,
                    &came.upkeep,
                    id,
                    end.ended,
                    Word(end.state),
                    came.position,
                    came.damaged,
                    came.alarm
                ],
            )?;
            Ok(())
        })?;
        self.end_job(id, end)
    }

    /// The job `id`, which runs, has come so far: where the next one of its task begins in its domain, if this one never
    /// ends. Of the first one in a domain, `ended` is 0.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn note_upkeep_position(&self, id: u64, wanted: &NewUpkeepJob, at: u64) -> Result<()> {
        self.change(|change| {
            change.execute(
                "INSERT INTO domain_upkeep (domain, task, upkeep, job, ended, state, position)
                 VALUES ($1, $2, $3, $4, 0, $5, $6)
                 ON CONFLICT (domain, task, upkeep) DO UPDATE SET position = $6",
                values![
                    wanted.domain,
                    wanted.task,
                    wanted.outcome_of(),
                    id,
                    Word(JobState::Running),
                    at
                ],
            )?;
            Ok(())
        })
    }

    /// Jobs that ran when the server stopped wait again: what they did stays done. Returns how many.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn requeue_upkeep_jobs(&self) -> Result<usize> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE jobs SET state = 'queued'
                 WHERE state = 'running' AND id IN (SELECT job FROM upkeep_jobs)",
                &[],
            )?;
            Ok(rows as usize)
        })
    }

    /// A running job waits again. Returns whether it ran still.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn requeue_upkeep_job(&self, id: u64) -> Result<bool> {
        self.change(|change| {
            let update = "UPDATE jobs SET state = 'queued'
                 WHERE id = $1 AND state = 'running' AND id IN (SELECT job FROM upkeep_jobs)";
            Ok(change.execute(update, values![id])? > 0)
        })
    }

    /// What the last job of each task did to each domain; of copies, that of each upkeep.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn domain_upkeep(&self) -> Result<Vec<DomainUpkeep>> {
        let select = "SELECT domain, task, upkeep, job, ended, state, position, damaged, alarm
             FROM domain_upkeep ORDER BY domain, task, upkeep";
        self.look_long(|look| look.rows(select, &[], domain_upkeep))
    }
}

fn domain_upkeep(row: &Row) -> Result<DomainUpkeep> {
    Ok(DomainUpkeep {
        domain: row.get(0)?,
        task: row.get(1)?,
        upkeep: row.get(2)?,
        job: row.get(3)?,
        ended: row.get(4)?,
        state: row.get::<Word<_>>(5)?.0,
        position: row.get(6)?,
        damaged: row.get(7)?,
        alarm: row.get(8)?,
    })
}

fn wanted(look: &Sql<'_>, job: &Job) -> Result<NewUpkeepJob> {
    let select =
        "SELECT upkeep, schedule, task, until, pool, interrupt, bytes_per_sec FROM upkeep_jobs
         WHERE job = $1";
    look.one(select, values![job.id], |row| {
        let interrupt = row.get::<i64>(5)? != 0;
        let pool = row.get::<Option<Word<_>>>(4)?;
        let bytes_per_sec = row.get(6)?;
        Ok(NewUpkeepJob {
            to: pool.map(|pool| MoveTo { pool: pool.0, interrupt, bytes_per_sec }),
            upkeep: row.get(0)?,
            schedule: row.get(1)?,
            domain: job.domain.clone(),
            task: row.get(2)?,
            until: row.get(3)?,
        })
    })
}

fn settled(change: &Sql<'_>, key: &UpkeepKey) -> Result<Option<i64>> {
    let select = "SELECT settled FROM upkeep_states
         WHERE upkeep = $1 AND schedule = $2 AND domain = $3";
    change.row(select, values![key.upkeep, key.schedule, key.domain], |row| row.get(0))
}

fn set_settled(change: &Sql<'_>, key: &UpkeepKey, settled: i64) -> Result<()> {
    change.execute(
        "INSERT INTO upkeep_states (upkeep, schedule, domain, settled) VALUES ($1, $2, $3, $4)
         ON CONFLICT (upkeep, schedule, domain) DO UPDATE SET settled = $4",
        values![key.upkeep, key.schedule, key.domain, settled],
    )?;
    Ok(())
}

/// Adds a job to the queue, unless its task has an open one of the same upkeep in its domain.
fn queue(change: &Sql<'_>, now_secs: i64, new: &NewUpkeepJob) -> Result<Option<u64>> {
    let NewUpkeepJob { upkeep, schedule, domain, task, until, to } = new;
    let open = "SELECT 1 FROM jobs WHERE state IN ('queued', 'running') AND domain = $1
         AND id IN (SELECT job FROM upkeep_jobs WHERE task = $2 AND upkeep = $3)";
    if change.exists(open, values![domain, task, upkeep])? {
        return Ok(None);
    }
    let what = to.as_ref();
    let what = what.map_or_else(|| format!("upkeep {upkeep}"), |to| format!("to {}", to.pool));
    let id: u64 = change.one(
        "INSERT INTO jobs (node, domain, kind, what, begun, state)
         VALUES ('', $1, $2, $3, $4, 'queued') RETURNING id",
        values![domain, task, what, now_secs],
        |row| row.get(0),
    )?;
    change.execute(
        "INSERT INTO upkeep_jobs
             (job, upkeep, schedule, task, until, pool, interrupt, bytes_per_sec)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        values![
            id,
            upkeep,
            schedule,
            task,
            until,
            to.as_ref().map(|to| Word(&to.pool)),
            i64::from(to.as_ref().is_some_and(|to| to.interrupt)),
            to.as_ref().and_then(|to| to.bytes_per_sec)
        ],
    )?;
    Ok(Some(id))
}

#[cfg(test)]
mod tests;
