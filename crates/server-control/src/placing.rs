//! A domain whose repository was brought to another server, by a copy: from then on it lies there.
//!
//! The catalog alone says where a domain lies. It is changed only when the repository at the new
//! place has all that the one at the old place has, and while nobody uses the domain: whoever went
//! on at the old place would split its history.

mod containers;
mod contents;

use crate::domain_locks::DomainLocks;
use crate::domain_repository::DomainRepositories;
use crate::domain_uses::Closed;
use crate::error::{missing, refused};
use crate::issued_keys::IssuedKeys;
use crate::jobs::Jobs;
use crate::open::Parts;
use crate::pools::{Pools, main};
use crate::storage_servers::StorageServerTable;
use crate::{Error, Result, by};
use api::Name;
use api::domains::{NewPlace, PlacedDomain};
use catalog::Catalog;
use catalog::domains::Domain;
use containers::Containers;
use contents::Contents;
use ids::SnapshotId;
use server_contract::upkeep::DomainUpkeep as Worker;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whoever was let in before begins its job within this time.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// A storage server has told of it in so many heartbeats.
const BEATS: usize = 2;
/// Longest wait.
const WITHIN: Duration = Duration::from_secs(8);
/// Looks at whoever still uses the domain.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Says where domains lie.
pub(crate) struct Placing {
    catalog: Arc<Catalog>,
    repositories: Arc<DomainRepositories>,
    locks: Arc<DomainLocks>,
    jobs: Arc<Jobs>,
    pools: Pools,
    table: Arc<StorageServerTable>,
    issued: Arc<IssuedKeys>,
    containers: Containers,
}

impl Placing {
    /// The domains of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            repositories: parts.repositories.clone(),
            locks: parts.locks.clone(),
            jobs: parts.jobs.clone(),
            pools: Pools::of(parts),
            table: parts.table.clone(),
            issued: parts.issued.clone(),
            containers: Containers::default(),
        }
    }

    /// From now on `worker` looks at the repositories on this server.
    pub(crate) fn look_with(&self, worker: Arc<dyn Worker>) {
        self.containers.look_with(worker);
    }

    /// Lets the domain `name` lie where `wanted` says. Blocks for some seconds.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] while a job uses it, when it is not there, or something is missing there;
    /// [`crate::Error::StorageServer`] when one of the two places cannot be asked.
    pub(crate) fn place(&self, who: &str, name: &Name, wanted: &NewPlace) -> Result<PlacedDomain> {
        // What is wrong is said at once; what counts is what is there when nobody uses it.
        let after = self.locks.with(name, || {
            let (before, after) = self.before_and_after(name, wanted)?;
            self.compare(&before, &after, wanted.lost)?;
            Ok(after)
        })?;
        // Beside whoever changes keys meanwhile: it takes seconds, and nobody writes there.
        let report = self.containers.of(&self.repositories.of_closed(&after)?)?;
        if report.damaged > 0 && !wanted.lost {
            return Err(containers::are_missing(name, &described(&after), &report));
        }
        let placed = self.locks.with(name, || {
            let (before, after) = self.before_and_after(name, wanted)?;
            if wanted.lost {
                self.issued.remove_at(&after)?;
            }
            let closed = self.repositories.uses().closed(name)?;
            self.settle(&before, &closed, wanted.lost)?;
            let placed = self.compare(&before, &after, wanted.lost)?;
            self.catalog.place_domain(by(who), &before, &after)?;
            Ok(placed)
        })?;
        Ok(PlacedDomain { damaged: report.damaged, damages: report.damages, ..placed })
    }

    /// The domain as it lies now, and as it is to lie.
    fn before_and_after(&self, name: &Name, wanted: &NewPlace) -> Result<(Domain, Domain)> {
        let before = self.catalog.domain(name)?.ok_or_else(|| missing("domain", name))?;
        let after = placed(&before, wanted)?;
        Ok((before, after))
    }

    /// Waits until whoever was let in before is known as a job, and until jobs that have just ended are known to have.
    /// Those of a server that is lost never end.
    fn settle(&self, domain: &Domain, closed: &Closed<'_>, is_lost: bool) -> Result<()> {
        let heard = || domain.storage.as_ref().and_then(|storage| self.table.heard(storage));
        let (begun, mut last, mut beats) = (Instant::now(), heard(), 0);
        loop {
            let now = heard();
            beats += usize::from(now != last);
            last = now;
            let is_told = domain.storage.is_none() || beats >= BEATS;
            let is_free = is_lost || is_told && !self.has_job(&domain.name);
            match begun.elapsed() {
                elapsed if elapsed >= SETTLED_AFTER && is_free && closed.is_free() => return Ok(()),
                elapsed if elapsed >= WITHIN => return Err(in_use(&domain.name)),
                _ => std::thread::sleep(LOOKS_EVERY),
            }
        }
    }

    fn has_job(&self, name: &Name) -> bool {
        self.jobs.sessions().jobs.iter().any(|job| job.domain == name.as_str())
    }

    /// Whether the new place has all that the old one has; where that is lost, what is known to be missing there.
    fn compare(&self, before: &Domain, after: &Domain, is_lost: bool) -> Result<PlacedDomain> {
        let (name, place) = (&before.name, described(after));
        if after.storage.is_none() && self.pools.has_none(after)? {
            return Err(self.is_not_there(after));
        }
        // Whether it is the right one is looked at below, with what to do about it.
        let any = Domain { repository: None, ..after.clone() };
        let found = Contents::of(&self.repositories.of_closed(&any)?, name, &place)?;
        let found = found.ok_or_else(|| self.is_not_there(after))?;
        if before.repository.as_ref().is_some_and(|known| *known != found.repository) {
            let message = format!("what is on {place} is another repository than that of '{name}'");
            return Err(refused(message, "See which is which: icecore server domains"));
        }
        if is_lost {
            self.refuse_what_is_there(before)?;
            let is_there = |id| found.snapshots.contains(&id);
            let mut missing = self.known_snapshots(name)?;
            missing.retain(|id| !SnapshotId::from_hex(id).is_some_and(is_there));
            let (missing, keys_missing) = (missing.len() as u64, found.keys_missing(name, &place)?);
            return Ok(PlacedDomain { missing, keys_missing, ..Default::default() });
        }
        let old = self.repositories.of_closed(before)?;
        let old = Contents::of(&old, name, &described(before))?.ok_or_else(|| {
            let message = format!("the domain '{name}' is not on {}", described(before));
            refused(message, "If it is lost there, repeat the command with --lost")
        })?;
        old.is_all_in(&found, name, &place)?;
        Ok(PlacedDomain::default())
    }

    fn is_not_there(&self, after: &Domain) -> Error {
        let message = format!("the domain '{}' is not on {}", after.name, described(after));
        let folder = if after.storage.is_none() { self.pools.wanted_folder(after) } else { None };
        let to = folder.map_or_else(|| "PLACE".to_owned(), |folder| folder.display().to_string());
        refused(message, &format!("Bring it there first: icecore copy --repo COPY --to {to}"))
    }

    /// The ids of all snapshots that were there, as far as the catalog knows: what was last read of the repository, and
    /// what backups have made since.
    fn known_snapshots(&self, name: &Name) -> Result<BTreeSet<String>> {
        let read = self.catalog.snapshots_of(name.as_str())?;
        let since = read.iter().map(|one| one.received_secs).max().unwrap_or_default();
        let mut known: BTreeSet<_> = read.into_iter().map(|one| one.id.to_string()).collect();
        known.extend(self.catalog.snapshots_made(name.as_str(), since)?);
        Ok(known)
    }

    /// What is called lost must not be there.
    fn refuse_what_is_there(&self, before: &Domain) -> Result<()> {
        let here = self.repositories.of_closed(before);
        let Ok(Some(_)) = here.and_then(|here| here.config()) else { return Ok(()) };
        let message =
            format!("the domain '{}' is not lost: it is on {}", before.name, described(before));
        let hint = "Leave out --lost. If it went on from a copy and this is an older place that came back, see chapter 12 of the guide for servers: 'Bring a domain to another server'";
        Err(refused(message, hint))
    }
}

/// `before` at the place that is wanted.
fn placed(before: &Domain, wanted: &NewPlace) -> Result<Domain> {
    let pool = wanted.pool.clone().filter(|pool| *pool != main());
    let after = Domain { storage: wanted.storage.clone(), pool, ..before.clone() };
    let name = &before.name;
    if after.storage.is_some() && after.pool.is_some() {
        return Err(Error::Usage("only the storage server knows its pools: name none".to_owned()));
    }
    if after.storage == before.storage && after.pool == before.pool {
        let message = format!("the domain '{name}' lies on {} already", described(before));
        return Err(refused(message, "All domains: icecore server domains"));
    }
    if after.storage.is_none() && before.storage.is_none() {
        let message = format!("the domain '{name}' stays on this server");
        let pool = after.pool.unwrap_or_else(main);
        return Err(refused(message, &format!("Move it: icecore server pool move {name} {pool}")));
    }
    Ok(after)
}

pub(crate) fn described(domain: &Domain) -> String {
    match (&domain.storage, &domain.pool) {
        (Some(storage), _) => format!("the storage server '{storage}'"),
        (None, Some(pool)) => format!("this server, in the pool '{pool}'"),
        (None, None) => "this server".to_owned(),
    }
}

fn in_use(name: &Name) -> Error {
    let message = format!("a job uses the domain '{name}'");
    refused(message, "Wait for it, or cancel it: icecore server sessions")
}
