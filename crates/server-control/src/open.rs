//! Starting a server: everything that is missing is created, so that the first start needs no other step.

use crate::admission::Admission;
use crate::agents::Agents;
use crate::attempt_limiter::AttemptLimiter;
use crate::catalog_location::stored;
use crate::catalog_mark::CatalogMark;
use crate::certificate_issuer::CertificateIssuer;
use crate::domain_keys::DomainKeys;
use crate::domain_locks::DomainLocks;
use crate::domain_repository::DomainRepositories;
use crate::forget::ForgetPermissions;
use crate::issued_keys::IssuedKeys;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::machine_clock::MachineClock;
use crate::node_activity::NodeActivity;
use crate::permissions::Permissions;
use crate::pools::Pools;
use crate::refusal_log::RefusalLog;
use crate::retention::{Gate, SnapshotTable};
use crate::sealing::{MasterKey, open_master};
use crate::server_identity::{ServerIdentity, kept_names};
use crate::storage_servers::StorageServerTable;
use crate::{Result, SERVER, by, now_secs};
use catalog::Catalog;
use server_contract::folder::{FirstPool, Folder};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// What topics share. Each takes what it needs when it is made, and keeps nothing else.
pub(crate) struct Parts {
    pub(crate) folder: Arc<Folder>,
    pub(crate) catalog: Arc<Catalog>,
    /// Whether that is as new as what the server has seen.
    pub(crate) mark: Arc<CatalogMark>,
    pub(crate) issuer: Arc<CertificateIssuer>,
    pub(crate) identity: Arc<ServerIdentity>,
    pub(crate) repositories: Arc<DomainRepositories>,
    pub(crate) keys: Arc<DomainKeys>,
    pub(crate) issued: Arc<IssuedKeys>,
    /// One enrollment or key change at a time in each domain.
    pub(crate) locks: Arc<DomainLocks>,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) forget_permissions: Arc<ForgetPermissions>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) activity: Arc<NodeActivity>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) attempts: Arc<AttemptLimiter>,
    pub(crate) refusals: Arc<RefusalLog>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) table: Arc<StorageServerTable>,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) snapshots: Arc<SnapshotTable>,
    pub(crate) gate: Arc<Gate>,
    /// Wakes the housekeeping task early.
    pub(crate) wake: Arc<Notify>,
}

impl Parts {
    /// Opens the files of a server.
    ///
    /// # Errors
    /// As [`crate::Control::open`].
    #[cfg(test)]
    pub(crate) fn open(folder: &Path, names: &[String]) -> Result<Self> {
        Self::open_in(folder, names, None)
    }

    /// The same, when somebody says where its first pool lies.
    ///
    /// # Errors
    /// As [`crate::Control::open_in`].
    pub(crate) fn open_in(
        folder: &Path,
        names: &[String],
        first: Option<&FirstPool>,
    ) -> Result<Self> {
        let folder = Arc::new(Folder::open_in(folder, first)?);
        let names = kept_names(&folder, names)?;
        let issuer = Arc::new(CertificateIssuer::open(&folder)?);
        let identity = Arc::new(ServerIdentity::open(folder.clone(), issuer.clone(), &names)?);
        let catalog = Arc::new(Catalog::open(&stored(&folder)?)?);
        catalog.serve()?;
        let master = open_master(&folder, &catalog)?;
        Self::over(folder, catalog, issuer, identity, master)
    }

    fn over(
        folder: Arc<Folder>,
        catalog: Arc<Catalog>,
        issuer: Arc<CertificateIssuer>,
        identity: Arc<ServerIdentity>,
        master: MasterKey,
    ) -> Result<Self> {
        let (locks, attempts): (Arc<DomainLocks>, Arc<AttemptLimiter>) = Default::default();
        let (activity, refusals): (Arc<NodeActivity>, Arc<RefusalLog>) = Default::default();
        let wake = Arc::new(Notify::new());
        let mark = Arc::new(CatalogMark::open(folder.clone(), catalog.clone())?);
        let (of_catalog, of_folder) = (|| catalog.clone(), || folder.clone());
        let repositories = DomainRepositories::new(of_catalog(), of_folder(), issuer.clone());
        let repositories = Arc::new(repositories);
        let pools = Pools::new(of_catalog(), of_folder());
        let keys = Arc::new(DomainKeys::new(
            of_catalog(),
            repositories.clone(),
            pools,
            mark.clone(),
            master,
        ));
        let clock = Arc::new(MachineClock::new(catalog.clone()).doubted_by(mark.clone()));
        let issued =
            Arc::new(IssuedKeys::new(of_catalog(), keys.clone(), locks.clone(), clock.clone()));
        let of_nodes = (activity.clone(), refusals.clone());
        let admission = Admission::new(of_catalog(), mark.revocations(), of_nodes, wake.clone());
        let jobs = Arc::new(Jobs::new(of_catalog()));
        let forget_permissions = ForgetPermissions {
            catalog: of_catalog(),
            mark: mark.clone(),
            repositories: repositories.clone(),
            clock: clock.clone(),
            permitted: Arc::default(),
        };
        let permissions = Permissions::new(of_catalog(), mark.clone(), repositories.clone());
        Ok(Self {
            permissions: Arc::new(permissions),
            forget_permissions: Arc::new(forget_permissions),
            admission: Arc::new(admission),
            limits: Arc::new(Limits::open(of_catalog())?),
            table: Arc::new(StorageServerTable::new(jobs.clone())),
            clock,
            snapshots: Arc::new(SnapshotTable::new(catalog.clone())),
            gate: Arc::default(),
            folder,
            catalog,
            mark,
            issuer,
            identity,
            repositories,
            keys,
            issued,
            locks,
            activity,
            agents: Arc::default(),
            attempts,
            refusals,
            jobs,
            wake,
        })
    }
}

impl Parts {
    /// The first entries of a start: jobs that ran when the server ended are lost.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn begin(&self) -> Result<()> {
        self.catalog.requeue_upkeep_jobs()?;
        let lost = self.catalog.lose_running_jobs(now_secs())?;
        let detail = format!("version {}", env!("CARGO_PKG_VERSION"));
        Pools::of(self).compare()?;
        self.catalog.audit_note(by(SERVER), "server.start", "", &detail)?;
        tracing::info!(lost_jobs = lost, "catalog opened");
        Ok(())
    }
}
