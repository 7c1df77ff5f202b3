//! Quotas: how much domains may store, as the site says, and what they store.

use crate::Result;
use crate::open::Parts;
use crate::pools::Pools;
use crate::sites::Sites;
use api::Name;
use api::quotas::{DomainQuota, DomainUse, Quota, QuotaState};
use catalog::Catalog;
use catalog::domains::Domain;
use parking_lot::Mutex;
use server_contract::access_control::Refusal;
use server_contract::uses::{Allowance, REFUSED_AGE, USE_AGE, Uses, total};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long a server goes by the quotas and nodes that it read.
const RULES_AGE: Duration = Duration::from_secs(1);

/// Decides whether more may be stored.
pub(crate) struct Quotas {
    catalog: Arc<Catalog>,
    pools: Pools,
    sites: Arc<Sites>,
    uses: Uses,
    rules: Kept<Rules>,
}

/// The quotas as they are now.
#[derive(Default)]
struct Rules {
    allowances: Vec<Allowance>,
    /// Where the domains lie that they count.
    places: BTreeMap<String, Side>,
}

/// Where a domain lies.
enum Side {
    Here(PathBuf),
    /// On this storage server.
    There(Name),
}

impl Rules {
    fn of<'a>(&'a self, domain: &'a str) -> impl Iterator<Item = &'a Allowance> {
        self.allowances.iter().filter(move |one| one.domains.iter().any(|name| name == domain))
    }
}

impl Quotas {
    /// As `sites` has them.
    pub(crate) fn new(parts: &Parts, sites: Arc<Sites>) -> Self {
        let (catalog, pools) = (parts.catalog.clone(), Pools::of(parts));
        Self { catalog, pools, sites, uses: Uses::default(), rules: Kept::default() }
    }

    /// Takes `more` bytes for `domain`; none, to ask whether a backup may begin.
    ///
    /// # Errors
    /// [`Refusal`] when a quota has no room for them, or when that cannot be known.
    pub(crate) fn take(&self, domain: &str, more: u64) -> std::result::Result<(), Refusal> {
        let rules = self.rules().map_err(|error| {
            tracing::error!(%error, domain, "cannot say what the quotas allow");
            Refusal::transient("the server cannot read its quotas")
        })?;
        if rules.of(domain).next().is_none() {
            return Ok(());
        }
        self.measure(&rules, &[domain.to_owned()], USE_AGE);
        let take = || self.uses.take(domain, more, rules.of(domain));
        let done = take().or_else(|_| {
            for allowance in rules.of(domain) {
                self.measure(&rules, &allowance.domains, REFUSED_AGE);
            }
            take()
        });
        done.map_err(|exceeded| exceeded.refusal())
    }

    /// Measures those of `domains` that lie here and were not measured within `age`. What cannot be measured is
    /// unknown from then on.
    fn measure(&self, rules: &Rules, domains: &[String], age: Duration) {
        for domain in domains {
            let folder = match rules.places.get(domain) {
                Some(Side::Here(folder)) => folder,
                Some(Side::There(_)) => continue,
                None => {
                    self.uses.forget(domain);
                    continue;
                }
            };
            if let Err(error) = self.uses.measure(domain, folder, age) {
                tracing::error!(%error, domain, "cannot say how much a domain stores");
            }
        }
    }

    /// A storage server says what domains store that lie there.
    pub(crate) fn told(&self, storage: &Name, uses: &[DomainUse]) -> Result<()> {
        let rules = self.rules()?;
        for told in uses {
            let place = rules.places.get(told.domain.as_str());
            if matches!(place, Some(Side::There(place)) if place == storage) {
                self.uses.told(told.domain.as_str(), told.bytes);
            }
        }
        Ok(())
    }

    /// What the domains on a storage server may store, each in all.
    pub(crate) fn of_storage_server(&self, storage: &Name) -> Result<Vec<DomainQuota>> {
        let rules = self.rules()?;
        let is_there = |place: &Side| matches!(place, Side::There(place) if place == storage);
        let there = rules.places.iter().filter(|(_, place)| is_there(place));
        there.map(|(domain, _)| self.tightest(&rules, domain)).collect()
    }

    /// The quota that leaves a domain the least.
    fn tightest(&self, rules: &Rules, domain: &str) -> Result<DomainQuota> {
        let left = |allowance: &Allowance| {
            self.measure(rules, &allowance.domains, USE_AGE);
            let others = allowance.domains.iter().filter(|name| *name != domain);
            let used = total(others.map(|name| self.uses.of(name)));
            (used.map(|used| allowance.bytes.saturating_sub(used)), allowance.quota.clone())
        };
        // An unknown use comes before any number.
        let (bytes, quota) = rules.of(domain).map(left).min().unwrap_or_default();
        Ok(DomainQuota { domain: crate::error::parse_name(domain)?, quota, bytes })
    }

    /// All quotas, and what their domains store.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`], [`crate::Error::Object`].
    pub(crate) fn all(&self) -> Result<api::quotas::Quotas> {
        let rules = self.rules()?;
        let all: Vec<String> = rules.places.keys().cloned().collect();
        self.measure(&rules, &all, REFUSED_AGE);
        let quotas = rules.allowances.iter().map(|allowance| self.shown(allowance));
        Ok(api::quotas::Quotas { quotas: quotas.collect::<Result<_>>()? })
    }

    fn shown(&self, allowance: &Allowance) -> Result<Quota> {
        let known = |name: &String| {
            let bytes = self.uses.of(name);
            Ok(DomainUse { domain: crate::error::parse_name(name)?, bytes })
        };
        let domains: Vec<DomainUse> = allowance.domains.iter().map(known).collect::<Result<_>>()?;
        let used_bytes = total(domains.iter().map(|one| one.bytes));
        let (name, bytes) = (allowance.quota.clone(), allowance.bytes);
        let state = match used_bytes {
            None => QuotaState::Unknown,
            Some(used) if used >= bytes => QuotaState::Full,
            Some(_) => QuotaState::Open,
        };
        Ok(Quota { name, bytes, used_bytes, state, domains })
    }

    /// What was read lately. While it cannot be read again, what was read last holds.
    fn rules(&self) -> Result<Arc<Rules>> {
        self.rules.get(RULES_AGE, || self.read())
    }

    fn read(&self) -> Result<Rules> {
        let site = &self.sites.stored()?.site;
        if site.quotas.is_empty() {
            return Ok(Rules::default());
        }
        let nodes = self.catalog.nodes()?;
        let domains_of: BTreeMap<String, Name> =
            nodes.into_iter().map(|node| (node.name.to_string(), node.domain)).collect();
        let enrolled: BTreeSet<String> = domains_of.keys().cloned().collect();
        let mut rules = Rules::default();
        for (name, quota) in &site.quotas {
            let of_nodes = site.nodes_of_quota(quota, &enrolled);
            let of_nodes =
                of_nodes.iter().filter_map(|node| Some(domains_of.get(node)?.to_string()));
            let domains: BTreeSet<String> = quota.domains.iter().cloned().chain(of_nodes).collect();
            let (quota, bytes, domains) =
                (name.clone(), quota.bytes.0, domains.into_iter().collect());
            rules.allowances.push(Allowance { quota, bytes, domains });
        }
        let counted: BTreeSet<_> = rules.allowances.iter().flat_map(|one| &one.domains).collect();
        let folder_of = self.pools.folders()?;
        let place_of = |domain: &Domain| match &domain.storage {
            Some(storage) => Some(Side::There(storage.clone())),
            None => folder_of(domain).map(Side::Here),
        };
        for domain in self.catalog.domains()? {
            let name = domain.name.to_string();
            if counted.contains(&name) {
                // What has no place is not known, and so is what it stores.
                rules.places.extend(place_of(&domain).map(|place| (name, place)));
            }
        }
        Ok(rules)
    }
}

/// What is read again from time to time, by one at a time. Meanwhile the others have what was read last.
struct Kept<T> {
    last: Mutex<Option<(Instant, Arc<T>)>>,
    reading: Mutex<()>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { last: Mutex::default(), reading: Mutex::default() }
    }
}

impl<T> Kept<T> {
    /// What was read within `age`, or is read now. While it cannot be read, what was read last holds.
    fn get(&self, age: Duration, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let last = self.last.lock().clone();
        let _reading = match (self.reading.try_lock(), last) {
            (_, Some((at, last))) if at.elapsed() < age => return Ok(last),
            (Some(reading), _) => reading,
            (None, Some((_, last))) => return Ok(last),
            (None, None) => self.reading.lock(),
        };
        // Who waited has what was read meanwhile.
        let last = self.last.lock().clone();
        let now = match last {
            Some((at, last)) if at.elapsed() < age => return Ok(last),
            Some((_, last)) => read().map(Arc::new).unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read the quotas again; those that were read last hold");
                last
            }),
            None => Arc::new(read()?),
        };
        *self.last.lock() = Some((Instant::now(), now.clone()));
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_asks_while_somebody_reads_has_what_was_read_last() {
        let kept = Kept::default();
        let now = Duration::ZERO;
        assert_eq!(*kept.get(now, || Ok(1)).unwrap(), 1);
        assert_eq!(*kept.get(Duration::MAX, || Ok(2)).unwrap(), 1, "it is young enough");
        let ((begun, begins), (go_on, hangs)) = (channel(), channel());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let read = move || {
                    begun.send(()).unwrap();
                    Ok(hangs.recv().unwrap())
                };
                kept.get(now, read).map(|value| *value)
            });
            begins.recv().unwrap();
            assert_eq!(*kept.get(now, || Ok(3)).unwrap(), 1);
            go_on.send(4).unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 4);
        });
        let failed = kept.get(now, || Err(crate::Error::Usage("no".into())));
        assert_eq!(*failed.unwrap(), 4, "what was read last holds");
        assert!(Kept::<u8>::default().get(now, || Err(crate::Error::Usage("no".into()))).is_err());
    }
}
