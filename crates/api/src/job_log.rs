//! What happened to a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much an entry matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// As it should be.
    Info,
    /// Something is missing, or went slowly.
    Warning,
    /// The job did not do what it should.
    Error,
}

/// An entry of the log of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobLogEntry {
    /// When it happened.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// How much it matters.
    pub level: LogLevel,
    /// What it is: `queued`, `waits-for-agent`, `waits-for-node`, `waits-for-slot`, `started`, `session`,
    /// `objects-failed`, `objects-incomplete`, `hook`, `hook-failed`, `ended`. These words never change their meaning.
    pub code: String,
    /// The same for people.
    pub message: String,
}

/// The log of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobLog {
    /// Oldest first; at most 200, and how it ended.
    pub entries: Vec<JobLogEntry>,
}
