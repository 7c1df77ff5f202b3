//! A domain whose repository was brought to another server, by a copy: from then on it lies there.
//!
//! The catalog alone says where a domain lies. It is changed only when the repository at the new
//! place has all that the one at the old place has, and while nobody uses the domain: whoever went
//! on at the old place would split its history.

use crate::domain_locks::DomainLocks;
use crate::domain_repository::{DomainRepositories, DomainRepository};
use crate::domain_uses::Closed;
use crate::error::{missing, refused};
use crate::jobs::Jobs;
use crate::open::Parts;
use crate::pools::{Pools, main};
use crate::storage_servers::StorageServerTable;
use crate::{Error, Result, by};
use api::Name;
use api::domains::{NewPlace, PlacedDomain};
use catalog::Catalog;
use catalog::domains::Domain;
use ids::{KeyId, SnapshotId};
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
        }
    }

    /// Lets the domain `name` lie where `wanted` says. Blocks for some seconds.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] while a job uses it, when it is not there, or something is missing there;
    /// [`crate::Error::StorageServer`] when one of the two places cannot be asked.
    pub(crate) fn place(&self, who: &str, name: &Name, wanted: &NewPlace) -> Result<PlacedDomain> {
        self.locks.with(name, || {
            let before = self.catalog.domain(name)?.ok_or_else(|| missing("domain", name))?;
            let after = placed(&before, wanted)?;
            // What is wrong is said at once; what counts is what is there when nobody uses it.
            self.compare(&before, &after, wanted.lost)?;
            let closed = self.repositories.uses().closed(name)?;
            self.settle(&before, &closed, wanted.lost)?;
            let lacks = self.compare(&before, &after, wanted.lost)?;
            self.catalog.place_domain(by(who), &before, &after)?;
            Ok(PlacedDomain { missing: lacks })
        })
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

    /// Whether the new place has all that the old one has; how many of the snapshots that the catalog knows it lacks,
    /// where the old one is lost.
    fn compare(&self, before: &Domain, after: &Domain, is_lost: bool) -> Result<u64> {
        let place = described(after);
        let is_not_there = || {
            let message = format!("the domain '{}' is not on {place}", before.name);
            refused(message, "Bring it there first: icecore copy --repo COPY --to PLACE")
        };
        if after.storage.is_none() && self.pools.lies_nowhere(&before.name).is_ok() {
            return Err(is_not_there());
        }
        let there = self.repositories.of_closed(after)?;
        let found = Contents::of(&there)?.ok_or_else(is_not_there)?;
        if before.repository.as_ref().is_some_and(|known| *known != found.repository) {
            let message =
                format!("what is on {place} is another repository than that of '{}'", before.name);
            return Err(refused(message, "See which is which: icecore server domains"));
        }
        if is_lost {
            self.refuse_what_is_there(before)?;
            let known = self.catalog.snapshots_of(before.name.as_str())?;
            return Ok(known.iter().filter(|one| !found.snapshots.contains(&one.id)).count() as u64);
        }
        let old = self.repositories.of_closed(before)?;
        let old = Contents::of(&old)?.ok_or_else(|| {
            let message = format!("the domain '{}' is not on {}", before.name, described(before));
            refused(message, "If it is lost there, repeat the command with --lost")
        })?;
        old.is_all_in(&found, &before.name, &place)?;
        Ok(0)
    }

    /// What is called lost must not be there.
    fn refuse_what_is_there(&self, before: &Domain) -> Result<()> {
        let here = self.repositories.of_closed(before);
        let Ok(Some(_)) = here.and_then(|here| here.config()) else { return Ok(()) };
        let message =
            format!("the domain '{}' is not lost: it is on {}", before.name, described(before));
        Err(refused(message, "Leave out --lost"))
    }
}

/// What a domain consists of, as far as another place has to have it.
struct Contents {
    repository: String,
    snapshots: BTreeSet<SnapshotId>,
    key_list: Option<Vec<u8>>,
    key_slots: BTreeSet<KeyId>,
}

impl Contents {
    fn of(repository: &DomainRepository) -> Result<Option<Self>> {
        let Some(config) = repository.config()? else { return Ok(None) };
        Ok(Some(Self {
            repository: config.repository.to_string(),
            snapshots: repository.snapshot_names()?.into_iter().map(|name| name.id).collect(),
            key_list: repository.key_list()?,
            key_slots: repository.key_slots()?.into_iter().map(|(id, _)| id).collect(),
        }))
    }

    fn is_all_in(&self, other: &Self, domain: &Name, place: &str) -> Result<()> {
        let lacks = self.snapshots.difference(&other.snapshots).count();
        let what = if self.repository != other.repository {
            "is another repository".to_owned()
        } else if lacks > 0 {
            format!("lacks {lacks} snapshot{}", if lacks == 1 { "" } else { "s" })
        } else if (&self.key_list, &self.key_slots) != (&other.key_list, &other.key_slots) {
            "has other keys".to_owned()
        } else {
            return Ok(());
        };
        let message = format!("the copy of the domain '{domain}' on {place} {what}");
        Err(refused(message, "Copy it again, then repeat the command"))
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

fn described(domain: &Domain) -> String {
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
