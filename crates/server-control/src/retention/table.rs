//! What the catalog knows of snapshots, in memory: judging all of them is asked for with each change of the site.

use crate::Result;
use ::retention::Facts;
use catalog::snapshots::{DeletedSource, TrashChange};
use catalog::{By, Catalog};
use ids::SnapshotId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The snapshots of all domains. Only this server changes them, and only by this table.
pub(crate) struct SnapshotTable {
    catalog: Arc<Catalog>,
    read: Mutex<Option<Arc<Domains>>>,
}

/// The facts of each domain. Policy and class are those of the receipts.
pub(crate) type Domains = BTreeMap<String, Arc<Vec<Facts>>>;

impl SnapshotTable {
    /// Those of `catalog`.
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog, read: Mutex::default() }
    }

    /// The snapshots of all domains.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn all(&self) -> Result<Arc<Domains>> {
        let mut read = self.read.lock();
        if let Some(known) = &*read {
            return Ok(known.clone());
        }
        let mut domains: BTreeMap<String, Vec<Facts>> = BTreeMap::new();
        let deleted = self.catalog.deleted_sources()?;
        for known in self.catalog.snapshots()? {
            domains.entry(known.domain).or_default().push(with_deletion(known.facts, &deleted));
        }
        let domains = domains.into_iter().map(|(domain, facts)| (domain, Arc::new(facts)));
        Ok(read.insert(Arc::new(domains.collect())).clone())
    }

    /// Those of a domain.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn of(&self, domain: &str) -> Result<Arc<Vec<Facts>>> {
        Ok(self.all()?.get(domain).cloned().unwrap_or_default())
    }

    /// Notes what a repository has: see [`Catalog::note_snapshots`].
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn note(&self, domain: &str, found: &[Facts], gone: &[SnapshotId]) -> Result<()> {
        if found.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let noted = self.catalog.note_snapshots(domain, found, gone);
        self.read_again(domain)?;
        Ok(noted?)
    }

    /// Changes the trash: see [`Catalog::change_trash`].
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn change_trash(
        &self,
        by: By<'_>,
        domain: &str,
        changes: &[TrashChange],
    ) -> Result<Vec<SnapshotId>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let changed = self.catalog.change_trash(by, domain, changes);
        self.read_again(domain)?;
        Ok(changed?)
    }

    /// Everything is read again: what is known of sources has changed.
    pub(crate) fn forget(&self) {
        *self.read.lock() = None;
    }

    /// Reads one domain again.
    fn read_again(&self, domain: &str) -> Result<()> {
        let mut read = self.read.lock();
        // If this fails, nothing is known: better than what was.
        let Some(mut known) = read.take() else { return Ok(()) };
        let deleted = self.catalog.deleted_sources()?;
        let facts = self.catalog.snapshots_of(domain)?.into_iter();
        let facts: Vec<_> = facts.map(|facts| with_deletion(facts, &deleted)).collect();
        Arc::make_mut(&mut known).insert(domain.to_owned(), Arc::new(facts));
        *read = Some(known);
        Ok(())
    }
}

pub(super) fn with_deletion(facts: Facts, deleted: &[DeletedSource]) -> Facts {
    let is_it = |gone: &&DeletedSource| {
        gone.node == facts.node && gone.policy == facts.policy && gone.source == facts.source
    };
    let since = deleted.iter().find(is_it).map(|gone| gone.since);
    Facts { source_deleted_secs: since, ..facts }
}
