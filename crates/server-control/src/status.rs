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
use crate::upkeep::Upkeep;
use crate::{Result, now_secs};
use api::status::{Audit, KeptLocks, Status};
use catalog::Catalog;
use catalog::storage_servers::StorageServer;
use clock::Doubt;
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use server_contract::folder::Folder;
use std::sync::Arc;
use std::time::{Duration, Instant};

const AUDIT_DEFAULT: u32 = 100;
const AUDIT_MAX: u32 = 1000;
const FAULTS_MAX: usize = 100;
/// With less room for its own files than this, 64 MiB, a server has an alarm.
const ROOM_KEPT_BYTES: u64 = 64 << 20;

/// A storage server that is away for so long has an alarm: it is no restart any more.
const AWAY_TOLD_AFTER: Duration = Duration::from_secs(60);

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
    upkeep: Arc<Upkeep>,
    started: i64,
    since: Instant,
    kept_locks: Mutex<Option<KeptLocks>>,
}

impl ServerStatus {
    /// The status of a server that starts now.
    pub(crate) fn new(parts: &Parts, made: Arc<MadeRepositories>, upkeep: Arc<Upkeep>) -> Self {
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
            upkeep,
            started: now_secs(),
            since: Instant::now(),
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
            catalog_faults: self.server_faults(&storage_servers)?,
            clock_doubt: self.clock_doubt(),
            pool_faults: self.pools.faults()?,
            domain_faults: self.domain_faults()?,
            kept_locks: self.kept_locks.lock().clone(),
            storage_kept_locks: self.storage_servers.all_kept_locks(),
        })
    }

    fn domain_faults(&self) -> Result<Vec<String>> {
        let faults = self.pools.domain_faults()?.into_iter();
        let made = self.made.faults().into_iter().map(|why| crate::pools::lost(&why));
        Ok(faults.chain(made).take(FAULTS_MAX).collect())
    }

    /// That changes may be missing is told with the catalog.
    fn clock_doubt(&self) -> Option<String> {
        let doubt = self.clock.read().ok()?.doubt?;
        (doubt != Doubt::Catalog).then(|| doubt.to_string())
    }

    /// The catalog first: what else is told comes from it.
    fn server_faults(&self, storage_servers: &[StorageServer]) -> Result<Vec<String>> {
        let faults = self.catalog_faults().into_iter();
        let faults = faults.chain(storage_servers.iter().filter_map(cut_off));
        Ok(faults.chain(self.away(storage_servers)).chain(self.upkeep_fails()?).collect())
    }

    /// Storage servers that have been away for longer than a restart takes.
    fn away(&self, storage_servers: &[StorageServer]) -> Option<String> {
        let admitted = || storage_servers.iter().filter(|storage| !storage.revoked);
        let is_away = |storage: &&StorageServer| {
            let heard = self.storage_servers.heard(&storage.name).unwrap_or(self.since);
            heard.elapsed() >= AWAY_TOLD_AFTER
        };
        let (away, all) = (admitted().filter(is_away).count(), admitted().count());
        let verb = if away == 1 { "is" } else { "are" };
        let noun = if all == 1 { "server" } else { "servers" };
        (away > 0).then(|| {
            format!("{away} of {all} storage {noun} {verb} away: icecore server storage-servers")
        })
    }

    fn upkeep_fails(&self) -> Result<Option<String>> {
        Ok(match self.upkeep.alarms()? {
            0 => None,
            1 => Some("upkeep has 1 alarm: icecore server upkeep status".to_owned()),
            more => Some(format!("upkeep has {more} alarms: icecore server upkeep status")),
        })
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

    /// Whether a storage server was stopped or is revoked while it has domains, cannot use one of its pools, or has
    /// another time.
    fn is_alarming(&self, storage: &StorageServer) -> bool {
        let has_faults = || {
            !self.storage_servers.pool_faults(&storage.name).is_empty()
                || self.storage_servers.clock_ahead_secs(&storage.name).is_some()
        };
        let is_missed = if storage.revoked { storage.domains > 0 } else { has_faults() };
        storage.alarm.is_some() || is_missed
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

/// The alarm of a revoked storage server that has domains: nobody reaches them.
fn cut_off(storage: &StorageServer) -> Option<String> {
    let StorageServer { name, domains, revoked, .. } = storage;
    let domains = match domains {
        0 => return None,
        1 => "1 domain".to_owned(),
        more => format!("{more} domains"),
    };
    revoked.then(|| {
        format!(
            "the storage server '{name}' is revoked and has {domains}: nothing of that can be restored or backed up. Enroll it again: icecore server token {name} --storage; or bring each domain back from its copy on another one: icecore server place-domain DOMAIN --on STORAGE --lost"
        )
    })
}

#[cfg(test)]
mod tests;
