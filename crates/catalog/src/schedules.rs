//! Jobs that a policy wants: the queue, what is settled of each schedule, and the newest backups of each source.
//!
//! A run is settled in the transaction that queues its job, so that it starts once whatever ends in between; and no
//! source ever has two open jobs.

use crate::audit::note;
use crate::commands;
use crate::jobs::{BEHIND, COLUMNS, Ending, end_is_shown, job, whole};
use crate::sql::{Json, Row, Sql, Word, values};
use crate::{By, Catalog, Result, job_log, settings};
use api::commands::Task;
use api::jobs::{Job, JobCause, JobPlan, JobState, Progress};

/// A schedule of a policy for one source of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScheduleKey {
    /// The policy.
    pub policy: String,
    /// The schedule.
    pub schedule: String,
    /// The node.
    pub node: String,
    /// The source.
    pub source: String,
}

/// A run that failed, and may be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// When it was due.
    pub due: i64,
    /// How often it was started.
    pub attempts: u32,
    /// When it ended.
    pub ended: i64,
}

/// How far a schedule is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// The schedule.
    pub key: ScheduleKey,
    /// All runs due up to this time were started, or recorded as missed.
    pub settled: i64,
    /// The last run, if it failed.
    pub failed: Option<FailedRun>,
}

/// The newest backups of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// The node.
    pub node: String,
    /// The source.
    pub source: String,
    /// When the newest complete one ended.
    pub last_complete: Option<i64>,
    /// When the newest one ended, partial or not.
    pub last_backup: Option<i64>,
    /// Its snapshot.
    pub snapshot: Option<String>,
}

/// A job for the queue.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The node.
    pub node: String,
    /// Its domain.
    pub domain: String,
    /// What the policy wants.
    pub plan: JobPlan,
    /// What the node will be asked to do.
    pub task: Task,
}

/// What is settled of a schedule at once.
#[derive(Clone, Debug)]
pub struct Settlement<'a> {
    /// The schedule.
    pub key: &'a ScheduleKey,
    /// What was settled before, as its caller knows it; `None` for a new schedule.
    pub before: Option<i64>,
    /// What is settled from now on.
    pub settled: i64,
    /// The runs that were missed, as one entry.
    pub missed: Option<&'a NewRun>,
    /// The run that is due.
    pub start: Option<&'a NewRun>,
}

/// What came of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was recorded; the number of the queued job, if one was due.
    Done(Option<u64>),
    /// Nothing was recorded: somebody else has settled runs meanwhile, or the source has an open job.
    Stale,
}

/// An open job that a policy wants.
#[derive(Clone, Debug)]
pub struct OpenRun {
    /// The job.
    pub job: Job,
    /// The node command that carries it out, once it was started.
    pub command: Option<u64>,
}

/// Ends the jobs that wait for a node that is removed: nobody else would ever begin them.
pub(crate) fn end_of_removed(change: &Sql<'_>, by: By<'_>, node: &str) -> Result<()> {
    let select = "SELECT id FROM jobs WHERE node = $1 AND state IN ('queued', 'suspended')";
    for id in change.rows(select, values![node], |row| row.get::<u64>(0))? {
        let end = (JobState::Cancelled, JobCause::Cancelled);
        end_waiting(change, by, id, end, "the node was removed")?;
    }
    Ok(())
}

fn end_waiting(
    change: &Sql<'_>,
    by: By<'_>,
    id: u64,
    (state, cause): (JobState, JobCause),
    error: &str,
) -> Result<bool> {
    let is_cancelled = state == JobState::Cancelled;
    let rows = change.execute(
        "UPDATE jobs SET ended = $2, state = $3, cause = $4, error = $5, cancelled = $6
         WHERE id = $1 AND state IN ('queued', 'suspended')",
        values![id, by.now_secs, Word(state), Word(cause), error, is_cancelled],
    )?;
    if rows > 0 && is_cancelled {
        note(change, by, "job.cancel", &id.to_string(), "")?;
    }
    if rows > 0 {
        never_began(change, id, by.now_secs, (state, cause), error)?;
    }
    Ok(rows > 0)
}

impl Catalog {
    /// How far all schedules are settled.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn schedule_states(&self) -> Result<Vec<ScheduleState>> {
        let select =
            "SELECT policy, schedule, node, source, settled, failed_due, attempts, failed_ended
             FROM schedule_states";
        self.look_long(|look| look.rows(select, &[], schedule_state))
    }

    /// The newest backups of all sources.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn source_states(&self) -> Result<Vec<SourceState>> {
        let select = "SELECT node, source, last_complete, last_backup, snapshot FROM source_states";
        self.look_long(|look| look.rows(select, &[], source_state))
    }

    /// Jobs of policies that wait or run, oldest first.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn open_runs(&self) -> Result<Vec<OpenRun>> {
        let select = format!(
            "SELECT {COLUMNS}, command FROM jobs
             WHERE state IN ('queued', 'suspended', 'running') AND policy IS NOT NULL ORDER BY id"
        );
        let open = |row: &Row| Ok(OpenRun { job: job(row)?, command: row.get(BEHIND)? });
        self.look_long(|look| look.rows(&select, &[], open))
    }

    /// Settles runs of schedules, all in one transaction: records those that were missed, and queues those that are
    /// due.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn settle(&self, now_secs: i64, all: &[Settlement<'_>]) -> Result<Vec<Settled>> {
        self.change(|change| all.iter().map(|new| settle_one(change, now_secs, new)).collect())
    }

    /// What [`Catalog::set_clock`] has stored.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn clock(&self) -> Result<Option<String>> {
        self.look(|look| settings::get(look, settings::CLOCK))
    }

    /// Stores the state of the clock by which runs start.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn set_clock(&self, state: &str) -> Result<()> {
        self.change(|change| settings::set(change, settings::CLOCK, state))
    }

    /// The same, because an administrator says that the wall clock is right.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn confirm_clock(&self, by: By<'_>, state: &str) -> Result<()> {
        self.change(|change| {
            settings::set(change, settings::CLOCK, state)?;
            note(change, by, "clock.confirm", "", "")
        })
    }

    /// Queues a job that an administrator wants now; `None` if the source has an open job.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn queue_run(&self, by: By<'_>, run: &NewRun) -> Result<Option<u64>> {
        self.change(|change| {
            if has_open_job(change, &run.node, &run.plan.source)? {
                return Ok(None);
            }
            let id = add_queued(change, by.now_secs, run)?;
            let detail = format!("job {id} on the node {}", run.node);
            note(change, by, "policy.start", &run.plan.policy, &detail)?;
            Ok(Some(id))
        })
    }

    /// Starts a queued job: gives its node the command. `None` if it does not wait any more.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when the node does not exist or is revoked, [`crate::Error::Database`].
    pub fn start_run(&self, by: By<'_>, id: u64) -> Result<Option<u64>> {
        self.change(|change| {
            let select = "SELECT task FROM jobs WHERE id = $1 AND state = 'queued'";
            let task = change.row(select, values![id], |row| row.get::<Json<Task>>(0))?;
            let Some(Json(mut task)) = task else { return Ok(None) };
            if let Task::Backup(backup) = &mut task {
                backup.job = Some(id);
            }
            let command = commands::insert(change, by, &task)?;
            change.execute(
                "UPDATE jobs SET state = 'running', begun = $2, command = $3 WHERE id = $1",
                values![id, by.now_secs, command],
            )?;
            job_log::started(change, id, by.now_secs, command)?;
            Ok(Some(command))
        })
    }

    /// Ends a job that waits. Returns whether it did. What an administrator does is noted.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn end_queued(
        &self,
        by: By<'_>,
        id: u64,
        (state, cause): (JobState, JobCause),
        error: &str,
    ) -> Result<bool> {
        self.change(|change| end_waiting(change, by, id, (state, cause), error))
    }

    /// Removes what is settled of schedules that are no longer wanted: one that comes back begins anew.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn drop_schedules(&self, keys: &[ScheduleKey]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.change(|change| {
            keys.iter().try_for_each(|key| {
                let delete = "DELETE FROM schedule_states
                     WHERE policy = $1 AND schedule = $2 AND node = $3 AND source = $4";
                let values = values![key.policy, key.schedule, key.node, key.source];
                change.execute(delete, values).map(drop)
            })
        })
    }
}

fn settle_one(change: &Sql<'_>, now_secs: i64, new: &Settlement<'_>) -> Result<Settled> {
    if settled(change, new.key)? != new.before {
        return Ok(Settled::Stale);
    }
    if let Some(run) = new.start
        && has_open_job(change, &run.node, &run.plan.source)?
    {
        return Ok(Settled::Stale);
    }
    set_settled(change, new)?;
    if let Some(missed) = new.missed {
        add_missed(change, now_secs, missed)?;
    }
    let start = new.start.map(|run| add_queued(change, now_secs, run));
    Ok(Settled::Done(start.transpose()?))
}

fn schedule_state(row: &Row) -> Result<ScheduleState> {
    let key = ScheduleKey {
        policy: row.get(0)?,
        schedule: row.get(1)?,
        node: row.get(2)?,
        source: row.get(3)?,
    };
    let failed = row.get::<Option<i64>>(5)?.map(|due| {
        Ok::<_, crate::Error>(FailedRun { due, attempts: row.get(6)?, ended: row.get(7)? })
    });
    Ok(ScheduleState { key, settled: row.get(4)?, failed: failed.transpose()? })
}

fn source_state(row: &Row) -> Result<SourceState> {
    Ok(SourceState {
        node: row.get(0)?,
        source: row.get(1)?,
        last_complete: row.get(2)?,
        last_backup: row.get(3)?,
        snapshot: row.get(4)?,
    })
}

fn settled(change: &Sql<'_>, key: &ScheduleKey) -> Result<Option<i64>> {
    let select = "SELECT settled FROM schedule_states
         WHERE policy = $1 AND schedule = $2 AND node = $3 AND source = $4";
    let values = values![key.policy, key.schedule, key.node, key.source];
    change.row(select, values, |row| row.get(0))
}

/// A run that is started, or missed, is what the schedule goes on from: an earlier failure is over.
fn set_settled(change: &Sql<'_>, new: &Settlement<'_>) -> Result<()> {
    let ScheduleKey { policy, schedule, node, source } = new.key;
    change.execute(
        "INSERT INTO schedule_states (policy, schedule, node, source, settled)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (policy, schedule, node, source)
         DO UPDATE SET settled = $5, failed_due = NULL, attempts = NULL, failed_ended = NULL",
        values![policy, schedule, node, source, new.settled],
    )?;
    Ok(())
}

pub(crate) fn has_open_job(change: &Sql<'_>, node: &str, source: &str) -> Result<bool> {
    let open = "SELECT 1 FROM jobs WHERE state IN ('queued', 'suspended', 'running') AND node = $1
         AND source = $2 AND policy IS NOT NULL";
    change.exists(open, values![node, source])
}

fn add_missed(change: &Sql<'_>, now_secs: i64, run: &NewRun) -> Result<()> {
    let id = add(change, now_secs, run, JobState::Missed)?;
    let update = "UPDATE jobs SET ended = $2, cause = $3, error = $4 WHERE id = $1";
    let why = "it did not start in its time";
    change.execute(update, values![id, now_secs, Word(JobCause::NotStarted), why])?;
    never_began(change, id, now_secs, (JobState::Missed, JobCause::NotStarted), why)
}

fn add_queued(change: &Sql<'_>, now_secs: i64, run: &NewRun) -> Result<u64> {
    let id = add(change, now_secs, run, JobState::Queued)?;
    job_log::queued(change, id, now_secs, &run.plan)?;
    Ok(id)
}

/// Shows the end of a job that never began.
fn never_began(
    change: &Sql<'_>,
    id: u64,
    ended: i64,
    (state, cause): (JobState, JobCause),
    error: &str,
) -> Result<()> {
    let (progress, snapshot, report) = (&Progress::default(), None, "");
    let (error, cause, cancelled) = (Some(error), Some(cause), state == JobState::Cancelled);
    let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
    end_is_shown(change, &whole(change, id)?, &end)
}

fn add(change: &Sql<'_>, now_secs: i64, run: &NewRun, state: JobState) -> Result<u64> {
    let plan = &run.plan;
    change.one(
        "INSERT INTO jobs (node, domain, kind, what, begun, state, policy, schedule, source, unit,
             priority, due, until, attempt, late, runs, task, source_name, class)
         VALUES ($1, $2, 'backup', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
             $17, $18)
         RETURNING id",
        values![
            run.node,
            run.domain,
            plan.source,
            now_secs,
            Word(state),
            plan.policy,
            plan.schedule,
            plan.source,
            plan.unit,
            plan.priority,
            plan.due,
            plan.until,
            plan.attempt,
            plan.late,
            plan.runs,
            Json(&run.task),
            plan.source_name,
            plan.class,
        ],
        |row| row.get(0),
    )
}

/// What the end of a job means for its source, its schedule and its command.
pub(crate) fn job_ended(change: &Sql<'_>, id: u64, end: &Ending<'_>) -> Result<()> {
    let select = format!("SELECT {COLUMNS}, command FROM jobs WHERE id = $1");
    let run = change.one(&select, values![id], |row| {
        Ok(OpenRun { job: job(row)?, command: row.get(BEHIND)? })
    })?;
    end_is_shown(change, &run.job, end)?;
    let Some(plan) = &run.job.plan else { return Ok(()) };
    match end.state {
        JobState::Complete | JobState::Partial => {
            has_backup(change, &run.job.node, &plan.source, end)?;
        }
        // Else its node would do it again when it comes back.
        _ => close_command(change, run.command, end.state)?,
    }
    match &plan.schedule {
        Some(schedule) => has_ended(change, &run.job, (plan, schedule), end),
        None => Ok(()),
    }
}

fn has_backup(change: &Sql<'_>, node: &str, source: &str, end: &Ending<'_>) -> Result<()> {
    let complete = (end.state == JobState::Complete).then_some(end.ended);
    change.execute(
        "INSERT INTO source_states (node, source, last_backup, snapshot, last_complete)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (node, source) DO UPDATE SET last_backup = $3,
             snapshot = $4, last_complete = coalesce($5, source_states.last_complete)",
        values![node, source, end.ended, end.snapshot, complete],
    )?;
    Ok(())
}

pub(crate) fn close_command(change: &Sql<'_>, command: Option<u64>, state: JobState) -> Result<()> {
    let is_for_good = matches!(state, JobState::Lost | JobState::Cancelled);
    if let Some(command) = command.filter(|_| is_for_good) {
        let update = "UPDATE commands SET state = 'failed', message = 'its job has ended'
             WHERE id = $1 AND state IN ('pending', 'taken')";
        change.execute(update, values![command])?;
    }
    Ok(())
}

/// A failed run may be started again. One that an administrator ended is over.
fn has_ended(
    change: &Sql<'_>,
    job: &Job,
    (plan, schedule): (&JobPlan, &str),
    end: &Ending<'_>,
) -> Result<()> {
    let is_failed = matches!(end.state, JobState::Failed | JobState::Lost);
    let failed = is_failed.then_some((plan.due, plan.attempt, end.ended));
    change.execute(
        "UPDATE schedule_states SET failed_due = $5, attempts = $6, failed_ended = $7
         WHERE policy = $1 AND schedule = $2 AND node = $3 AND source = $4",
        values![
            plan.policy,
            schedule,
            job.node,
            plan.source,
            failed.map(|failed| failed.0),
            failed.map(|failed| failed.1),
            failed.map(|failed| failed.2),
        ],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
