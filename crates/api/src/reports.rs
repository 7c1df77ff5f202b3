//! Reports: what backups did, what they cost, what they take. A figure that nobody measured is missing, not 0.

use crate::jobs::{JobCause, JobState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// What the report of a backup says of its amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Figures {
    /// Objects that were looked at, directories included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Objects that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects_failed: Option<u64>,
    /// Objects stored without a part of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects_incomplete: Option<u64>,
    /// Bytes of all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    /// Bytes of the files that were read, before deduplication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_before_dedup: Option<u64>,
    /// Bytes among them that were new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_new: Option<u64>,
    /// Bytes that were stored for them, compressed and sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_stored: Option<u64>,
    /// Processor time on the node, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Wall time of the backup on the node, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

impl Figures {
    /// Those of a report, JSON as a node sent it. What it does not say, or says as no number, stays unknown.
    pub fn of_report(text: &str) -> Self {
        let report: Value = serde_json::from_str(text).unwrap_or_default();
        let report = &report["report"];
        let count = |name: &str| report[name].as_u64();
        let ms = |secs: f64| (secs.is_finite() && secs >= 0.0).then_some((secs * 1000.0) as u64);
        let cost = |name: &str| report["cost"][name].as_f64();
        let cpu = cost("user_secs").zip(cost("system_secs")).map(|(user, system)| user + system);
        Self {
            objects: count("objects_inspected"),
            objects_failed: count("objects_failed"),
            objects_incomplete: count("objects_incomplete"),
            bytes: count("bytes_inspected"),
            bytes_read: count("bytes_processed"),
            bytes_before_dedup: count("bytes_before_dedup"),
            bytes_new: count("bytes_after_dedup"),
            bytes_stored: count("bytes_transferred"),
            // A process that runs has used some: 0 means that nobody measured it.
            cpu_ms: cpu.and_then(ms).filter(|ms| *ms > 0),
            elapsed_ms: report["elapsed_secs"].as_f64().and_then(ms),
        }
    }

    /// The part of what was read that was stored already; unknown if nothing was read.
    pub fn dedup_rate(&self) -> Option<f64> {
        reduction(self.bytes_new?, self.bytes_before_dedup?)
    }

    /// The part by which compression made the new data smaller; unknown if there was none.
    pub fn compression_rate(&self) -> Option<f64> {
        reduction(self.bytes_stored?, self.bytes_new?)
    }
}

fn reduction(after: u64, before: u64) -> Option<f64> {
    (before > 0).then(|| 1.0 - after as f64 / before as f64)
}

/// A backup that made a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupRow {
    /// Its job.
    pub job: u64,
    /// The node.
    pub node: String,
    /// The policy; missing when none asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The schedule; missing when it was started by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The source of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the policy wanted: `incremental`, `catch-up` or `complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// When it began.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub begun: i64,
    /// When it ended.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<i64>,
    /// `complete` or `partial`.
    pub state: JobState,
    /// Its snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What its report says.
    pub figures: Figures,
}

/// Backups that made a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BackupRows {
    /// The newest first.
    pub rows: Vec<BackupRow>,
    /// Give this as `after` for the next page; missing on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which time and node a report is of.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReportFilter {
    /// Only what began at this time or later.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// Only what began before this time.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
    /// Only this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of rows; default and maximum 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What the backups of a node cost it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostRow {
    /// The node.
    pub node: String,
    /// Backups that made a snapshot.
    pub backups: u64,
    /// How many of them measured what they cost; the sums are over these.
    pub measured: u64,
    /// Processor time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Wall time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// Bytes that were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    /// Processor time in percent of one processor over the whole time of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Wall time in percent of the whole time of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_percent: Option<f64>,
}

/// What backups cost each node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Costs {
    /// Where the report begins: what was asked, or the oldest backup.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// Where it ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub until: i64,
    /// By node.
    pub nodes: Vec<CostRow>,
}

/// What the backups of a source take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityRow {
    /// The node.
    pub node: String,
    /// The policy; missing for backups that none asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The source of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Backups that were made, those that expired since included.
    pub backups: u64,
    /// Objects of the newest complete backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Their bytes: what a restore of it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes that all its backups have stored, reclaimed ones included; missing if one of them did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

/// What backups take.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// By node, policy and source.
    pub rows: Vec<CapacityRow>,
}

/// Jobs that did not end well for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseRow {
    /// How they ended.
    pub state: JobState,
    /// The cause; missing when none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<JobCause>,
    /// How many they are.
    pub jobs: u64,
    /// On how many nodes.
    pub nodes: u64,
    /// The newest of them.
    pub last_job: u64,
    /// When it ended.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last: Option<i64>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about it.
    pub advice: String,
}

/// Jobs that did not end well, by cause.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Causes {
    /// The most jobs first.
    pub causes: Vec<CauseRow>,
}

/// What to do about jobs that ended so.
pub fn advice(state: JobState, cause: Option<JobCause>) -> &'static str {
    match (cause, state) {
        (Some(JobCause::NotStarted), _) => {
            "was the server off? If not: icecore server jobs, the last column; or a longer window"
        }
        (Some(JobCause::NoSlot), _) => {
            "raise max_jobs of the unit, spread the starts with jitter, or lengthen the window"
        }
        (Some(JobCause::NodeAway), _) => {
            "start the agent on the node: systemctl status icecore-agent; for laptops: older_than"
        }
        (Some(JobCause::NodeGone), _) => "take the node out of its policies, or enroll it again",
        (Some(JobCause::PolicyGone), _) => "nothing, if the policy was meant to go",
        (Some(JobCause::NotDone), _) => {
            "see the error, and the log of the agent on the node: journalctl -u icecore-agent"
        }
        (Some(JobCause::NotAllowed), _) => {
            "see the error; allow.toml of the node must permit it (backup_below, restore_below)"
        }
        (Some(JobCause::NoSpace), _) => "see the error, and free some space there",
        (Some(JobCause::Unreachable), _) => "on the node: icecore net test",
        (Some(JobCause::HookFailed), _) => {
            "see the error; hooks.toml of the node says what the hook is: run it there by hand"
        }
        (Some(JobCause::SourceBusy), _) => {
            "somebody backed up the same paths on the node; the schedule tries again"
        }
        (Some(JobCause::Killed), _) => {
            "look on the node who killed it: journalctl -k | grep -i oom; the schedule tries again"
        }
        (Some(JobCause::NoSnapshot), _) => "look at the log of the agent on the node",
        (Some(JobCause::StorageServerAway), _) => {
            "start the storage server, or check the network to it: icecore server storage-servers"
        }
        (Some(JobCause::NodeLost), _) => "check the network and the power of the node",
        (Some(JobCause::Cancelled), _) | (None, JobState::Cancelled) => {
            "nothing: an administrator wanted it"
        }
        (Some(JobCause::BackupFailed | JobCause::RestoreFailed), _) => {
            "see the error: icecore server jobs JOB --log"
        }
        (None, JobState::Partial) => {
            "see on the node which objects failed: icecore map --failed SNAPSHOT"
        }
        (None, JobState::Lost) => "the server stopped, or the node did not come back",
        (None, _) => "see the error: icecore server jobs JOB --log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_a_report_does_not_have_is_unknown_and_not_0() {
        let report = r#"{"report":{"objects_inspected":3,"bytes_before_dedup":100,"bytes_after_dedup":25,"bytes_transferred":5,"cost":{"user_secs":1.5,"system_secs":0.25},"elapsed_secs":2.0}}"#;
        let figures = Figures::of_report(report);
        assert_eq!((figures.objects, figures.bytes), (Some(3), None));
        assert_eq!((figures.cpu_ms, figures.elapsed_ms), (Some(1750), Some(2000)));
        assert_eq!((figures.dedup_rate(), figures.compression_rate()), (Some(0.75), Some(0.8)));
        for text in ["", "no JSON", "[]", "{}", r#"{"report":{"objects_inspected":"many"}}"#] {
            assert_eq!(Figures::of_report(text), Figures::default(), "{text}");
        }
        let nothing =
            Figures::of_report(r#"{"report":{"bytes_before_dedup":0,"bytes_after_dedup":0}}"#);
        assert_eq!(nothing.dedup_rate(), None, "a rate of nothing");
    }
}
