//! Jobs and their threads.

use crate::Control;
use crate::enroll::tests::{FROM, control, new_token, request};
use crate::scheduler::tests::enroll;
use api::jobs::{Job, JobFilter, JobState};
use api::upkeep::{CheckReport, CopyReport, ReclaimReport, StartUpkeep};
use repository::watch::Watch;
use server_contract::moving::{DomainMover, MoveControl, MoveRequest, Moved};
use server_contract::upkeep::{
    CheckCopyRequest, CheckRequest, CopyRequest, DomainUpkeep, ReclaimRequest, UpkeepError,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nobody asks it for more than to reclaim, which it does in no time, or panics.
#[derive(Default)]
struct Quick {
    panics: AtomicBool,
}

impl DomainUpkeep for Quick {
    fn reclaim(
        &self,
        _: &Path,
        _: &ReclaimRequest<'_>,
        _: &dyn Watch,
    ) -> Result<ReclaimReport, UpkeepError> {
        assert!(!self.panics.load(Ordering::Relaxed), "a bug");
        Ok(ReclaimReport::default())
    }

    fn copy(
        &self,
        _: &Path,
        _: &CopyRequest<'_>,
        _: &dyn Watch,
    ) -> Result<CopyReport, UpkeepError> {
        Err(nobody_asked())
    }

    fn check(
        &self,
        _: &Path,
        _: &CheckRequest<'_>,
        _: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError> {
        Err(nobody_asked())
    }

    fn check_copy(
        &self,
        _: &Path,
        _: &CheckCopyRequest<'_>,
        _: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError> {
        Err(nobody_asked())
    }
}

impl DomainMover for Quick {
    fn move_domain(
        &self,
        _: &MoveRequest<'_>,
        _: &dyn MoveControl,
        _: &dyn Watch,
    ) -> Result<Moved, UpkeepError> {
        Err(nobody_asked())
    }
}

fn nobody_asked() -> UpkeepError {
    UpkeepError::Failed("nobody asks for it".to_owned())
}

fn reclaim(control: &Control) -> u64 {
    let (domain, task) = (Some("web".parse().unwrap()), Some("reclaim".to_owned()));
    let how = StartUpkeep { domain, task, dry_run: false };
    control.upkeep.start(crate::by("admin"), "default", &how).unwrap().jobs[0].job.unwrap()
}

fn jobs(control: &Control) -> Vec<Job> {
    control.jobs.history(&JobFilter::default()).unwrap().jobs
}

/// Looks for upkeep that is due, until this job has ended.
fn ended(control: &Control, id: u64) -> JobState {
    let begun = Instant::now();
    loop {
        control.upkeep.tick(crate::now_secs());
        let job = jobs(control).into_iter().find(|job| job.id == id).unwrap();
        if !matches!(job.state, JobState::Queued | JobState::Running) {
            return job.state;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no end: {job:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The catalog stores that a job begins, and the answer is lost: it runs there, and nowhere else.
#[test]
fn a_job_whose_start_was_stored_without_an_answer_begins_at_the_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    enroll(&control.catalog, "web");
    control.upkeep.work_with(Arc::<Quick>::default(), Arc::<Quick>::default());
    let job = reclaim(&control);
    assert!(control.catalog.start_upkeep_job(crate::now_secs(), job).unwrap());
    assert_eq!(ended(&control, job), JobState::Complete);
    assert_eq!(ended(&control, reclaim(&control)), JobState::Complete, "the next one, too");
}

#[test]
fn a_job_that_panics_fails_and_the_next_one_of_its_domain_begins() {
    let (_folder, control) = control();
    let made = control.make_token("admin", &new_token("web")).unwrap();
    control.enroll(FROM, &request(&made.token)).unwrap();
    let worker = Arc::new(Quick { panics: true.into() });
    control.upkeep.work_with(worker.clone(), worker.clone());
    let first = reclaim(&control);
    assert_eq!(ended(&control, first), JobState::Failed);
    let said = control.jobs.job(first).unwrap().error.unwrap();
    assert_eq!(said, "the job panicked: see the log of the server");
    worker.panics.store(false, Ordering::Relaxed);
    assert_eq!(ended(&control, reclaim(&control)), JobState::Complete);
    assert!(control.jobs.sessions().jobs.is_empty());
}
