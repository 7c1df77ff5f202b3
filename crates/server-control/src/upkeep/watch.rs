//! Who watches a job of upkeep: tells how far it is, and ends it.

use super::Upkeep;
use crate::jobs::Jobs;
use crate::now_secs;
use catalog::Catalog;
use catalog::upkeep::{NewUpkeepJob, OpenUpkeepJob};
use ids::ContainerNo;
use parking_lot::Mutex;
use repository::watch::Watch;
use server_contract::access_control::JobStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the progress of a job is told.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// How often it is written down how far a check is: so much of it is repeated after a restart.
const NOTED_EVERY: Duration = Duration::from_secs(5);

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
    pub(super) fn new(upkeep: &'a Upkeep, open: &'a OpenUpkeepJob) -> Self {
        let (jobs, catalog) = (&*upkeep.jobs, &*upkeep.catalog);
        let (job, wanted, now) = (open.job.id, &open.wanted, Instant::now());
        let told = Mutex::new((now, "begin".to_owned()));
        let (bytes, passed) = (AtomicU64::new(0), Mutex::new((now, 0)));
        Self { jobs, catalog, job, wanted, bytes, told, passed }
    }

    /// The container up to which a check has read without finding damage; 0 for none.
    pub(super) fn read_to(&self) -> u64 {
        self.passed.lock().1
    }

    pub(super) fn tell(&self) {
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
