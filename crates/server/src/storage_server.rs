//! A storage server: it stores repositories of domains, and asks the control server who may do what. It has no key of
//! any domain, no catalog and no API.
//!
//! ```text
//!  node ──▶ listen ──▶ data ──▶ StorageServer (AccessControl) ──admit, access──▶ control server
//!                                   └──heartbeat, once a second─────▶ (nodes, jobs)
//!                                   ◀──revocations, cancels, limits───
//! ```
//! While the control server is unreachable, running jobs continue, and new connections are told to retry.

mod admitted_nodes;
mod copy_reads;
mod granted_readers;
mod jobs;
mod moves;
mod pools;
mod query_limiter;
mod quotas;

use crate::moving::Mover;
use crate::planes::now_secs;
use crate::securing::{Keepers, Securing, pool_answers};
use crate::upkeep::Worker;
use admitted_nodes::AdmittedNodes;
use api::Name;
use api::commands::NodeCommand;
use api::status::KeptLocks;
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, CopyRead, ForgetRequest, GrantedReader, Heartbeat,
    HeartbeatReply, LabelsReply, LabelsRequest, NodeConnection,
};
use copy_reads::CopyReads;
use granted_readers::GrantedReaders;
use ids::KeyId;
use jobs::Jobs;
use moves::Moves;
use parking_lot::Mutex;
use pools::{DomainPlace, Pools};
use query_limiter::QueryLimiter;
use quotas::Quotas;
use serde::Serialize;
use serde::de::DeserializeOwned;
use server_contract::access_control::{
    Access, AccessControl, CONTROL_SERVER, FORGET_MAX, ForgetQuery, JobEnd, JobNo, JobStatus,
    Labels, Node, Peer, Refusal,
};
use server_contract::folder::Folder;
use server_data::Shared;
use server_data::receipts::Receipts;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Why a request to the control server failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlServerError {
    /// It refused the request.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// It cannot say now, and may say yes later: the domain is being moved.
    #[error("{0}")]
    NotNow(String),
    /// It is unreachable, or failed.
    #[error("the control server is unreachable: {0}")]
    Unreachable(String),
}

/// A client of the control server.
pub trait ControlServer: Send + Sync {
    /// Sends `body` to `path` of its API. Blocks.
    ///
    /// # Errors
    /// [`ControlServerError`].
    fn post(
        &self,
        path: &str,
        body: serde_json::Value,
    ) -> Result<serde_json::Value, ControlServerError>;
}

/// The access control of a storage server.
pub struct StorageServer {
    pools: Arc<Pools>,
    control_server: Arc<dyn ControlServer>,
    /// Identifies this run.
    run: String,
    port: AtomicU16,
    nodes: AdmittedNodes,
    jobs: Jobs,
    queries: QueryLimiter,
    readers: GrantedReaders,
    quotas: Quotas,
    moves: Moves,
    /// Whether the control server takes what is wrong with pools.
    takes_pool_faults: AtomicBool,
    takes_has_bucket: AtomicBool,
    takes_clock: AtomicBool,
    takes_copy_reads: AtomicBool,
    copy_reads: CopyReads,
    /// Held while a heartbeat is on its way.
    heartbeating: Mutex<()>,
    /// What others keep of its locked snapshots.
    kept_locks: Mutex<Option<KeptLocks>>,
}

impl StorageServer {
    /// A storage server with its repositories in `folder`.
    ///
    /// # Errors
    /// [`server_contract::Error::NoRandom`].
    pub fn new(
        folder: Folder,
        control_server: Arc<dyn ControlServer>,
    ) -> server_contract::Result<Arc<Self>> {
        let mut run = [0; 8];
        getrandom::fill(&mut run).map_err(|_| server_contract::Error::NoRandom)?;
        let run = data_encoding::HEXLOWER.encode(&run);
        let (port, nodes, jobs) = Default::default();
        let (queries, readers, quotas, moves) = Default::default();
        let (takes_pool_faults, takes_has_bucket, takes_clock, kept_locks) = Default::default();
        let (takes_copy_reads, copy_reads) = Default::default();
        Ok(Arc::new(Self {
            pools: Arc::new(Pools::new(folder)),
            control_server,
            run,
            port,
            nodes,
            jobs,
            queries,
            readers,
            quotas,
            moves,
            takes_pool_faults,
            takes_has_bucket,
            takes_clock,
            takes_copy_reads,
            copy_reads,
            heartbeating: Mutex::new(()),
            kept_locks,
        }))
    }

    /// Its data plane, which gives receipts and does the upkeep that the control server asks for.
    ///
    /// # Errors
    /// Those of [`Receipts::open`].
    pub fn data_plane(self: &Arc<Self>) -> std::io::Result<Arc<Shared>> {
        let receipts = Receipts::open(&self.pools.folder.file(""))?;
        let shared = Shared::with_receipts(self.clone(), Some(receipts));
        shared.keep_up_with(Arc::new(Worker(shared.domains.clone())));
        self.moves.work_with(Arc::new(Mover(shared.clone())));
        Ok(shared)
    }

    /// Has `keepers` keep what locked snapshots need.
    pub fn securing(self: &Arc<Self>, keepers: &Keepers, shared: &Arc<Shared>) -> Securing {
        let (listed, told) = (self.clone(), self.clone());
        let folders = move || listed.pools.folders();
        let asked = self.clone();
        let answers = move |domain: &Path| pool_answers(&asked.pools.folder, domain);
        let told = move |kept| *told.kept_locks.lock() = Some(kept);
        let looks = (Box::new(folders) as _, Box::new(answers) as _);
        Securing::new(keepers, shared.domains.clone(), looks, Box::new(told))
    }

    /// Sets the port on which it listens.
    pub fn listens_at(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Sends a heartbeat to the control server, and applies the reply. Call it every second. Blocks.
    ///
    /// # Errors
    /// [`ControlServerError::Refused`] when this storage server was revoked: it must stop.
    pub fn heartbeat(&self) -> Result<(), ControlServerError> {
        // The control server takes few at once.
        let _alone = self.heartbeating.lock();
        let [free_bytes, total_bytes] = self.pools.room();
        let nodes = self.nodes.connected();
        let jobs = self.jobs.to_report();
        let copy_reads = match self.takes_copy_reads.load(Ordering::Relaxed) {
            true => self.copy_reads.take(),
            false => Vec::new(),
        };
        let heartbeat = Heartbeat {
            run: self.run.clone(),
            port: self.port.load(Ordering::Relaxed),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            free_bytes,
            total_bytes,
            nodes,
            jobs,
            readers: self.readers.to_report(),
            domains: self.quotas.to_report(|domain| self.pools.folder_of(domain).ok()),
            kept_locks: self.kept_locks.lock().clone(),
            moves: self.moves.to_report(),
            pool_faults: self.pool_faults(),
            has_bucket: self.takes_has_bucket.load(Ordering::Relaxed) && self.pools.has_bucket(),
            clock_secs: self.takes_clock.load(Ordering::Relaxed).then(now_secs),
            copy_reads,
        };
        let told: HeartbeatReply = match self.query("/storage-server/heartbeat", &heartbeat) {
            Ok(told) => told,
            Err(error) => {
                self.copy_reads.put_back(heartbeat.copy_reads);
                return Err(error);
            }
        };
        self.nodes.apply_reply(&heartbeat.nodes, &told);
        self.jobs.apply_reply(&heartbeat.jobs, &told.jobs);
        self.quotas.apply_reply(&told.quotas);
        self.readers.apply_reply(&heartbeat.readers, &told.withdrawn);
        self.moves.apply_reply(&self.pools, &told.moves);
        self.takes_pool_faults.store(told.takes_pool_faults, Ordering::Relaxed);
        self.takes_has_bucket.store(told.takes_has_bucket, Ordering::Relaxed);
        self.takes_clock.store(told.takes_clock, Ordering::Relaxed);
        self.takes_copy_reads.store(told.takes_copy_reads, Ordering::Relaxed);
        if let Err(error) = self.learn_labels() {
            tracing::warn!(%error, "the control server does not say what receipts shall say");
        }
        Ok(())
    }

    fn pool_faults(&self) -> Vec<String> {
        let is_taken = self.takes_pool_faults.load(Ordering::Relaxed);
        if is_taken { self.pools.faults() } else { Vec::new() }
    }

    fn query<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ControlServerError> {
        let away = |error: serde_json::Error| ControlServerError::Unreachable(error.to_string());
        let body = serde_json::to_value(body).map_err(away)?;
        serde_json::from_value(self.control_server.post(path, body)?).map_err(away)
    }

    /// A query for which a node waits: limited, so that running jobs are not delayed.
    fn query_for_node<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ControlServerError> {
        let _permit = self.queries.permit()?;
        self.query(path, body).inspect_err(|error| self.queries.failed(error))
    }

    /// The labels of a job; `None` if the control server does not know it, even after a heartbeat.
    fn told_labels(&self, job: JobNo) -> Result<Option<Labels>, ControlServerError> {
        if let Some(labels) = self.ask_labels(job)? {
            return Ok(Some(labels));
        }
        // A backup may end before the next heartbeat tells of it.
        self.heartbeat()?;
        self.ask_labels(job)
    }

    fn ask_labels(&self, job: JobNo) -> Result<Option<Labels>, ControlServerError> {
        let asked = LabelsRequest { run: self.run.clone(), number: job };
        let told: LabelsReply = self.query("/storage-server/labels", &asked)?;
        let LabelsReply { is_known: true, policy, source, class, lock_secs } = told else {
            return Ok(None);
        };
        let labels = Labels { policy, source, class, lock_secs };
        Ok(Some(self.jobs.label(job, labels)))
    }

    /// Asks for the labels of jobs that began: they are needed when the control server may be away.
    fn learn_labels(&self) -> Result<(), ControlServerError> {
        self.jobs.without_labels().into_iter().try_for_each(|job| self.ask_labels(job).map(drop))
    }

    fn admit_node(&self, facts: &pki::Facts, address: IpAddr) -> Result<Node, Refusal> {
        let name = name(&facts.common_name)?;
        let asked = NodeConnection { serial: facts.serial.clone(), node: name, address };
        if let Some(node) = self.nodes.fresh(&asked) {
            return Ok(node);
        }
        let admitted: AdmitReply = self
            .query_for_node("/storage-server/admit", &asked)
            .map_err(|error| refusal(&error))?;
        Ok(self.nodes.admitted(asked, admitted.limits))
    }

    fn access_of(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal> {
        let (serial, domain) = (node.serial.clone(), domain.map(name).transpose()?);
        let asked = AccessRequest { serial, node: name(&node.name)?, domain };
        let given: AccessReply = self
            .query_for_node("/storage-server/access", &asked)
            .map_err(|error| refusal(&error))?;
        self.readers.granted(&GrantedReader { node: asked.node, domain: given.domain.clone() });
        let DomainPlace { folder: path, read_only } = self.pools.place_of(&given.domain)?;
        let is_made = server_contract::config(&path).is_ok_and(|config| config.is_some());
        Ok(Access {
            domain: given.domain.to_string(),
            path,
            may_write: given.may_write,
            may_read: given.may_read,
            may_init: given.may_init && !is_made,
            key: given.key.as_deref().and_then(KeyId::from_hex).map(|id| id.0),
            settings: Some(given.settings),
            read_only,
            copies: given.copies,
        })
    }

    /// What the control server may do: create a repository, read its clear parts, put and remove key slots.
    fn access_of_control_server(&self, domain: Option<&str>) -> Result<Access, Refusal> {
        let domain =
            domain.ok_or_else(|| Refusal::new("the control server must name a domain", ""));
        let domain = name(domain?)?;
        let DomainPlace { folder: path, read_only } = self.pools.place_of(&domain)?;
        let (may_write, may_read, may_init) = (false, true, true);
        let domain = domain.to_string();
        let (key, settings, copies) = Default::default();
        Ok(Access { domain, path, may_write, may_read, may_init, key, settings, read_only, copies })
    }
}

impl AccessControl for StorageServer {
    fn admit(&self, peer: &Peer) -> Result<Node, Refusal> {
        let facts =
            pki::inspect(&peer.certificate).map_err(|error| Refusal::new(error.to_string(), ""))?;
        if facts.common_name == CONTROL_SERVER {
            let (name, serial) = (facts.common_name, facts.serial);
            return Ok(Node { name, serial, revoked: Arc::default() });
        }
        self.admit_node(&facts, peer.address)
    }

    fn access(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal> {
        match self.is_control_server(node) {
            true => self.access_of_control_server(domain),
            false => self.access_of(node, domain),
        }
    }

    /// The control server adds an entry to the audit log first: while it is unreachable, nothing is forgotten.
    fn permit_forget(&self, node: &Node, asked: &ForgetQuery<'_>) -> Result<(), Refusal> {
        let named = asked.snapshots.iter().take(FORGET_MAX);
        let asked = ForgetRequest {
            serial: node.serial.clone(),
            node: name(&node.name)?,
            domain: name(asked.domain)?,
            count: asked.snapshots.len() as u64,
            ids: named.map(ToString::to_string).collect(),
            are_own: asked.are_own,
        };
        let done: Result<api::status::Done, _> =
            self.query_for_node("/storage-server/forget", &asked);
        done.map(drop).map_err(|error| refusal(&error))
    }

    /// While nobody can say whether a policy wants a lock, there is no receipt: the node comes again. What the control
    /// server said when the job began counts while it is away.
    fn labels(&self, job: JobNo) -> Result<Labels, Refusal> {
        match self.told_labels(job) {
            Ok(Some(labels)) => Ok(labels),
            Ok(None) => Err(Refusal::transient("the control server does not know this job")),
            Err(error @ ControlServerError::Unreachable(_)) => {
                self.jobs.labels(job).ok_or_else(|| refusal(&error))
            }
            Err(error) => Err(Refusal::transient(error.to_string())),
        }
    }

    fn was_read_from_copy(&self, node: &Node, domain: &str, place: &str, records: u64) {
        if let (Ok(node), Ok(domain)) = (node.name.parse(), domain.parse()) {
            self.copy_reads.note(CopyRead { node, domain, place: place.to_owned(), records });
        }
    }

    fn still_allows(&self, node: &Node, access: &Access) -> bool {
        self.is_control_server(node) || self.readers.may_continue(node, access)
    }

    fn may_store(&self, domain: &str, more: u64) -> Result<(), Refusal> {
        self.quotas.take(domain, || self.pools.folder_of(&name(domain)?), more)
    }

    fn is_control_server(&self, node: &Node) -> bool {
        node.name == CONTROL_SERVER
    }

    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2] {
        self.nodes.limits(&node.serial, address)
    }

    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo {
        self.jobs.begin(node, domain, kind, what)
    }

    fn job_is_at(&self, job: JobNo, status: &JobStatus) {
        self.jobs.is_at(job, status);
    }

    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str) {
        self.jobs.end(job, end, report);
    }

    fn is_cancelled(&self, job: JobNo) -> bool {
        self.jobs.is_cancelled(job)
    }

    /// The control server sends node commands.
    fn commands(&self, _node: &Node) -> Vec<NodeCommand> {
        Vec::new()
    }

    fn commands_seen(&self) -> u64 {
        0
    }

    /// Its control server gives no labels to the job of a domain that lies elsewhere: such a job commits nothing.
    fn still_lies_there(&self, _access: &Access) -> Result<bool, Refusal> {
        Ok(true)
    }

    fn command_done(
        &self,
        node: &Node,
        command: u64,
        _is_complete: bool,
        _report: &str,
    ) -> Result<(), Refusal> {
        tracing::warn!(node = node.name, command, "a storage server takes no node commands");
        Ok(())
    }
}

fn name(text: &str) -> Result<Name, Refusal> {
    text.parse().map_err(|error: api::name::BadName| Refusal::new(error.to_string(), ""))
}

fn refusal(trouble: &ControlServerError) -> Refusal {
    match trouble {
        ControlServerError::Refused { message, hint } => Refusal::new(message, hint),
        ControlServerError::NotNow(why) => Refusal::transient(why),
        ControlServerError::Unreachable(why) => {
            tracing::warn!(why, "the control server does not answer");
            Refusal::transient("the storage server cannot reach the control server")
        }
    }
}

/// The HTTP router of a storage server, which refuses everything.
pub fn no_http() -> axum::Router {
    use axum::http::StatusCode;
    axum::Router::new().fallback(async || {
        let message = "this is a storage server: use the API of the control server";
        server_control::http::Failed::new(StatusCode::NOT_FOUND, api::Code::Usage, message)
    })
}

#[cfg(test)]
mod tests;
