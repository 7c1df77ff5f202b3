//! The server as an administrator sees it: status and audit log.

use crate::catalog_mark::CatalogMark;
use crate::certificate_issuer::CertificateIssuer;
use crate::jobs::Jobs;
use crate::machine_clock::MachineClock;
use crate::made_repositories::MadeRepositories;
use crate::open::Parts;
use crate::pools::Pools;
use crate::server_identity::ServerIdentity;
use crate::storage_servers::StorageServerTable;
use crate::{Result, now_secs};
use api::status::{Audit, KeptLocks, Status};
use catalog::Catalog;
use clock::Doubt;
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use server_contract::folder::Folder;
use std::sync::Arc;

const AUDIT_DEFAULT: u32 = 100;
const AUDIT_MAX: u32 = 1000;
const FAULTS_MAX: usize = 100;
/// With less room for its own files than this, 64 MiB, a server has an alarm.
const ROOM_KEPT_BYTES: u64 = 64 << 20;

/// The status of the server.
pub(crate) struct ServerStatus {
    catalog: Arc<Catalog>,
    mark: Arc<CatalogMark>,
    clock: Arc<MachineClock>,
    folder: Arc<Folder>,
    issuer: Arc<CertificateIssuer>,
    identity: Arc<ServerIdentity>,
    jobs: Arc<Jobs>,
    storage_servers: Arc<StorageServerTable>,
    pools: Pools,
    made: Arc<MadeRepositories>,
    started: i64,
    kept_locks: Mutex<Option<KeptLocks>>,
}

impl ServerStatus {
    /// The status of a server that starts now.
    pub(crate) fn new(parts: &Parts, made: Arc<MadeRepositories>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            mark: parts.mark.clone(),
            clock: parts.clock.clone(),
            folder: parts.folder.clone(),
            issuer: parts.issuer.clone(),
            identity: parts.identity.clone(),
            jobs: parts.jobs.clone(),
            storage_servers: parts.table.clone(),
            pools: Pools::of(parts),
            made,
            started: now_secs(),
            kept_locks: Mutex::default(),
        }
    }

    /// What others keep of locked snapshots now.
    pub(crate) fn set_kept_locks(&self, kept: KeptLocks) {
        *self.kept_locks.lock() = Some(kept);
    }

    /// The status now.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn now(&self) -> Result<Status> {
        let (nodes, storage_servers) = (self.catalog.nodes()?, self.catalog.storage_servers()?);
        let [free_bytes, total_bytes] = self.folder.room(None);
        Ok(Status {
            free_bytes,
            total_bytes,
            storage_servers: storage_servers.iter().filter(|storage| !storage.revoked).count()
                as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            address: self.identity.address(),
            nodes: nodes.iter().filter(|node| !node.revoked).count() as u64,
            domains: self.catalog.domains()?.len() as u64,
            running: self.jobs.count() as u64,
            alarms: (nodes.iter().filter(|node| node.alarm.is_some()).count()
                + storage_servers.iter().filter(|storage| self.is_alarming(storage)).count())
                as u64,
            ca_fingerprint: HEXLOWER.encode(&self.issuer.ca().fingerprint()),
            certificate_expires: self.identity.expires(),
            catalog_faults: self.catalog_faults(),
            clock_doubt: self.clock_doubt(),
            pool_faults: self.pools.faults()?,
            domain_faults: self.domain_faults()?,
            kept_locks: self.kept_locks.lock().clone(),
            storage_kept_locks: self.storage_servers.all_kept_locks(),
        })
    }

    fn domain_faults(&self) -> Result<Vec<String>> {
        let faults = self.pools.domain_faults()?.into_iter();
        Ok(faults.chain(self.made.faults()).take(FAULTS_MAX).collect())
    }

    /// That changes may be missing is told with the catalog.
    fn clock_doubt(&self) -> Option<String> {
        let doubt = self.clock.read().ok()?.doubt?;
        (doubt != Doubt::Catalog).then(|| doubt.to_string())
    }

    /// The cause first: a full disk is why nothing is stored.
    fn catalog_faults(&self) -> Vec<String> {
        let faults = self.mark.faults().into_iter();
        faults.chain(self.short_of_room()).chain(self.not_written()).collect()
    }

    /// What cannot be written cannot be revoked either, and nothing that runs is recorded.
    fn not_written(&self) -> Option<String> {
        let why = self.catalog.write_fault()?;
        Some(format!(
            "the last change of the catalog was not stored, and perhaps none can be: {why}"
        ))
    }

    /// Without room for the catalog and the server's other files nothing is stored, however large the pools are.
    fn short_of_room(&self) -> Option<String> {
        let free = self.folder.own_free_bytes().filter(|free| *free < ROOM_KEPT_BYTES)?;
        let folder = self.folder.file("");
        Some(format!(
            "the file system of the server's data directory has only {} MiB free: make room there, or nothing can be stored: df {}",
            free >> 20,
            folder.display()
        ))
    }

    /// Whether a storage server was stopped, cannot use one of its pools, or has another time.
    fn is_alarming(&self, storage: &catalog::storage_servers::StorageServer) -> bool {
        let has_faults = || {
            !self.storage_servers.pool_faults(&storage.name).is_empty()
                || self.storage_servers.clock_ahead_secs(&storage.name).is_some()
        };
        storage.alarm.is_some() || (!storage.revoked && has_faults())
    }

    /// The audit log, and whether its hash chain is intact.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn audit(&self, before: Option<u64>, limit: Option<u32>) -> Result<Audit> {
        let limit = limit.unwrap_or(AUDIT_DEFAULT).clamp(1, AUDIT_MAX);
        let entries = self.catalog.audit_entries(before, limit)?;
        let verdict = self.catalog.audit_verify()?;
        let (total, broken_at, head) = (verdict.total, verdict.broken_at, verdict.head);
        Ok(Audit { entries, total, broken_at, head })
    }
}
