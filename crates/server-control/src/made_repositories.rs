//! Which domains have a repository. Once it was seen it is recorded, so that one that is lost is missed, and no other
//! one takes its name. Nodes with their own keys make it themselves, and a storage server tells nobody what it has.

use crate::Result;
use crate::domain_repository::DomainRepositories;
use crate::open::Parts;
use api::Name;
use api::enroll::KeyMode;
use catalog::Catalog;
use catalog::domains::Domain;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Looks for the repositories of all domains.
pub(crate) struct MadeRepositories {
    catalog: Arc<Catalog>,
    repositories: Arc<DomainRepositories>,
    /// Domains on storage servers that said that they have none any more, and what is told of each.
    lost: Mutex<BTreeMap<Name, String>>,
}

impl MadeRepositories {
    /// Of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        let (catalog, repositories) = (parts.catalog.clone(), parts.repositories.clone());
        Self { catalog, repositories, lost: Mutex::default() }
    }

    /// What is known to be lost on storage servers, for people.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.lost.lock().values().cloned().collect()
    }

    /// Looks at all domains. Of a storage server that does not answer nothing is learned. Blocks.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn look(&self) -> Result<()> {
        let domains = self.catalog.domains()?;
        self.lost.lock().retain(|name, _| domains.iter().any(|domain| domain.name == *name));
        domains.iter().try_for_each(|domain| self.look_at(domain))
    }

    fn look_at(&self, domain: &Domain) -> Result<()> {
        let known = domain.repository.is_some();
        // The pools say by themselves what is not in them.
        if known && domain.storage.is_none() {
            self.lost.lock().remove(&domain.name);
            return Ok(());
        }
        match self.repositories.of(domain).and_then(|repository| repository.config()) {
            Ok(Some(config)) => {
                self.lost.lock().remove(&domain.name);
                // Of the others the server itself makes it, and notes its key with it.
                if !known && domain.keys == KeyMode::Client {
                    let id = config.repository.to_string();
                    self.catalog.set_domain_repository(&domain.name, &id, None)?;
                }
            }
            Ok(None) if known => self.is_lost(domain),
            // Nobody has made it yet, or nobody knows now.
            Ok(None) | Err(_) => {}
        }
        Ok(())
    }

    fn is_lost(&self, domain: &Domain) {
        let Some(storage) = &domain.storage else { return };
        let name = &domain.name;
        let what = format!(
            "the storage server '{storage}' does not have the repository of the domain '{name}' any more. Look whether all its pools are there, on that machine: icecore storage pool list. If the data is gone for good: icecore server remove-domain {name} --lost"
        );
        if self.lost.lock().insert(name.clone(), what.clone()).is_none() {
            tracing::error!(domain = %name, "ALARM: {what}");
        }
    }
}
