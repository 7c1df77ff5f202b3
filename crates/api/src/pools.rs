//! Pools of a server: directories, or parts of a bucket, for the repositories of its domains.

use crate::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What a pool is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolState {
    /// Everything.
    #[default]
    Online,
    /// Restores and checks: nothing is written.
    ReadOnly,
    /// Everything but new domains.
    Draining,
    /// Nothing: nobody looks for it.
    Offline,
}

impl fmt::Display for PoolState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Online => "online",
            Self::ReadOnly => "read-only",
            Self::Draining => "draining",
            Self::Offline => "offline",
        })
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name; that of the first one is `main`.
    pub name: Name,
    /// Its directory, or its address in a bucket.
    pub path: String,
    /// What it is used for.
    pub state: PoolState,
    /// Why it cannot be used, such as a file system that is not mounted; missing if it can, and if it is offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Bytes that can still be stored on its file system; missing when it cannot be used, and in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Size of its file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Inodes that are free; missing when it cannot be used, and where the file system has no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_inodes: Option<u64>,
    /// The domains in it.
    pub domains: Vec<Name>,
}

/// All pools.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// The first one, then by name.
    pub pools: Vec<Pool>,
}

/// Adds a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// Its name.
    pub name: Name,
    /// Its directory on the server, with its full path, which must exist; or `s3://BUCKET/PREFIX`.
    pub path: String,
    /// Take a pool that is there already, because it is the right one. No repository is created or removed.
    #[serde(default)]
    pub accept: bool,
}

/// How a pool is removed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovePool {
    /// Its disk is lost, with all domains on it. Their entries stay, until each was brought back or removed.
    #[serde(default)]
    pub lost: bool,
}

/// Moves a domain to another pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveDomain {
    /// The pool.
    pub pool: Name,
    /// End what runs in the domain, instead of waiting until nothing does. Backups resume by themselves.
    #[serde(default)]
    pub interrupt: bool,
    /// The most bytes to copy in a second while the domain is in use; no limit when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<u64>,
}

/// Changes the state of a pool.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPoolState {
    /// The new one.
    pub state: PoolState,
}
