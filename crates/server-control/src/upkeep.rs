//! Upkeep: what the server does to its domains by itself (expire, copy, reclaim, check, check-copy), as jobs in the
//! list of all jobs.
//!
//! What is due, waits and runs is in the catalog. A job runs on a thread of its own; there are few at once, and one in
//! a domain. A server that was killed starts its jobs again: what they did stays done.

mod came;
mod due;
mod moving;
mod run;
mod watch;

use crate::domain_keys::DomainKeys;
use crate::domain_repository::DomainRepositories;
use crate::error::missing;
use crate::jobs::Jobs;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::pools::Pools;
use crate::retention::Retention;
use crate::storage_servers::StorageServerTable;
use crate::{Error, Result};
use api::Name;
use api::jobs::{JobCause, JobState};
use api::upkeep::{DomainUpkeep, StartUpkeep, StartedUpkeep, StartedUpkeepJob, UpkeepStatus};
use catalog::upkeep::{DomainUpkeep as LastUpkeep, NewUpkeepJob, OpenUpkeepJob, UpkeepSettlement};
use catalog::{By, Catalog};
use due::{Line, lines, upkeeps};
use parking_lot::{Mutex, RwLock};
use server_contract::moving::DomainMover;
use server_contract::upkeep::DomainUpkeep as Worker;
use site::{Site, UpkeepTask};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Jobs of upkeep that run at once, on this server and on each storage server.
const JOBS_MAX: usize = 2;
/// How often schedules are looked at.
const LOOK_EVERY_SECS: i64 = 30;

/// Storage servers by domain.
type Domains = BTreeMap<String, Option<Name>>;

/// Keeps up the domains.
pub(crate) struct Upkeep {
    catalog: Arc<Catalog>,
    jobs: Arc<Jobs>,
    repositories: Arc<DomainRepositories>,
    retention: Arc<Retention>,
    clock: Arc<MachineClock>,
    keys: Arc<DomainKeys>,
    /// Who does it; nobody on a server without a data plane.
    worker: RwLock<Option<Arc<dyn Worker>>>,
    /// Who moves domains.
    mover: RwLock<Option<Arc<dyn DomainMover>>>,
    pools: Pools,
    /// The domains in which a job runs, with their storage servers.
    busy: Mutex<Domains>,
    /// Where storage servers are asked to move domains.
    table: Arc<StorageServerTable>,
    /// The domain that is being moved.
    moving: Mutex<Option<String>>,
    /// One tick at a time.
    ticking: Mutex<()>,
    looked_secs: Mutex<i64>,
}

impl Upkeep {
    /// Of this server.
    pub(crate) fn new(parts: &Parts, retention: Arc<Retention>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            jobs: parts.jobs.clone(),
            repositories: parts.repositories.clone(),
            retention,
            clock: parts.clock.clone(),
            keys: parts.keys.clone(),
            worker: RwLock::default(),
            mover: RwLock::default(),
            pools: Pools::of(parts),
            table: parts.table.clone(),
            busy: Mutex::default(),
            moving: Mutex::default(),
            ticking: Mutex::default(),
            looked_secs: Mutex::new(i64::MIN / 2),
        }
    }

    /// From now on `worker` does what is due, and `mover` moves domains.
    pub(crate) fn work_with(&self, worker: Arc<dyn Worker>, mover: Arc<dyn DomainMover>) {
        *self.worker.write() = Some(worker);
        *self.mover.write() = Some(mover);
    }

    /// Queues what is due at `now_secs`, and starts jobs. A failure is logged, and what was not done is done the next
    /// time. Blocks, but not for a job.
    pub(crate) fn tick(self: &Arc<Self>, now_secs: i64) {
        let done = {
            let _alone = self.ticking.lock();
            let settled = if self.is_due(now_secs) { self.settle(now_secs) } else { Ok(()) };
            settled.and_then(|()| self.start_jobs(now_secs))
        };
        if let Err(error) = done {
            tracing::error!(%error, "cannot start the upkeep that is due");
        }
    }

    /// Whether schedules are looked at: seldom, because each look is one at every domain.
    fn is_due(&self, now_secs: i64) -> bool {
        let mut looked_secs = self.looked_secs.lock();
        let is_due = !(0..LOOK_EVERY_SECS).contains(&(now_secs - *looked_secs));
        if is_due {
            *looked_secs = now_secs;
        }
        is_due
    }

    /// The same, with a look at all schedules.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn tick_at(self: &Arc<Self>, now_secs: i64) -> Result<()> {
        let _alone = self.ticking.lock();
        self.settle(now_secs)?;
        self.start_jobs(now_secs)
    }

    /// Queues what is due.
    fn settle(&self, now_secs: i64) -> Result<()> {
        let lines = self.lines()?;
        let states: BTreeMap<_, _> = self.catalog.upkeep_states()?.into_iter().collect();
        let settle = |line: &Line| line.settle(states.get(&line.key).copied(), now_secs);
        let due: Vec<UpkeepSettlement> = lines.iter().filter_map(settle).collect();
        if !due.is_empty() {
            self.catalog.settle_upkeep(now_secs, &due)?;
            self.jobs.have_changed();
        }
        Ok(())
    }

    /// All schedules of all upkeeps, for each domain.
    fn lines(&self) -> Result<Vec<Line>> {
        let site = crate::scheduler::declared(self.catalog.objects()?);
        Ok(lines(&site, &self.domains()?.into_keys().collect::<Vec<_>>()))
    }

    /// The domains, with their storage servers.
    fn domains(&self) -> Result<Domains> {
        let all = self.catalog.domains()?.into_iter();
        Ok(all.map(|domain| (domain.name.to_string(), domain.storage)).collect())
    }

    /// Starts jobs in domains that are free, and says why the others wait.
    fn start_jobs(self: &Arc<Self>, now_secs: i64) -> Result<()> {
        let (mut waits, domains) = (BTreeMap::new(), self.domains()?);
        for open in self.catalog.open_upkeep_jobs()? {
            if open.job.state != JobState::Queued && !self.lets_wait_again(&open)? {
                continue;
            }
            let (id, domain) = (open.job.id, open.wanted.domain.clone());
            if open.wanted.until.is_some_and(|until| until <= now_secs) {
                self.miss(id, now_secs)?;
            } else if let Some(why) = self.wait_of(&open.wanted, domains.get(&domain)) {
                waits.insert(id, why);
            } else {
                let storage = domains.get(&domain).cloned().flatten();
                self.start_job(open, storage, now_secs)?;
            }
        }
        self.jobs.upkeep_waits_for(waits);
        Ok(())
    }

    /// A job that runs in the catalog and has no thread waits again: there was no thread for it, or the catalog stored
    /// its start and the answer was lost. Returns whether it does.
    fn lets_wait_again(&self, open: &OpenUpkeepJob) -> Result<bool> {
        let domain = &open.wanted.domain;
        let has_thread = match open.wanted.to {
            Some(_) => self.moving.lock().as_ref() == Some(domain),
            None => self.busy.lock().contains_key(domain),
        };
        // One that has ended since it was read stays so.
        Ok(!has_thread && self.catalog.requeue_upkeep_job(open.job.id)?)
    }

    /// Why a job of a domain that lies there cannot start now.
    fn wait_of(&self, wanted: &NewUpkeepJob, storage: Option<&Option<Name>>) -> Option<String> {
        let (domain, busy, moving) = (&wanted.domain, self.busy.lock(), self.moving.lock());
        if busy.contains_key(domain) || moving.as_ref() == Some(domain) {
            return Some(format!("waits for another job of the domain {domain}"));
        }
        // A move may wait for long until nobody uses its domain, and keeps no upkeep of others waiting.
        if wanted.to.is_some() {
            let why = |moving| format!("waits until the domain {moving} is moved");
            return moving.as_ref().map(why);
        }
        let storage = storage.and_then(Option::as_ref);
        let there = busy.values().filter(|other| other.as_ref() == storage).count();
        let place = storage.map_or_else(String::new, |storage| format!(" on {storage}"));
        let why = format!("waits for a slot: upkeep runs {JOBS_MAX} jobs at once{place}");
        (there >= JOBS_MAX).then_some(why)
    }

    fn miss(&self, id: u64, now_secs: i64) -> Result<()> {
        let how = (JobState::Missed, JobCause::NotStarted);
        let by = By { who: crate::SERVER, now_secs };
        self.catalog.end_queued(by, id, how, "it did not start in its time")?;
        self.jobs.have_changed();
        Ok(())
    }

    fn start_job(
        self: &Arc<Self>,
        open: OpenUpkeepJob,
        storage: Option<Name>,
        now_secs: i64,
    ) -> Result<()> {
        let Some(worker) = self.worker.read().clone() else { return Ok(()) };
        let (id, wanted) = (open.job.id, open.wanted.clone());
        if !self.catalog.start_upkeep_job(now_secs, id)? {
            return Ok(());
        }
        self.begins(&wanted, storage);
        self.jobs.upkeep_runs(open.job.clone());
        let this = self.clone();
        let run = move || {
            let _ends = EndsAnyway(&this, &open);
            run::run(&this, &*worker, &open);
        };
        let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(run);
        thread.map(drop).map_err(|source| {
            // The job waits again at the next look.
            self.jobs.upkeep_is_over(id);
            self.ends(&wanted);
            server_contract::Error::File { path: "a thread for upkeep".into(), source }.into()
        })
    }

    fn begins(&self, wanted: &NewUpkeepJob, storage: Option<Name>) {
        match wanted.to {
            Some(_) => *self.moving.lock() = Some(wanted.domain.clone()),
            None => drop(self.busy.lock().insert(wanted.domain.clone(), storage)),
        }
    }

    fn ends(&self, wanted: &NewUpkeepJob) {
        match wanted.to {
            Some(_) => *self.moving.lock() = None,
            None => drop(self.busy.lock().remove(&wanted.domain)),
        }
    }

    /// Queues the tasks of an upkeep now: what was queued, and what has an open job already.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such upkeep, or it does nothing there; [`Error::Catalog`].
    pub(crate) fn start(&self, by: By<'_>, name: &str, how: &StartUpkeep) -> Result<StartedUpkeep> {
        let wanted = self.wanted(name, how)?;
        let numbers = match how.dry_run {
            true => vec![None; wanted.len()],
            false => self.catalog.queue_upkeep(by, &wanted)?,
        };
        self.jobs.have_changed();
        let started = |(new, job): (NewUpkeepJob, Option<u64>)| StartedUpkeepJob {
            domain: new.domain,
            task: new.task,
            job,
        };
        Ok(StartedUpkeep { jobs: wanted.into_iter().zip(numbers).map(started).collect() })
    }

    fn wanted(&self, name: &str, how: &StartUpkeep) -> Result<Vec<NewUpkeepJob>> {
        let site = crate::scheduler::declared(self.catalog.objects()?);
        let upkeeps = upkeeps(&site);
        let parts: Vec<_> = upkeeps.iter().filter(|part| part.name == name).collect();
        if parts.is_empty() {
            return Err(Error::Usage(format!(
                "there is no upkeep '{name}': icecore server upkeep list"
            )));
        }
        let task = how.task.as_deref().map(task_of).transpose()?;
        let domains = self.domains()?;
        if let Some(domain) = how.domain.as_ref().filter(|it| !domains.contains_key(it.as_str())) {
            return Err(missing("domain", domain).into());
        }
        let mut jobs = Vec::new();
        for domain in domains.into_keys() {
            let is_wanted = how.domain.as_ref().is_none_or(|only| only.as_str() == domain);
            for part in parts.iter().filter(|part| is_wanted && part.upkeep.covers(&domain)) {
                jobs.extend(part.jobs(&domain, task));
            }
        }
        if jobs.is_empty() {
            return Err(Error::Usage(format!(
                "the upkeep '{name}' does nothing there: icecore server upkeep status"
            )));
        }
        Ok(jobs)
    }

    /// Each task of each domain: what does it, when it is due, and how it went last.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn status(&self, now_secs: i64) -> Result<UpkeepStatus> {
        let states: BTreeMap<_, _> = self.catalog.upkeep_states()?.into_iter().collect();
        let mut rows = Rows::new();
        for line in self.lines()? {
            let next = line.next_secs(states.get(&line.key).copied(), now_secs);
            for task in &line.part.upkeep.tasks {
                let of = if task.is_of_copy() { &line.part.name } else { "" };
                let row = row(&mut rows, &line.key.domain, task.name(), of);
                row.upkeeps.push(line.key.upkeep.clone());
                row.upkeeps.dedup();
                row.next = row.next.into_iter().chain(next).min();
            }
        }
        let site = crate::scheduler::declared(self.catalog.objects()?);
        let all = self.catalog.domain_upkeep()?.into_iter();
        for last in all.filter(|last| is_done(&site, last)) {
            let row = row(&mut rows, &last.domain, &last.task, &last.upkeep);
            if row.upkeeps.is_empty() && !last.upkeep.is_empty() {
                row.upkeeps.push(last.upkeep.clone());
            }
            // Before the first one has ended, only how far it is is known.
            row.ended = Some(last.ended).filter(|ended| *ended > 0);
            row.job = Some(last.job);
            (row.state, row.alarm) = (Some(last.state), last.alarm);
        }
        Ok(UpkeepStatus { domains: rows.into_values().collect() })
    }

    /// How many tasks of domains have an alarm. No schedule is looked at.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn alarms(&self) -> Result<u64> {
        let mut alarms = self.catalog.domain_upkeep()?;
        alarms.retain(|last| last.alarm.is_some());
        if !alarms.is_empty() {
            let site = crate::scheduler::declared(self.catalog.objects()?);
            alarms.retain(|last| is_done(&site, last));
        }
        Ok(alarms.len() as u64)
    }
}

/// The domain is free for the next job, whatever happens to the thread of this one.
struct EndsAnyway<'a>(&'a Upkeep, &'a OpenUpkeepJob);

impl Drop for EndsAnyway<'_> {
    fn drop(&mut self) {
        let Self(upkeep, open) = self;
        upkeep.jobs.upkeep_is_over(open.job.id);
        upkeep.ends(&open.wanted);
    }
}

/// By domain and task; copies also by their upkeep.
type Rows = BTreeMap<[String; 3], DomainUpkeep>;

/// Whether there still is who does it: a copy that nobody makes any more is left out.
fn is_done(site: &Site, last: &LastUpkeep) -> bool {
    let is_of_copy = UpkeepTask::from_name(&last.task).is_some_and(UpkeepTask::is_of_copy);
    !is_of_copy || has_copy(site, &last.upkeep, &last.domain)
}

fn has_copy(site: &Site, upkeep: &str, domain: &str) -> bool {
    let found = site.upkeeps.get(upkeep);
    found.is_some_and(|it| it.covers(domain) && it.tasks.iter().any(|task| task.is_of_copy()))
}

fn row<'a>(rows: &'a mut Rows, domain: &str, task: &str, upkeep: &str) -> &'a mut DomainUpkeep {
    let empty = || DomainUpkeep {
        domain: domain.to_owned(),
        task: task.to_owned(),
        upkeeps: Vec::new(),
        next: None,
        job: None,
        ended: None,
        state: None,
        alarm: None,
    };
    rows.entry([domain, task, upkeep].map(str::to_owned)).or_insert_with(empty)
}

fn task_of(name: &str) -> Result<UpkeepTask> {
    let unknown = || {
        Error::Usage(format!(
            "'{name}' is no task of upkeep; write expire, copy, reclaim, check or check-copy"
        ))
    };
    UpkeepTask::from_name(name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests;
