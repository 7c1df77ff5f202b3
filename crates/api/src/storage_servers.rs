//! Storage servers: processes of their own that hold the repositories of some domains.

use crate::Name;
use crate::domains::Settings;
use crate::jobs::{JobState, Progress};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Asks for a token with which one storage server enrolls.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStorageServerToken {
    /// The storage server's name.
    pub storage: Name,
    /// How long it is good, in seconds; an hour when missing.
    #[serde(default)]
    pub valid_secs: Option<u64>,
}

/// Such a token, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedStorageServerToken {
    /// The token: give it to the machine and to nobody else.
    pub token: String,
    /// The storage server's name.
    pub storage: Name,
    /// Where the machine finds the server.
    pub server: String,
    /// When it ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
    /// Whether a storage server of this name exists: enrolling takes its place.
    pub replaces: bool,
}

/// What a machine sends to become a storage server.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollStorageServerRequest {
    /// The secret of the token, hex.
    pub secret: String,
    /// Request for a certificate, PEM.
    pub request: String,
    /// Host names and addresses by which nodes call it; the first is what they are told.
    pub names: Vec<String>,
    /// Version of the program.
    pub version: String,
}

/// What a machine is when it has become a storage server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnrollStorageServerReply {
    /// Its name.
    pub storage: Name,
    /// Its certificate, PEM: to serve under its names, and to ask the server.
    pub certificate: String,
    /// Certificate of the server's certificate authority, PEM.
    pub ca_certificate: String,
    /// When the certificate ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// A storage server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageServer {
    /// Its name.
    pub name: Name,
    /// Names in its certificate; by the first one nodes call it.
    pub names: Vec<String>,
    /// Its port; missing until it has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// When it enrolled.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// When it was last heard of; missing when never.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<i64>,
    /// Version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its certificates are good no more.
    pub revoked: bool,
    /// Why the server stopped it by itself: two machines have shown its certificates. Enrolling it again ends the alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// Whether it is there at this moment.
    pub connected: bool,
    /// Domains that lie on it.
    pub domains: u64,
    /// Free bytes of its disk, when last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// All bytes of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
}

/// All storage servers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StorageServers {
    /// By name.
    pub storage_servers: Vec<StorageServer>,
}

/// A storage server asks whether a node may connect to it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConnection {
    /// Serial number of the certificate that the node showed and TLS has verified, hex.
    pub serial: String,
    /// The name in it.
    pub node: Name,
    /// Where the node calls from.
    #[schema(value_type = String)]
    pub address: std::net::IpAddr,
}

/// It may.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AdmitReply {
    /// Most bytes a second from the node, and to it; 0 for no limit.
    pub limits: [u64; 2],
}

/// A storage server asks what a node may do with a domain that lies on it.
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

/// Whether a node may forget snapshots of a domain that lies on the storage server that asks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// Serial number of the node's certificate, hex.
    pub serial: String,
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// How many snapshots.
    pub count: u64,
    /// The ids of the first of them, hex.
    pub ids: Vec<String>,
    /// Whether all of them came from this very node.
    pub are_own: bool,
}

/// What it may.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccessReply {
    /// The domain.
    pub domain: Name,
    /// May back up.
    pub may_write: bool,
    /// May fetch what is stored.
    pub may_read: bool,
    /// May make the repository when there is none.
    pub may_init: bool,
    /// Key slot under which it signs, hex; missing when any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the repository of the domain is made with.
    #[serde(flatten)]
    pub settings: Settings,
}

/// What a storage server tells every second: how it is, who is connected, where jobs are.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Names this run of the storage server: numbers of jobs begin anew with each.
    pub run: String,
    /// The port at which it listens.
    pub port: u16,
    /// Version of the program.
    pub version: String,
    /// Free bytes of its disk.
    pub free_bytes: u64,
    /// All bytes of its disk.
    pub total_bytes: u64,
    /// Who is connected.
    pub nodes: Vec<NodeConnection>,
    /// Jobs that run, and those that ended since the server last confirmed an end.
    pub jobs: Vec<StorageJob>,
    /// Who reads by a grant.
    #[serde(default)]
    pub readers: Vec<GrantedReader>,
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
    /// Its number there.
    pub number: u64,
    /// Its number in the server's list, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Whose it is.
    pub node: Name,
    /// The domain it works with.
    pub domain: Name,
    /// `backup` or `restore`.
    pub kind: String,
    /// What is backed up or restored.
    pub what: String,
    /// How far it is.
    pub progress: Progress,
    /// How it ended, when it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<StorageJobEnd>,
}

/// How a job ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageJobEnd {
    /// Never `running`.
    pub state: JobState,
    /// The snapshot made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its report.
    pub report: String,
}

/// What a storage server is told in turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatReply {
    /// Serial numbers, of those that are connected, that may stay no longer.
    pub revoked: Vec<String>,
    /// Limits of each that is connected, in the order of the question.
    pub limits: Vec<[u64; 2]>,
    /// The jobs, in the order of the question.
    pub jobs: Vec<JobReply>,
    /// Of the readers, those that may not go on.
    #[serde(default)]
    pub withdrawn: Vec<GrantedReader>,
}

/// What is told of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct JobReply {
    /// Its number in the server's list; missing when it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// It was asked to end.
    pub cancelled: bool,
}
