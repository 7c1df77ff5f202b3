//! The server itself, and its audit log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of its program.
    pub version: String,
    /// Since when it runs.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub started: i64,
    /// Where it is reached.
    pub address: String,
    /// Nodes that are not revoked.
    pub nodes: u64,
    /// Domains.
    pub domains: u64,
    /// Jobs that run.
    pub running: u64,
    /// SHA-256 of the certificate of its certificate authority, hex.
    pub ca_fingerprint: String,
    /// When its certificate ends; it is renewed long before.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub certificate_expires: i64,
    /// Free bytes of the disk on which its own repositories lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// All bytes of that disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Further storage servers that are not revoked.
    #[serde(default)]
    pub storage_servers: u64,
    /// Nodes that the server stopped by itself: see their `alarm`.
    #[serde(default)]
    pub alarms: u64,
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number.
    pub id: u64,
    /// When.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Who: `admin`, `node NAME` or `server`.
    pub who: String,
    /// What was done, such as `node.revoke`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// More, for people.
    pub detail: String,
    /// Hash of the entry before and of this one, hex.
    pub hash: String,
}

/// The audit log, or a part of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// How many entries there are.
    pub total: u64,
    /// Number of the first entry that does not fit the one before; missing when all fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<u64>,
    /// Hash of the newest entry, hex: kept elsewhere, it shows whether the end was cut off.
    pub head: String,
}

/// Nothing to say but that it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {}
