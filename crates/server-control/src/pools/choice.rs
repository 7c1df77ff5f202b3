//! The pool of a new domain.

use super::{Pools, answers, known, of_folder, online};
use crate::Result;
use crate::error::{missing, refused};
use api::Name;
use api::pools::PoolState;
use catalog::pools::Pool;

impl Pools {
    /// The pool for a new domain: the one in which a folder of its name lies, since the catalog may be older than that;
    /// else the one that is named; else the one with the most free bytes; where all lie in buckets,
    /// the first one.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] when it takes no new domains, or none does, or when the folder of the domain lies
    /// elsewhere or twice; [`crate::Error::Catalog`] when it does not exist.
    pub(crate) fn choose(&self, domain: &Name, named: Option<&Name>) -> Result<Option<Name>> {
        let mut pools = known(&self.catalog, &self.folder)?;
        if let Some(found) = self.already_in(&pools, domain)? {
            return match named {
                Some(named) if *named != found.name => Err(elsewhere(domain, found)),
                _ => Ok(of_folder(&found.name).cloned()),
            };
        }
        if let Some(name) = named {
            pools.retain(|pool| pool.name == *name);
            let pool = pools.first().ok_or_else(|| missing("pool", name))?;
            takes_domains(pool)?;
        }
        pools.retain(|pool| pool.state == PoolState::Online);
        Ok(of_folder(&self.roomiest(&pools)?.name).cloned())
    }

    /// The pool in which a folder of this name lies. Nobody looks into a pool that is offline. One that hangs may have
    /// the folder: an administrator has to say first that nobody waits for it.
    fn already_in<'a>(&self, pools: &'a [Pool], domain: &Name) -> Result<Option<&'a Pool>> {
        let looked_into = || pools.iter().filter(|pool| pool.state != PoolState::Offline);
        looked_into().try_for_each(|pool| answers(&self.folder, pool))?;
        let lies_in = |pool: &&Pool| self.folder.domain(of_folder(&pool.name), domain).exists();
        let mut found = looked_into().filter(lies_in);
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => Err(twice(domain, one, other)),
            (found, _) => Ok(found),
        }
    }

    fn roomiest<'a>(&self, pools: &'a [Pool]) -> Result<&'a Pool> {
        // Of two with the same room the first one; where there is one only, whoever opens it says what is wrong.
        let chosen = match pools {
            [only] => Some(only),
            // Nobody says how much more a bucket takes.
            all if all.iter().all(|pool| self.folder.is_in_bucket(of_folder(&pool.name))) => {
                all.iter().find(|pool| self.folder.verify_pool(of_folder(&pool.name)).is_ok())
            }
            all => {
                let usable =
                    all.iter().rev().filter_map(|pool| Some((self.free_bytes(pool)?, pool)));
                usable.max_by_key(|(free, _)| *free).map(|(_, pool)| pool)
            }
        };
        let none =
            || refused("no pool takes new domains".to_owned(), "See: icecore server pool list");
        chosen.ok_or_else(none)
    }

    fn free_bytes(&self, pool: &Pool) -> Option<u64> {
        let name = of_folder(&pool.name);
        let is_there = self.folder.verify_pool(name).is_ok();
        if is_there && self.folder.has_inodes(name) { self.folder.room(name)[0] } else { None }
    }
}

fn takes_domains(pool: &Pool) -> Result<()> {
    if pool.state == PoolState::Online {
        return Ok(());
    }
    let message = format!("the pool '{}' is {}: it takes no new domains", pool.name, pool.state);
    Err(refused(message, &online(&pool.name)))
}

fn elsewhere(domain: &Name, found: &Pool) -> crate::Error {
    let Pool { name, path, .. } = found;
    let message =
        format!("a directory of the domain '{domain}' lies in the pool '{name}' ({path})");
    refused(message, &format!("Name that pool, or none: --pool {name}"))
}

fn twice(domain: &Name, one: &Pool, other: &Pool) -> crate::Error {
    let [one, other] = [one, other].map(|pool| format!("'{}' ({})", pool.name, pool.path));
    let message = format!("the domain '{domain}' lies in two pools: {one} and {other}");
    refused(message, "Move the directory that is not the right one out of its pool.")
}
