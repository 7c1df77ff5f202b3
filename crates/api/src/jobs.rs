//! Jobs: those that run, and those that ended.

use crate::Name;
use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The kind of jobs that restore.
pub const RESTORE: &str = "restore";

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It waits in the queue of its storage unit.
    Queued,
    /// An administrator wants it to wait until it is resumed.
    Suspended,
    /// It is running.
    Running,
    /// It succeeded.
    Complete,
    /// It made a snapshot without some objects, which could not be read; or it is a restore or upkeep that did a part.
    Partial,
    /// It failed.
    Failed,
    /// An administrator ended it.
    Cancelled,
    /// It did not start in its time and never will.
    Missed,
    /// The node did not come back, or the server stopped.
    Lost,
}

impl JobState {
    /// Whether it waits or runs.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Suspended | Self::Running)
    }
}

/// Why a job did not end well. These words never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobCause {
    /// Its time passed while nobody could start it: the server was off, or the source was busy.
    NotStarted,
    /// Its time passed while its storage unit had no free slot.
    NoSlot,
    /// Its time passed while the agent of its node was not connected.
    NodeAway,
    /// Its node was revoked or removed.
    NodeGone,
    /// Its policy was removed or changed, so that it is not wanted any more.
    PolicyGone,
    /// The agent did not do it, or its process ended before it began a session.
    NotDone,
    /// The machine does not allow it, or the server does not allow it to the machine.
    NotAllowed,
    /// The disk of the node, or of what it writes to, has no space left.
    NoSpace,
    /// The node did not reach the server or the storage server.
    Unreachable,
    /// The backup failed.
    BackupFailed,
    /// The restore failed.
    RestoreFailed,
    /// A hook before the backup failed, so it did not begin.
    HookFailed,
    /// The source was being backed up already, by somebody on the node.
    SourceBusy,
    /// The backup process on the node was killed.
    Killed,
    /// The agent reported success, and no snapshot was received.
    NoSnapshot,
    /// The node did not come back.
    NodeLost,
    /// An administrator cancelled it.
    Cancelled,
    /// The storage server of its domain was unreachable, or did not do it.
    StorageServerAway,
}

/// What a policy wants of a job, and when it may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPlan {
    /// The policy.
    pub policy: String,
    /// The schedule; missing when it was started by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The source: the paths, one in a line; empty for the node's own list.
    pub source: String,
    /// What the policy calls the source: `main` for its own paths.
    #[serde(default)]
    pub source_name: String,
    /// The class of its snapshots.
    #[serde(default)]
    pub class: String,
    /// The storage unit in whose queue it waits.
    pub unit: String,
    /// Jobs with a higher one start first.
    pub priority: i64,
    /// When it was due.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub due: i64,
    /// When it is missed, if it has not started. Of missed runs: when the last of them was due.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Whether it makes up for missed runs.
    pub late: bool,
    /// How many runs it stands for: 1, or the number of missed ones.
    pub runs: u32,
}

/// Progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Objects processed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Bytes transferred between node and server.
    pub bytes_wire: u64,
    /// Its stage.
    pub stage: String,
    /// The current path; empty when it is sealed. Bytes that are not UTF-8 are escaped.
    pub path: String,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// The node; empty for upkeep, which the server does itself.
    pub node: String,
    /// The domain.
    pub domain: String,
    /// `backup`, `restore`, or `read` for any other reading; `reclaim` or `check` for upkeep.
    pub kind: String,
    /// What is backed up or restored, as the node describes it.
    pub what: String,
    /// Start time; while it waits in a queue, and if it never started, when it was entered.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub begun: i64,
    /// End time.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<i64>,
    /// Its state.
    pub state: JobState,
    /// Its progress.
    pub progress: Progress,
    /// Recent rate in objects per second; for running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects_per_sec: Option<f64>,
    /// Recent rate in bytes per second; for running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<f64>,
    /// Id of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<JobCause>,
    /// Why it waits; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// What a policy wants of it; missing when it was started on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<JobPlan>,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
    /// Its report, JSON as the node sent it; only in the reply for a single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// Starts the backups of a policy now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartPolicy {
    /// Only on this node; on all nodes of the policy when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// Only on the nodes of this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Client options, in place of those that the site and the server say; all of them are forced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: Options,
    /// Whether all files are read, even if they seem unchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub complete: bool,
    /// Files that changed at this time or later are read, even if they seem unchanged.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// Paths in place of those of the policy, for its source `main`; no other source starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The priority, from 0 to 100, in place of that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Only show what would start.
    pub dry_run: bool,
}

/// The priority of a job that waits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobPriority {
    /// From 0 to 100: jobs with a greater one start first.
    pub priority: u32,
}

/// A job that does again what another one did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct RetriedJob {
    /// Its number.
    pub job: u64,
}

/// What a start comes to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StartedPolicy {
    /// One for each source of each node.
    pub jobs: Vec<StartedJob>,
    /// Nodes of the policy that cannot back up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedNode>,
}

/// A node for which nothing starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedNode {
    /// The node.
    pub node: String,
    /// Why, for people.
    pub reason: String,
}

/// A backup that starts now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StartedJob {
    /// The node.
    pub node: String,
    /// The source: the paths, one in a line.
    pub source: String,
    /// The storage unit in whose queue it waits.
    pub unit: String,
    /// Its job; missing in a dry run, and when the source has a job already that waits or runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// A page of jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// Give this as `before` for the next page; missing on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Filter for jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobFilter {
    /// Only jobs of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only jobs with this domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Only jobs of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only jobs in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Only jobs that started at this time or later.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// Only jobs with lower numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Maximum number of jobs; default 100, at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
