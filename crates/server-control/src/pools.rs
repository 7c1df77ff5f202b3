//! The pools of this server, and in which of them a domain lies.
//!
//! The catalog says it, and the folders of the pools must agree: who opens a domain looks into all of them. A domain
//! that lies in two, or in none, is used by nobody until an administrator has put that right.

mod choice;
mod moves;
mod read_only;

pub(crate) use moves::PlannedMove;
pub(crate) use read_only::ReadOnly;

use crate::error::{missing, refused};
use crate::open::Parts;
use crate::{Error, Result, by};
use api::Name;
use api::pools::{NewPool, PoolState};
use catalog::Catalog;
use catalog::domains::Domain;
use catalog::pools::Pool;
use server_contract::access_control::Refusal;
use server_contract::folder::Folder;
use server_contract::moving::finished;
use server_contract::pool::{MAIN, NAME_TAKEN, has_objects, has_repository, is_in_bucket};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// So long a start waits until all pools are looked at.
const COMPARED_WITHIN: Duration = Duration::from_secs(10);

/// With what the address of a bucket begins.
const BUCKETS: &str = "s3://";
const USABLE_DIRECTORY: &str =
    "Give an empty directory of a file system that is mounted: findmnt --target DIR";
const USABLE_BUCKET: &str = "Give a part of a bucket that nothing else uses, s3://BUCKET/PREFIX. The server needs AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for an object store other than AWS, AWS_ENDPOINT_URL in its environment.";

/// The pools of this server.
#[derive(Clone)]
pub(crate) struct Pools {
    catalog: Arc<Catalog>,
    folder: Arc<Folder>,
}

/// Where a domain lies.
pub(crate) struct DomainFolder {
    pub(crate) folder: PathBuf,
    /// Why nothing may be written there.
    pub(crate) read_only: Option<Refusal>,
}

/// The pools that a server knows, the first one first. A catalog that was lost or is too old does not name one;
/// what lies in it must be found all the same, or it would be made again, empty.
pub(crate) fn known(catalog: &Catalog, folder: &Folder) -> Result<Vec<Pool>> {
    let (mut first, mut further): (Vec<Pool>, Vec<Pool>) =
        catalog.pools()?.into_iter().partition(|pool| pool.name.as_str() == MAIN);
    for name in folder.further_pools()? {
        if !further.iter().any(|pool| pool.name == name) {
            let path = folder.place_of(Some(&name)).display().to_string();
            further.push(Pool { name, path, state: PoolState::Online, made: 0 });
        }
    }
    further.sort_by(|one, other| one.name.cmp(&other.name));
    if first.is_empty() {
        let path = folder.place_of(None).display().to_string();
        first.push(Pool { name: main(), path, state: PoolState::Online, made: 0 });
    }
    Ok(first.into_iter().chain(further).collect())
}

/// The name of the first pool.
pub(crate) fn main() -> Name {
    // A name: lower-case letters.
    #[allow(clippy::expect_used, reason = "a constant")]
    MAIN.parse().expect("a name")
}

/// As the folder of a server names it.
fn of_folder(name: &Name) -> Option<&Name> {
    (name.as_str() != MAIN).then_some(name)
}

/// Where a domain lies on this server.
///
/// # Errors
/// [`Error::Refused`] when its pool is offline, or when catalog and pools do not agree.
pub(crate) fn place_of(
    catalog: &Catalog,
    folder: &Folder,
    domain: &Domain,
) -> Result<DomainFolder> {
    let (pools, name) = (known(catalog, folder)?, domain.pool.clone().unwrap_or_else(main));
    let pool = pools.iter().find(|pool| pool.name == name);
    let pool = pool.ok_or_else(|| removed(domain, &name))?;
    if pool.state == PoolState::Offline {
        let message = format!("the pool '{name}' of the domain '{}' is offline", domain.name);
        return Err(refused(message, &online(&name)));
    }
    answers(folder, pool)?;
    // Who opens the domain is told what keeps the pool from being used.
    if let Err(error) = folder.begin_pool(of_folder(&name)) {
        tracing::debug!(%error, pool = %name, "a pool cannot be used");
    }
    let own = folder.domain(of_folder(&name), &domain.name);
    let others = pools.iter().filter(|other| other.name != name && may_look(folder, other));
    let others =
        others.map(|other| (&other.name, folder.domain(of_folder(&other.name), &domain.name)));
    agrees(domain, (&name, &own), others, || folder.verify_pool(of_folder(&name)).is_ok())?;
    let is_read_only = pool.state == PoolState::ReadOnly;
    let why = || Refusal::new(format!("the pool '{name}' is read-only"), online(&name));
    Ok(DomainFolder { folder: own, read_only: is_read_only.then(why) })
}

fn removed(domain: &Domain, pool: &Name) -> Error {
    let domain = &domain.name;
    let message = format!("the pool '{pool}', in which the domain '{domain}' lay, was removed");
    let hint = format!(
        "Make a pool of this name, and bring the domain back there from its copy: icecore server pool add {pool} DIR. If it is gone for good: icecore server remove-domain {domain}"
    );
    refused(message, &hint)
}

/// Whether somebody may look into a pool: not if it is offline, and not if its file system hangs.
fn may_look(folder: &Folder, pool: &Pool) -> bool {
    pool.state != PoolState::Offline && folder.pool_answers(of_folder(&pool.name)).is_ok()
}

/// The file system of the pool answers.
fn answers(folder: &Folder, pool: &Pool) -> Result<()> {
    let silent = |error: server_contract::Error| {
        let hint = format!(
            "Find out what it waits for. To let nobody wait for it: icecore server pool state {} offline",
            pool.name
        );
        Error::PoolSilent { why: error.to_string(), hint }
    };
    folder.pool_answers(of_folder(&pool.name)).map_err(silent)
}

/// The catalog and the folders of the pools say the same.
fn agrees<'a>(
    domain: &Domain,
    (pool, own): (&Name, &Path),
    others: impl Iterator<Item = (&'a Name, PathBuf)>,
    is_there: impl FnOnce() -> bool,
) -> Result<()> {
    let named = |pool: &Name, path: &Path| format!("'{pool}' ({})", path.display());
    let (domain, was_made) = (&domain.name, domain.repository.is_some());
    let mut also = others.filter(|(_, path)| path.exists());
    let own_named = named(pool, own);
    // A folder without a repository is no domain that was made once.
    let lies_here = if was_made { has_repository(own) } else { own.exists() };
    let (message, hint) = match (lies_here, also.next()) {
        (true, Some((other, path))) => (
            format!(
                "the domain '{domain}' lies in two pools: {own_named} and {}",
                named(other, &path)
            ),
            format!(
                "If all of it is in '{pool}', this removes the other one: icecore server pool move {domain} {pool}. Else find out which of them is the right one, and move the other one out of its pool."
            ),
        ),
        (false, Some(_)) if finished(own).exists() => (
            format!("the domain '{domain}' was being moved to the pool {own_named}"),
            format!("Finish that: icecore server pool move {domain} {pool}"),
        ),
        (false, Some((other, path))) => (
            format!(
                "the domain '{domain}' should lie in the pool {own_named}, and lies in {}",
                named(other, &path)
            ),
            format!("If it is complete there, move it to its place: {}", own.display()),
        ),
        // A pool that is not mounted is told by who opens the repository.
        (false, None) if was_made && is_there() => (
            format!("the domain '{domain}' should lie in the pool {own_named}, and lies in none"),
            format!(
                "Bring it back there. If it was deleted for good: icecore server remove-domain {domain}"
            ),
        ),
        _ => return Ok(()),
    };
    Err(refused(message, &hint))
}

fn online(pool: &Name) -> String {
    format!("To use it again, on the server: icecore server pool state {pool} online")
}

/// Unless it is known to be a directory.
fn is_bucket(folder: &Path) -> bool {
    is_in_bucket(folder).unwrap_or(true)
}

/// The most domains that a message names.
const NAMED_MAX: usize = 5;

impl Pools {
    /// Those of this server.
    pub(crate) fn new(catalog: Arc<Catalog>, folder: Arc<Folder>) -> Self {
        Self { catalog, folder }
    }

    /// Their names, the first one first.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn names(&self) -> Result<Vec<Name>> {
        Ok(known(&self.catalog, &self.folder)?.into_iter().map(|pool| pool.name).collect())
    }

    /// The same for the API.
    pub(crate) fn of(parts: &Parts) -> Self {
        Self::new(parts.catalog.clone(), parts.folder.clone())
    }

    /// Where a domain lies on this server.
    ///
    /// # Errors
    /// As [`place_of`].
    pub(crate) fn place_of(&self, domain: &Domain) -> Result<DomainFolder> {
        place_of(&self.catalog, &self.folder, domain)
    }

    /// The folders in which domains of this server lie as the catalog says; none of a pool that is offline. No file of
    /// a pool is looked at.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn folders(&self) -> Result<impl Fn(&Domain) -> Option<PathBuf>> {
        let (pools, folder) = (known(&self.catalog, &self.folder)?, self.folder.clone());
        Ok(move |domain: &Domain| {
            let name = domain.pool.clone().unwrap_or_else(main);
            let pool = pools.iter().find(|pool| pool.name == name)?;
            let is_offline = pool.state == PoolState::Offline;
            (!is_offline).then(|| folder.domain(of_folder(&name), &domain.name))
        })
    }

    /// Whether the pool that `domain` names has nothing of its repository: no directory, or one without settings, as
    /// somebody makes it beforehand.
    ///
    /// # Errors
    /// [`Error::Catalog`], those of the pool.
    pub(crate) fn has_none(&self, domain: &Domain) -> Result<bool> {
        let Some(folder) = self.wanted_folder(domain) else { return Ok(false) };
        // Who opens it is told why the pool cannot be used.
        if self.folder.verify_pool(domain.pool.as_ref()).is_err() {
            return Ok(false);
        }
        // A bucket is asked, and what it has is noted here.
        let is_there = self.folder.still_has(domain.pool.as_ref(), &domain.name)?.is_some();
        Ok(!is_there || folder.is_dir() && !has_repository(&folder) && !is_bucket(&folder))
    }

    /// The pool, of all but `but`, that has a repository of the domain `name`, with its path.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn found_in(&self, name: &Name, but: Option<&Name>) -> Result<Option<String>> {
        let mut others = known(&self.catalog, &self.folder)?;
        others.retain(|other| Some(&other.name) != but && may_look(&self.folder, other));
        let at = |other: &Pool| self.folder.domain(of_folder(&other.name), name);
        let found = others.iter().find(|other| is_stored(&at(other)));
        Ok(found.map(|other| format!("'{}' ({})", other.name, at(other).display())))
    }

    /// The directory in which `domain` would lie.
    pub(crate) fn wanted_folder(&self, domain: &Domain) -> Option<PathBuf> {
        self.folders().ok()?(domain)
    }

    /// Whether no pool has a directory of the domain `name`.
    ///
    /// # Errors
    /// [`Error::Refused`] when one has it, or cannot be looked into; [`Error::Catalog`].
    pub(crate) fn lies_nowhere(&self, name: &Name) -> Result<()> {
        for pool in known(&self.catalog, &self.folder)? {
            let at = of_folder(&pool.name);
            if pool.state == PoolState::Offline || self.folder.verify_pool(at).is_err() {
                let message = format!("the pool '{}' cannot be looked into", pool.name);
                let hint = "Mount it, or set it online, and try again: icecore server pool list";
                return Err(refused(message, hint));
            }
            if let Some(place) = self.folder.still_has(at, name)? {
                let message =
                    format!("the directory of the domain '{name}' is still there: {place}");
                let hint = "If nobody needs its snapshots any more, delete that directory first.";
                return Err(refused(message, hint));
            }
        }
        Ok(())
    }

    /// Looks at the start whether the catalog and the pools agree. What does not is logged: who opens it is refused. A
    /// file system that hangs keeps the server from its start for some seconds and no longer.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn compare(self) -> Result<()> {
        let (done, compared) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let all = self.compare_all();
            drop(self);
            let _ = done.send(all); // or nobody waits any more
        });
        compared.recv_timeout(COMPARED_WITHIN).unwrap_or_else(|_| {
            tracing::error!("ALARM: a pool does not answer: icecore server pool list");
            Ok(())
        })
    }

    fn compare_all(&self) -> Result<()> {
        for pool in known(&self.catalog, &self.folder)? {
            if pool.state != PoolState::Offline
                && let Err(error) = self.folder.begin_pool(of_folder(&pool.name))
            {
                tracing::error!(%error, "ALARM: a pool cannot be used");
            }
        }
        for domain in self.catalog.domains()?.iter().filter(|domain| domain.storage.is_none()) {
            if let Err(error) = self.place_of(domain) {
                tracing::error!(%error, domain = %domain.name, "ALARM: a domain cannot be used");
            }
        }
        Ok(())
    }

    /// Makes a directory of this machine a pool.
    ///
    /// # Errors
    /// [`Error::Usage`] when it cannot be one; [`Error::Catalog`].
    pub(crate) fn add(&self, who: &str, new: &NewPool) -> Result<api::pools::Pool> {
        if [MAIN, NAME_TAKEN].contains(&new.name.as_str()) {
            return Err(Error::Usage(format!(
                "'{}' is the first pool: take another name",
                new.name
            )));
        }
        let path = Path::new(&new.path);
        let is_bucket = new.path.starts_with(BUCKETS);
        if !path.is_absolute() && !is_bucket {
            return Err(Error::Usage(format!("'{}' is no full path", new.path)));
        }
        let unfit = |error: server_contract::Error| {
            let hint = if is_bucket { USABLE_BUCKET } else { USABLE_DIRECTORY };
            Error::Unfit { message: error.to_string(), hint: hint.to_owned() }
        };
        self.folder.add_pool(&new.name, path, new.accept).map_err(unfit)?;
        let by = by(who);
        let (name, path) = (new.name.clone(), new.path.clone());
        let pool = Pool { name, path, state: PoolState::Online, made: by.now_secs };
        self.catalog.put_pool(by, &pool)?;
        self.one(&new.name)
    }

    /// Changes the state of a pool.
    ///
    /// # Errors
    /// [`Error::Catalog`], also when there is no such pool.
    pub(crate) fn set_state(
        &self,
        who: &str,
        name: &Name,
        state: PoolState,
    ) -> Result<api::pools::Pool> {
        let pools = known(&self.catalog, &self.folder)?;
        let pool = pools.iter().find(|pool| pool.name == *name);
        let pool = pool.ok_or_else(|| missing("pool", name))?;
        self.catalog.set_pool_state(by(who), pool, state)?;
        self.one(name)
    }

    /// Forgets a further pool in which no domains lie, or one that is lost.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has domains, or is there although it `is_lost`; [`Error::Usage`] for the first one;
    /// [`Error::Catalog`], also when there is no such pool.
    pub(crate) fn remove(
        &self,
        who: &str,
        name: &Name,
        is_lost: bool,
    ) -> Result<api::pools::Pools> {
        if name.as_str() == MAIN {
            return Err(Error::Unfit {
                message: "the first pool cannot be removed".to_owned(),
                hint: format!(
                    "For no new domains there: icecore server pool state {MAIN} draining. If its disk is lost: stop the server, mount another disk there, and then: icecore pool accept DATA"
                ),
            });
        }
        let pools = known(&self.catalog, &self.folder)?;
        let pool = pools.iter().find(|pool| pool.name == *name);
        let pool = pool.ok_or_else(|| missing("pool", name))?;
        let domains = self.shown_domains(name)?;
        if let Some(domain) = domains.first().filter(|_| !is_lost) {
            let message = format!(
                "the pool '{name}' has domains: {}",
                domains.iter().map(Name::as_str).take(NAMED_MAX).collect::<Vec<_>>().join(", ")
            );
            let hint = format!(
                "Move them away: icecore server pool move {domain} POOL. If its disk is lost for good: icecore server pool remove {name} --lost"
            );
            return Err(refused(message, &hint));
        }
        if self.folder.further_pools()?.contains(name) {
            let unfit = |error: server_contract::Error| {
                let hint = if is_lost {
                    "To empty a pool that is there: icecore server pool move DOMAIN POOL".to_owned()
                } else {
                    format!(
                        "See: icecore server pool list. If its disk is lost for good: icecore server pool remove {name} --lost"
                    )
                };
                refused(error.to_string(), &hint)
            };
            self.folder.remove_pool(name, is_lost).map_err(unfit)?;
        }
        self.catalog.remove_pool(by(who), &pool.name, is_lost)?;
        self.all()
    }

    /// The domains that the catalog has in a pool.
    fn shown_domains(&self, pool: &Name) -> Result<Vec<Name>> {
        let domains = self.catalog.domains()?.into_iter();
        let lies_there =
            |domain: &Domain| domain.storage.is_none() && domain.pool.as_ref() == Some(pool);
        Ok(domains.filter(lies_there).map(|domain| domain.name).collect())
    }

    /// What keeps pools of this server from being used; nothing of those that are offline.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn faults(&self) -> Result<Vec<String>> {
        let pools = known(&self.catalog, &self.folder)?.into_iter();
        let used = pools.filter(|pool| pool.state != PoolState::Offline);
        let fault = |pool: Pool| {
            let error = self.folder.verify_pool(of_folder(&pool.name)).err()?;
            Some(format!("{}: {error}", pool.name))
        };
        Ok(used.filter_map(fault).collect())
    }

    /// Domains of this server that are not where the catalog says, in pools that are there, each with what helps.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn domain_faults(&self) -> Result<Vec<String>> {
        let pools = known(&self.catalog, &self.folder)?;
        let state =
            |name: &Name| pools.iter().find(|pool| pool.name == *name).map(|pool| pool.state);
        let mut is_there = BTreeMap::new();
        let mut faults = Vec::new();
        let domains = self.catalog.domains()?;
        let made = |domain: &&Domain| domain.storage.is_none() && domain.repository.is_some();
        for domain in domains.iter().filter(made) {
            let pool = domain.pool.clone().unwrap_or_else(main);
            let state = state(&pool);
            let place = self.folder.domain(of_folder(&pool), &domain.name);
            let is_usable = *is_there.entry(pool.clone()).or_insert_with(|| {
                let looks = state.is_some_and(|state| state != PoolState::Offline);
                looks && self.folder.verify_pool(of_folder(&pool)).is_ok()
            });
            let why = match state {
                None => removed(domain, &pool).to_string(),
                Some(_) if is_usable && !is_stored(&place) => {
                    format!("the domain '{}' is not in its pool '{pool}'", domain.name)
                }
                Some(_) => continue,
            };
            faults.push(match self.found_in(&domain.name, Some(&pool))? {
                Some(other) => format!(
                    "{why}, and lies in {other}: icecore server check {} says what to do",
                    domain.name
                ),
                None => lost(&why),
            });
        }
        Ok(faults)
    }

    fn one(&self, name: &Name) -> Result<api::pools::Pool> {
        let mut all = self.all()?.pools.into_iter();
        let found = all.find(|pool| pool.name == *name);
        Ok(found.ok_or_else(|| missing("pool", name))?)
    }

    /// All pools.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::pools::Pools> {
        let domains = self.catalog.domains()?;
        let pools = known(&self.catalog, &self.folder)?.into_iter();
        let pools = pools.map(|pool| self.shown(pool, &domains));
        Ok(api::pools::Pools { pools: pools.collect() })
    }

    fn shown(&self, pool: Pool, domains: &[Domain]) -> api::pools::Pool {
        let name = of_folder(&pool.name);
        let is_in = |domain: &&Domain| domain.storage.is_none() && domain.pool.as_ref() == name;
        let domains = domains.iter().filter(is_in).map(|domain| domain.name.clone()).collect();
        // Nobody touches the file system of a pool that is offline: it may hang.
        let is_offline = pool.state == PoolState::Offline;
        let found = if is_offline { Ok(()) } else { self.folder.verify_pool(name) };
        let fault = found.err().map(|error| error.to_string());
        let is_used = !is_offline && fault.is_none();
        let [free_bytes, total_bytes] = if is_used { self.folder.room(name) } else { [None, None] };
        let free_inodes = if is_used { self.folder.free_inodes(name) } else { None };
        let Pool { name, path, state, .. } = pool;
        api::pools::Pool { name, path, state, fault, free_bytes, total_bytes, free_inodes, domains }
    }
}

/// What becomes of a domain that is found nowhere.
pub(crate) fn lost(why: &str) -> String {
    format!("{why}: bring it back from its copy, or icecore server remove-domain")
}

/// Whether a domain lies in a pool that is there. A bucket that does not say so is no reason for an alarm about it.
fn is_stored(folder: &Path) -> bool {
    has_repository(folder) && has_objects(folder).ok().flatten() != Some(false)
}

#[cfg(test)]
mod tests;
