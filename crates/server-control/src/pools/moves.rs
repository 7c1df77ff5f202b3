//! Which domain can be moved to which pool.

use super::{Pools, known, main, may_look, of_folder, online};
use crate::Result;
use crate::error::{missing, refused};
use api::Name;
use api::pools::PoolState;
use catalog::domains::Domain;
use catalog::pools::Pool;
use server_contract::moving::leftover;
use std::path::PathBuf;

/// A move of a domain.
pub(crate) struct PlannedMove {
    /// The pools, as the catalog names them.
    pub(crate) from_pool: Option<Name>,
    pub(crate) to_pool: Option<Name>,
    /// The directory of the domain in each.
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    /// What its directory would be in all others that may be looked into.
    pub(crate) others: Vec<PathBuf>,
    /// An earlier move was killed when the catalog named the other pool already.
    pub(crate) is_switched: bool,
}

impl Pools {
    /// What has to be done to move `domain` to the pool `to`.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] when one of the pools does not allow it, or the domain is there already;
    /// [`crate::Error::Catalog`], also when there is no such pool.
    pub(crate) fn plan_move(&self, domain: &Domain, to: &Name) -> Result<PlannedMove> {
        let pools = known(&self.catalog, &self.folder)?;
        let named = |name: &Name| pools.iter().find(|pool| pool.name == *name);
        let target = named(to).ok_or_else(|| missing("pool", to))?;
        if let Err(error) = self.folder.begin_pool(of_folder(to)) {
            return Err(refused(error.to_string(), "See: icecore server pool list"));
        }
        let current = domain.pool.clone().unwrap_or_else(main);
        if current == *to {
            return self.unfinished_move(&pools, domain, to);
        }
        takes_it(target)?;
        let source = named(&current).ok_or_else(|| missing("pool", &current))?;
        gives_it(source)?;
        let from = self.place_of(domain)?.folder;
        Ok(self.planned(&pools, (&current, from), (to, domain), false))
    }

    /// Whether the states of both pools still allow it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] when one does not; [`crate::Error::Catalog`], also when there is none any more.
    pub(crate) fn may_move(&self, planned: &PlannedMove) -> Result<()> {
        let pools = known(&self.catalog, &self.folder)?;
        let named = |pool: &Option<Name>| {
            let name = pool.clone().unwrap_or_else(main);
            let found = pools.iter().find(|pool| pool.name == name);
            found.ok_or_else(|| missing("pool", &name))
        };
        takes_it(named(&planned.to_pool)?)?;
        gives_it(named(&planned.from_pool)?)
    }

    /// What is left to be done of a move to the pool in which the catalog has the domain.
    fn unfinished_move(&self, pools: &[Pool], domain: &Domain, to: &Name) -> Result<PlannedMove> {
        let others = pools.iter().filter(|pool| pool.name != *to && may_look(&self.folder, pool));
        for pool in others {
            let from = self.folder.domain(of_folder(&pool.name), &domain.name);
            if from.exists() || leftover(&from).exists() {
                return Ok(self.planned(pools, (&pool.name, from), (to, domain), true));
            }
        }
        let message = format!("the domain '{}' lies in the pool '{to}' already", domain.name);
        Err(refused(message, "All domains: icecore server domains"))
    }

    fn planned(
        &self,
        pools: &[Pool],
        (source, from): (&Name, PathBuf),
        (target, domain): (&Name, &Domain),
        is_switched: bool,
    ) -> PlannedMove {
        let at = |name| self.folder.domain(of_folder(name), &domain.name);
        let is_other =
            |pool: &&Pool| may_look(&self.folder, pool) && ![source, target].contains(&&pool.name);
        let others = pools.iter().filter(is_other).map(|pool| at(&pool.name)).collect();
        let to = at(target);
        let (from_pool, to_pool) = (of_folder(source).cloned(), of_folder(target).cloned());
        PlannedMove { from_pool, to_pool, from, to, others, is_switched }
    }
}

fn takes_it(pool: &Pool) -> Result<()> {
    if pool.state == PoolState::Online {
        return Ok(());
    }
    let message = format!("the pool '{}' is {}: it takes no domains", pool.name, pool.state);
    Err(refused(message, &online(&pool.name)))
}

/// Its domain is removed from it in the end.
fn gives_it(pool: &Pool) -> Result<()> {
    if matches!(pool.state, PoolState::Online | PoolState::Draining) {
        return Ok(());
    }
    let name = &pool.name;
    let message = format!("the pool '{name}' is {}: no domain can be moved from it", pool.state);
    Err(refused(message, &format!("Let it be written: icecore server pool state {name} draining")))
}
