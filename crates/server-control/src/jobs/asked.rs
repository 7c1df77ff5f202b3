//! What administrators ask of jobs: to end, to wait, to go on, to be done again, or sooner.

use super::{Jobs, StartedEnd};
use crate::{Error, Result, by};
use api::jobs::{JobCause, JobState, RetriedJob};
use server_contract::access_control::JobNo;

const CANCELLED: &str = "cancelled by an administrator";

impl Jobs {
    /// Cancels a job that waits or runs.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; [`Error::Usage`] if it has ended.
    pub(crate) fn cancel(&self, who: &str, id: JobNo) -> Result<()> {
        if !self.running.cancel(id) {
            return self.cancel_without_session(who, id);
        }
        tracing::info!(job = id, "cancelled by an administrator");
        Ok(self.catalog.audit_note(by(who), "job.cancel", &id.to_string(), "")?)
    }

    /// Suspends a job that waits or runs. One that runs ends its session: what it has stored in whole containers is
    /// found again when it is resumed, and begins anew otherwise.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; [`Error::Usage`] if it has ended, or no policy wants it.
    pub(crate) fn suspend(&self, who: &str, id: JobNo) -> Result<()> {
        match self.running.suspend(id) {
            Some(true) => {
                Ok(self.catalog.audit_note(by(who), "job.suspend", &id.to_string(), "")?)
            }
            Some(false) => Err(Error::Usage(format!(
                "no policy wants job {id}: it can only be cancelled: icecore server cancel {id}"
            ))),
            None => self.suspend_without_session(who, id),
        }
    }

    fn suspend_without_session(&self, who: &str, id: JobNo) -> Result<()> {
        if self.catalog.suspend_queued(by(who), id)? {
            self.have_changed();
            return Ok(());
        }
        let job = self.catalog.job(id)?;
        let Some(command) = self.command_of(id)? else {
            let state = if job.state == JobState::Suspended {
                "is suspended already"
            } else {
                "cannot be suspended: only a job of a policy can, while it waits or runs"
            };
            return Err(Error::Usage(format!("job {id} {state}")));
        };
        self.catalog.audit_note(by(who), "job.suspend", &id.to_string(), "")?;
        let (state, cause) = (JobState::Suspended, None);
        self.end_started(id, command, &StartedEnd { state, cause, snapshot: None, error: None });
        Ok(())
    }

    /// Lets a suspended job wait for its turn again.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; [`Error::Usage`] if it is not suspended.
    pub(crate) fn resume_suspended(&self, who: &str, id: JobNo) -> Result<()> {
        if self.catalog.resume_suspended(by(who), id)? {
            self.have_changed();
            return Ok(());
        }
        self.catalog.job(id)?;
        Err(Error::Usage(format!("job {id} is not suspended")))
    }

    /// Does again what an ended job was to do; its number.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; [`Error::Usage`] if it has not ended, no policy wants it, or its source
    /// has an open job.
    pub(crate) fn retry(&self, who: &str, id: JobNo) -> Result<RetriedJob> {
        let retried = self.catalog.retry(by(who), id);
        if let Err(catalog::Error::Missing { .. }) = &retried {
            return Err(self.no_retry(id)?);
        }
        let Some(job) = retried? else {
            return Err(Error::Usage(format!(
                "the source of job {id} already has a job that is waiting or running: icecore server jobs"
            )));
        };
        self.have_changed();
        Ok(RetriedJob { job })
    }

    /// Why a job cannot be repeated, if it exists.
    fn no_retry(&self, id: JobNo) -> Result<Error> {
        let job = self.catalog.job(id)?;
        let why = match job.ended {
            Some(_) => "no policy wants it",
            None => "it has not ended",
        };
        Ok(Error::Usage(format!("job {id} cannot be repeated: {why}")))
    }

    /// Sets the priority of a job that waits.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; [`Error::Usage`] if it does not wait, or for a wrong number.
    pub(crate) fn set_priority(&self, who: &str, id: JobNo, priority: u32) -> Result<()> {
        check_priority(priority)?;
        if self.catalog.set_priority(by(who), id, priority)? {
            self.have_changed();
            return Ok(());
        }
        self.catalog.job(id)?;
        Err(Error::Usage(format!("job {id} does not wait")))
    }

    /// The command of a job that was started and has no session.
    fn command_of(&self, id: JobNo) -> Result<Option<u64>> {
        match self.started.command_of(id) {
            Some(command) => Ok(Some(command)),
            None => Ok(self.stored(|job, _| job.id == id)?.map(|(_, command)| command)),
        }
    }

    fn cancel_without_session(&self, who: &str, id: JobNo) -> Result<()> {
        let how = (JobState::Cancelled, JobCause::Cancelled);
        if self.catalog.end_queued(by(who), id, how, CANCELLED)? {
            self.have_changed();
            return Ok(());
        }
        self.catalog.job(id)?;
        let Some(command) = self.command_of(id)? else {
            return Err(Error::Usage(format!("job {id} has ended already")));
        };
        self.catalog.audit_note(by(who), "job.cancel", &id.to_string(), "")?;
        let (state, cause) = (JobState::Cancelled, Some(JobCause::Cancelled));
        let end = StartedEnd { state, cause, snapshot: None, error: Some(CANCELLED) };
        self.end_started(id, command, &end);
        Ok(())
    }
}

/// Priorities are those of policies.
pub(crate) fn check_priority(priority: u32) -> Result<()> {
    let max = site::Policy::PRIORITY_MAX;
    if priority > max {
        return Err(Error::Usage(format!("a priority is a number from 0 to {max}")));
    }
    Ok(())
}
