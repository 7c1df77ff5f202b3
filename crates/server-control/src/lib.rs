//! The control plane of a server: who may connect, what they may do, and the HTTP API. It holds keys and moves no
//! data; the data plane cannot reach it, nor it the data plane.
//!
//! [`Control`] is a list of topics, a module each, and implements
//! [`AccessControl`](server_contract::access_control::AccessControl) with them. Read `open` for how a server starts,
//! `enroll` for how a machine becomes a node, `admission` for how it is admitted, `permissions` for what it may do,
//! `domain_keys` for keys, [`http`] for the API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access_control;
mod administrator;
mod admission;
mod agents;
mod attempt_limiter;
pub mod catalog_location;
mod catalog_mark;
mod certificate_issuer;
mod checked_file;
mod commands;
mod copies;
mod domain_keys;
mod domain_locks;
mod domain_repository;
mod domain_uses;
mod domains;
mod enroll;
mod error;
mod events;
mod forget;
mod grants;
mod home;
mod housekeeping;
pub mod http;
mod issued_keys;
mod jobs;
mod limits;
mod machine_clock;
mod made_repositories;
mod node_activity;
mod nodes;
pub mod offline;
mod open;
mod options;
mod permissions;
mod placing;
mod pools;
mod protection;
mod quotas;
mod refusal_log;
mod remote_domain;
mod reports;
mod repositories;
mod retention;
mod revocations;
mod scheduler;
mod sealing;
mod server_identity;
mod sites;
mod status;
mod storage_servers;
mod tokens;
mod upkeep;

pub use error::{Error, Result};
pub use retention::facts::{of_received as facts_of_received, of_unread as facts_of_unread};

use administrator::Administrator;
use admission::Admission;
use agents::Agents;
use api::enroll::{EnrollReply, EnrollRequest, IssuedToken, NewToken};
use catalog::{By, Catalog};
use catalog_mark::CatalogMark;
use commands::Commands;
use domain_repository::DomainRepositories;
use domains::Domains;
use enroll::Enrollment;
use events::Events;
use forget::ForgetPermissions;
use grants::Grants;
use housekeeping::Housekeeping;
use jobs::Jobs;
use limits::Limits;
use made_repositories::MadeRepositories;
use node_activity::NodeActivity;
use nodes::Nodes;
use open::Parts;
use options::ClientOptions;
use permissions::Permissions;
use placing::Placing;
use pools::Pools;
use protection::ProtectionView;
use quotas::Quotas;
use reports::Reports;
use retention::Retention;
use scheduler::Scheduler;
use server_contract::Repositories;
use server_contract::folder::{FirstPool, Folder};
use server_contract::moving::DomainMover;
use server_contract::upkeep::DomainUpkeep;
use server_identity::ServerIdentity;
use sites::Sites;
use status::ServerStatus;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage_servers::{StorageServerRequests, StorageServers};
use tokens::Tokens;
use upkeep::Upkeep;
use zeroize::Zeroizing;

/// Name of the server itself in the audit log.
const SERVER: &str = "server";

/// The control plane of a server: its topics. A handler of the HTTP API takes the one that it needs.
pub struct Control {
    folder: Arc<Folder>,
    catalog: Arc<Catalog>,
    mark: Arc<CatalogMark>,
    identity: Arc<ServerIdentity>,
    repositories: Arc<DomainRepositories>,
    administrator: Arc<Administrator>,
    tokens: Arc<Tokens>,
    enrollment: Arc<Enrollment>,
    admission: Arc<Admission>,
    activity: Arc<NodeActivity>,
    agents: Arc<Agents>,
    permissions: Arc<Permissions>,
    forget_permissions: Arc<ForgetPermissions>,
    nodes: Arc<Nodes>,
    limits: Arc<Limits>,
    client_options: Arc<ClientOptions>,
    domains: Arc<Domains>,
    placing: Arc<Placing>,
    grants: Arc<Grants>,
    jobs: Arc<Jobs>,
    commands: Arc<Commands>,
    sites: Arc<Sites>,
    protection: Arc<ProtectionView>,
    quotas: Arc<Quotas>,
    pools: Arc<Pools>,
    reports: Arc<Reports>,
    events: Arc<Events>,
    retention: Arc<Retention>,
    scheduler: Arc<Scheduler>,
    storage_servers: Arc<StorageServers>,
    storage_server_requests: Arc<StorageServerRequests>,
    status: Arc<ServerStatus>,
    housekeeping: Housekeeping,
    made: Arc<MadeRepositories>,
    upkeep: Arc<Upkeep>,
}

impl Control {
    /// Opens the server whose files lie in `folder`, and creates it if there is none. `names` are further names and
    /// addresses under which it is reached; nodes are told the first.
    ///
    /// # Errors
    /// [`Error::System`], also when it is already running; [`Error::Catalog`], [`Error::Pki`].
    pub fn open(folder: &Path, names: &[String]) -> Result<Arc<Self>> {
        Self::open_in(folder, names, None)
    }

    /// The same, when somebody says where its first pool lies.
    ///
    /// # Errors
    /// As [`Control::open`]; [`Error::System`] also when that pool cannot be the first one of this server.
    pub fn open_in(
        folder: &Path,
        names: &[String],
        first: Option<&FirstPool>,
    ) -> Result<Arc<Self>> {
        let parts = Parts::open_in(folder, names, first)?;
        let (attempts, refusals) = (parts.attempts.clone(), parts.refusals.clone());
        let administrator = Administrator::open(&parts.folder, attempts, refusals)?;
        parts.begin()?;
        let commands = Arc::new(Commands::new(&parts));
        let scheduler = Scheduler::new(&parts, commands.clone());
        scheduler.resume()?;
        let sites = Arc::new(Sites::new(&parts));
        let quotas = Arc::new(Quotas::new(&parts, sites.clone()));
        let retention = Arc::new(Retention::new(&parts, sites.clone()));
        let protection = Arc::new(ProtectionView::new(&parts, sites.clone(), retention.clone()));
        let made = Arc::new(MadeRepositories::new(&parts));
        let upkeep = Arc::new(Upkeep::new(&parts, retention.clone()));
        Ok(Arc::new(Self {
            administrator: Arc::new(administrator),
            tokens: Arc::new(Tokens::new(&parts, sites.clone())),
            enrollment: Arc::new(Enrollment::new(&parts)),
            nodes: Arc::new(Nodes::new(&parts)),
            client_options: Arc::new(ClientOptions::new(&parts)),
            domains: Arc::new(Domains::new(&parts)),
            placing: Arc::new(Placing::new(&parts)),
            grants: Arc::new(Grants::new(&parts)),
            protection: protection.clone(),
            reports: Arc::new(Reports::new(&parts)),
            events: Arc::new(Events::new(&parts, protection)?),
            quotas: quotas.clone(),
            pools: Arc::new(Pools::of(&parts)),
            sites,
            commands,
            scheduler: Arc::new(scheduler),
            storage_servers: Arc::new(StorageServers::new(&parts)),
            storage_server_requests: Arc::new(StorageServerRequests::new(&parts, quotas)),
            status: Arc::new(ServerStatus::new(&parts, made.clone(), upkeep.clone())),
            housekeeping: Housekeeping::new(&parts),
            made,
            upkeep,
            retention,
            folder: parts.folder,
            catalog: parts.catalog,
            mark: parts.mark,
            identity: parts.identity,
            repositories: parts.repositories,
            admission: parts.admission,
            activity: parts.activity,
            agents: parts.agents,
            permissions: parts.permissions,
            forget_permissions: parts.forget_permissions,
            limits: parts.limits,
            jobs: parts.jobs,
        }))
    }

    /// The folder of its own files, in which the data plane has its own ones.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// From now on repositories are written through `repositories`, which holds their leases.
    pub fn set_repositories(&self, repositories: Arc<dyn Repositories>) {
        self.repositories.write_through(repositories);
    }

    /// From now on `worker` keeps up the domains on this server, and `mover` moves them.
    pub fn set_upkeep(&self, worker: Arc<dyn DomainUpkeep>, mover: Arc<dyn DomainMover>) {
        self.placing.look_with(worker.clone());
        self.upkeep.work_with(worker, mover);
    }

    /// Others keep this of locked snapshots now: the status says so.
    pub fn set_kept_locks(&self, kept: api::status::KeptLocks) {
        self.status.set_kept_locks(kept);
    }

    /// The directories of the domains of this server; none in a pool that is offline.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub fn domain_folders(&self) -> Result<Vec<PathBuf>> {
        let folder_of = self.pools.folders()?;
        let domains = self.catalog.domains()?;
        let own = domains.iter().filter(|domain| domain.storage.is_none());
        Ok(own.filter_map(folder_of).collect())
    }

    /// The server listens at `listen`: its certificate names this address too, and the file `address` in its folder
    /// says where it is reached.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Pki`].
    pub fn listens_at(&self, listen: SocketAddr) -> Result<()> {
        self.identity.listens_at(listen)
    }

    /// URL under which nodes reach the server.
    pub fn address(&self) -> String {
        self.identity.address()
    }

    /// TLS configuration of the server, for both protocols; its certificate is renewed automatically.
    pub fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.identity.tls()
    }

    /// Creates an enrollment token for `who`; its secret is in the reply and nowhere else.
    ///
    /// # Errors
    /// [`Error::Usage`] when the domain has other keys; [`Error::Catalog`].
    pub fn make_token(&self, who: &str, new: &NewToken) -> Result<IssuedToken> {
        self.tokens.make(who, new)
    }

    /// Enrolls a machine at `from` with a valid token as a node.
    ///
    /// # Errors
    /// [`Error::TooMany`] after too many wrong tokens; [`Error::Catalog`] with a refused token; [`Error::Usage`].
    pub fn enroll(&self, from: IpAddr, request: &EnrollRequest) -> Result<EnrollReply> {
        self.enrollment.enroll(from, request)
    }

    /// Sets after how many seconds ended jobs and commands are deleted.
    pub fn keep_jobs(&self, secs: u64) {
        self.housekeeping.keep_jobs(secs);
    }

    /// Returns when [`Control::housekeeping`] should be called: after a minute, or at once when something must not
    /// wait for it.
    pub async fn housekeeping_is_due(&self) {
        self.housekeeping.is_due().await;
    }

    /// Removes keys again that were removed and came back with an older copy of a domain. Called before nodes are
    /// served, too: they would store for such a key. A failure is logged and retried by [`Control::housekeeping`]. Blocks.
    pub fn remove_returned_keys(&self) {
        self.housekeeping.remove_keys_again();
    }

    /// Does the periodic tasks: renews the server's certificate, removes the keys of expired grants, fails old
    /// commands, deletes old jobs once a day, writes when nodes were last seen. A failure is logged and retried the
    /// next time. Blocks.
    pub fn housekeeping(&self) {
        self.housekeeping.run();
    }

    /// Looks whether each domain still has its repository, and in it the snapshots that are known; and notes
    /// repositories that nodes have made. Called at the start and every few minutes. A failure is logged. Blocks.
    pub fn look_for_repositories(&self) {
        if let Err(error) = self.made.look() {
            tracing::error!(%error, "cannot look for the repositories of the domains");
        }
        if let Err(error) = self.retention.compare_names() {
            tracing::error!(%error, "cannot look for the snapshots of the domains");
        }
    }

    /// Starts the backups and the upkeep that are due. Called every few seconds. A failure is logged and retried the
    /// next time. Blocks.
    pub fn start_what_is_due(&self) {
        self.scheduler.tick();
        match self.scheduler.now_secs() {
            Ok(now_secs) => self.upkeep.tick(now_secs),
            Err(error) => tracing::error!(%error, "cannot start the upkeep that is due"),
        }
    }

    /// Starts the upkeep that is due at another time: for tests, which need not wait for it.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub fn start_upkeep_at(&self, now_secs: i64) -> Result<()> {
        self.upkeep.tick_at(now_secs)
    }

    /// The same at another time: for tests, which need not wait for it.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub fn start_what_is_due_at(&self, now_secs: i64) -> Result<()> {
        self.scheduler.tick_at(clock::Reading::certain(now_secs))
    }

    /// Carries out retention, once a day. Called every few minutes. A failure is logged and retried the next day.
    /// Blocks.
    pub fn expire_if_due(&self) {
        self.retention.expire_if_due();
    }

    /// Carries out retention at another time: for tests, which need not wait for it.
    ///
    /// # Errors
    /// [`Error::Catalog`], [`Error::Object`], [`Error::Usage`] if the rules cannot be made.
    pub fn expire_at(&self, now_secs: i64) -> Result<api::retention::Expiry> {
        self.retention.expire(by(SERVER), &Default::default(), clock::Reading::certain(now_secs))
    }

    /// Writes when nodes were last seen, and up to where the server has seen the catalog. A failure is retried the next
    /// time. Blocks.
    pub fn note_seen(&self) {
        self.activity.write_to(&self.catalog);
        self.mark.note();
    }
}

/// Seconds since 1970.
fn now_secs() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Names `who` as the author of a change made now.
fn by(who: &str) -> By<'_> {
    By { who, now_secs: now_secs() }
}

/// Random bytes of the system.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut bytes[..]).map_err(|_| server_contract::Error::NoRandom)?;
    Ok(bytes)
}
