//! Retention, carried out: what becomes of each snapshot, the trash, and what expires.
//!
//! The rules are those of the crate `retention`, made of the whole site or not at all. A domain is dealt with by
//! itself, under the [`Gate`]: its repository is read, its snapshots are judged by the site as it is then, what changes
//! is noted in the catalog, and what is out of the trash is deleted. Each step can be repeated: who is killed between
//! two of them has kept something for a day longer.
//!
//! In doubt nothing goes: a clock that is not believed, a site that is not whole, a repository that cannot be read, a
//! receipt that nobody signed.

mod expire;
mod explain;
pub(crate) mod facts;
mod gate;
mod kept;
mod labels;
mod named;
mod repositories;
mod shown;
mod simulate;
mod table;

pub(crate) use gate::Gate;
pub(crate) use kept::kept;
pub(crate) use repositories::{SnapshotStore, known};
pub(crate) use shown::effects;
pub(crate) use table::SnapshotTable;

use crate::catalog_mark::CatalogMark;
use crate::jobs::Jobs;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::sites::{Sites, Stored, zone};
use crate::{Error, Result};
use ::retention::Rules;
use api::Name;
use api::retention::ConfirmedClock;
use api::sites::{Mistake, SiteChange};
use api::status::ConfirmedCatalog;
use catalog::Catalog;
use clock::Reading;
use labels::PromisedLocks;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// What becomes of the snapshots of this server.
pub(crate) struct Retention {
    catalog: Arc<Catalog>,
    sites: Arc<Sites>,
    jobs: Arc<Jobs>,
    clock: Arc<MachineClock>,
    table: Arc<SnapshotTable>,
    gate: Arc<Gate>,
    store: Arc<dyn SnapshotStore>,
    promised: PromisedLocks,
    /// The rules of a site, made once: a thousand domains ask for them one after the other.
    rules: Mutex<Option<(Arc<Stored>, Arc<Rules>)>>,
    /// Domains whose repositories have been read since they may have changed.
    read: Mutex<BTreeSet<Name>>,
    /// When all were to be read again, and when expiry last ran by itself, in seconds since 1970.
    read_at: AtomicI64,
    expired_at: AtomicI64,
}

impl Retention {
    /// Of this server.
    pub(crate) fn new(parts: &Parts, sites: Arc<Sites>) -> Self {
        Self::over(parts, sites, parts.repositories.clone())
    }

    fn over(parts: &Parts, sites: Arc<Sites>, store: Arc<dyn SnapshotStore>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            sites,
            jobs: parts.jobs.clone(),
            clock: parts.clock.clone(),
            table: parts.snapshots.clone(),
            gate: parts.gate.clone(),
            store,
            promised: PromisedLocks::default(),
            rules: Mutex::default(),
            read: Mutex::default(),
            read_at: AtomicI64::new(0),
            expired_at: AtomicI64::new(0),
        }
    }

    /// Changes the site. What that does to snapshots is told of those that there are now.
    ///
    /// # Errors
    /// Those of `change`; [`Error::Catalog`].
    pub(crate) fn change_site(
        &self,
        change: impl FnOnce(&Sites) -> Result<SiteChange>,
    ) -> Result<SiteChange> {
        let unread = self.catch_up(None)?;
        let mut done = change(&self.sites)?;
        let decides = |kind: &str| matches!(kind, "retention" | "policy" | "hold");
        if done.changes.iter().any(|change| decides(&change.kind)) {
            done.warnings.extend(unread.into_iter().map(|one| Mistake {
                message: format!(
                    "the domain {} cannot be read, so it may have other snapshots than those listed: {}",
                    one.domain, one.error
                ),
                ..Mistake::default()
            }));
        }
        Ok(done)
    }

    /// An administrator says that the clock of the machine is right.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn confirm_clock(&self, who: &str) -> Result<ConfirmedClock> {
        let Reading { secs, doubt } = self.clock.confirm(crate::by(who))?;
        Ok(ConfirmedClock { time: secs, doubt: doubt.map(|doubt| doubt.to_string()) })
    }

    /// An administrator has looked at an older catalog: it counts as it is. What it has in the trash may have been
    /// brought back since, and lies there for a whole time from now on.
    ///
    /// # Errors
    /// As [`CatalogMark::confirm`].
    pub(crate) fn confirm_catalog(
        &self,
        mark: &CatalogMark,
        who: &str,
    ) -> Result<ConfirmedCatalog> {
        let now_secs = self.clock.read()?.secs;
        // Whoever lets something expire reads the times first.
        let _alone = self.gate.enter();
        let confirmed = mark.confirm(crate::by(who), now_secs);
        self.table.forget();
        confirmed
    }

    /// The names of all domains, or the one that is wanted.
    ///
    /// # Errors
    /// [`Error::Catalog`], also when there is no such domain.
    fn domains(&self, wanted: Option<&str>) -> Result<Vec<Name>> {
        let all = self.catalog.domains()?.into_iter().map(|domain| domain.name);
        let Some(wanted) = wanted else { return Ok(all.collect()) };
        let found: Vec<_> = all.filter(|name| name.as_str() == wanted).collect();
        if found.is_empty() {
            return Err(crate::error::missing("domain", &wanted).into());
        }
        Ok(found)
    }

    /// The site with its rules.
    ///
    /// # Errors
    /// [`Error::Object`], [`Error::Usage`] if they cannot be made: then nothing may expire.
    fn rules(&self) -> Result<(Arc<Stored>, Arc<Rules>)> {
        let stored = self.sites.stored()?;
        let mut made = self.rules.lock();
        if let Some((of, rules)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &stored)) {
            return Ok((of.clone(), rules.clone()));
        }
        let rules = stored.site.rules(&zone).map_err(|error| Error::Usage(error.to_string()))?;
        Ok(made.insert((stored, Arc::new(rules))).clone())
    }
}

#[cfg(test)]
mod tests;
