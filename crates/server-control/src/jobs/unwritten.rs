//! Ends of jobs that the catalog did not take: its disk was full, or its database was away. They are written once it
//! takes them. Until then their jobs count as running, and no other of their sources begins.

use api::jobs::{Job, JobCause, JobState, Progress};
use catalog::Catalog;
use catalog::jobs::{Ending, NewJob};
use parking_lot::Mutex;
use server_contract::access_control::JobNo;
use std::collections::BTreeMap;

/// As many as jobs ran when the catalog failed.
#[derive(Default)]
pub(super) struct UnwrittenEnds(Mutex<BTreeMap<JobNo, Owned>>);

struct Owned {
    /// The job, if the catalog did not take its start either.
    job: Option<Job>,
    ended: i64,
    state: JobState,
    progress: Progress,
    snapshot: Option<String>,
    error: Option<String>,
    cause: Option<JobCause>,
    cancelled: bool,
    report: String,
}

impl UnwrittenEnds {
    /// Keeps the end of the job `id`; and `job`, which the catalog does not know.
    pub(super) fn keep(&self, id: JobNo, job: Option<&Job>, ending: &Ending<'_>) {
        self.0.lock().insert(id, Owned::of(job, ending));
    }

    /// Whether the job has ended, and the catalog does not know it.
    pub(super) fn has(&self, id: JobNo) -> bool {
        self.0.lock().contains_key(&id)
    }

    /// The job runs again.
    pub(super) fn forget(&self, id: JobNo) {
        self.0.lock().remove(&id);
    }

    /// Writes them, until the catalog fails again; whether it took any.
    pub(super) fn write(&self, catalog: &Catalog) -> bool {
        let (mut kept, mut has_written) = (self.0.lock(), false);
        while let Some(first) = kept.first_entry() {
            let id = *first.key();
            match first.get().write(id, catalog) {
                Err(error) if error.is_of_database() => break,
                Err(error) => tracing::error!(%error, job = id, "the end of a job is lost"),
                Ok(id) => tracing::info!(job = id, "the end of a job was written late"),
            }
            first.remove();
            has_written = true;
        }
        has_written
    }
}

impl Owned {
    fn of(job: Option<&Job>, ending: &Ending<'_>) -> Self {
        let Ending { ended, state, progress, snapshot, error, cause, cancelled, report } = *ending;
        let (progress, report) = (progress.clone(), report.to_owned());
        let [snapshot, error] = [snapshot, error].map(|text| text.map(str::to_owned));
        let job = job.cloned();
        Self { job, ended, state, progress, snapshot, error, cause, cancelled, report }
    }

    /// The number of the job in the catalog.
    fn write(&self, id: JobNo, catalog: &Catalog) -> catalog::Result<JobNo> {
        match &self.job {
            Some(job) => catalog.add_ended_job(as_new(job), self.ending()),
            None => catalog.end_job(id, self.ending()).map(|()| id),
        }
    }

    fn ending(&self) -> Ending<'_> {
        let Self { ended, state, cause, cancelled, ref progress, ref report, .. } = *self;
        let (snapshot, error) = (self.snapshot.as_deref(), self.error.as_deref());
        Ending { ended, state, progress, snapshot, error, cause, cancelled, report }
    }
}

/// A job as it began.
pub(super) fn as_new(job: &Job) -> NewJob<'_> {
    let Job { node, domain, kind, what, begun, .. } = job;
    NewJob { node, domain, kind, what, begun: *begun }
}
