//! Protection: how well each source is backed up, measured by what its policy promises.

use crate::jobs::{JobCause, JobState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How well a source is backed up; the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectionState {
    /// Its newest complete backup is no older than promised, and its last run ended well.
    Protected,
    /// No backups are expected of its node.
    Paused,
    /// It has no complete backup yet, and was first expected no longer ago than promised.
    New,
    /// It has a complete backup, and nobody has promised how old that may be.
    NoPromise,
    /// The promise is kept still, but it will soon be broken, or the last run did not end well.
    AtRisk,
    /// It has no complete backup, or one that is older than promised.
    Unprotected,
}

impl ProtectionState {
    /// All of them, the best first.
    pub const ALL: [Self; 6] = [
        Self::Protected,
        Self::Paused,
        Self::New,
        Self::NoPromise,
        Self::AtRisk,
        Self::Unprotected,
    ];
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedRun {
    /// Its job.
    pub job: u64,
    /// How it ended.
    pub state: JobState,
    /// Why it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<JobCause>,
    /// When.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub ended: i64,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A source of a policy on a node; a node that no policy covers; or a policy that covers none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceProtection {
    /// The node; missing for a policy that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The policy; missing for a node that no policy covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The name of the source in its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The class, if what this is about is not of the policy's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What it covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether its runs are started by hand only.
    pub is_manual: bool,
    /// How well it is backed up.
    pub state: ProtectionState,
    /// Why it is in this state; for people.
    pub reason: String,
    /// When its newest complete backup began.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_complete: Option<i64>,
    /// The snapshot of that backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The age that it never exceeds, in seconds; missing if nobody promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_secs: Option<i64>,
    /// When the promise is broken, unless another complete backup comes before.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub kept_until: Option<i64>,
    /// When a pause ends by itself.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub paused_until: Option<i64>,
    /// Its newest run that ended or was missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<EndedRun>,
}

/// How well everything is backed up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Protection {
    /// When this was so, by the time that the server believes.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Why that time is in doubt, if it is: then ages are, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The worst first.
    pub sources: Vec<SourceProtection>,
}

/// Filter for protection.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProtectionFilter {
    /// Only this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only this policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Only sources in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProtectionState>,
}
