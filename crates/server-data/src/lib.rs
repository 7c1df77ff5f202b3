//! The data plane of a server: connections of nodes, their sessions, the repositories of domains. It has no key of
//! any domain, and reaches neither the catalog nor the certificate authority: whatever it must know, it asks
//! [`AccessControl`].
//!
//! ```text
//!  server::listen ──▶ connection ──▶ request_handler ──▶ session ──▶ repository
//!                       ▲     (a blocking thread for each piece of work, never for a connection)
//!                       └── hub: all connections; sends limits, commands, cancellations, revocations, the shutdown
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod body_memory;
mod closing;
pub mod connection;
mod connection_handle;
pub mod copy_places;
pub mod domains;
mod expiry;
mod faults;
mod forget;
pub mod hub;
mod key_list;
mod manifest;
mod random;
mod read_counters;
mod reading;
pub mod receipts;
mod request_handler;
mod session;
pub mod sessions;
mod upkeep;

use body_memory::BodyMemory;
use domains::Domains;
use hub::Hub;
use receipts::Receipts;
use server_contract::access_control::{AccessControl, JobEnd, Node};
use server_contract::budgets::{Budgets, NODE_JOBS, NODE_JOBS_IN};
use server_contract::upkeep::DomainUpkeep;
use sessions::Sessions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use upkeep::UpkeepJobs;

/// Memory for bodies of large packets, of all connections together: the shares of nodes, and the rest.
const BODIES_BYTES: usize = 192 << 20;
const MORE_BODIES_BYTES: usize = 64 << 20;

/// Why the job of a revoked node ended.
const REVOKED: &str = "the node was revoked";

/// Why the job of a session ended whose domain was moved.
const MOVED: &str = "the domain was moved to another pool";

/// On shutdown, time for connections to finish a frame and to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// Then they are disconnected, with this much time for the last packet.
const DISCONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How often to check whether all connections are closed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What all connections share.
pub struct Shared {
    /// Decides who may do what.
    pub access_control: Arc<dyn AccessControl>,
    /// Open repositories.
    pub domains: Arc<Domains>,
    /// Sessions, attached or waiting for their node.
    pub sessions: Sessions,
    /// Connections.
    pub hub: Hub,
    /// Jobs that each node may still begin.
    pub jobs: Budgets,
    bodies: BodyMemory,
    /// Permits for connections that were not admitted and are still read.
    refused: Semaphore,
    /// Issuer of receipts, if there is one.
    receipts: Option<Arc<Receipts>>,
    /// Upkeep for the control server, on a storage server.
    upkeep: UpkeepJobs,
    /// Name and version, for the other end.
    program: String,
}

impl Shared {
    /// The data plane, under `access_control`.
    pub fn new(access_control: Arc<dyn AccessControl>) -> Arc<Self> {
        Self::with_receipts(access_control, None)
    }

    /// The same, with a receipt for every snapshot.
    pub fn with_receipts(
        access_control: Arc<dyn AccessControl>,
        receipts: Option<Receipts>,
    ) -> Arc<Self> {
        let receipts = receipts.map(Arc::new);
        Arc::new(Self {
            access_control,
            domains: Arc::new(Domains::new(receipts.clone())),
            sessions: Sessions::default(),
            hub: Hub::default(),
            jobs: Budgets::new(NODE_JOBS, NODE_JOBS_IN),
            bodies: BodyMemory::new(BODIES_BYTES, MORE_BODIES_BYTES),
            refused: Semaphore::new(closing::REFUSED_MAX),
            receipts,
            upkeep: UpkeepJobs::default(),
            program: concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// From now on `worker` does the upkeep that the control server asks for.
    pub fn keep_up_with(&self, worker: Arc<dyn DomainUpkeep>) {
        self.upkeep.work_with(worker);
    }

    /// Whether `node` may begin a job. The control server is not a node.
    fn may_begin_job(&self, node: &Node) -> bool {
        let control = self.access_control.is_control_server(node);
        control || self.jobs.take(&node.name, 1)
    }

    /// How many sessions and connections do something in the domain in `folder`.
    pub fn busy_in(&self, folder: &Path) -> usize {
        self.sessions.open_in(folder) + self.hub.busy_in(folder)
    }

    /// Ends what uses the domain in `folder`, which is closed; `true` once nobody does. Nodes come back by themselves,
    /// and their next sessions find what these stored.
    pub fn empty(&self, folder: &Path) -> bool {
        self.hub.leave_domain(folder);
        for session in self.sessions.take_if(|session| session.access.path == folder) {
            session.finish(&*self.access_control, &JobEnd::Failed(MOVED.to_owned()), "");
        }
        !self.domains.is_in_use(folder)
    }

    /// Tells all connections that the server stops, and waits a short time until they are closed: a client
    /// that does not read cannot delay the shutdown. Sessions end with the program, and the next ones find
    /// what they stored.
    pub async fn stop(&self) {
        self.hub.close();
        if tokio::time::timeout(TOLD_WITHIN, self.all_gone()).await.is_err() {
            self.hub.disconnect_all();
            let _ = tokio::time::timeout(DISCONNECT_WITHIN, self.all_gone()).await;
        }
    }

    async fn all_gone(&self) {
        while !self.hub.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Handles revocations, limits that change with the hour, and sessions whose node does not come back.
    /// Called every second.
    pub fn tick(&self) {
        self.hub.tick(&*self.access_control);
        let access_control = &*self.access_control;
        for session in self.sessions.take_if(|session| session.refused_and_left().is_some()) {
            let why = session.refused_and_left().unwrap_or_default();
            session.finish(access_control, &JobEnd::Failed(why), "");
        }
        for session in self.sessions.expired() {
            session.finish(access_control, &JobEnd::Lost, "");
        }
        for session in self.sessions.take_if(|session| session.node.is_revoked()) {
            session.finish(access_control, &JobEnd::Failed(REVOKED.to_owned()), "");
        }
        for session in self.sessions.take_if(|session| access_control.is_cancelled(session.job)) {
            let why = "an administrator cancelled it".to_owned();
            session.finish(access_control, &JobEnd::Failed(why), "");
        }
    }
}
