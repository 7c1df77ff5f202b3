//! One job of upkeep.

use super::came::{Came, json};
use super::due::{copy_sample, upkeeps};
use super::watch::JobWatch;
use super::{Upkeep, moving};
use crate::copies::copies_of;
use crate::domain_repository::DomainRepository::{self, Local, Remote};
use crate::{Error, Result, SERVER, by, now_secs};
use api::jobs::{JobState, Progress};
use api::upkeep::{CopyForget, CopyKeep, CopyOnly, ObjectLock, UpkeepWork};
use catalog::jobs::Ending;
use catalog::upkeep::{DomainUpkeep, NewUpkeepJob, OpenUpkeepJob};
use clock::Reading;
use repository::watch::Watch;
use server_contract::upkeep::{DomainUpkeep as Worker, OwnSecret, carried_out};
use site::UpkeepTask;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use zeroize::Zeroizing;

/// When the end of a job is written again that the catalog did not take.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Runs a job to its end, and records that.
pub(super) fn run(upkeep: &Upkeep, worker: &dyn Worker, open: &OpenUpkeepJob) {
    let (id, wanted) = (open.job.id, &open.wanted);
    tracing::info!(job = id, task = wanted.task, domain = wanted.domain, "upkeep");
    let watch = JobWatch::new(upkeep, open);
    let came = carry_out(upkeep, worker, open, &watch);
    watch.tell();
    let (progress, cancelled) = upkeep.jobs.upkeep_is_over(id).unwrap_or_default();
    // A domain that was moved by then is.
    let is_moved = wanted.to.is_some() && came.state == JobState::Complete;
    let came = if cancelled && !is_moved { came.cancelled() } else { came };
    write_end(upkeep, open, &came, (&progress, cancelled));
    upkeep.jobs.have_changed();
}

fn carry_out(
    upkeep: &Upkeep,
    worker: &dyn Worker,
    open: &OpenUpkeepJob,
    watch: &JobWatch<'_>,
) -> Came {
    if let Some(to) = &open.wanted.to {
        return unless_panics(|| moving::run(upkeep, open, to, watch))
            .unwrap_or_else(|failed| failed);
    }
    match before(upkeep, open) {
        Ok(before) => unless_panics(|| work(upkeep, worker, open, (&before, watch)))
            .unwrap_or_else(|failed| failed.after(&before, watch)),
        Err(error) => Came::of_error(&error),
    }
}

/// What came of the work, or of its failure. A panic fails its job and nothing more: the end is written, and the next
/// job of the domain begins.
fn unless_panics(work: impl FnOnce() -> Result<Came>) -> std::result::Result<Came, Came> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(came) => came.map_err(|error| Came::of_error(&error)),
        Err(_) => Err(Came::failed("the job panicked: see the log of the server".to_owned())),
    }
}

/// Until the catalog takes it: else the job would run for ever, and nothing of its task begin in the domain.
fn write_end(upkeep: &Upkeep, open: &OpenUpkeepJob, came: &Came, how: (&Progress, bool)) {
    let mut is_told = false;
    while let Err(error) = end(upkeep, open, came, how) {
        if !std::mem::replace(&mut is_told, true) {
            let job = open.job.id;
            tracing::error!(%error, job, "cannot write the end of upkeep to the catalog");
        }
        match error {
            Error::Catalog(error) if error.is_of_database() => std::thread::sleep(AGAIN_AFTER),
            _ => return,
        }
    }
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
    let (alarm, upkeep_name) = (alarm.clone(), open.wanted.outcome_of().to_owned());
    let came = DomainUpkeep {
        domain,
        task,
        upkeep: upkeep_name,
        job,
        ended,
        state,
        position,
        damaged,
        alarm,
    };
    Ok(upkeep.catalog.end_upkeep_job(job, ending, &came)?)
}

/// How the last job of the task went in the domain.
fn before(upkeep: &Upkeep, open: &OpenUpkeepJob) -> Result<DomainUpkeep> {
    let none = DomainUpkeep {
        domain: open.wanted.domain.clone(),
        task: open.wanted.task.clone(),
        upkeep: open.wanted.outcome_of().to_owned(),
        job: open.job.id,
        ended: 0,
        state: JobState::Queued,
        position: 0,
        damaged: 0,
        alarm: None,
    };
    let mut found = upkeep.catalog.domain_upkeep()?.into_iter().filter(|last| {
        (&last.domain, &last.task, &last.upkeep) == (&none.domain, &none.task, &none.upkeep)
    });
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
    let Some(work) = work_of((&site, &part.upkeep), wanted, (before.position, now), copies) else {
        return Ok(Came::failed(format!("this program does not know the task '{}'", wanted.task)));
    };
    let closer = closer(&place, &work, &wanted.domain);
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
    Ok(Came::of(end, &closer, before, watch))
}

/// The command that looks closer at what was worked on.
fn closer(place: &DomainRepository, work: &UpkeepWork, domain: &str) -> String {
    let UpkeepWork::CheckCopy { to, .. } = work else { return place.check_command(domain) };
    let on = match place {
        Local(..) => String::new(),
        Remote(there) => format!(" (on the machine of {})", there.storage()),
    };
    format!("icecore check --repo '{}/{domain}'{on}", to.trim_end_matches('/'))
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
    (site, upkeep): (&site::Site, &site::Upkeep),
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
            let (forget, object_lock) = (forget(site, upkeep, now), upkeep.object_lock.map(lock));
            let keep = keep(site, upkeep, now);
            UpkeepWork::Copy { to, domain, bytes_per_sec, forget, keep, only, object_lock }
        }
        UpkeepTask::Reclaim => {
            let max_waste_percent = upkeep.max_waste.value();
            UpkeepWork::Reclaim { max_waste_percent, bytes_per_sec }
        }
        UpkeepTask::Check => {
            let sample_percent = upkeep.sample.map(|share| share.value());
            UpkeepWork::Check { sample_percent, position, bytes_per_sec, copies }
        }
        UpkeepTask::CheckCopy => {
            let sample_percent = copy_sample(upkeep).map(|share| share.value());
            let (to, domain) = (upkeep.to.clone()?, wanted.domain.clone());
            UpkeepWork::CheckCopy { to, domain, sample_percent, position, bytes_per_sec }
        }
    })
}

/// The rules that keep in copies what expired in the domain.
fn keep(site: &site::Site, upkeep: &site::Upkeep, now: Reading) -> Option<CopyKeep> {
    let retention = site.retentions.get(upkeep.retention.as_ref()?)?;
    let retention = serde_json::to_value(retention).ok()?;
    Some(CopyKeep { retention, now_secs: now.secs })
}

fn lock(lock: site::ObjectLock) -> ObjectLock {
    match lock {
        site::ObjectLock::Compliance => ObjectLock::Compliance,
        site::ObjectLock::Governance => ObjectLock::Governance,
    }
}

/// What goes from copies: nothing by a clock that is in doubt, and nothing if the retention that keeps it is unknown.
/// Without a time, what rules do not keep goes at once.
fn forget(site: &site::Site, upkeep: &site::Upkeep, now: Reading) -> Option<CopyForget> {
    if now.doubt.is_some() || (upkeep.retention.is_some() && keep(site, upkeep, now).is_none()) {
        return None;
    }
    let at_once = upkeep.retention.is_some().then_some(0);
    let keep_secs = upkeep.keep_expired.map(clock::Span::signed_secs).or(at_once)?;
    let expired_before = now.secs.saturating_sub(keep_secs);
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

/// What of the work may be done in the pool of the domain.
fn permitted(upkeep: &Upkeep, domain: &str, work: UpkeepWork) -> Result<UpkeepWork> {
    let known = upkeep.catalog.domain(&crate::error::parse_name(domain)?)?;
    let place = known.map(|known| upkeep.repositories.place_of(&known)).transpose()?;
    let read_only = place.and_then(|place| place.read_only);
    Ok(server_contract::upkeep::permitted(read_only, work)?)
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
        let mut site = site::Site::default();
        let before = |site: &site::Site, upkeep: &site::Upkeep, now| {
            forget(site, upkeep, now).map(|it| it.expired_before)
        };
        assert_eq!(before(&site, &upkeep, now), Some(1_000_000 - 86_400));
        assert_eq!(before(&site, &upkeep, Reading { doubt, ..now }), None);
        assert_eq!(before(&site, &site::Upkeep::default(), now), None);
        let ruled = site::Upkeep { retention: Some("long".into()), ..site::Upkeep::default() };
        assert_eq!(before(&site, &ruled, now), None, "nobody knows what it keeps");
        let long = serde_json::json!({"class": {"default": {"keep_last": 2}}});
        site.set(site::Kind::Retention, "long", &long).unwrap();
        assert_eq!(before(&site, &ruled, now), Some(1_000_000));
        assert!(keep(&site, &ruled, now).is_some() && keep(&site, &upkeep, now).is_none());
    }
}
