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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// It said once that the job does not go on. Who ends in the middle of something asks again before using it, and
    /// must hear the same, also when the clock was put back.
    has_ended: AtomicBool,
}

impl<'a> JobWatch<'a> {
    pub(super) fn new(upkeep: &'a Upkeep, open: &'a OpenUpkeepJob) -> Self {
        let (jobs, catalog) = (&*upkeep.jobs, &*upkeep.catalog);
        let (job, wanted, now) = (open.job.id, &open.wanted, Instant::now());
        let told = Mutex::new((now, "begin".to_owned()));
        let (bytes, passed) = (AtomicU64::new(0), Mutex::new((now, 0)));
        let has_ended = AtomicBool::new(false);
        Self { jobs, catalog, job, wanted, bytes, told, passed, has_ended }
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
        if !is_open || self.jobs.is_cancelled(self.job) {
            self.has_ended.store(true, Ordering::SeqCst);
        }
        !self.has_ended.load(Ordering::SeqCst)
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
    use crate::Control;
    use api::jobs::{Job, JobFilter};
    use api::upkeep::StartUpkeep;

    fn queued(control: &Control) -> Job {
        let (domain, task) = (Some("web".parse().unwrap()), Some("reclaim".to_owned()));
        let how = StartUpkeep { domain, task, dry_run: false };
        control.upkeep.start(crate::by("admin"), "default", &how).unwrap();
        control.jobs.history(&JobFilter::default()).unwrap().jobs.remove(0)
    }

    /// What was begun before the first answer is taken for whole by who hears another one behind it.
    #[test]
    fn a_job_that_ends_with_its_window_goes_on_no_more_when_the_clock_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        crate::scheduler::tests::enroll(&control.catalog, "web");
        let until = |until| {
            let [upkeep, domain, task] = ["default", "web", "reclaim"].map(str::to_owned);
            NewUpkeepJob { upkeep, schedule: None, domain, task, until, to: None }
        };
        let now_secs = crate::now_secs();
        let (later, past) = (until(Some(now_secs + 3600)), until(Some(now_secs - 1)));
        let open = OpenUpkeepJob { job: queued(&control), wanted: later };
        let mut watch = JobWatch::new(&control.upkeep, &open);
        assert!(watch.goes_on());
        watch.wanted = &past;
        assert!(!watch.goes_on());
        watch.wanted = &open.wanted; // which the clock is before again
        assert!(!watch.goes_on());
    }
}
