//! What an admitted storage server may ask, and only about domains that it stores.

use super::table::{Entered, StorageServerTable};
use crate::Result;
use crate::admission::Admission;
use crate::domain_repository::DomainRepositories;
use crate::error::parse_name;
use crate::forget::ForgetPermissions;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::node_activity::NodeActivity;
use crate::open::Parts;
use crate::permissions::Permissions;
use crate::quotas::Quotas;
use api::Name;
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, ForgetRequest, LabelsRequest, NodeConnection,
};
use catalog::Catalog;
use ids::KeyId;
use server_contract::access_control::JobNo;
use server_contract::budgets::{Budgets, NODE_JOBS, NODE_JOBS_IN};
use std::sync::Arc;
use std::time::Duration;

/// Replies to storage servers.
pub(crate) struct StorageServerRequests {
    pub(super) catalog: Arc<Catalog>,
    pub(super) activity: Arc<NodeActivity>,
    pub(super) admission: Arc<Admission>,
    pub(super) permissions: Arc<Permissions>,
    pub(super) forget_permissions: Arc<ForgetPermissions>,
    pub(super) limits: Arc<Limits>,
    pub(super) jobs: Arc<Jobs>,
    pub(super) table: Arc<StorageServerTable>,
    pub(super) repositories: Arc<DomainRepositories>,
    pub(super) quotas: Arc<Quotas>,
    /// Jobs that storage servers say nodes have begun: each is a row of the catalog.
    pub(super) begun: Budgets,
    /// Reads from copies, each an entry of the audit log.
    pub(super) copy_reads: Budgets,
}

/// A storage server may tell of so many reads from copies at once.
const COPY_READS: u64 = 1_000;
/// In this time all of that comes back.
const COPY_READS_IN: Duration = Duration::from_secs(3_600);

impl StorageServerRequests {
    /// By what this control server knows.
    pub(crate) fn new(parts: &Parts, quotas: Arc<Quotas>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            activity: parts.activity.clone(),
            admission: parts.admission.clone(),
            permissions: parts.permissions.clone(),
            forget_permissions: parts.forget_permissions.clone(),
            limits: parts.limits.clone(),
            jobs: parts.jobs.clone(),
            table: parts.table.clone(),
            repositories: parts.repositories.clone(),
            quotas,
            begun: Budgets::new(NODE_JOBS, NODE_JOBS_IN),
            copy_reads: Budgets::new(COPY_READS, COPY_READS_IN),
        }
    }

    /// A heartbeat of this storage server is being taken until what is returned is dropped; `None` if too many are.
    pub(crate) fn enter(&self, storage: &Name) -> Option<Entered> {
        self.table.enter(storage)
    }

    /// Whether a node may connect to a storage server.
    ///
    /// # Errors
    /// [`crate::Error::Refused`].
    pub(crate) fn admit(&self, asked: &NodeConnection) -> Result<AdmitReply> {
        self.admission.known_node(&asked.serial, &asked.node, Some(asked.address))?;
        Ok(AdmitReply { limits: self.limits.of(asked.node.as_str(), asked.address) })
    }

    /// What a node may do with a domain on `storage`.
    ///
    /// # Errors
    /// [`crate::Error::Refused`], also when the domain does not lie there.
    pub(crate) fn access(&self, storage: &Name, asked: &AccessRequest) -> Result<AccessReply> {
        let node = self.admission.known_node(&asked.serial, &asked.node, None)?;
        let access = self.permissions.access_of(&node, asked.domain.as_ref().map(Name::as_str))?;
        let domain = parse_name(&access.domain)?;
        self.permissions.must_lie_on(storage, &domain)?;
        let (may_write, may_read, may_init) = (access.may_write, access.may_read, access.may_init);
        let key = access.key.map(|key| KeyId(key).to_string());
        let settings = access.settings.unwrap_or_default();
        let copies = access.copies;
        Ok(AccessReply { domain, may_write, may_read, may_init, key, copies, settings })
    }

    /// The job that a storage server names, if a heartbeat of the same run has told of it.
    pub(crate) fn job_of(&self, storage: &Name, asked: &LabelsRequest) -> Option<JobNo> {
        let state = self.table.of(storage);
        let state = state.lock();
        (state.run == asked.run).then(|| state.jobs.get(&asked.number).map(|job| job.id)).flatten()
    }

    /// Whether the node that a storage server names may forget these snapshots. If so, the audit log has an entry
    /// before this returns.
    ///
    /// # Errors
    /// [`crate::Error::Refused`], also when the domain does not lie there.
    pub(crate) fn forget(&self, storage: &Name, asked: &ForgetRequest) -> Result<()> {
        self.admission.known_node(&asked.serial, &asked.node, None)?;
        self.permissions.must_lie_on(storage, &asked.domain)?;
        self.forget_permissions.note(asked)
    }
}
