//! Access control: what the data plane asks. The control plane answers, or a storage server, which asks the control
//! server.

use api::domains::Settings;
use ids::SnapshotId;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its certificate (DER), verified by TLS against the server's CA.
    pub certificate: Vec<u8>,
    /// Address from which it connects.
    pub address: IpAddr,
}

/// An admitted node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Serial number of its certificate, lower-case hex.
    pub serial: String,
    /// Set once the certificate or the node is revoked: its sessions are closed.
    pub revoked: Arc<AtomicBool>,
}

impl Node {
    /// Whether the node or its certificate was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }
}

/// What a node may do with a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The domain's name.
    pub domain: String,
    /// The folder of its repository, which may not exist yet.
    pub path: PathBuf,
    /// Whether the node may back up.
    pub may_write: bool,
    /// Whether the node may read: records, pages, manifests.
    pub may_read: bool,
    /// Whether the node may create the repository, with client-held keys.
    pub may_init: bool,
    /// Id of the key with which it signs; `None` when any key is accepted.
    pub key: Option<[u8; 8]>,
    /// Required settings of a repository that the node creates; `None` when the control server creates it.
    pub settings: Option<Settings>,
    /// Why nothing may be written now, whatever the node may do: the state of its pool.
    pub read_only: Option<Refusal>,
    /// Directories in which copies of the domain lie: what its repository has lost is read there.
    pub copies: Vec<PathBuf>,
}

/// A node of a domain, and the key with which it signs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Its name.
    pub node: String,
    /// Id of its key slot.
    pub key: [u8; 8],
}

/// Name of the control server in its certificate towards storage servers. No node can have this name.
pub const CONTROL_SERVER: &str = "icecore:server";

/// Maximum number of snapshots that a node forgets at once.
pub const FORGET_MAX: usize = 4096;

/// Snapshots that a node asks to forget.
#[derive(Clone, Copy, Debug)]
pub struct ForgetQuery<'a> {
    /// Their domain.
    pub domain: &'a str,
    /// Their ids.
    pub snapshots: &'a [SnapshotId],
    /// Whether all of them came from this node.
    pub are_own: bool,
}

/// Why a request is refused, for the node to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is not allowed.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Whether a retry may succeed: a server that must be asked is unreachable now.
    pub is_transient: bool,
}

impl Refusal {
    /// A permanent refusal.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), is_transient: false }
    }

    /// A transient refusal.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { is_transient: true, ..Self::new(message, "The client retries automatically.") }
    }
}

/// Progress of a job. Reported about once a second, and at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    /// Objects processed so far.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Bytes received or sent by this server.
    pub bytes_wire: u64,
    /// The current path; empty when it is sealed.
    pub path: Vec<u8>,
    /// Stage of the job: `scan`, `store`, `commit`, `restore`.
    pub stage: String,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEnd {
    /// It succeeded.
    Complete {
        /// Id of the snapshot, if there is one.
        snapshot: Option<String>,
        /// Whether objects are missing in it that could not be read, as its signed head says.
        is_partial: bool,
    },
    /// It failed, for this reason.
    Failed(String),
    /// The node did not come back.
    Lost,
}

/// Number of a job in the catalog.
pub type JobNo = u64;

/// What the receipt of a snapshot says of the policy that wanted it. All empty for a backup that no policy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Its policy, at most 255 bytes.
    pub policy: String,
    /// Its source by the name in the policy, at most 255 bytes.
    pub source: String,
    /// Its class in the policy, at most 255 bytes.
    pub class: String,
    /// For how many seconds after its receipt nobody can delete the snapshot; `None` for no lock.
    pub lock_secs: Option<u64>,
}

/// The decisions that the data plane needs. Called by many threads; may block on the catalog.
pub trait AccessControl: Send + Sync {
    /// Whether this certificate may connect at all.
    fn admit(&self, peer: &Peer) -> Result<Node, Refusal>;

    /// `node` has opened a connection from `address`.
    fn connected(&self, _node: &Node, _address: IpAddr) {}

    /// `node` has closed a connection.
    fn disconnected(&self, _node: &Node, _address: IpAddr) {}

    /// The agent of `node` waits for commands from now on.
    fn agent_connected(&self, _node: &Node) {}

    /// A connection of the agent of `node` has ended.
    fn agent_disconnected(&self, _node: &Node) {}

    /// What `node` may do with `domain` (`None`: its own).
    fn access(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal>;

    /// Whether `node` may continue with `access`, which it was given earlier. Called every second.
    fn still_allows(&self, _node: &Node, _access: &Access) -> bool {
        true
    }

    /// Other nodes that back up to `domain`: sources signed by their keys belong to them.
    fn other_signers(&self, _node: &Node, _domain: &str) -> Result<Vec<Signer>, Refusal> {
        Ok(Vec::new())
    }

    /// Whether `node` may forget these snapshots. If so, the audit log has an entry before this returns.
    fn permit_forget(&self, node: &Node, _asked: &ForgetQuery<'_>) -> Result<(), Refusal> {
        Err(Refusal::new(format!("the node '{}' may not forget snapshots", node.name), ""))
    }

    /// Whether a domain still lies where `access` says: who opened it may have been silent for long since.
    ///
    /// # Errors
    /// While that changes, or nobody can say.
    fn still_lies_there(&self, access: &Access) -> Result<bool, Refusal>;

    /// Host and port of the storage server of `domain`; `None` when the domain lies here.
    fn storage_server_of(&self, _domain: &str) -> Result<Option<(String, u16)>, Refusal> {
        Ok(None)
    }

    /// Whether `node` is the control server, which may do more on a storage server than any node.
    fn is_control_server(&self, _node: &Node) -> bool {
        false
    }

    /// Current bandwidth limits of `node` at `address` in bytes per second, to the server and from it;
    /// 0 for no limit.
    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2];

    /// Whether `more` bytes may be stored in `domain`, beside all that is stored there: if so, they are counted. With no
    /// bytes, whether a backup may begin.
    ///
    /// # Errors
    /// [`Refusal`] when a quota has no room for them; a transient one when that cannot be known now.
    fn may_store(&self, _domain: &str, _more: u64) -> Result<(), Refusal> {
        Ok(())
    }

    /// A job starts; `kind` is `backup`, `restore` or `read`. Returns its number.
    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo;

    /// Progress of a job.
    fn job_is_at(&self, job: JobNo, status: &JobStatus);

    /// A job ended; `report` is JSON for people and programs.
    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str);

    /// What the receipt of the snapshot of `job` will say. Asked right before it is given: a refusal, which may be
    /// transient, means that there is neither a receipt nor a snapshot.
    ///
    /// # Errors
    /// [`Refusal`] when it is not known whether a policy wants a lock: never a receipt without the lock that is wanted.
    fn labels(&self, _job: JobNo) -> Result<Labels, Refusal> {
        Ok(Labels::default())
    }

    /// `records` of `domain` were read from its copy in `place` for `node`, because the repository had lost them.
    fn was_read_from_copy(&self, _node: &Node, _domain: &str, _place: &str, _records: u64) {}

    /// Whether the cancellation of the job was requested.
    fn is_cancelled(&self, job: JobNo) -> bool;

    /// Commands of `node` that have not ended, oldest first.
    fn commands(&self, node: &Node) -> Vec<api::commands::NodeCommand>;

    /// Rises with every command, to any node.
    fn commands_seen(&self) -> u64;

    /// An agent has carried out a command, or could not.
    ///
    /// # Errors
    /// When that could not be noted: the agent says it again.
    fn command_done(
        &self,
        node: &Node,
        command: u64,
        is_complete: bool,
        report: &str,
    ) -> Result<(), Refusal>;
}
