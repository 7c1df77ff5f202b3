//! The API of the server, as an administrator calls it.

use access::{Admin, Client, Error, blocking};
use api::job_log::{JobLog, JobLogEntry};
use api::jobs::{Job, JobState, Jobs};
use api::retention::{RetainedSnapshot, RetainedSnapshots};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Most jobs and snapshots of a page.
const JOBS_MAX: u32 = 1_000;
const SNAPSHOTS_MAX: u32 = 100_000;

/// The server whose files are in this folder.
pub(super) struct Reach(PathBuf);

impl Reach {
    pub(super) fn of(data: &Path) -> Self {
        Self(data.to_owned())
    }

    fn client(&self) -> Result<Client, String> {
        let admin = Admin { data: Some(self.0.clone()), ..Admin::default() };
        admin.client().map_err(|error| error.to_string())
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let client = self.client()?;
        blocking::wait(client.get(path)).map_err(|error| format!("GET {path}: {error}"))
    }

    /// What the server does, or that it refuses, which is an answer too.
    pub(super) fn post(&self, path: &str, body: &impl Serialize) -> Result<Option<Value>, String> {
        let client = self.client()?;
        match blocking::wait(client.post(path, body)) {
            Ok(done) => Ok(Some(done)),
            Err(Error::Server(failure)) if failure.name != "failed" => Ok(None),
            Err(error) => Err(format!("POST {path}: {error}")),
        }
    }

    /// The site is what `text` says.
    pub(super) fn apply(&self, text: &str) -> Result<(), String> {
        let client = self.client()?;
        let done = blocking::wait(client.post::<Value>("/site", &json!({ "text": text })));
        done.map(drop).map_err(|error| match error {
            Error::Server(failure) => format!("the site is refused: {failure:?}"),
            error => error.to_string(),
        })
    }

    pub(super) fn in_state(&self, state: JobState) -> Result<Vec<Job>, String> {
        let word = serde_json::to_value(state).map_err(|error| error.to_string())?;
        let word = word.as_str().unwrap_or_default().to_owned();
        self.pages(&format!("/jobs?limit={JOBS_MAX}&state={word}"))
    }

    pub(super) fn open(&self) -> Result<Vec<Job>, String> {
        let states = [JobState::Queued, JobState::Suspended, JobState::Running];
        let all: Result<Vec<_>, String> = states.iter().map(|it| self.in_state(*it)).collect();
        Ok(all?.concat())
    }

    /// All jobs, oldest first.
    pub(super) fn jobs(&self) -> Result<Vec<Job>, String> {
        let mut jobs = self.pages(&format!("/jobs?limit={JOBS_MAX}"))?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The newest jobs that have ended.
    pub(super) fn newest(&self, limit: u32) -> Result<Vec<Job>, String> {
        let jobs: Jobs = self.get(&format!("/jobs?limit={limit}"))?;
        Ok(jobs.jobs.into_iter().filter(|job| !job.state.is_open()).collect())
    }

    fn pages(&self, path: &str) -> Result<Vec<Job>, String> {
        let mut page: Jobs = self.get(path)?;
        let mut all = std::mem::take(&mut page.jobs);
        while let Some(next) = page.next {
            page = self.get(&format!("{path}&before={next}"))?;
            all.append(&mut page.jobs);
        }
        Ok(all)
    }

    pub(super) fn log(&self, job: u64) -> Result<Vec<JobLogEntry>, String> {
        Ok(self.get::<JobLog>(&format!("/jobs/{job}/log"))?.entries)
    }

    /// What the repositories hold.
    pub(super) fn snapshots(&self) -> Result<Vec<RetainedSnapshot>, String> {
        let all: RetainedSnapshots =
            self.get(&format!("/retention/snapshots?limit={SNAPSHOTS_MAX}"))?;
        match all.unread.first() {
            None => Ok(all.snapshots),
            Some(unread) => Err(format!("{} cannot be read: {}", unread.domain, unread.error)),
        }
    }
}
