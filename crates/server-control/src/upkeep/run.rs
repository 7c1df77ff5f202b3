//! One job of upkeep.

use super::Upkeep;
use super::due::upkeeps;
use crate::jobs::Jobs;
use crate::{Result, now_secs};
use api::jobs::{JobCause, JobState, Progress};
use api::upkeep::{CheckReport, ReclaimReport};
use catalog::jobs::Ending;
use catalog::upkeep::{DomainUpkeep, OpenUpkeepJob};
use parking_lot::Mutex;
use repository::watch::Watch;
use server_contract::access_control::JobStatus;
use server_contract::upkeep::{CheckRequest, DomainUpkeep as Worker, ReclaimRequest, UpkeepError};
use site::UpkeepTask;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the progress of a job is told.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// What came of a job.
struct Came {
    state: JobState,
    cause: Option<JobCause>,
    error: Option<String>,
    report: String,
    position: u64,
    damaged: u64,
    alarm: Option<String>,
}

/// Runs a job to its end, and records that.
pub(super) fn run(upkeep: &Upkeep, worker: &dyn Worker, open: &OpenUpkeepJob) {
    let (id, wanted) = (open.job.id, &open.wanted);
    tracing::info!(job = id, task = wanted.task, domain = wanted.domain, "upkeep");
    let watch = JobWatch::new(&upkeep.jobs, id, wanted.until);
    let came = before(upkeep, open).and_then(|before| {
        work(upkeep, worker, open, (&before, &watch)).map(|came| (before, came))
    });
    let came = came.map(|(_, came)| came).unwrap_or_else(|error| Came::failed(error.to_string()));
    watch.tell();
    let (progress, cancelled) = upkeep.jobs.upkeep_is_over(id).unwrap_or_default();
    let came = if cancelled { came.cancelled() } else { came };
    if let Err(error) = end(upkeep, open, &came, (&progress, cancelled)) {
        tracing::error!(%error, job = id, "cannot write the end of upkeep to the catalog");
    }
    upkeep.jobs.have_changed();
}

fn end(
    upkeep: &Upkeep,
    open: &OpenUpkeepJob,
    came: &Came,
    (progress, cancelled): (&Progress, bool),
) -> Result<()> {
    let (job, ended) = (open.job.id, now_secs());
    let ending = Ending {
        ended,
        state: came.state,
        progress,
        snapshot: None,
        error: came.error.as_deref(),
        cause: came.cause,
        cancelled,
        report: &came.report,
    };
    let (domain, task) = (open.wanted.domain.clone(), open.wanted.task.clone());
    let Came { state, position, damaged, alarm, .. } = came;
    let (state, position, damaged) = (*state, *position, *damaged);
    let alarm = alarm.clone();
    let came = DomainUpkeep { domain, task, job, ended, state, position, damaged, alarm };
    Ok(upkeep.catalog.end_upkeep_job(job, ending, &came)?)
}

/// How the last job of the task went in the domain.
fn before(upkeep: &Upkeep, open: &OpenUpkeepJob) -> Result<DomainUpkeep> {
    let (domain, task) = (open.wanted.domain.clone(), open.wanted.task.clone());
    let found = upkeep.catalog.domain_upkeep()?.into_iter();
    let mut found =
        found.filter(|last| (&last.domain, &last.task) == (&open.wanted.domain, &open.wanted.task));
    let (job, ended, state) = (open.job.id, 0, JobState::Queued);
    let (position, damaged, alarm) = (0, 0, None);
    let none = DomainUpkeep { domain, task, job, ended, state, position, damaged, alarm };
    Ok(found.next().unwrap_or(none))
}

fn work(
    upkeep: &Upkeep,
    worker: &dyn Worker,
    open: &OpenUpkeepJob,
    (before, watch): (&DomainUpkeep, &JobWatch<'_>),
) -> Result<Came> {
    let wanted = &open.wanted;
    let site = crate::scheduler::declared(upkeep.catalog.objects()?);
    let part = upkeeps(&site).into_iter().find(|part| part.name == wanted.upkeep);
    let folder = folder(upkeep, &wanted.domain)?;
    let (Some(part), Some(folder)) = (part, folder) else {
        let gone = "its domain or its upkeep was removed".to_owned();
        return Ok(Came::failed(gone));
    };
    if server_contract::config(&folder)?.is_none() {
        return Ok(Came { alarm: None, ..Came::done(String::new()) });
    }
    let bytes_per_sec = part.upkeep.throttle.map(|rate| rate.0);
    Ok(match UpkeepTask::from_name(&wanted.task) {
        Some(UpkeepTask::Reclaim) => {
            let max_waste_percent = part.upkeep.max_waste.value();
            let request = ReclaimRequest { max_waste_percent, bytes_per_sec };
            let done = worker.reclaim(&folder, &request, watch);
            Came::of_reclaim(done, &wanted.domain, watch)
        }
        Some(UpkeepTask::Check) => {
            let sample_percent = part.upkeep.sample.map(|share| share.value());
            let position = before.position;
            let request = CheckRequest { sample_percent, position, bytes_per_sec };
            Came::of_check(worker.check(&folder, &request, watch), before)
        }
        None => Came::failed(format!("this program does not know the task '{}'", wanted.task)),
    })
}

/// The folder of a domain on this server.
fn folder(upkeep: &Upkeep, domain: &str) -> Result<Option<PathBuf>> {
    use crate::domain_repository::DomainRepository::{Local, Remote};
    let Ok(name) = domain.parse() else { return Ok(None) };
    Ok(
        match upkeep
            .catalog
            .domain(&name)?
            .map(|_| upkeep.repositories.by_name(&name))
            .transpose()?
        {
            Some(Local(folder, _)) => Some(folder),
            Some(Remote(_)) | None => None,
        },
    )
}

impl Came {
    fn done(report: String) -> Self {
        let (state, cause, error, alarm) = (JobState::Complete, None, None, None);
        Self { state, cause, error, report, position: 0, damaged: 0, alarm }
    }

    fn failed(why: String) -> Self {
        Self { state: JobState::Failed, error: Some(why), ..Self::done(String::new()) }
    }

    /// What it did stays done, and the next run goes on.
    fn stopped(self) -> Self {
        let error = Some("its window closed; the next run goes on".to_owned());
        Self { state: JobState::Partial, error, ..self }
    }

    fn cancelled(self) -> Self {
        let (state, cause) = (JobState::Cancelled, Some(JobCause::Cancelled));
        Self { state, cause, error: Some("canceled by an administrator".to_owned()), ..self }
    }

    fn of_error(error: &UpkeepError) -> Self {
        Self::failed(error.to_string())
    }

    fn of_reclaim(
        done: std::result::Result<ReclaimReport, UpkeepError>,
        domain: &str,
        watch: &JobWatch<'_>,
    ) -> Self {
        match done {
            Ok(report) => {
                let came = Self::done(json(&report));
                let is_stopped = report.containers_left > 0 && !watch.goes_on();
                if is_stopped { came.stopped() } else { came }
            }
            Err(error @ UpkeepError::Doubt(_)) => {
                let alarm = format!(
                    "reclaim removes nothing: {error}; look closer: icecore server check {domain}"
                );
                Self { alarm: Some(alarm), ..Self::of_error(&error) }
            }
            Err(error) => Self::of_error(&error),
        }
    }

    /// Damage stays an alarm until all containers were read without any.
    fn of_check(
        done: std::result::Result<CheckReport, UpkeepError>,
        before: &DomainUpkeep,
    ) -> Self {
        let (domain, damaged) = (&before.domain, before.damaged);
        let report = match done {
            Ok(report) => report,
            Err(error) => {
                let (position, alarm) = (before.position, before.alarm.clone());
                return Self { position, damaged, alarm, ..Self::of_error(&error) };
            }
        };
        let came = Self { position: report.position, ..Self::done(json(&report)) };
        let came = if report.is_done { came } else { came.stopped() };
        if report.damaged > 0 {
            let first = report.damages.first().map_or("", String::as_str);
            let what = format!("{} damaged or missing: {first}", report.damaged);
            let alarm = format!(
                "{what}; which files, with a key: icecore check, on a node of the domain; all that the server sees: icecore server check {domain}"
            );
            let damaged = damaged.saturating_add(report.damaged);
            let (state, error, alarm) = (JobState::Failed, Some(what), Some(alarm));
            return Self { state, error, damaged, alarm, ..came };
        }
        match (report.position, before.damaged) {
            // The last container was read, and none since the first was damaged.
            (0, 0) => came,
            // The next round decides.
            (0, _) => Self { damaged: 0, alarm: before.alarm.clone(), ..came },
            _ => Self { damaged, alarm: before.alarm.clone(), ..came },
        }
    }
}

fn json(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).unwrap_or_default()
}

/// Tells the progress of a job, and ends it when an administrator or its window does.
struct JobWatch<'a> {
    jobs: &'a Jobs,
    job: u64,
    until: Option<i64>,
    bytes: AtomicU64,
    told: Mutex<(Instant, String)>,
}

impl<'a> JobWatch<'a> {
    fn new(jobs: &'a Jobs, job: u64, until: Option<i64>) -> Self {
        let told = Mutex::new((Instant::now(), "begin".to_owned()));
        Self { jobs, job, until, bytes: AtomicU64::new(0), told }
    }

    fn tell(&self) {
        let mut told = self.told.lock();
        told.0 = Instant::now();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let stage = told.1.clone();
        let (objects, bytes_wire, path) = (0, 0, Vec::new());
        let status = JobStatus { objects, bytes, bytes_read: bytes, bytes_wire, path, stage };
        self.jobs.is_at(self.job, &status);
    }
}

impl Watch for JobWatch<'_> {
    fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.told.lock().0.elapsed() >= TOLD_EVERY {
            self.tell();
        }
    }

    fn goes_on(&self) -> bool {
        let is_open = self.until.is_none_or(|until| now_secs() < until);
        is_open && !self.jobs.is_cancelled(self.job)
    }

    fn stage(&self, name: &str) {
        name.clone_into(&mut self.told.lock().1);
        self.tell();
    }
}
