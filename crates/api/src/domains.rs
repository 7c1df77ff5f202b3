//! Domains, grants, snapshots.

use crate::Name;
use crate::enrol::KeyMode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A dedup domain: a repository of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Its name.
    pub name: Name,
    /// Who knows its keys.
    pub keys: KeyMode,
    /// When it was made, seconds since 1970.
    pub made: i64,
    /// Its repository, hex; missing as long as there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The storage server that holds it; missing when the server itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Name>,
    /// The nodes that write to it.
    pub nodes: Vec<Name>,
}

/// All domains.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Domains {
    /// By name.
    pub domains: Vec<Domain>,
}

/// A node may read a domain that is not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// When it ends, seconds since 1970; missing for no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// All grants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Grants {
    /// By node and domain.
    pub grants: Vec<Grant>,
}

/// What of a snapshot lies in the clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its number in the repository.
    pub number: u64,
    /// Its id, hex.
    pub id: String,
    /// When the backup began, seconds since 1970.
    pub time: i64,
    /// The key slot that signed it, hex: see the nodes for whose it is.
    pub key: String,
}

/// The snapshots of a domain.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshots {
    /// The domain.
    pub domain: Name,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Those that cannot be read.
    pub damaged: u64,
}
