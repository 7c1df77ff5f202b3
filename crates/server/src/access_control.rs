//! Who may do what: what the part that stores asks the part that governs.

use api::domains::Settings;
use ids::SnapshotId;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its certificate (DER), verified against the server's access_control.
    pub certificate: Vec<u8>,
    /// Where it calls from.
    pub address: IpAddr,
}

/// An admitted node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Serial number of its certificate, lower-case hex.
    pub serial: String,
    /// Set once the certificate or the node is revoked: its sessions end.
    pub revoked: Arc<AtomicBool>,
}

impl Node {
    /// Whether it may not go on.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }
}

/// What a node may do with a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The domain's name.
    pub domain: String,
    /// The folder of its repository. It need not be there yet.
    pub path: PathBuf,
    /// May back up.
    pub may_write: bool,
    /// May fetch what is stored: records, pages, manifests.
    pub may_read: bool,
    /// May make the repository, with keys that only it knows.
    pub may_init: bool,
    /// Identifier of the key slot under which it signs; `None` when any slot will do.
    pub key: Option<[u8; 8]>,
    /// What a repository must be made with that the node makes; `None` when the control server makes it.
    pub settings: Option<Settings>,
}

/// A node of a domain, and the key under which it signs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Its name.
    pub node: String,
    /// Identifier of its key slot.
    pub key: [u8; 8],
}

/// Snapshots that a node asks to be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct ForgetQuery<'a> {
    /// The domain that they are of.
    pub domain: &'a str,
    /// Which.
    pub snapshots: &'a [SnapshotId],
    /// Whether all of them came from this very node.
    pub are_own: bool,
}

/// Why something is refused: for the node to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is not allowed.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Whether coming back helps: what would have to be asked cannot be reached at this moment.
    pub is_transient: bool,
}

impl Refusal {
    /// A refusal that stays one, whoever comes back.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), is_transient: false }
    }

    /// A refusal of the moment.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { is_transient: true, ..Self::new(message, "The client retries automatically.") }
    }
}

/// What a session tells of its job. Sent every second or so, and at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    /// Objects dealt with so far.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Bytes received or sent by this server.
    pub bytes_wire: u64,
    /// The path that is dealt with; empty when it is sealed.
    pub path: Vec<u8>,
    /// What the job is at: `scan`, `store`, `commit`, `restore`.
    pub stage: String,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEnd {
    /// With a snapshot, or a whole restore.
    Complete {
        /// The snapshot made, if any.
        snapshot: Option<String>,
    },
    /// Without.
    Failed(String),
    /// The node went away and did not come back.
    Lost,
}

/// Number of a job in the catalog.
pub type JobNo = u64;

/// Answers for the part that stores. Called by many threads; may block on the catalog.
pub trait AccessControl: Send + Sync {
    /// Whether this certificate may connect at all.
    fn admit(&self, peer: &Peer) -> Result<Node, Refusal>;

    /// `node` has one connection more, from `address`.
    fn connected(&self, _node: &Node, _address: IpAddr) {}

    /// `node` has one connection less.
    fn disconnected(&self, _node: &Node, _address: IpAddr) {}

    /// What `node` may do with `domain` (`None`: its own).
    fn access(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal>;

    /// Whether `node` may go on with `access`, which it was given before. Asked every second.
    fn still_allows(&self, _node: &Node, _access: &Access) -> bool {
        true
    }

    /// The nodes besides `node` that back up to `domain` now: the sources under their keys are theirs.
    fn other_signers(&self, _node: &Node, _domain: &str) -> Result<Vec<Signer>, Refusal> {
        Ok(Vec::new())
    }

    /// Whether `node` may forget these snapshots; who may has it noted in the audit list before it is done.
    fn permit_forget(&self, node: &Node, _asked: &ForgetQuery<'_>) -> Result<(), Refusal> {
        Err(Refusal::new(format!("the node '{}' may not forget snapshots", node.name), ""))
    }

    /// Host and port of the storage server that holds `domain`; `None` when it lies here.
    fn storage_server_of(&self, _domain: &str) -> Result<Option<(String, u16)>, Refusal> {
        Ok(None)
    }

    /// Whether `node` is the control server, which may do on a storage server what no node may.
    fn is_control_server(&self, _node: &Node) -> bool {
        false
    }

    /// Most bytes per second for `node` calling from `address`, to the server and from it, at this
    /// moment; 0 for no limit.
    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2];

    /// A job begins; `kind` is `backup` or `restore`.
    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo;

    /// Where it is.
    fn job_is_at(&self, job: JobNo, status: &JobStatus);

    /// It ended; `report` is JSON for people and programs.
    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str);

    /// Whether the job was asked to end.
    fn is_cancelled(&self, job: JobNo) -> bool;

    /// Commands of `node` that have not ended, oldest first.
    fn commands(&self, node: &Node) -> Vec<api::commands::NodeCommand>;

    /// Rises with every command, to any node.
    fn commands_seen(&self) -> u64;

    /// An agent has carried out a command, or could not.
    fn command_done(&self, node: &Node, command: u64, is_complete: bool, report: &str);
}
