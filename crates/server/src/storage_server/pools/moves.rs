//! Which domain can be moved to which pool, and what is noted of it.

use super::{Pool, Pools, is_offline, name_of, online, pool_of};
use api::Name;
use api::pools::PoolState;
use server_contract::access_control::Refusal;
use server_contract::moving::leftover;
use server_contract::pool::moves;
use std::path::PathBuf;

const LIST: &str = "On the storage server: icecore storage pool list";

/// A move of a domain.
pub(in super::super) struct PlannedMove {
    pub(in super::super) domain: Name,
    /// The directory of the domain in each pool.
    pub(in super::super) from: PathBuf,
    pub(in super::super) to: PathBuf,
    /// What its directory would be in all others.
    pub(in super::super) others: Vec<PathBuf>,
    /// An earlier move was killed when the domain lay in its new pool already.
    pub(in super::super) is_switched: bool,
    from_pool: Pool,
    to_pool: Pool,
}

impl Pools {
    /// What has to be done to move `domain` to the pool `to`; nothing if it lies there: a control server asks again when
    /// this one was killed behind the end of a move.
    ///
    /// # Errors
    /// [`Refusal`] when one of the pools does not allow it or there is none, and when the domain is in no pool, or in
    /// two for another reason than a move.
    pub(in super::super) fn plan_move(
        &self,
        domain: &Name,
        to: &Name,
    ) -> Result<Option<PlannedMove>, Refusal> {
        let (all, target) = (self.all(), pool_of(to));
        if !all.contains(&target) {
            return Err(Refusal::new(format!("the storage server has no pool '{to}'"), LIST));
        }
        // In one that cannot be looked into another directory of the domain may lie.
        all.iter().try_for_each(|pool| self.can_be_looked_into(pool, domain))?;
        let at = |pool: &Pool| self.folder.domain(pool.as_ref(), domain);
        let found: Vec<_> = all.iter().filter(|pool| at(pool).exists()).collect();
        let (source, is_switched) = match *found {
            [] => return Err(is_nowhere(domain)),
            [only] if *only == target => {
                let is_left = |pool: &&Pool| *pool != only && leftover(&at(pool)).exists();
                let Some(of_earlier) = all.iter().find(is_left) else { return Ok(None) };
                (of_earlier, true)
            }
            [only] => {
                self.takes_it(&target)?;
                self.gives_it(only)?;
                (only, false)
            }
            [one, other] if self.moves_to(domain).as_ref() == Some(&target) => {
                (if *one == target { other } else { one }, true)
            }
            [one, other, ..] => return Err(self.twice(domain, [one, other])),
        };
        let is_other = |pool: &&Pool| **pool != target && *pool != source;
        let others = all.iter().filter(is_other).map(at).collect();
        let (from, to, domain) = (at(source), at(&target), domain.clone());
        let (from_pool, to_pool) = (source.clone(), target);
        Ok(Some(PlannedMove { domain, from, to, others, is_switched, from_pool, to_pool }))
    }

    /// Whether the states of both pools still allow it.
    ///
    /// # Errors
    /// [`Refusal`] when one does not.
    pub(in super::super) fn may_move(&self, planned: &PlannedMove) -> Result<(), Refusal> {
        self.takes_it(&planned.to_pool)?;
        self.gives_it(&planned.from_pool)
    }

    fn can_be_looked_into(&self, pool: &Pool, domain: &Name) -> Result<(), Refusal> {
        if self.state(pool) == PoolState::Offline {
            return Err(is_offline(pool, domain));
        }
        let failed =
            |why| Refusal::new(format!("the pool '{}' cannot be used: {why}", name_of(pool)), LIST);
        self.usable(pool.as_ref()).map_err(failed)
    }

    fn takes_it(&self, pool: &Pool) -> Result<(), Refusal> {
        match self.state(pool) {
            PoolState::Online => Ok(()),
            state => {
                let message =
                    format!("the pool '{}' is {state}: it takes no domains", name_of(pool));
                Err(Refusal::new(message, online(pool)))
            }
        }
    }

    /// The domain is removed from it in the end.
    fn gives_it(&self, pool: &Pool) -> Result<(), Refusal> {
        match self.state(pool) {
            PoolState::Online | PoolState::Draining => Ok(()),
            state => {
                let name = name_of(pool);
                let message =
                    format!("the pool '{name}' is {state}: no domain can be moved from it");
                let hint =
                    format!("On the storage server: icecore storage pool state {name} draining");
                Err(Refusal::new(message, hint))
            }
        }
    }

    /// Nobody uses the domain from now on.
    pub(in super::super) fn close(&self, domain: &Name) {
        self.closed.lock().insert(domain.clone());
    }

    /// It may be used again.
    pub(in super::super) fn reopen(&self, domain: &Name) {
        self.closed.lock().remove(domain);
    }

    /// Durably notes where the domain is about to lie: until the move has ended it may lie in two pools.
    ///
    /// # Errors
    /// Why that could not be noted.
    pub(in super::super) fn note_move(&self, planned: &PlannedMove) -> Result<(), String> {
        let noted = self.folder.publish(&note_of(&planned.domain), name_of(&planned.to_pool));
        noted.map_err(|error| error.to_string())
    }

    /// The pool to which it is noted that the domain moves. Without a note it lies in two pools for an unknown reason.
    pub(super) fn moves_to(&self, domain: &Name) -> Option<Pool> {
        let name = self.folder.text(&note_of(domain)).ok()??;
        name.parse().ok().map(|name| pool_of(&name))
    }

    /// Removes the note, unless the next move has to finish this one. If it `is_in_doubt` which of two directories is
    /// the right one, only people can.
    pub(in super::super) fn move_has_ended(&self, planned: &PlannedMove, is_in_doubt: bool) {
        self.chosen.lock().remove(&planned.domain);
        // In a pool that is not mounted it may lie still.
        let may_lie = |at| moves::exists(at).unwrap_or(true);
        if may_lie(&planned.from) && may_lie(&planned.to) && !is_in_doubt {
            return;
        }
        let path = self.folder.file(&note_of(&planned.domain));
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %path.display(), "the note of a move stays");
        }
    }
}

fn note_of(domain: &Name) -> String {
    format!("moves/{domain}")
}

fn is_nowhere(domain: &Name) -> Refusal {
    let message = format!("nothing is stored in the domain '{domain}' yet");
    Refusal::new(message, "Its first backup chooses a pool that is online.")
}
