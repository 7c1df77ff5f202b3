//! Storage servers: they store the repositories of some domains, in a process of their own.

use crate::Name;
use crate::domains::Settings;
use crate::jobs::{JobState, Progress};
use crate::quotas::{DomainQuota, DomainUse};
use crate::status::KeptLocks;
use crate::storage_moves::{MoveOrder, MoveStatus};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Stands for any storage server, where a new domain needs one. None has this name.
pub const ANY: &str = "any";

/// Requests an enrollment token for a storage server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStorageServerToken {
    /// The storage server's name.
    pub storage: Name,
    /// Validity in seconds; one hour when missing.
    #[serde(default)]
    pub valid_secs: Option<u64>,
}

/// An issued token, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedStorageServerToken {
    /// The token. Give it to the machine and to nobody else.
    pub token: String,
    /// The storage server's name.
    pub storage: Name,
    /// URL of the control server.
    pub server: String,
    /// When it expires.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
    /// Whether a storage server of this name exists: the new machine replaces it.
    pub replaces: bool,
}

/// Request of a machine to become a storage server.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollStorageServerRequest {
    /// The secret of the token, hex.
    pub secret: String,
    /// Certificate signing request, PEM.
    pub request: String,
    /// Host names and addresses under which nodes reach it; nodes are told the first.
    pub names: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// The storage server to which the pool of the machine belongs already: the token has to be for that one.
    #[serde(default)]
    pub pool_of: Option<String>,
}

/// The identity of a new storage server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnrollStorageServerReply {
    /// Its name.
    pub storage: Name,
    /// Its certificate, PEM: to serve under its names, and to call the control server.
    pub certificate: String,
    /// Certificate of the server's certificate authority, PEM.
    pub ca_certificate: String,
    /// When the certificate expires.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// A storage server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageServer {
    /// Its name.
    pub name: Name,
    /// Names in its certificate; nodes use the first.
    pub names: Vec<String>,
    /// Its port; missing until its first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// When it enrolled.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// Time of its last heartbeat; missing if there was none.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<i64>,
    /// Version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it is revoked: none of its certificates is accepted.
    pub revoked: bool,
    /// Why the control server stopped it by itself: two machines have shown its certificates. Enrolling it again
    /// clears the alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// Whether it is connected now.
    pub connected: bool,
    /// Number of domains that it stores.
    pub domains: u64,
    /// Free bytes of its disk, from the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Size of its disk in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Pools of it that cannot be used, and why, from the last heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pool_faults: Vec<String>,
    /// By how many seconds its clock is ahead of the control server's; negative: behind. Missing below five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_secs: Option<i64>,
}

/// All storage servers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StorageServers {
    /// By name.
    pub storage_servers: Vec<StorageServer>,
}

/// A connection of a node to a storage server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConnection {
    /// Serial number of the certificate that the node showed and TLS has verified, hex.
    pub serial: String,
    /// Name of the node, from its certificate.
    pub node: Name,
    /// Address from which the node connects.
    #[schema(value_type = String)]
    pub address: std::net::IpAddr,
}

/// The node may connect.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AdmitReply {
    /// Bandwidth limits in bytes per second, from the node and to it; 0 for no limit.
    pub limits: [u64; 2],
}

/// Question of a storage server: what may a node do with a domain that it stores?
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessRequest {
    /// Serial number of the node's certificate, hex.
    pub serial: String,
    /// The node.
    pub node: Name,
    /// The domain; the node's own when missing.
    #[serde(default)]
    pub domain: Option<Name>,
}

/// Question of a storage server: may a node forget snapshots of a domain that it stores?
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// Serial number of the node's certificate, hex.
    pub serial: String,
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// Number of snapshots.
    pub count: u64,
    /// Their ids, hex; of older storage servers those of the first 64.
    pub ids: Vec<String>,
    /// Whether all of them came from this node.
    pub are_own: bool,
}

/// Question of a storage server: what does the receipt of the snapshot of a job say?
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelsRequest {
    /// The run of the storage server, as in its heartbeats.
    pub run: String,
    /// The number of the job there.
    pub number: u64,
}

/// What the receipt says of the policy that wanted the snapshot; all empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelsReply {
    /// Whether the control server knows the job. If not, the storage server asks again after its next heartbeat.
    pub is_known: bool,
    /// The policy.
    pub policy: String,
    /// The source by its name in the policy.
    pub source: String,
    /// The class in the policy.
    pub class: String,
    /// For how many seconds nobody can delete the snapshot.
    pub lock_secs: Option<u64>,
}

/// What the node may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccessReply {
    /// The domain.
    pub domain: Name,
    /// Whether it may back up.
    pub may_write: bool,
    /// Whether it may read.
    pub may_read: bool,
    /// Whether it may create the repository if there is none.
    pub may_init: bool,
    /// Id of the key with which it signs, hex; missing when any key is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Directories of the storage server in which copies of the domain lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub copies: Vec<PathBuf>,
    /// Settings of the domain's repository.
    #[serde(flatten)]
    pub settings: Settings,
}

/// Heartbeat of a storage server, once a second: its state, connected nodes, jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Identifies this run of the storage server: job numbers restart with each run.
    pub run: String,
    /// The port on which it listens.
    pub port: u16,
    /// Version of the program.
    pub version: String,
    /// Free bytes of its disk.
    pub free_bytes: u64,
    /// Size of its disk in bytes.
    pub total_bytes: u64,
    /// Connected nodes.
    pub nodes: Vec<NodeConnection>,
    /// Running jobs, and ended jobs whose end was not acknowledged yet.
    pub jobs: Vec<StorageJob>,
    /// Nodes that read by a grant.
    #[serde(default)]
    pub readers: Vec<GrantedReader>,
    /// What the domains store for which the last reply had a quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainUse>,
    /// What its lock helper and the storages of its buckets keep; missing without either, or before they answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_locks: Option<KeptLocks>,
    /// Moves that the last replies asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveStatus>,
    /// Pools that cannot be used, and why; only for a control server that takes that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pool_faults: Vec<String>,
    /// Whether a pool that takes new domains lies in a bucket, whose free space nobody knows; only for a control server
    /// that takes that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_bucket: bool,
    /// What its clock shows, in seconds since 1970; only for a control server that takes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_secs: Option<i64>,
    /// What was read from copies since the last heartbeat; only for a control server that takes that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy_reads: Vec<CopyRead>,
}

/// What a node got from a copy in place of its domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyRead {
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// Where the copy lies.
    pub place: String,
    /// Number of records.
    pub records: u64,
}

/// A node that reads a domain by a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantedReader {
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
}

/// A job on a storage server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageJob {
    /// Its number on the storage server.
    pub number: u64,
    /// Its number on the control server, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// `backup` or `restore`.
    pub kind: String,
    /// What is backed up or restored.
    pub what: String,
    /// Its progress.
    pub progress: Progress,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<StorageJobEnd>,
}

/// How a job ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageJobEnd {
    /// Never `running`.
    pub state: JobState,
    /// Id of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its report.
    pub report: String,
}

/// Reply to a heartbeat.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatReply {
    /// Serial numbers of connected nodes that must be disconnected.
    pub revoked: Vec<String>,
    /// Bandwidth limits of each connected node, in the order of the heartbeat.
    pub limits: Vec<[u64; 2]>,
    /// The jobs, in the order of the heartbeat. What is left out comes with the next one.
    pub jobs: Vec<JobReply>,
    /// Readers whose grant was withdrawn or has expired.
    #[serde(default)]
    pub withdrawn: Vec<GrantedReader>,
    /// The domains there that have a quota.
    #[serde(default)]
    pub quotas: Vec<DomainQuota>,
    /// Moves that are wanted there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveOrder>,
    /// Whether the next heartbeats may say which pools cannot be used: older control servers do not take that.
    #[serde(default)]
    pub takes_pool_faults: bool,
    /// Whether the next heartbeats may say that a pool lies in a bucket.
    #[serde(default)]
    pub takes_has_bucket: bool,
    /// Whether the next heartbeats may say what its clock shows.
    #[serde(default)]
    pub takes_clock: bool,
    /// Whether the next heartbeats may say what was read from copies.
    #[serde(default)]
    pub takes_copy_reads: bool,
}

/// Reply for one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct JobReply {
    /// Its number on the control server; missing when the job was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
}
