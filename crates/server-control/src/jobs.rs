//! Jobs: running ones are in memory, with their rates; the catalog has their starts and ends.

use crate::{Result, now_secs, random};
use api::commands::command_of;
use api::job_log::LogLevel;
use api::jobs::{Job, JobCause, JobFilter, JobState, Progress};
use catalog::Catalog;
use catalog::job_log::NewEntry;
use catalog::jobs::{Ending, NewJob, page};
use parking_lot::Mutex;
use running::{JobTable, Live, capped};
use server_contract::access_control::{JobEnd, JobNo, JobStatus};
use server_contract::budgets::Budgets;
use started::StartedRuns;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use unwritten::{UnwrittenEnds, as_new};

mod asked;
mod of_nodes;
mod running;
mod started;
mod unwritten;

pub(crate) use asked::check_priority;

/// Longest report that is kept.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// Bytes of reports that a node may have kept at once: they lie in the catalog, outside of every quota. Seen: 1386 jobs
/// with long reports in a loop made 353 MB of catalog in 20 s.
const NODE_REPORTS_BYTES: u64 = 16 << 20;
/// In this time all of that comes back: a backup each minute with the longest report is less.
const NODE_REPORTS_IN: Duration = Duration::from_secs(3_600);
/// Numbers of jobs whose start could not be written to the catalog, while they run. They get another one when their
/// end is written.
const UNWRITTEN: JobNo = 1 << 62;

/// The jobs of all nodes.
pub(crate) struct Jobs {
    catalog: Arc<Catalog>,
    running: JobTable,
    /// Jobs of policies whose node was asked for them, until its session comes.
    started: StartedRuns,
    /// Why jobs wait, as the scheduler last saw it.
    waits: Mutex<BTreeMap<JobNo, String>>,
    /// The same of upkeep.
    upkeep_waits: Mutex<BTreeMap<JobNo, String>>,
    /// Rises with every job that ends or is entered.
    changes: AtomicU64,
    /// Domains in which jobs have ended: they may have new snapshots.
    ended_in: Mutex<BTreeSet<String>>,
    unwritten: UnwrittenEnds,
    budgets: Budgets,
    /// Jobs whose session is over, while their end is being written.
    ending: Mutex<BTreeSet<JobNo>>,
}

impl Jobs {
    /// Those of `catalog`; none runs.
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        let (running, started, waits, upkeep_waits, changes) = Default::default();
        let (ended_in, unwritten, ending) = Default::default();
        let budgets = Budgets::new(NODE_REPORTS_BYTES, NODE_REPORTS_IN);
        Self {
            catalog,
            running,
            started,
            waits,
            upkeep_waits,
            changes,
            ended_in,
            unwritten,
            budgets,
            ending,
        }
    }

    /// Rises when jobs may have ended, or were entered.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Somebody has changed jobs in the catalog.
    pub(crate) fn have_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The command of `job` was given to its node.
    pub(crate) fn expect(&self, command: u64, job: Job) {
        self.started.expect(command, job);
    }

    /// Sets why jobs wait.
    pub(crate) fn wait_for(&self, waits: BTreeMap<JobNo, String>) {
        *self.waits.lock() = waits;
    }

    /// Sets why jobs of upkeep wait.
    pub(crate) fn upkeep_waits_for(&self, waits: BTreeMap<JobNo, String>) {
        *self.upkeep_waits.lock() = waits;
    }

    /// A job of upkeep runs from now on: its work is watched, and it can be cancelled.
    pub(crate) fn upkeep_runs(&self, job: Job) {
        self.running.add(Job { state: JobState::Running, begun: now_secs(), ..job });
    }

    /// A job of upkeep runs no more: how far it got, and whether its cancellation was requested.
    pub(crate) fn upkeep_is_over(&self, id: JobNo) -> Option<(Progress, bool)> {
        let job = self.running.one(id);
        drop(self.running.take(id));
        job.map(|job| (job.progress, job.cancelled))
    }

    /// Whether a session of this job is there.
    pub(crate) fn has_session(&self, id: JobNo) -> bool {
        self.running.one(id).is_some()
    }

    /// The process that made the backup is gone: its session ends within a second, and with it the job.
    pub(crate) fn give_up(&self, id: JobNo, cause: JobCause, why: &str) {
        self.running.give_up(id, cause, why);
    }

    /// Adds a job that runs from now on; or the session is that of a job which the server has started.
    pub(crate) fn begin(&self, node: &str, domain: &str, kind: &str, what: &str) -> JobNo {
        let run = |job: &Job| {
            self.running.add(Job { state: JobState::Running, ..job.clone() });
        };
        let whose = (node, domain);
        let started = self.started.take(whose, kind, what, run);
        if let Some(job) = started.or_else(|| self.take_stored(whose, kind, what, run)) {
            let id = job.id;
            self.note(&[NewEntry {
                job: id,
                time: now_secs(),
                level: LogLevel::Info,
                code: "session",
                message: "the node began its session",
            }]);
            self.have_changed();
            return id;
        }
        let id = self.enter(node, domain, kind, what);
        if self.started.is_over(what) {
            self.running.cancel(id);
        }
        id
    }

    /// The job that the server has started, if only the catalog knows that: the answer to its start was lost. Without
    /// it the snapshot would be that of no policy, and have no lock.
    fn take_stored(
        &self,
        whose: (&str, &str),
        kind: &str,
        what: &str,
        run: impl FnOnce(&Job),
    ) -> Option<Job> {
        let command = command_of(what).filter(|_| kind == "backup" && !self.started.is_over(what));
        let (job, _) = command.and_then(|command| {
            let found =
                self.stored(|job, its| (&*job.node, &*job.domain) == whose && its == command);
            let failed =
                |error: &_| tracing::error!(%error, node = whose.0, "cannot look for a job");
            found.inspect_err(failed).ok().flatten()
        })?;
        run(&job);
        Some(job)
    }

    /// A started job in the catalog that has no session and has not ended, with its command.
    fn stored(&self, is_it: impl Fn(&Job, u64) -> bool) -> Result<Option<(Job, u64)>> {
        let running = self.catalog.open_runs()?.into_iter().filter_map(|run| {
            let is_running = run.job.state == JobState::Running;
            Some((run.job, run.command?)).filter(|_| is_running)
        });
        let mut found = running.filter(|(job, command)| is_it(job, *command));
        Ok(found.find(|(job, _)| !self.has_session(job.id) && !self.is_ending(job.id)))
    }

    /// Whether the job has ended, and perhaps the catalog does not know that yet.
    fn is_ending(&self, id: JobNo) -> bool {
        self.ending.lock().contains(&id) || self.unwritten.has(id)
    }

    fn enter(&self, node: &str, domain: &str, kind: &str, what: &str) -> JobNo {
        let (kind, what, begun) = (capped(kind), capped(what), now_secs());
        let new = NewJob { node, domain, kind, what, begun };
        let id = self.catalog.begin_job(new).unwrap_or_else(|error| {
            tracing::error!(%error, node, "cannot write a job to the catalog");
            UNWRITTEN | u64::from_le_bytes(random::<8>().map_or([0; 8], |bytes| *bytes)) >> 2
        });
        self.running.add(Job {
            id,
            node: node.to_owned(),
            domain: domain.to_owned(),
            kind: kind.to_owned(),
            what: what.to_owned(),
            begun,
            ended: None,
            state: JobState::Running,
            progress: Progress::default(),
            objects_per_sec: None,
            bytes_per_sec: None,
            snapshot: None,
            error: None,
            cause: None,
            waits: None,
            plan: None,
            cancelled: false,
            report: None,
        });
        self.have_changed();
        id
    }

    /// Adds entries to the logs of jobs. A log that cannot be written stops no job.
    pub(crate) fn note(&self, entries: &[NewEntry<'_>]) {
        if let Err(error) = self.catalog.note_jobs(entries) {
            tracing::error!(%error, "cannot write the log of a job");
        }
    }

    /// Records the progress of a job.
    pub(crate) fn is_at(&self, id: JobNo, status: &JobStatus) {
        self.running.is_at(id, status);
    }

    /// Whether the cancellation of a job was requested.
    pub(crate) fn is_cancelled(&self, id: JobNo) -> bool {
        self.running.is_cancelled(id)
    }

    /// Number of running jobs.
    pub(crate) fn count(&self) -> usize {
        self.running.count()
    }

    /// Whether `node` has running jobs.
    pub(crate) fn has_any_of(&self, node: &str) -> bool {
        self.running.has_any_of(node)
    }

    /// A job of a policy whose session is on a storage server, and was there before this server was started.
    pub(crate) fn take_over(&self, job: Job) {
        let command = self.started.command_of(job.id);
        self.running.add(job);
        if let Some(command) = command {
            self.started.forget(command, false);
        }
        self.have_changed();
    }

    /// Resumes a lost job.
    pub(crate) fn resume(&self, job: Job) {
        let id = job.id;
        self.unwritten.forget(id);
        if let Err(error) = self.catalog.resume_job(id) {
            tracing::error!(%error, job = id, "cannot write a resumed job");
            return;
        }
        let (state, ended, error, report) = (JobState::Running, None, None, None);
        self.running.add(Job { state, ended, error, report, ..job });
        self.have_changed();
    }

    /// Records the end of a job, if it runs.
    pub(crate) fn end(&self, id: JobNo, end: &JobEnd, report: &str) {
        self.ending.lock().insert(id);
        self.end_running(id, end, report);
        self.ending.lock().remove(&id);
    }

    fn end_running(&self, id: JobNo, end: &JobEnd, report: &str) {
        let Some(Live { job, given_up, is_suspended, .. }) = self.running.take(id) else {
            return;
        };
        let (mut state, mut cause) = meaning(end, &job);
        let (snapshot, error) = match end {
            JobEnd::Complete { snapshot, .. } => (snapshot.as_deref(), None),
            JobEnd::Failed(why) => (None, Some(capped(why))),
            JobEnd::Lost => (None, Some("the node did not come back")),
        };
        let mut error = error;
        let is_over = !matches!(end, JobEnd::Complete { .. }) && !job.cancelled;
        if let Some((why, said)) = given_up.as_ref().filter(|_| is_over) {
            (state, cause, error) = (JobState::Failed, Some(*why), Some(said.as_str()));
        }
        if is_over && is_suspended {
            (state, cause) = (JobState::Suspended, None);
        }
        let report = self.kept_report(&job, report);
        let ending = Ending {
            ended: now_secs(),
            state,
            progress: &job.progress,
            snapshot,
            error,
            cause,
            cancelled: job.cancelled,
            report,
        };
        self.write_end(id, Some(&job).filter(|_| id >= UNWRITTEN), ending);
        self.may_have_stored(&job.domain);
    }

    /// The report of a job as it is kept: whole or not at all, since a part of it is no JSON.
    fn kept_report<'a>(&self, job: &Job, report: &'a str) -> &'a str {
        let message = if report.len() > REPORT_BYTES_MAX {
            "report left out: it is too long"
        } else if !self.budgets.take(&job.node, report.len() as u64) {
            "report left out: this node sent too many"
        } else {
            return report;
        };
        if job.id < UNWRITTEN {
            let (code, level) = ("report-left-out", LogLevel::Warning);
            self.note(&[NewEntry { job: job.id, time: now_secs(), level, code, message }]);
        }
        ""
    }

    /// A job may have stored a snapshot in this domain.
    pub(crate) fn may_have_stored(&self, domain: &str) {
        self.ended_in.lock().insert(domain.to_owned());
    }

    /// The domains that may have new snapshots since the last call.
    pub(crate) fn take_domains(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.ended_in.lock())
    }

    /// Writes the end of the job `id`; and `job`, if the catalog does not know it.
    fn write_end(&self, id: JobNo, job: Option<&Job>, ending: Ending<'_>) {
        let written = match job {
            Some(job) => self.catalog.add_ended_job(as_new(job), ending).map(drop),
            None => self.catalog.end_job(id, ending),
        };
        if let Err(error) = written {
            tracing::error!(%error, job = id, "cannot write the end of a job to the catalog");
            if error.is_of_database() {
                self.unwritten.keep(id, job, &ending);
            }
        }
        self.have_changed();
    }

    /// Writes the ends that the catalog did not take, if it does now.
    pub(crate) fn write_ends_again(&self) {
        if self.unwritten.write(&self.catalog) {
            self.have_changed();
        }
    }

    /// Ends a job that was started and has no session. If one has begun since its caller looked, that decides: what it
    /// has stored must not be lost to its job.
    pub(crate) fn end_started(&self, id: JobNo, command: u64, end: &StartedEnd<'_>) {
        let is_unwanted = matches!(end.state, JobState::Cancelled | JobState::Suspended);
        let was_expected = self.started.forget(command, is_unwanted);
        if !was_expected && self.has_session(id) {
            self.end_session(id, end.state);
            return;
        }
        let StartedEnd { state, cause, snapshot, error } = *end;
        let cancelled = state == JobState::Cancelled;
        let (ended, progress, report) = (now_secs(), &Progress::default(), "");
        let error = error.map(capped);
        self.write_end(
            id,
            None,
            Ending { ended, state, progress, snapshot, error, cause, cancelled, report },
        );
    }

    /// The session of a job ends, if an administrator wants that: within a second, as what it has come to by then.
    fn end_session(&self, id: JobNo, state: JobState) {
        match state {
            JobState::Cancelled => drop(self.running.cancel(id)),
            JobState::Suspended => drop(self.running.suspend(id)),
            _ => {}
        }
    }

    /// Running jobs, oldest first.
    pub(crate) fn sessions(&self) -> api::jobs::Jobs {
        api::jobs::Jobs { jobs: self.running.all(), next: None }
    }

    /// Jobs, newest first, one page at a time; running ones with their current progress.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn history(&self, filter: &JobFilter) -> Result<api::jobs::Jobs> {
        let mut jobs = self.catalog.jobs(filter)?;
        let is_full = jobs.len() >= page(filter) as usize;
        let next = jobs.last().filter(|_| is_full).map(|last| last.id);
        for job in &mut jobs {
            match self.running.one(job.id) {
                Some(live) => *job = live,
                None => self.explain(job),
            }
        }
        Ok(api::jobs::Jobs { jobs, next })
    }

    /// One job.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`] if it does not exist.
    pub(crate) fn job(&self, id: JobNo) -> Result<Job> {
        if let Some(live) = self.running.one(id) {
            return Ok(live);
        }
        let mut job = self.catalog.job(id)?;
        self.explain(&mut job);
        Ok(job)
    }

    /// Adds why a job waits.
    fn explain(&self, job: &mut Job) {
        job.waits = match job.state {
            JobState::Queued => {
                let wait = self.waits.lock().get(&job.id).cloned();
                wait.or_else(|| self.upkeep_waits.lock().get(&job.id).cloned())
            }
            JobState::Suspended => Some(format!("suspended: icecore server job resume {}", job.id)),
            JobState::Running if job.plan.is_some() => {
                Some("waits for the agent to begin the backup".to_owned())
            }
            _ => None,
        };
    }
}

/// How a job ended that has no session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartedEnd<'a> {
    pub(crate) state: JobState,
    pub(crate) cause: Option<JobCause>,
    pub(crate) snapshot: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
}

/// What the end of a session means for its job.
fn meaning(end: &JobEnd, job: &Job) -> (JobState, Option<JobCause>) {
    match end {
        JobEnd::Complete { is_partial: true, .. } => (JobState::Partial, None),
        JobEnd::Complete { .. } => (JobState::Complete, None),
        JobEnd::Failed(_) if job.cancelled => (JobState::Cancelled, Some(JobCause::Cancelled)),
        JobEnd::Failed(_) if job.kind == api::jobs::RESTORE => {
            (JobState::Failed, Some(JobCause::RestoreFailed))
        }
        JobEnd::Failed(_) => (JobState::Failed, Some(JobCause::BackupFailed)),
        JobEnd::Lost => (JobState::Lost, Some(JobCause::NodeLost)),
    }
}

#[cfg(test)]
mod tests;
