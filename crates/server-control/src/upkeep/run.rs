//! One job of upkeep.

use super::due::upkeeps;
use super::{Upkeep, moving};
use crate::copies::copies_of;
use crate::domain_repository::DomainRepository::{self, Local, Remote};
use crate::jobs::Jobs;
use crate::{Error, Result, SERVER, by, now_secs};
use api::jobs::{JobCause, JobState, Progress};
use api::upkeep::{
    CheckReport, CopyForget, CopyOnly, CopyReport, ObjectLock, UpkeepEnd, UpkeepWork,
};
use catalog::Catalog;
use catalog::jobs::Ending;
use catalog::upkeep::{DomainUpkeep, NewUpkeepJob, OpenUpkeepJob};
use clock::Reading;
use ids::ContainerNo;
use parking_lot::Mutex;
use repository::watch::Watch;
use server_contract::access_control::JobStatus;
use server_contract::upkeep::{DomainUpkeep as Worker, OwnSecret, carried_out};
use site::UpkeepTask;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How often the progress of a job is told.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// How often it is written down how far a check is: so much of it is repeated after a restart.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// What came of a job.
pub(super) struct Came {
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
    let watch = JobWatch::new(upkeep, open);
    let came = match &wanted.to {
        Some(to) => moving::run(upkeep, open, to, &watch),
        None => before(upkeep, open).map(|before| {
            let came = work(upkeep, worker, open, (&before, &watch));
            came.unwrap_or_else(|error| Came::of_error(&error).after(&before, &watch))
        }),
    };
    let came = came.unwrap_or_else(|error| Came::of_error(&error));
    watch.tell();
    let (progress, cancelled) = upkeep.jobs.upkeep_is_over(id).unwrap_or_default();
    // A domain that was moved by then is.
    let is_moved = wanted.to.is_some() && came.state == JobState::Complete;
    let came = if cancelled && !is_moved { came.cancelled() } else { came };
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
    if open.wanted.to.is_some() {
        return Ok(upkeep.catalog.end_job(job, ending)?);
    }
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
    let (Some(part), Some(place)) = (part, place(upkeep, &wanted.domain)?) else {
        let gone = "its domain or its upkeep was removed".to_owned();
        return Ok(Came::failed(gone));
    };
    if wanted.task == UpkeepTask::Expire.name() {
        return expired(upkeep, &wanted.domain, watch);
    }
    let copies = copies_of(&site, &wanted.domain);
    let copies = copies.iter().map(|place| place.display().to_string()).collect();
    let now = upkeep.clock.read()?;
    let Some(work) = work_of(&part.upkeep, wanted, (before.position, now), copies) else {
        return Ok(Came::failed(format!("this program does not know the task '{}'", wanted.task)));
    };
    let end = match &place {
        Local(folder, ..) if server_contract::config(folder)?.is_none() => {
            return Ok(Came { alarm: None, ..Came::done(String::new()) });
        }
        Local(folder, ..) => {
            let (secret, work) =
                (own_secret(upkeep, &wanted.domain)?, permitted(upkeep, &wanted.domain, work)?);
            let secret = secret.as_ref().map(|secret| OwnSecret(secret));
            carried_out(worker, (folder, secret), &work, watch)
        }
        Remote(there) => there.upkeep(open.job.id, &work, watch)?,
    };
    Ok(Came::of(end, &place, before, watch))
}

fn expired(upkeep: &Upkeep, domain: &str, watch: &JobWatch<'_>) -> Result<Came> {
    let now = upkeep.clock.read()?;
    let goes_on = || watch.goes_on();
    let (done, is_whole) = upkeep.retention.expire_while(by(SERVER), domain, now, &goes_on)?;
    let doubt = now.doubt.map(|doubt| format!("nothing expires while {doubt}"));
    let came = Came::done(json(&done));
    Ok(match done.error.or(doubt) {
        Some(why) => Came { state: JobState::Failed, error: Some(why), ..came },
        None if is_whole => came,
        None => came.stopped(),
    })
}

fn work_of(
    upkeep: &site::Upkeep,
    wanted: &NewUpkeepJob,
    (position, now): (u64, Reading),
    copies: Vec<String>,
) -> Option<UpkeepWork> {
    let bytes_per_sec = upkeep.throttle.map(|rate| rate.0);
    Some(match UpkeepTask::from_name(&wanted.task)? {
        UpkeepTask::Expire => return None,
        UpkeepTask::Copy => {
            let (to, domain) = (upkeep.to.clone()?, wanted.domain.clone());
            let (policies, classes) = (upkeep.policies.clone(), upkeep.classes.clone());
            let only = CopyOnly { policies, classes };
            let (forget, object_lock) = (forget(upkeep, now), upkeep.object_lock.map(lock));
            UpkeepWork::Copy { to, domain, bytes_per_sec, forget, only, object_lock }
        }
        UpkeepTask::Reclaim => {
            let max_waste_percent = upkeep.max_waste.value();
            UpkeepWork::Reclaim { max_waste_percent, bytes_per_sec }
        }
        UpkeepTask::Check => {
            let sample_percent = upkeep.sample.map(|share| share.value());
            UpkeepWork::Check { sample_percent, position, bytes_per_sec, copies }
        }
    })
}

fn lock(lock: site::ObjectLock) -> ObjectLock {
    match lock {
        site::ObjectLock::Compliance => ObjectLock::Compliance,
        site::ObjectLock::Governance => ObjectLock::Governance,
    }
}

/// What goes from copies: nothing by a clock that is in doubt.
fn forget(upkeep: &site::Upkeep, now: Reading) -> Option<CopyForget> {
    let keep = upkeep.keep_expired.filter(|_| now.doubt.is_none())?;
    let expired_before = now.secs.saturating_sub(keep.signed_secs());
    Some(CopyForget { expired_before, max_waste_percent: upkeep.max_waste.value() })
}

/// Where a domain lies; `None` if there is none of this name.
fn place(upkeep: &Upkeep, domain: &str) -> Result<Option<DomainRepository>> {
    let Ok(name) = domain.parse() else { return Ok(None) };
    let known = upkeep.catalog.domain(&name)?;
    known.map(|known| upkeep.repositories.of(&known)).transpose()
}

/// The server's own key of a domain; `None` where only nodes have keys.
fn own_secret(upkeep: &Upkeep, domain: &str) -> Result<Option<Zeroizing<[u8; 32]>>> {
    let known = upkeep.catalog.domain(&crate::error::parse_name(domain)?)?;
    match known.map(|known| upkeep.keys.own_secret(&known)).transpose() {
        Err(Error::NoKeys(_)) => Ok(None),
        secret => secret,
    }
}

/// What of the work may be done: in a pool that is read-only nothing is freed, and nothing healed.
fn permitted(upkeep: &Upkeep, domain: &str, work: UpkeepWork) -> Result<UpkeepWork> {
    let known = upkeep.catalog.domain(&crate::error::parse_name(domain)?)?;
    let place = known.map(|known| upkeep.repositories.place_of(&known)).transpose()?;
    let read_only = place.and_then(|place| place.read_only);
    match (read_only, work) {
        (Some(refusal), UpkeepWork::Reclaim { .. }) => Err(refusal.into()),
        (Some(_), UpkeepWork::Check { sample_percent, position, bytes_per_sec, .. }) => {
            Ok(UpkeepWork::Check { sample_percent, position, bytes_per_sec, copies: Vec::new() })
        }
        (_, work) => Ok(work),
    }
}

impl Came {
    pub(super) fn done(report: String) -> Self {
        let (state, cause, error, alarm) = (JobState::Complete, None, None, None);
        Self { state, cause, error, report, position: 0, damaged: 0, alarm }
    }

    pub(super) fn failed(why: String) -> Self {
        Self { state: JobState::Failed, error: Some(why), ..Self::done(String::new()) }
    }

    /// It could not be carried out, or nothing is known of it any more.
    fn of_error(error: &Error) -> Self {
        let is_away = matches!(error, Error::StorageServer { .. });
        let cause = is_away.then_some(JobCause::StorageServerAway);
        Self { cause, ..Self::failed(error.to_string()) }
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

    /// What the end of the work on a domain means.
    fn of(
        end: UpkeepEnd,
        place: &DomainRepository,
        before: &DomainUpkeep,
        watch: &JobWatch<'_>,
    ) -> Self {
        let closer = place.check_command(&before.domain);
        let is_reclaim = before.task == UpkeepTask::Reclaim.name();
        match end {
            UpkeepEnd::Reclaimed(report) => {
                let came = Self::done(json(&report));
                let is_stopped = report.containers_left > 0 && !watch.goes_on();
                if is_stopped { came.stopped() } else { came }
            }
            UpkeepEnd::Copied(report) => Self::of_copy(&report),
            UpkeepEnd::Checked(report) => Self::of_check(&report, before, &closer),
            UpkeepEnd::Doubt(why) if is_reclaim => {
                let alarm = format!("reclaim removes nothing: {why}; look closer: {closer}");
                Self { alarm: Some(alarm), ..Self::failed(why) }
            }
            UpkeepEnd::Doubt(why) | UpkeepEnd::Failed(why)
                if before.task == UpkeepTask::Copy.name() =>
            {
                let alarm = Some(format!("nothing is copied: {why}"));
                Self { alarm, ..Self::failed(why) }
            }
            UpkeepEnd::Busy(why) | UpkeepEnd::Doubt(why) | UpkeepEnd::Failed(why) => {
                Self::failed(why).after(before, watch)
            }
        }
    }

    /// What earlier jobs found is known still.
    fn after(self, before: &DomainUpkeep, watch: &JobWatch<'_>) -> Self {
        let (position, damaged) = (watch.passed.lock().1.max(before.position), before.damaged);
        Self { position, damaged, alarm: before.alarm.clone(), ..self }
    }

    /// A copy that lacks snapshots is an alarm until one has them all.
    fn of_copy(report: &CopyReport) -> Self {
        let came = Self::done(json(report));
        let came = if report.is_done { came } else { came.stopped() };
        if let Some(why) = &report.not_locked {
            let what = format!("locks do not reach the bucket of the copy: {why}");
            let alarm = Some(what.clone());
            return Self { state: JobState::Failed, error: Some(what), alarm, ..came };
        }
        if report.left_out == 0 {
            return came;
        }
        let first = report.reasons.first().map_or("", String::as_str);
        let what =
            format!("snapshots that are damaged were not copied: {}; {first}", report.left_out);
        let alarm =
            Some(format!("{what}; look closer: icecore server upkeep start default --task check"));
        Self { state: JobState::Failed, error: Some(what), alarm, ..came }
    }

    /// Damage stays an alarm until all containers were read without any.
    fn of_check(report: &CheckReport, before: &DomainUpkeep, closer: &str) -> Self {
        let damaged = before.damaged;
        let came = Self { position: report.position, ..Self::done(json(report)) };
        let came = if report.is_done { came } else { came.stopped() };
        if report.damaged > 0 {
            let first = report.damages.first().map_or("", String::as_str);
            let what = format!("{} damaged or missing: {first}", report.damaged);
            let alarm = format!(
                "{what}; which files, with a key: icecore check, on a node of the domain; all that the server sees: {closer}"
            );
            let damaged = damaged.saturating_add(report.damaged);
            let (state, error, alarm) = (JobState::Failed, Some(what), Some(alarm));
            return Self { state, error, damaged, alarm, ..came };
        }
        if report.healed > 0 {
            let alarm = format!(
                "{} damaged and healed from a copy: the disk of the pool may be failing. To check all of it: {closer}",
                many(report.healed)
            );
            return Self {
                damaged: damaged.saturating_add(report.healed),
                alarm: Some(alarm),
                ..came
            };
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

fn many(healed: u64) -> String {
    let words =
        if healed == 1 { "container or snapshot was" } else { "containers or snapshots were" };
    format!("{healed} {words}")
}

pub(super) fn json(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).unwrap_or_default()
}

/// Tells the progress of a job, and ends it when an administrator or its window does.
pub(super) struct JobWatch<'a> {
    jobs: &'a Jobs,
    catalog: &'a Catalog,
    job: u64,
    wanted: &'a NewUpkeepJob,
    bytes: AtomicU64,
    told: Mutex<(Instant, String)>,
    /// The container up to which a check has read without finding damage, and when that was written down.
    passed: Mutex<(Instant, u64)>,
}

impl<'a> JobWatch<'a> {
    fn new(upkeep: &'a Upkeep, open: &'a OpenUpkeepJob) -> Self {
        let (jobs, catalog) = (&*upkeep.jobs, &*upkeep.catalog);
        let (job, wanted, now) = (open.job.id, &open.wanted, Instant::now());
        let told = Mutex::new((now, "begin".to_owned()));
        let (bytes, passed) = (AtomicU64::new(0), Mutex::new((now, 0)));
        Self { jobs, catalog, job, wanted, bytes, told, passed }
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
        let is_open = self.wanted.until.is_none_or(|until| now_secs() < until);
        is_open && !self.jobs.is_cancelled(self.job)
    }

    fn stage(&self, name: &str) {
        name.clone_into(&mut self.told.lock().1);
        self.tell();
    }

    fn passed(&self, container: ContainerNo) {
        let mut passed = self.passed.lock();
        passed.1 = container.0;
        if passed.0.elapsed() < NOTED_EVERY {
            return;
        }
        passed.0 = Instant::now();
        if let Err(error) = self.catalog.note_upkeep_position(self.job, self.wanted, container.0) {
            tracing::warn!(%error, job = self.job, "it is not written down how far the check is");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Doubt;

    #[test]
    fn copies_forget_nothing_by_a_clock_in_doubt_or_without_a_word() {
        let day = "1 day".parse().unwrap();
        let upkeep = site::Upkeep { keep_expired: Some(day), ..site::Upkeep::default() };
        let (now, doubt) = (Reading::certain(1_000_000), Some(Doubt::Fast(60)));
        let before = |upkeep, now| forget(upkeep, now).map(|it| it.expired_before);
        assert_eq!(before(&upkeep, now), Some(1_000_000 - 86_400));
        assert_eq!(before(&upkeep, Reading { doubt, ..now }), None);
        assert_eq!(before(&site::Upkeep::default(), now), None);
    }
}
