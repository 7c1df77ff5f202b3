//! Events: what changes while somebody looks.
//!
//! They are found by comparing what the catalog says now with what it said before, whenever a stream asks. So nothing
//! has to be told twice, an event that nobody saw costs nothing, and what happened while nobody looked is found by who
//! looks next. A server that was started again says so: its ids begin anew.

mod protection;
mod ring;

use crate::jobs::Jobs;
use crate::open::Parts;
use crate::protection::ProtectionView;
use crate::{Result, random};
use api::events::{AUDIT, JOB, PROGRESS, PROTECTION, SITE, SiteChanged};
use api::jobs::{Job, JobFilter};
use api::protection::ProtectionFilter;
use catalog::Catalog;
use parking_lot::Mutex;
use protection::SeenProtection;
pub(crate) use ring::Event;
use ring::Ring;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams at once.
const STREAMS_MAX: usize = 64;
/// The catalog is asked no more often, however many streams there are.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Protection is looked at no more often: it judges every snapshot.
const PROTECTION_EVERY: Duration = Duration::from_secs(10);
/// If more jobs than this came since the last look, whoever listens reads the lists again.
const NEW_JOBS_MAX: u32 = 500;
/// Entries of the audit log that are told at once.
const AUDIT_MAX: u32 = 200;

/// The events of this server.
pub(crate) struct Events {
    catalog: Arc<Catalog>,
    jobs: Arc<Jobs>,
    protection: Arc<ProtectionView>,
    seen: Mutex<Seen>,
    /// A lock of its own: reading repositories may take long, and nobody waits for it.
    seen_protection: Mutex<(Option<Instant>, SeenProtection)>,
    streams: Arc<Semaphore>,
}

/// What the catalog said at the last look.
struct Seen {
    ring: Ring,
    looked: Option<Instant>,
    changes: Option<u64>,
    last_job: u64,
    open: BTreeMap<u64, Job>,
    site: u64,
    audit: u64,
}

/// What follows for a stream.
pub(crate) struct Next {
    pub(crate) events: Vec<Arc<Event>>,
    /// Where it goes on.
    pub(crate) after: String,
}

impl Events {
    /// Of this server.
    ///
    /// # Errors
    /// [`crate::Error::System`] without random bytes.
    pub(crate) fn new(parts: &Parts, protection: Arc<ProtectionView>) -> Result<Self> {
        let epoch = u64::from_le_bytes(*random::<8>()?);
        let seen = Seen {
            ring: Ring::new(epoch),
            looked: None,
            changes: None,
            last_job: 0,
            open: BTreeMap::new(),
            site: 0,
            audit: 0,
        };
        Ok(Self {
            catalog: parts.catalog.clone(),
            jobs: parts.jobs.clone(),
            protection,
            seen: Mutex::new(seen),
            seen_protection: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        })
    }

    /// A place among the streams; `None` if there are too many.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().ok()
    }

    /// What followed `after`. Blocks.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn next(&self, after: Option<&str>) -> Result<Next> {
        self.look_at_protection();
        let mut seen = self.seen.lock();
        if seen.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.look(&mut seen)?;
            seen.looked = Some(Instant::now());
        }
        let (events, after) = seen.ring.after(after);
        Ok(Next { events, after })
    }

    /// Running jobs with their rates, as events without ids.
    pub(crate) fn progress(&self) -> Vec<Event> {
        let jobs = self.jobs.sessions().jobs;
        jobs.iter().map(|job| Event::of(PROGRESS, job)).collect()
    }

    /// A change is told when it is seen; what cannot be read now is looked at the next time.
    fn look_at_protection(&self) {
        let Some(mut last) = self.seen_protection.try_lock() else { return };
        let (looked, before) = &mut *last;
        if looked.is_some_and(|looked| looked.elapsed() < PROTECTION_EVERY) {
            return;
        }
        *looked = Some(Instant::now());
        match self.protection.now(&ProtectionFilter::default()) {
            Ok(now) => {
                let changed = before.changed(&now.sources);
                let mut seen = self.seen.lock();
                changed.iter().for_each(|one| seen.ring.add(Event::of(PROTECTION, one)));
            }
            Err(error) => tracing::debug!(%error, "cannot look at protection"),
        }
    }

    fn look(&self, seen: &mut Seen) -> Result<()> {
        let is_first = seen.looked.is_none();
        self.look_at_jobs(seen, is_first)?;
        let version = self.catalog.site_version()?;
        if version != seen.site && !is_first {
            seen.ring.add(Event::of(SITE, &SiteChanged { version }));
        }
        seen.site = version;
        self.look_at_audit(seen, is_first)
    }

    fn look_at_jobs(&self, seen: &mut Seen, is_first: bool) -> Result<()> {
        let changes = self.jobs.changes();
        if seen.changes == Some(changes) {
            return Ok(());
        }
        let limit = Some(NEW_JOBS_MAX);
        let newest = self.jobs.history(&JobFilter { limit, ..JobFilter::default() })?.jobs;
        let new: Vec<_> = newest.into_iter().filter(|job| job.id > seen.last_job).collect();
        if !is_first && new.len() >= NEW_JOBS_MAX as usize {
            seen.ring.forget();
        }
        let last_job = new.first().map_or(seen.last_job, |job| job.id);
        let before = std::mem::take(&mut seen.open);
        let mut changed: BTreeMap<u64, Job> = new.into_iter().map(|job| (job.id, job)).collect();
        for (id, job) in before {
            // One that could not be written to the catalog is not known any more once it has ended.
            let Ok(now) = self.jobs.job(id) else { continue };
            if now.state != job.state {
                changed.insert(id, now);
            } else {
                seen.open.insert(id, job);
            }
        }
        for (id, job) in changed {
            let job = Job { report: None, ..job };
            if !is_first {
                seen.ring.add(Event::of(JOB, &job));
            }
            if job.state.is_open() {
                seen.open.insert(id, job);
            }
        }
        if is_first {
            self.add_open(seen)?;
        }
        (seen.last_job, seen.changes) = (last_job, Some(changes));
        Ok(())
    }

    /// Jobs that are open at the first look, however old.
    fn add_open(&self, seen: &mut Seen) -> Result<()> {
        let open = self.catalog.open_runs()?.into_iter().map(|run| run.job);
        let running = self.jobs.sessions().jobs;
        seen.open.extend(open.chain(running).map(|job| (job.id, job)));
        Ok(())
    }

    fn look_at_audit(&self, seen: &mut Seen, is_first: bool) -> Result<()> {
        let limit = if is_first { 1 } else { AUDIT_MAX };
        let entries = self.catalog.audit_entries(None, limit)?;
        let new: Vec<_> = entries.iter().filter(|entry| entry.id > seen.audit).collect();
        if !is_first {
            if new.len() >= AUDIT_MAX as usize {
                seen.ring.forget();
            }
            new.iter().rev().for_each(|entry| seen.ring.add(Event::of(AUDIT, entry)));
        }
        seen.audit = entries.first().map_or(seen.audit, |entry| entry.id);
        Ok(())
    }
}
