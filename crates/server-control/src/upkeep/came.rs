//! What came of a job of upkeep.

use super::watch::JobWatch;
use crate::Error;
use api::jobs::{JobCause, JobState};
use api::upkeep::{CheckReport, CopyReport, UpkeepEnd};
use catalog::upkeep::DomainUpkeep;
use repository::watch::Watch;
use site::UpkeepTask;

/// What came of a job.
pub(super) struct Came {
    pub(super) state: JobState,
    pub(super) cause: Option<JobCause>,
    pub(super) error: Option<String>,
    pub(super) report: String,
    pub(super) position: u64,
    pub(super) damaged: u64,
    pub(super) alarm: Option<String>,
}

impl Came {
    pub(super) fn done(report: String) -> Self {
        let (state, cause, error, alarm) = (JobState::Complete, None, None, None);
        Self { state, cause, error, report, position: 0, damaged: 0, alarm }
    }

    pub(super) fn failed(why: String) -> Self {
        Self { state: JobState::Failed, error: Some(why), ..Self::done(String::new()) }
    }

    /// It could not be carried out, or nothing is known of it any more.
    pub(super) fn of_error(error: &Error) -> Self {
        let is_away = matches!(error, Error::StorageServer { .. });
        let cause = is_away.then_some(JobCause::StorageServerAway);
        Self { cause, ..Self::failed(error.to_string()) }
    }

    /// What it did stays done, and the next run continues.
    pub(super) fn stopped(self) -> Self {
        let error = Some("its window closed; the next run continues".to_owned());
        Self { state: JobState::Partial, error, ..self }
    }

    pub(super) fn cancelled(self) -> Self {
        let (state, cause) = (JobState::Cancelled, Some(JobCause::Cancelled));
        Self { state, cause, error: Some("cancelled by an administrator".to_owned()), ..self }
    }

    /// What the end of the work on a domain means; `closer` is the command that looks closer.
    pub(super) fn of(
        end: UpkeepEnd,
        closer: &str,
        before: &DomainUpkeep,
        watch: &JobWatch<'_>,
    ) -> Self {
        let is_reclaim = before.task == UpkeepTask::Reclaim.name();
        match end {
            UpkeepEnd::Reclaimed(report) => {
                let came = Self::done(json(&report));
                let is_stopped = report.containers_left > 0 && !watch.goes_on();
                if is_stopped { came.stopped() } else { came }
            }
            UpkeepEnd::Copied(report) => Self::of_copy(&report, closer),
            UpkeepEnd::Checked(report) => Self::of_check(&report, before, closer),
            UpkeepEnd::Doubt(why) if is_reclaim => {
                let alarm = format!("reclaim removes nothing: {why}; look closer: {closer}");
                Self { alarm: Some(alarm), ..Self::failed(why) }
            }
            UpkeepEnd::Doubt(why) | UpkeepEnd::Failed(why)
                if before.task == UpkeepTask::Copy.name() =>
            {
                let alarm = Some(format!("nothing is copied: {why}"));
                Self { alarm, ..Self::failed(why) }
            }
            UpkeepEnd::Busy(why) | UpkeepEnd::Doubt(why) | UpkeepEnd::Failed(why) => {
                Self::failed(why).after(before, watch)
            }
        }
    }

    /// What earlier jobs found is known still.
    pub(super) fn after(self, before: &DomainUpkeep, watch: &JobWatch<'_>) -> Self {
        let (position, damaged) = (watch.read_to().max(before.position), before.damaged);
        Self { position, damaged, alarm: before.alarm.clone(), ..self }
    }

    /// A copy that lacks snapshots is an alarm until one has them all.
    fn of_copy(report: &CopyReport, closer: &str) -> Self {
        let came = Self::done(json(report));
        let came = if report.is_done { came } else { came.stopped() };
        if let Some(why) = &report.not_locked {
            let what = format!("locks do not reach the bucket of the copy: {why}");
            let alarm = Some(what.clone());
            return Self { state: JobState::Failed, error: Some(what), alarm, ..came };
        }
        if !report.lost_keys.is_empty() {
            let what = format!(
                "key files are damaged or missing in the domain and in the copy: {}",
                report.lost_keys.join(", ")
            );
            let alarm =
                Some(format!("{what}; their passwords open neither place. To see more: {closer}"));
            return Self { state: JobState::Failed, error: Some(what), alarm, ..came };
        }
        if report.left_out == 0 {
            return came;
        }
        let first = report.reasons.first().map_or("", String::as_str);
        let what =
            format!("snapshots that are damaged were not copied: {}; {first}", report.left_out);
        let alarm = Some(format!("{what}; look closer: {closer}"));
        Self { state: JobState::Failed, error: Some(what), alarm, ..came }
    }

    /// Damage stays an alarm until all containers were read without any.
    fn of_check(report: &CheckReport, before: &DomainUpkeep, closer: &str) -> Self {
        let damaged = before.damaged;
        let came = Self { position: report.position, ..Self::done(json(report)) };
        let came = if report.is_done { came } else { came.stopped() };
        if report.damaged > 0 {
            let first = report.damages.first().map_or("", String::as_str);
            let (what, alarm) = if is_copy(before) {
                let what = format!("{} damaged or missing in the copy: {first}", report.damaged);
                let alarm = format!(
                    "{what}; the domain has no whole one. Which files, with a key: {closer}"
                );
                (what, alarm)
            } else {
                let what = format!("{} damaged or missing: {first}", report.damaged);
                let alarm = format!(
                    "{what}; which files, with a key: icecore check, on a node of the domain; all that the server sees: {closer}"
                );
                (what, alarm)
            };
            let damaged = damaged.saturating_add(report.damaged);
            let (state, error, alarm) = (JobState::Failed, Some(what), Some(alarm));
            return Self { state, error, damaged, alarm, ..came };
        }
        if report.healed > 0 {
            let (from, place) =
                if is_copy(before) { ("the domain", "the copy") } else { ("a copy", "the pool") };
            let alarm = format!(
                "{} damaged and healed from {from}: the disk of {place} may be failing. To check all of it: {closer}",
                many(report.healed)
            );
            return Self {
                damaged: damaged.saturating_add(report.healed),
                alarm: Some(alarm),
                ..came
            };
        }
        match (report.position, before.damaged) {
            // The last container was read, and none since the first was damaged.
            (0, 0) => came,
            // The next round decides.
            (0, _) => Self { damaged: 0, alarm: before.alarm.clone(), ..came },
            _ => Self { damaged, alarm: before.alarm.clone(), ..came },
        }
    }
}

fn is_copy(upkeep: &DomainUpkeep) -> bool {
    upkeep.task == UpkeepTask::CheckCopy.name()
}

fn many(healed: u64) -> String {
    let words =
        if healed == 1 { "container or snapshot was" } else { "containers or snapshots were" };
    format!("{healed} {words}")
}

pub(super) fn json(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).unwrap_or_default()
}
