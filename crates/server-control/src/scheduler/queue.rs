//! Jobs that wait for their turn.

use super::{Known, Scheduler, server};
use crate::Result;
use api::jobs::{Job, JobCause, JobState};
use catalog::schedules::OpenRun;
use schedule::queue::{Queued, Site, Slots, Turn, turns};
use site::DEFAULT_UNIT;
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Starts the jobs whose turn it is, and notes why the others wait.
    pub(super) fn take_turns(&self, known: &mut Known, now_secs: i64) -> Result<()> {
        let queue: Vec<Queued<'_>> = known.open.iter().filter_map(queued).collect();
        let connected = self.agents.all();
        let site = self.site(known, &connected);
        let turns = turns(&queue, &site);
        let mut started = Vec::new();
        let (mut waits, mut hindrances) = (BTreeMap::new(), known.hindrances.clone());
        hindrances.clear();
        for (one, turn) in queue.iter().zip(turns) {
            if turn == Turn::Start {
                started.push((one.job, one.node.to_owned()));
            } else {
                waits.insert(one.job, reason(turn, one));
                hindrances.insert(one.job, turn);
            }
        }
        self.jobs.wait_for(waits);
        known.hindrances = hindrances;
        for (job, node) in started {
            self.give(known, job, now_secs)?;
            known.starts += 1;
            known.last_start.insert(node, known.starts);
        }
        Ok(())
    }

    fn site<'a>(&self, known: &'a Known, connected: &'a [String]) -> Site<'a> {
        let runs = || known.open.iter().filter(|run| run.job.state == JobState::Running);
        let mut units: BTreeMap<&str, Slots> = BTreeMap::new();
        units.insert(DEFAULT_UNIT, Slots { max: site::Unit::default().max_jobs as usize, used: 0 });
        for (name, unit) in &known.site.units {
            units.insert(name, Slots { max: unit.max_jobs as usize, used: 0 });
        }
        for plan in runs().filter_map(|run| run.job.plan.as_ref()) {
            units.entry(plan.unit.as_str()).or_default().used += 1;
        }
        let mut busy: BTreeSet<&str> = runs().map(|run| run.job.node.as_str()).collect();
        let has_session = |node: &&str| self.jobs.has_any_of(node);
        busy.extend(connected.iter().map(String::as_str).filter(has_session));
        let last_start = known.last_start.iter().map(|(node, at)| (node.as_str(), *at)).collect();
        let connected = connected.iter().map(String::as_str).collect();
        Site { units, busy, connected, last_start }
    }

    /// Gives the node of a job its command.
    fn give(&self, known: &Known, job: u64, now_secs: i64) -> Result<()> {
        match self.catalog.start_run(server(now_secs), job) {
            Ok(Some(command)) => {
                let run = known.open.iter().find(|run| run.job.id == job);
                if let Some(run) = run {
                    let begun =
                        Job { begun: now_secs, state: JobState::Running, ..run.job.clone() };
                    self.jobs.expect(command, begun);
                }
                self.commands.was_given();
            }
            Ok(None) => {}
            Err(catalog::Error::Missing { .. }) => {
                let how = (JobState::Missed, JobCause::NodeGone);
                let why = "its node was revoked or removed";
                self.catalog.end_queued(server(now_secs), job, how, why)?;
            }
            Err(error) => return Err(error.into()),
        }
        self.jobs.have_changed();
        Ok(())
    }
}

fn queued(run: &OpenRun) -> Option<Queued<'_>> {
    let plan = run.job.plan.as_ref().filter(|_| run.job.state == JobState::Queued)?;
    let (unit, priority, node) = (plan.unit.as_str(), plan.priority, run.job.node.as_str());
    Some(Queued { job: run.job.id, unit, priority, node })
}

/// Why a job waits, for people.
fn reason(turn: Turn, one: &Queued<'_>) -> String {
    match turn {
        Turn::Start => String::new(),
        Turn::Away => format!("the agent of {} is not connected", one.node),
        Turn::Busy => format!("{} runs another job", one.node),
        Turn::Slot { before: 0 } => {
            format!("waits for a slot of unit {}: it is the next", one.unit)
        }
        Turn::Slot { before } => {
            format!("waits for a slot of unit {}: {before} before it", one.unit)
        }
    }
}
