//! The control plane: who may connect, what they may do, and the HTTP API. It holds keys and moves no data.
//!
//! [`Control`] joins the catalog, the certificate authority, the sealed secrets and the table of running jobs, and
//! implements [`crate::access_control::AccessControl`]. Read [`open`] for how a server starts, [`enroll`] for how a
//! machine becomes a node, [`admission`] for how it is admitted, [`domains`] for keys, [`http`] for the API.

mod access_control;
pub mod admission;
pub mod attempt_limiter;
pub mod commands;
mod domain_locks;
mod domain_repository;
pub mod domains;
pub mod enroll;
mod error;
pub mod folder;
pub mod forget;
pub mod grants;
pub mod http;
pub mod jobs;
pub mod limits;
pub mod node_activity;
pub mod open;
mod open_key;
pub mod overview;
mod refusal_log;
pub mod remote_domain;
pub mod repositories;
pub mod sealing;
mod setup;
pub mod storage_servers;
pub mod upkeep;

pub use error::{Error, Result};
pub use repositories::{Direct, Repositories};

use crate::data::receipts::Receipts;
use admission::RevocationFlags;
use attempt_limiter::AttemptLimiter;
use catalog::{By, Catalog};
use commands::CommandSignal;
use domain_locks::DomainLocks;
use folder::Folder;
use jobs::JobTable;
use limits::Rule;
use node_activity::NodeActivity;
use parking_lot::{Mutex, RwLock};
use pki::{ServerCertificate, ServerNames};
use refusal_log::RefusalLog;
use sealing::MasterKey;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use storage_servers::StorageServerTable;
use upkeep::Deleting;
use zeroize::Zeroizing;

/// Name of the server itself in the audit log.
const SERVER: &str = "server";

/// The control plane of a server.
pub struct Control {
    folder: Folder,
    catalog: Catalog,
    ca: pki::CertificateAuthority,
    ca_pem: String,
    server_key: Zeroizing<String>,
    certificate: Arc<ServerCertificate>,
    certificate_expires: Mutex<i64>,
    tls: Arc<rustls::ServerConfig>,
    names: RwLock<ServerNames>,
    /// The first configured name.
    told_name: Option<String>,
    address: RwLock<String>,
    /// Whether it listens on loopback only.
    is_local: AtomicBool,
    master: MasterKey,
    admin_token: Zeroizing<String>,
    repositories: RwLock<Arc<dyn Repositories>>,
    revocations: RevocationFlags,
    activity: NodeActivity,
    jobs: JobTable,
    limits: RwLock<Vec<Rule>>,
    attempts: AttemptLimiter,
    command_signal: CommandSignal,
    storage_servers: StorageServerTable,
    deleting: Deleting,
    /// Wakes the upkeep task early.
    soon: tokio::sync::Notify,
    /// One enrollment or key change at a time in each domain.
    key_locks: DomainLocks,
    refusals: RefusalLog,
    started: i64,
}

impl Control {
    /// The issuer of receipts for snapshots on this server.
    ///
    /// # Errors
    /// Those of [`Receipts::open`].
    pub fn receipts(&self) -> std::io::Result<Receipts> {
        Receipts::open(&self.folder.file(""))
    }

    /// Seconds since 1970.
    fn now_secs(&self) -> i64 {
        jiff::Timestamp::now().as_second()
    }

    /// Names `who` as the author of a change made now.
    fn by<'a>(&self, who: &'a str) -> By<'a> {
        By { who, now_secs: self.now_secs() }
    }

    /// TLS configuration of the server, for both protocols; its certificate is renewed automatically.
    pub fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.tls.clone()
    }

    /// From now on repositories are written through `repositories`, which holds their leases.
    pub fn set_repositories(&self, repositories: Arc<dyn Repositories>) {
        *self.repositories.write() = repositories;
    }

    fn repositories(&self) -> Arc<dyn Repositories> {
        self.repositories.read().clone()
    }

    /// Whether `token` is the administrator's; compared in constant time.
    pub fn is_admin(&self, token: &str) -> bool {
        let hash = |text: &str| pki::fingerprint(text.as_bytes());
        let (given, right) = (hash(token), hash(&self.admin_token));
        aws_lc_rs::constant_time::verify_slices_are_equal(&given, &right).is_ok()
    }
}

/// Random bytes of the system.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut bytes[..]).map_err(|_| Error::NoRandom)?;
    Ok(bytes)
}
