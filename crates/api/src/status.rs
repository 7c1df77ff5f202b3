//! The server itself, and its audit log.

use crate::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Status of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of its program.
    pub version: String,
    /// Start time.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub started: i64,
    /// URL under which nodes reach it.
    pub address: String,
    /// Number of nodes that are not revoked.
    pub nodes: u64,
    /// Number of domains.
    pub domains: u64,
    /// Running jobs.
    pub running: u64,
    /// SHA-256 of the certificate of its certificate authority, hex.
    pub ca_fingerprint: String,
    /// When its certificate expires; it is renewed long before.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub certificate_expires: i64,
    /// Free bytes on the disk of its own repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Size of that disk in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Number of storage servers that are not revoked.
    #[serde(default)]
    pub storage_servers: u64,
    /// Number of nodes and storage servers that the server stopped by itself (see their `alarm`), of storage servers
    /// that cannot use a pool (see their `pool_faults`), and of revoked ones that have domains.
    #[serde(default)]
    pub alarms: u64,
    /// What is wrong with the server, for people, each with the next command: why its catalog, or what it knows beside
    /// it, may lack changes (see `POST /catalog/confirm`), storage servers that are away or revoked, and alarms of
    /// upkeep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalog_faults: Vec<String>,
    /// Why the clock of its machine is in doubt; see `POST /clock/confirm`. Nothing expires meanwhile, and jobs start by
    /// the time since the clock was right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_doubt: Option<String>,
    /// What keeps the server from using its own pools, of those that are not offline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pool_faults: Vec<String>,
    /// Domains that are not in their pools, or that a storage server does not have any more, each with what helps: at
    /// most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain_faults: Vec<String>,
    /// What its lock helper and the storages of its buckets keep; `None` without either, or before they answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_locks: Option<KeptLocks>,
    /// The same of storage servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_kept_locks: Vec<StorageKeptLocks>,
}

/// The catalog counts as it is, because an administrator has said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfirmedCatalog {
    /// Number of entries in its audit log.
    pub entries: u64,
    /// The faults that this has ended.
    pub ended: Vec<String>,
}

/// What is kept of the domains of a storage server, as of its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageKeptLocks {
    /// The storage server.
    pub storage: Name,
    /// What is kept there. That nothing is heard of it is a problem, too.
    #[serde(flatten)]
    pub kept: KeptLocks,
}

/// What others than the server keep of the locked snapshots in its pools, so that the server cannot remove it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptLocks {
    /// Files that the lock helper keeps; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Objects that storages keep, by Object Lock; `None` where the server does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Domains whose locks do not get that far, and why.
    pub problems: Vec<String>,
}

impl KeptLocks {
    /// The most problems that are told; the log has all.
    pub const PROBLEMS_MAX: usize = 100;
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number.
    pub id: u64,
    /// Time.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Who did it: `admin`, `node NAME` or `server`.
    pub who: String,
    /// Action, such as `node.revoke`.
    pub action: String,
    /// Object of the action.
    pub subject: String,
    /// Details, for people.
    pub detail: String,
    /// Hash of the entry before and of this one, hex.
    pub hash: String,
}

/// The audit log, or a part of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// Number of all entries.
    pub total: u64,
    /// Number of the first entry whose hash does not match; missing when all match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<u64>,
    /// Hash of the newest entry, hex. Keep a copy elsewhere: it shows whether the end was removed.
    pub head: String,
}

/// The request was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {}
