//! Jobs that move a domain to another pool: of this server, or of the storage server on which it lies.

use super::Upkeep;
use super::came::{Came, json};
use super::watch::JobWatch;
use crate::error::{missing, parse_name};
use crate::pools::PlannedMove;
use crate::storage_servers::{StorageMoves, WhatIsHeard};
use crate::{Error, Result, SERVER, by};
use api::Name;
use api::pools::MoveDomain;
use api::storage_moves::{MoveEnd, MoveOrder};
use api::upkeep::{MoveReport, StartedUpkeepJob};
use catalog::By;
use catalog::upkeep::{MoveTo, NewUpkeepJob, OpenUpkeepJob};
use repository::watch::Watch;
use server_contract::moving::{MoveControl, MoveRequest};
use std::time::Duration;

/// The task of these jobs, and in whose name they are queued.
const TASK: &str = "move";
/// How often it is looked what a storage server said of a move.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Upkeep {
    /// Queues a job that moves a domain, if that is possible as it is now.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Catalog`]; [`Error::Usage`] when one is queued already.
    pub(crate) fn start_move(
        &self,
        by: By<'_>,
        domain: &Name,
        wanted: &MoveDomain,
    ) -> Result<StartedUpkeepJob> {
        let known = self.catalog.domain(domain)?.ok_or_else(|| missing("domain", domain))?;
        // Only the storage server knows its pools: it says when the job begins what stands in the way.
        if known.storage.is_none() {
            self.pools.plan_move(&known, &wanted.pool)?;
        }
        let new = NewUpkeepJob {
            upkeep: TASK.to_owned(),
            schedule: None,
            domain: domain.to_string(),
            task: TASK.to_owned(),
            until: None,
            to: Some(MoveTo {
                pool: wanted.pool.clone(),
                interrupt: wanted.interrupt,
                bytes_per_sec: wanted.bytes_per_sec,
            }),
        };
        let job = self.catalog.queue_upkeep(by, std::slice::from_ref(&new))?.into_iter().next();
        let job = job.flatten().ok_or_else(|| {
            Error::Usage(format!(
                "a job that moves the domain '{domain}' waits or runs already: icecore server jobs"
            ))
        })?;
        self.jobs.have_changed();
        Ok(StartedUpkeepJob { domain: new.domain, task: new.task, job: Some(job) })
    }
}

/// What the mover may do to the control plane.
struct Control<'a> {
    upkeep: &'a Upkeep,
    domain: &'a Name,
    planned: &'a PlannedMove,
}

impl MoveControl for Control<'_> {
    fn is_free(&self) -> bool {
        self.upkeep.repositories.uses().close(self.domain)
    }

    fn may_go_on(&self) -> std::result::Result<(), String> {
        self.upkeep.pools.may_move(self.planned).map_err(|error| error.to_string())
    }

    fn reopen(&self) {
        self.upkeep.repositories.uses().reopen(self.domain);
    }

    fn switch(&self) -> std::result::Result<(), String> {
        let PlannedMove { from_pool, to_pool, .. } = self.planned;
        let catalog = &self.upkeep.catalog;
        let moved =
            catalog.move_domain(by(SERVER), self.domain, from_pool.as_ref(), to_pool.as_ref());
        moved.map_err(|error| error.to_string())
    }
}

/// Moves the domain of a job.
pub(super) fn run(
    upkeep: &Upkeep,
    open: &OpenUpkeepJob,
    to: &MoveTo,
    watch: &JobWatch<'_>,
) -> Result<Came> {
    let name = parse_name(&open.wanted.domain)?;
    let domain = upkeep.catalog.domain(&name)?.ok_or_else(|| missing("domain", &name))?;
    if let Some(storage) = &domain.storage {
        let order = order(open.job.id, &name, to);
        return Ok(follow(&upkeep.table.moves, storage, order, watch));
    }
    let planned = upkeep.pools.plan_move(&domain, &to.pool)?;
    let Some(mover) = upkeep.mover.read().clone() else {
        return Ok(Came::failed("this server moves no domains".to_owned()));
    };
    let request = MoveRequest {
        from: &planned.from,
        to: &planned.to,
        others: &planned.others,
        interrupt: to.interrupt,
        bytes_per_sec: to.bytes_per_sec,
        is_switched: planned.is_switched,
    };
    let control = Control { upkeep, domain: &name, planned: &planned };
    let moved = mover.move_domain(&request, &control, watch);
    Ok(match moved {
        Ok(moved) if moved.is_done => {
            let (files, bytes, closed_ms) = (moved.files, moved.bytes, moved.closed_ms);
            Came::done(json(&MoveReport { files, bytes, closed_ms }))
        }
        Ok(_) => stopped(),
        Err(error) => Came::failed(error.to_string()),
    })
}

fn stopped() -> Came {
    Came::failed("it was cancelled: the domain stays where it was".to_owned())
}

fn order(job: u64, domain: &Name, to: &MoveTo) -> MoveOrder {
    let (domain, pool) = (domain.clone(), to.pool.clone());
    let (interrupt, bytes_per_sec) = (to.interrupt, to.bytes_per_sec);
    MoveOrder { job, domain, pool, interrupt, bytes_per_sec, goes_on: true }
}

/// Has the storage server carry out a move, to its end.
fn follow(moves: &StorageMoves, storage: &Name, order: MoveOrder, watch: &dyn Watch) -> Came {
    let job = order.job;
    moves.want(storage, order);
    let came = loop {
        match moves.heard(job, watch.goes_on()) {
            WhatIsHeard::News { stage, more } => {
                watch.stage(&stage);
                watch.moved(more);
            }
            WhatIsHeard::End(MoveEnd::Done(report)) => break Came::done(json(&report)),
            WhatIsHeard::End(MoveEnd::Stopped) => break stopped(),
            WhatIsHeard::End(MoveEnd::Failed(why)) => break Came::failed(why),
            WhatIsHeard::Nothing => {}
            WhatIsHeard::Unknown => break Came::failed(too_old(storage)),
            WhatIsHeard::Silence => break Came::failed(silent(storage)),
        }
        std::thread::sleep(LOOK_EVERY);
    };
    moves.forget(job);
    came
}

fn too_old(storage: &Name) -> String {
    format!(
        "the storage server '{storage}' does not know moves: update Icecore there, and move again"
    )
}

fn silent(storage: &Name) -> String {
    format!(
        "the storage server '{storage}' does not answer: icecore server storage-servers. The next move continues with what was copied"
    )
}
