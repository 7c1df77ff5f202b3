//! Domains and their snapshots, as an administrator sees them.

use crate::domain_repository::DomainRepositories;
use crate::error::{missing, refused};
use crate::open::Parts;
use crate::pools::{Pools, main};
use crate::sites::Sites;
use crate::{Result, by};
use api::Name;
use api::domains::{Domain, Snapshot, Snapshots};
use catalog::Catalog;
use repository::config::Config;
use repository::snapshots::StoredSnapshot;
use std::sync::Arc;

/// A snapshot in a repository.
pub(crate) struct Received {
    pub(crate) id: String,
    pub(crate) is_partial: bool,
    /// When the backup began, by the clock of the node.
    pub(crate) time_secs: i64,
}

/// The domains.
pub(crate) struct Domains {
    catalog: Arc<Catalog>,
    repositories: Arc<DomainRepositories>,
    sites: Sites,
    pools: Pools,
}

impl Domains {
    /// The domains of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        let (sites, pools) = (Sites::new(parts), Pools::of(parts));
        Self {
            catalog: parts.catalog.clone(),
            repositories: parts.repositories.clone(),
            sites,
            pools,
        }
    }

    /// All domains.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::domains::Domains> {
        let nodes = self.catalog.nodes()?;
        let of = |name: &Name| {
            let writers = nodes.iter().filter(|node| node.domain == *name);
            writers.map(|node| node.name.clone()).collect()
        };
        let domains = self.catalog.domains()?.into_iter().map(|domain| Domain {
            nodes: of(&domain.name),
            name: domain.name,
            keys: domain.keys,
            settings: domain.settings,
            made: domain.made,
            repository: domain.repository,
            pool: domain.storage.is_none().then(|| domain.pool.unwrap_or_else(main)),
            storage: domain.storage,
        });
        let domains = domains.map(|domain| self.with_repository(domain));
        Ok(api::domains::Domains { domains: domains.collect() })
    }

    /// Removes a domain whose repository was deleted for good.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] while nodes have it, the site names it, or its directory is in a pool or may be in one;
    /// [`crate::Error::StorageServer`] when its storage server cannot be asked; [`crate::Error::Catalog`].
    pub(crate) fn remove(&self, who: &str, name: &Name, is_lost: bool) -> Result<()> {
        let domain = self.catalog.domain(name)?.ok_or_else(|| missing("domain", name))?;
        let nodes = self.catalog.nodes()?;
        if let Some(node) = nodes.iter().find(|node| node.domain == *name) {
            let message = format!("the domain '{name}' has the node '{}'", node.name);
            return Err(refused(
                message,
                &format!("Remove it first: icecore server remove {}", node.name),
            ));
        }
        if let Some((kind, object)) = self.sites.stored()?.site.names_domain(name.as_str()) {
            let message = format!("the {kind} '{object}' names the domain '{name}'");
            return Err(refused(
                message,
                &format!("Change it first: icecore server {kind} show {object}"),
            ));
        }
        match &domain.storage {
            Some(storage) => self.lies_not_on(storage, &domain, is_lost)?,
            None => self.pools.lies_nowhere(name)?,
        }
        Ok(self.catalog.remove_domain(by(who), name)?)
    }

    /// The storage server is asked: while it is away, nobody knows. It may have a new machine that does not know all
    /// pools of the one before, so that somebody has to say that what was stored there is lost: without the keys that
    /// this server has, nobody reads it any more.
    fn lies_not_on(
        &self,
        storage: &Name,
        known: &catalog::domains::Domain,
        is_lost: bool,
    ) -> Result<()> {
        let domain = &known.name;
        if self.repositories.by_name(domain)?.config()?.is_none() {
            let was_made = known.repository.is_some() && !is_lost;
            return if was_made { Err(may_lie_elsewhere(storage, domain)) } else { Ok(()) };
        }
        let message =
            format!("the repository of the domain '{domain}' is on the storage server '{storage}'");
        let hint = "If nobody needs its snapshots, delete its directory there first. In which pool it is, on that machine: icecore storage pool list";
        Err(refused(message, hint))
    }

    /// Adds the repository id: a node with its own keys creates its repository without telling the control plane.
    fn with_repository(&self, domain: Domain) -> Domain {
        // A storage server is not asked for a list.
        if domain.repository.is_some() || domain.storage.is_some() {
            return domain;
        }
        let config = self.config(&domain.name);
        let repository = config.map(|config| config.repository.to_string());
        Domain { repository, ..domain }
    }

    fn config(&self, domain: &Name) -> Option<Config> {
        self.repositories.by_name(domain).ok()?.config().ok().flatten()
    }

    /// What the signed heads of the snapshots of a domain say, of those that can be read.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`] when there is no such domain; [`crate::Error::Repository`].
    pub(crate) fn received(&self, domain: &Name) -> Result<Vec<Received>> {
        let stored = self.repositories.by_name(domain)?.snapshots()?;
        let received = |it: StoredSnapshot| Received {
            id: it.name.id.to_string(),
            is_partial: it.head.is_partial(),
            time_secs: it.head.time_secs,
        };
        Ok(stored.into_iter().flatten().map(received).collect())
    }

    /// The clear parts of the snapshots of a domain.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`] when there is no such domain; [`crate::Error::Repository`].
    pub(crate) fn snapshots(&self, domain: &Name) -> Result<Snapshots> {
        let repository = self.repositories.by_name(domain)?;
        let mut found = Snapshots { domain: domain.clone(), snapshots: Vec::new(), damaged: 0 };
        for stored in repository.snapshots()? {
            match stored {
                Ok(stored) => found.snapshots.push(Snapshot {
                    number: stored.name.sequence,
                    id: stored.name.id.to_string(),
                    time: stored.head.time_secs,
                    key: stored.head.writer.to_string(),
                }),
                Err(_) => found.damaged += 1,
            }
        }
        Ok(found)
    }
}

fn may_lie_elsewhere(storage: &Name, domain: &Name) -> crate::Error {
    let message = format!(
        "the storage server '{storage}' does not have the domain '{domain}', and it was there: with the domain its keys would go"
    );
    let hint = format!(
        "Look whether all its pools are there, on that machine: icecore storage pool list. If the data is gone for good: icecore server remove-domain {domain} --lost"
    );
    refused(message, &hint)
}
