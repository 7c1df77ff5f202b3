//! Storage units: where backups go, and how many at once.

use serde::{Deserialize, Serialize};

/// The unit of policies that name none. It has default settings unless somebody declares it.
pub const DEFAULT_UNIT: &str = "default";
/// How many backups a unit runs at once if nobody says it.
const JOBS_DEFAULT: u32 = 4;

/// A storage unit. How many streams a job uses is not limited here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unit {
    /// Jobs that run at once; further ones wait.
    pub max_jobs: u32,
    /// The domains that it consists of; if there are none, each node's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The pool of the control server for new domains of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The storage server for them, or [`Unit::ANY`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

impl Unit {
    /// The most jobs at once that can be asked for.
    pub const MAX_JOBS_MAX: u32 = 10_000;
    /// One of the storage servers that are connected.
    pub const ANY: &str = "any";
}

impl Default for Unit {
    fn default() -> Self {
        Self { max_jobs: JOBS_DEFAULT, domains: Vec::new(), pool: None, on: None }
    }
}
