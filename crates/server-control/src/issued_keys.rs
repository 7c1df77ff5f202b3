//! Keys that were issued to nodes, and are removed from the repositories of their domains when the nodes or grants are
//! gone.

use crate::domain_keys::DomainKeys;
use crate::domain_locks::DomainLocks;
use crate::machine_clock::MachineClock;
use crate::{Result, SERVER, by};
use api::Name;
use catalog::Catalog;
use catalog::domains::Domain;
use catalog::grants::GrantedKey;
use ids::KeyId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The issued keys.
pub(crate) struct IssuedKeys {
    catalog: Arc<Catalog>,
    keys: Arc<DomainKeys>,
    locks: Arc<DomainLocks>,
    clock: Arc<MachineClock>,
}

impl IssuedKeys {
    /// Those that `catalog` names. Slots of a domain are removed under its lock.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        keys: Arc<DomainKeys>,
        locks: Arc<DomainLocks>,
        clock: Arc<MachineClock>,
    ) -> Self {
        Self { catalog, keys, locks, clock }
    }

    /// Keys of grants that were withdrawn, or have ended. While the clock is in doubt none has ended: nobody reads by
    /// one, but a key that is removed is gone for good.
    fn stale(&self) -> catalog::Result<Vec<GrantedKey>> {
        let now = self.clock.read()?;
        self.catalog.stale_keys(now.doubt.map_or(now.secs, |_| 0))
    }

    /// Removes keys of grants, all of one domain. The caller holds its lock.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`], and those of the repository.
    pub(crate) fn remove_granted(&self, keys: Vec<GrantedKey>) -> Result<()> {
        self.remove_together(keys, |key| self.catalog.remove_granted_key(by(SERVER), key))
    }

    /// Removes the keys of former nodes that `which` selects. A failure is retried by the next housekeeping.
    pub(crate) fn remove_old(&self, which: impl Fn(&Name) -> bool) {
        let old = || {
            let mut old = self.catalog.old_keys()?;
            old.retain(|old| which(&old.node));
            Ok(old)
        };
        self.remove_in_turn(old, |key| self.catalog.remove_old_key(by(SERVER), key));
    }

    /// Removes the keys of expired grants and of former nodes. A failure is retried by the next housekeeping.
    pub(crate) fn remove_stale(&self) {
        self.remove_old(|_| true);
        let stale = || self.stale();
        self.remove_in_turn(stale, |key| self.catalog.remove_granted_key(by(SERVER), key));
    }

    /// Removes again what was removed and is in use nevertheless: its domain came back from an older copy. A failure is
    /// retried by the next call.
    pub(crate) fn remove_again(&self) {
        let mut domains: BTreeMap<Name, Vec<GrantedKey>> = BTreeMap::new();
        let removed = self.catalog.removed_keys().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot list the keys that were removed");
            Vec::new()
        });
        removed
            .into_iter()
            .for_each(|key| domains.entry(key.domain.clone()).or_default().push(key));
        for (name, keys) in domains {
            let again = self.locks.with(&name, || self.remove_if_back(&name, &keys));
            if let Err(error) = again {
                tracing::warn!(%error, domain = %name, "cannot look for keys that were removed; trying again later");
            }
        }
    }

    fn remove_if_back(&self, name: &Name, keys: &[GrantedKey]) -> Result<()> {
        let Some(domain) = self.catalog.domain(name)? else { return Ok(()) };
        let ids: Vec<_> = keys.iter().filter_map(id_of).collect();
        let live = self.keys.live_of(&domain, &ids)?;
        if live.is_empty() {
            return Ok(());
        }
        tracing::warn!(domain = %name, keys = live.len(), "keys that were removed are in use again, as in an older copy; they are removed again");
        self.keys.remove_slots(&domain, &live)?;
        let back = |key: &&GrantedKey| id_of(key).is_some_and(|id| live.contains(&id));
        let back: Vec<_> = keys.iter().filter(back).cloned().collect();
        Ok(self.catalog.note_removed_again(by(SERVER), &back)?)
    }

    /// Removes from a repository that came from elsewhere, at the place that `domain` names, what may not open it any
    /// more: keys that were removed, and those that are to be. The caller holds its lock, and lets nobody write there
    /// before: what is stored meanwhile, the owner of such a key could read.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`], and those of the repository.
    pub(crate) fn remove_at(&self, domain: &Domain) -> Result<()> {
        if domain.sealed.is_none() {
            return Ok(()); // Its keys are those of its nodes, and nobody here can end one.
        }
        let of_it = |keys: Vec<GrantedKey>| keys.into_iter().filter(|it| it.domain == domain.name);
        let removed: Vec<_> = of_it(self.catalog.removed_keys()?).collect();
        let due = [self.catalog.old_keys()?, self.stale()?].concat();
        let due: Vec<_> = of_it(due).collect();
        let ids: Vec<_> = removed.iter().chain(&due).filter_map(id_of).collect();
        let live = self.keys.live_of(domain, &ids)?;
        if live.is_empty() {
            return Ok(());
        }
        tracing::warn!(domain = %domain.name, keys = live.len(), "the copy has keys in use that were removed; they are removed from it");
        self.keys.remove_slots(domain, &live)?;
        // Those that are still to be removed are noted by the next housekeeping.
        let mut back = removed;
        back.retain(|key| id_of(key).is_some_and(|id| live.contains(&id)));
        Ok(self.catalog.note_removed_again(by(SERVER), &back)?)
    }

    /// Removes the keys that `list` names, all of a domain together and under its lock, and calls `note` for each
    /// removed one. The list is read again under the lock: while another domain had its turn, a grant may have been
    /// prolonged, and its key be in use again.
    fn remove_in_turn(
        &self,
        list: impl Fn() -> catalog::Result<Vec<GrantedKey>>,
        note: impl Fn(&GrantedKey) -> catalog::Result<()>,
    ) {
        let listed = list().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot list the keys of former nodes and grants");
            Vec::new()
        });
        let domains: BTreeSet<_> = listed.into_iter().map(|key| key.domain).collect();
        for domain in domains {
            let removed = self.locks.with(&domain, || {
                let mut keys = list()?;
                keys.retain(|key| key.domain == domain);
                self.remove_together(keys, &note)
            });
            if let Err(error) = removed {
                tracing::warn!(%error, %domain, "cannot remove keys now; trying again later");
            }
        }
    }

    /// Removes keys of one domain: one key epoch begins for all of them.
    fn remove_together(
        &self,
        keys: Vec<GrantedKey>,
        note: impl Fn(&GrantedKey) -> catalog::Result<()>,
    ) -> Result<()> {
        let Some(first) = keys.first() else { return Ok(()) };
        let ids: Vec<_> = keys.iter().filter_map(|key| KeyId::from_hex(&key.key)).collect();
        if let Some(domain) = self.catalog.domain(&first.domain)? {
            self.keys.remove_slots(&domain, &ids)?;
        }
        Ok(keys.iter().try_for_each(note)?)
    }
}

fn id_of(key: &GrantedKey) -> Option<KeyId> {
    KeyId::from_hex(&key.key)
}

#[cfg(test)]
mod tests;
