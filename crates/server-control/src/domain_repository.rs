//! The repository of a domain, on this server or on a storage server.

use crate::certificate_issuer::CertificateIssuer;
use crate::domain_uses::{DomainUse, DomainUses};
use crate::error::{missing, refused};
use crate::pools::{DomainFolder, Pools, ReadOnly};
use crate::remote_domain::{AwayServers, RemoteDomain};
use crate::repositories::{self, Direct, Slot};
use crate::{Error, Result};
use api::Name;
use catalog::Catalog;
use catalog::domains::Domain;
use catalog::storage_servers::StorageServer;
use clock::Reading;
use ids::{KeyId, SnapshotId};
use parking_lot::RwLock;
use repository::config::Config;
use repository::keys::Keys;
use repository::received::ReceivedSnapshot;
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use server_contract::folder::Folder;
use server_contract::{Expired, Repositories};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

/// The repository of a domain.
pub(crate) enum DomainRepository {
    /// On this server, in this folder.
    Local(PathBuf, Arc<dyn Repositories>, #[expect(dead_code, reason = "held")] Option<DomainUse>),
    /// On a storage server.
    Remote(RemoteDomain),
}

/// Finds the repositories of domains.
pub(crate) struct DomainRepositories {
    catalog: Arc<Catalog>,
    pools: Pools,
    issuer: Arc<CertificateIssuer>,
    /// Writes to those on this server.
    here: RwLock<Arc<dyn Repositories>>,
    /// Storage servers that did not answer lately.
    away: Arc<AwayServers>,
    uses: DomainUses,
}

impl DomainRepositories {
    /// Those on this server are written through the lease of each call.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        folder: Arc<Folder>,
        issuer: Arc<CertificateIssuer>,
    ) -> Self {
        let pools = Pools::new(catalog.clone(), folder);
        let (away, uses) = Default::default();
        Self { catalog, pools, issuer, here: RwLock::new(Arc::new(Direct)), away, uses }
    }

    /// A storage server has started: it is reachable again.
    pub(crate) fn is_back(&self, storage: &Name) {
        self.away.is_back(storage);
    }

    /// From now on repositories on this server are written through `here`, which holds their leases.
    pub(crate) fn write_through(&self, here: Arc<dyn Repositories>) {
        *self.here.write() = here;
    }

    /// The repository of `domain`, where it lies.
    pub(crate) fn of(&self, domain: &Domain) -> Result<DomainRepository> {
        let used = match domain.storage {
            Some(_) => None,
            None => Some(self.uses.begin(&domain.name)?),
        };
        self.used(domain, used)
    }

    /// The same for who has closed the domain.
    pub(crate) fn of_closed(&self, domain: &Domain) -> Result<DomainRepository> {
        self.used(domain, None)
    }

    fn used(&self, domain: &Domain, used: Option<DomainUse>) -> Result<DomainRepository> {
        let here = self.here.read().clone();
        if let Some(storage) = &domain.storage {
            let address = self.address_of_storage_server(storage)?;
            let (names, others) = ((storage, &domain.name), (self.away.clone(), here));
            let remote = RemoteDomain::new(&self.issuer, address, names, others)?;
            return Ok(DomainRepository::Remote(remote.knows(domain.repository.clone())));
        }
        let DomainFolder { folder, read_only } = self.pools.place_of(domain)?;
        let here = match read_only {
            Some(why) => Arc::new(ReadOnly { here, why }),
            None => here,
        };
        Ok(DomainRepository::Local(folder, here, used))
    }

    /// Where a domain lies on this server; for one on a storage server, where it would.
    pub(crate) fn place_of(&self, domain: &Domain) -> Result<DomainFolder> {
        let _used = self.uses.begin(&domain.name)?;
        self.pools.place_of(domain)
    }

    /// Who uses the repositories on this server.
    pub(crate) fn uses(&self) -> &DomainUses {
        &self.uses
    }

    /// The repository of the domain of this name.
    pub(crate) fn by_name(&self, domain: &Name) -> Result<DomainRepository> {
        let known = self.catalog.domain(domain)?.ok_or_else(|| missing("domain", domain))?;
        self.of(&known)
    }

    /// The names of the snapshots of a domain, oldest first. A repository that was made and is not there is no empty
    /// one: what is known of it would be dropped.
    pub(crate) fn all_names(&self, domain: &Name) -> Result<Vec<SnapshotRef>> {
        let known = self.catalog.domain(domain)?.ok_or_else(|| missing("domain", domain))?;
        let names = self.of(&known)?.snapshot_names()?;
        if names.is_empty() && known.repository.is_some() && self.of(&known)?.config()?.is_none() {
            return Err(Error::Gone(domain.to_string()));
        }
        Ok(names)
    }

    /// The storage server, of all but `but`, that has a repository of the domain `name`, which the catalog does not
    /// know; they are asked all at once.
    ///
    /// # Errors
    /// Of one that cannot be asked, if no other one has it; [`Error::Catalog`].
    pub(crate) fn found_on(&self, name: &Name, but: Option<&Name>) -> Result<Option<Name>> {
        let mut others = self.catalog.storage_servers()?;
        others.retain(|other| !other.revoked && Some(&other.name) != but);
        let has_it = |storage: &Name| {
            let address = self.address_of_storage_server(storage)?;
            let used = (self.away.clone(), self.here.read().clone());
            RemoteDomain::new(&self.issuer, address, (storage, name), used)?.config()
        };
        let asked: Vec<_> = std::thread::scope(|scope| {
            let ask = |other: StorageServer| {
                let storage = other.name.clone();
                (other.name, scope.spawn(move || has_it(&storage)))
            };
            let asked: Vec<_> = others.into_iter().map(ask).collect();
            let ended = |thread: ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            asked.into_iter().map(|(storage, thread)| (storage, ended(thread))).collect()
        });
        let mut failed = None;
        for (storage, found) in asked {
            match found {
                Ok(Some(_)) => return Ok(Some(storage)),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Where else than at the place that `domain` names a repository of its name is: in a pool of this server, or on a
    /// storage server that answers. What was copied to another place stays at the old one. Of two pools, both of this
    /// server, [`DomainRepositories::place_of`] tells.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn lies_elsewhere(&self, domain: &Domain) -> Result<Option<String>> {
        if domain.storage.is_some()
            && let Some(pool) = self.pools.found_in(&domain.name, None)?
        {
            return Ok(Some(format!("this server, in the pool {pool}")));
        }
        match self.found_on(&domain.name, domain.storage.as_ref()) {
            Ok(found) => Ok(found.map(|storage| format!("the storage server '{storage}'"))),
            Err(error @ Error::Catalog(_)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, domain = %domain.name, "not every storage server was asked where a domain lies");
                Ok(None)
            }
        }
    }

    /// Host and port at which nodes reach a storage server.
    pub(crate) fn address_of_storage_server(&self, storage: &Name) -> Result<(String, u16)> {
        let known = self.catalog.storage_server(storage)?;
        let known = known.ok_or_else(|| missing("storage server", storage))?;
        if known.revoked {
            let hint = format!("On the server: icecore server token {storage} --storage");
            let message = format!("the storage server '{storage}' is revoked");
            return Err(refused(message, &hint));
        }
        let unknown = || Error::StorageServer {
            storage: storage.to_string(),
            place: "nowhere".to_owned(),
            why: "it has never been started".to_owned(),
        };
        known.names.into_iter().next().zip(known.port).ok_or_else(unknown)
    }
}

impl DomainRepository {
    /// The command that checks the domain of this name where it lies.
    pub(crate) fn check_command(&self, domain: &str) -> String {
        match self {
            Self::Local(..) => format!("icecore server check {domain}"),
            Self::Remote(there) => {
                format!("icecore storage check {domain}, on the machine of {}", there.storage())
            }
        }
    }

    /// Its settings; `None` if there is no repository.
    pub(crate) fn config(&self) -> Result<Option<Config>> {
        match self {
            Self::Local(folder, ..) => Ok(server_contract::config(folder)?),
            Self::Remote(there) => there.config(),
        }
    }

    /// Creates it.
    pub(crate) fn init(&self, config: &Config, keys: &Keys) -> Result<()> {
        match self {
            Self::Local(folder, here, _) => Ok(here.init(folder, *config, keys)?),
            Self::Remote(there) => there.init(config, keys),
        }
    }

    /// Its key list.
    pub(crate) fn key_list(&self) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder, ..) => Ok(repositories::key_list(folder)?),
            Self::Remote(there) => there.key_list(),
        }
    }

    /// Durably replaces its key list by the next one.
    pub(crate) fn put_key_list(&self, list: &[u8]) -> Result<()> {
        match self {
            Self::Local(folder, here, _) => Ok(here.put_key_list(folder, list)?),
            Self::Remote(there) => there.put_key_list(list),
        }
    }

    /// The number of its newest snapshot; 0 if there is none.
    pub(crate) fn last_number(&self) -> Result<u64> {
        let names = match self {
            Self::Local(folder, here, _) => here.snapshots(folder)?,
            Self::Remote(there) => there.snapshot_names()?,
        };
        Ok(names.iter().map(|name| name.sequence).max().unwrap_or_default())
    }

    /// Its key slots.
    pub(crate) fn key_slots(&self) -> Result<Vec<Slot>> {
        match self {
            Self::Local(folder, ..) => Ok(repositories::key_slots(folder)?),
            Self::Remote(there) => there.key_slots(),
        }
    }

    /// Durably adds a key slot.
    pub(crate) fn put_key_slot(&self, id: KeyId, slot: &[u8]) -> Result<()> {
        match self {
            Self::Local(folder, here, _) => Ok(here.put_key_slot(folder, id, slot)?),
            Self::Remote(there) => there.put_key_slot(id, slot),
        }
    }

    /// Durably removes a key slot, if it exists.
    pub(crate) fn remove_key_slot(&self, id: KeyId) -> Result<()> {
        match self {
            Self::Local(folder, here, _) => Ok(here.remove_key_slot(folder, id)?),
            Self::Remote(there) => there.remove_key_slot(id),
        }
    }

    /// The names of its snapshots, oldest first; none if there is no repository yet.
    pub(crate) fn snapshot_names(&self) -> Result<Vec<SnapshotRef>> {
        match self {
            Self::Local(folder, ..) if server_contract::config(folder)?.is_none() => Ok(Vec::new()),
            Self::Local(folder, here, _) => Ok(here.snapshots(folder)?),
            Self::Remote(there) => there.snapshot_names(),
        }
    }

    /// What is known without keys of snapshots, each by itself.
    pub(crate) fn received(
        &self,
        names: &[SnapshotRef],
    ) -> Result<Vec<repository::Result<ReceivedSnapshot>>> {
        match self {
            Self::Local(folder, here, _) => Ok(here.received(folder, names)?),
            Self::Remote(there) => there.received(names),
        }
    }

    /// Lets snapshots expire.
    pub(crate) fn expire(&self, ids: &[SnapshotId], now: Reading) -> Result<Expired> {
        match self {
            Self::Local(folder, here, _) => Ok(here.expire(folder, ids, now)?),
            Self::Remote(there) => there.expire(ids, now),
        }
    }

    /// Its snapshots, oldest first; for one that cannot be read only its name.
    pub(crate) fn snapshots(
        &self,
    ) -> Result<Vec<std::result::Result<StoredSnapshot, SnapshotRef>>> {
        let (folder, here) = match self {
            Self::Local(folder, here, _) => (folder, here),
            Self::Remote(there) => return there.snapshots(),
        };
        if server_contract::config(folder)?.is_none() {
            return Ok(Vec::new());
        }
        let (mut found, head) = (Vec::new(), repositories::heads(folder)?);
        for name in here.snapshots(folder)? {
            match head(name) {
                Ok(stored) => found.push(Ok(stored)),
                // Forgotten since the list was made.
                Err(repository::Error::SnapshotMissing(_)) => {}
                Err(_) => found.push(Err(name)),
            }
        }
        Ok(found)
    }
}
