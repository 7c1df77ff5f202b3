//! Jobs: what runs, and what ran.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended with what it was to make.
    Complete,
    /// It ended without.
    Failed,
    /// The node went away, or the server stopped.
    Lost,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Objects dealt with.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Bytes that passed between node and server.
    pub bytes_wire: u64,
    /// What it is at.
    pub stage: String,
    /// The path that is dealt with; empty when it is sealed. Bytes that are no text are escaped.
    pub path: String,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Whose it is.
    pub node: String,
    /// The domain it works with.
    pub domain: String,
    /// `backup`, `restore`, or `read` for any other reading.
    pub kind: String,
    /// What is backed up or restored.
    pub what: String,
    /// When it began.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub begun: i64,
    /// When it ended.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<i64>,
    /// Its state.
    pub state: JobState,
    /// How far it is, or was.
    pub progress: Progress,
    /// Objects a second, lately; for running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects_per_sec: Option<f64>,
    /// Bytes a second, lately; for running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<f64>,
    /// The snapshot made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it was asked to end.
    pub cancelled: bool,
    /// Its report, JSON as the node made it; only where one job is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// Some jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// Give this as `before` for the next page; missing on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobFilter {
    /// Of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// With this domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Begun then or later.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// With lower numbers than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// At most so many; 100 when missing, 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
