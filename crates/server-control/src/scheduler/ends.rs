//! Jobs that can no longer begin, and those whose node says that it is done.

use super::{Known, Scheduler, server};
use crate::Result;
use crate::domains::Domains;
use crate::jobs::StartedEnd;
use api::commands::{KILLED, is_named, message_of};
use api::jobs::{Job, JobCause, JobState};
use catalog::schedules::OpenRun;
use schedule::queue::Turn;
use std::time::Duration;

/// How long a started job waits for an agent that is away: as long as a session waits for its node.
const AWAY_MAX: Duration = Duration::from_secs(15 * 60);

impl Scheduler {
    /// Ends jobs whose time has passed, whose policy is gone, or whose node does not come back.
    pub(super) fn end_what_cannot_begin(&self, known: &Known, now_secs: i64) -> Result<()> {
        for run in &known.open {
            match run.job.state {
                JobState::Queued => self.end_if_missed(known, run, now_secs)?,
                JobState::Suspended => {}
                _ => self.end_if_lost(run),
            }
        }
        Ok(())
    }

    fn end_if_missed(&self, known: &Known, run: &OpenRun, now_secs: i64) -> Result<()> {
        let Some(plan) = &run.job.plan else { return Ok(()) };
        let (cause, why) = if !known.site.policies.contains_key(&plan.policy) {
            (JobCause::PolicyGone, "its policy was removed".to_owned())
        } else if plan.until.is_some_and(|until| until <= now_secs) {
            missed(known.hindrances.get(&run.job.id), &run.job)
        } else {
            return Ok(());
        };
        let how = (JobState::Missed, cause);
        self.catalog.end_queued(server(now_secs), run.job.id, how, &why)?;
        self.jobs.have_changed();
        Ok(())
    }

    /// The agent is away, and no session of the job waits for its node.
    fn end_if_lost(&self, run: &OpenRun) {
        let Some(command) = run.command else { return };
        let is_away = self.agents.away(&run.job.node, self.opened) > AWAY_MAX;
        if is_away && !self.jobs.has_session(run.job.id) {
            let error = Some("the node did not come back");
            let (state, cause, snapshot) = (JobState::Lost, Some(JobCause::NodeLost), None);
            let end = StartedEnd { state, cause, snapshot, error };
            self.jobs.end_started(run.job.id, command, &end);
        }
    }

    /// The agent of `node` says how its command ended; that of another node is none of its business. Most jobs have
    /// ended with their session by then; of the others, the snapshot decides which the node names.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`]: the node has to say it again.
    pub(crate) fn command_done(
        &self,
        domains: &Domains,
        (node, command): (&str, u64),
        is_complete: bool,
        said: &str,
    ) -> Result<()> {
        let open = self.catalog.open_runs()?;
        let is_meant = |run: &OpenRun| run.command == Some(command) && run.job.node == node;
        let Some(run) = open.into_iter().find(is_meant) else { return Ok(()) };
        if self.jobs.has_session(run.job.id) {
            // A process that ends by itself ends its session. One that was killed leaves it behind.
            if is_named(said, KILLED) {
                self.jobs.give_up(run.job.id, JobCause::Killed, said);
            }
            return Ok(());
        }
        let told = message_of(said);
        let proof = proof(domains, &run.job, said).filter(|(id, _)| self.is_new(&run.job, id));
        let (state, cause, error) = match &proof {
            Some((_, true)) => (JobState::Partial, None, None),
            Some((_, false)) => (JobState::Complete, None, None),
            None if is_complete => (
                JobState::Failed,
                Some(JobCause::NoSnapshot),
                Some("the agent reported success, and no snapshot was received"),
            ),
            None => (JobState::Failed, Some(cause_of(said)), Some(&*told)),
        };
        let snapshot = proof.as_ref().map(|(id, _)| id.as_str());
        let end = StartedEnd { state, cause, snapshot, error };
        self.jobs.end_started(run.job.id, command, &end);
        self.jobs.may_have_stored(&run.job.domain);
        Ok(())
    }

    /// Whether no other job has made this snapshot. In doubt one has.
    fn is_new(&self, job: &Job, snapshot: &str) -> bool {
        let is_known = self.catalog.has_snapshot(&job.domain, snapshot);
        let is_known = is_known.inspect_err(|error| {
            tracing::error!(%error, job = job.id, "cannot look which job made a snapshot");
        });
        is_known.is_ok_and(|is_known| !is_known)
    }
}

/// Why a backup did not begin, as far as the agent says it.
fn cause_of(said: &str) -> JobCause {
    let known = [
        (KILLED, JobCause::Killed),
        ("hook-failed", JobCause::HookFailed),
        ("in-use", JobCause::SourceBusy),
        ("not-allowed", JobCause::NotAllowed),
        ("no-space", JobCause::NoSpace),
        ("unreachable", JobCause::Unreachable),
    ];
    let found = known.into_iter().find(|(name, _)| is_named(said, name));
    found.map_or(JobCause::NotDone, |(_, cause)| cause)
}

/// Why a job was not started in its time.
fn missed(hindrance: Option<&Turn>, job: &Job) -> (JobCause, String) {
    match hindrance {
        Some(Turn::Away) => (
            JobCause::NodeAway,
            format!("the agent of {} was not connected while the job could start", job.node),
        ),
        Some(Turn::Slot { .. }) => (
            JobCause::NoSlot,
            "its storage unit had no free slot while the job could start".to_owned(),
        ),
        _ => (JobCause::NotStarted, "it did not start in its time".to_owned()),
    }
}

/// The snapshot in the repository whose id the node names, and whether it is partial. One that is older than the job
/// proves nothing.
fn proof(domains: &Domains, job: &Job, said: &str) -> Option<(String, bool)> {
    let domain = job.domain.parse().ok()?;
    let found = domains.received(&domain).inspect_err(|error| {
        tracing::warn!(%error, domain = job.domain, "cannot look for the snapshot of a job");
    });
    let named = found.ok()?.into_iter().find(|it| {
        said.contains(&format!("\"{}\"", it.id)) && it.time_secs >= job.begun - CLOCKS_SECS
    });
    named.map(|it| (it.id, it.is_partial))
}

/// Clocks of nodes may differ by this much.
const CLOCKS_SECS: i64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_did_not_begin_has_the_cause_that_its_node_names() {
        let of = |name: &str| cause_of(&format!(r#"message "name \"killed\"", name "{name}""#));
        assert_eq!(of("no-space"), JobCause::NoSpace);
        assert_eq!(of("not-allowed"), JobCause::NotAllowed);
        assert_eq!(of("unreachable"), JobCause::Unreachable);
        assert_eq!(of("in-use"), JobCause::SourceBusy);
        assert_eq!(of("failed"), JobCause::NotDone, "a message names nothing");
        assert_eq!(cause_of("cannot start the job"), JobCause::NotDone);
    }
}
