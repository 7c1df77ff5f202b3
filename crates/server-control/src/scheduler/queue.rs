//! Jobs that wait for their turn.

use super::estimate::starts;
use super::{Known, Scheduler, server};
use crate::Result;
use api::job_log::LogLevel;
use api::jobs::{Job, JobCause, JobState};
use catalog::job_log::NewEntry;
use catalog::schedules::OpenRun;
use rustc_hash::FxHashMap;
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
        add_estimates(&mut waits, known, &queue, &hindrances, now_secs);
        self.note_waits(&known.hindrances, &hindrances, &waits, now_secs);
        self.jobs.wait_for(waits);
        known.hindrances = hindrances;
        for (job, node) in started {
            self.give(known, job, now_secs)?;
            known.starts += 1;
            known.last_start.insert(node, known.starts);
        }
        Ok(())
    }

    /// Notes in the log of each job what it waits for, when that is something else than before.
    fn note_waits(
        &self,
        before: &FxHashMap<u64, Turn>,
        now: &FxHashMap<u64, Turn>,
        waits: &BTreeMap<u64, String>,
        time: i64,
    ) {
        let is_other = |(job, turn): &(&u64, &Turn)| before.get(*job).map(code) != Some(code(turn));
        let entry = |(job, turn): (&u64, &Turn)| {
            let message = waits.get(job).map_or("", String::as_str);
            NewEntry { job: *job, time, level: LogLevel::Info, code: code(turn), message }
        };
        let mut entries: Vec<_> = now.iter().filter(is_other).map(entry).collect();
        entries.sort_by_key(|entry| entry.job);
        self.jobs.note(&entries);
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
            Err(error) => {
                // It may have begun for all that: its node is told, and the next look finds it or starts it.
                self.commands.was_given();
                self.jobs.have_changed();
                return Err(error.into());
            }
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

/// What a job waits for, as its log says it.
fn code(turn: &Turn) -> &'static str {
    match turn {
        Turn::Start => "starts",
        Turn::Away => "waits-for-agent",
        Turn::Busy => "waits-for-node",
        Turn::Slot { .. } => "waits-for-slot",
    }
}

/// How long jobs wait for a slot, where all that is before them has been measured.
fn add_estimates(
    waits: &mut BTreeMap<u64, String>,
    known: &Known,
    queue: &[Queued<'_>],
    hindrances: &FxHashMap<u64, Turn>,
    now_secs: i64,
) {
    let mut units: BTreeMap<&str, Vec<(usize, u64)>> = BTreeMap::new();
    for one in queue {
        if let Some(Turn::Slot { before }) = hindrances.get(&one.job) {
            units.entry(one.unit).or_default().push((*before, one.job));
        }
    }
    for (unit, mut waiting) in units {
        waiting.sort_unstable();
        let running = known.open.iter().filter(|run| run.job.state != JobState::Queued);
        let running = running.filter(|run| run.job.plan.as_ref().is_some_and(|it| it.unit == unit));
        let left =
            running.map(|run| Some((known.took_secs(run)? - (now_secs - run.job.begun)).max(0)));
        let find = |job: u64| known.open.iter().find(|run| run.job.id == job);
        // Those that start just now are among the queued ones still.
        let starting = queue
            .iter()
            .filter(|one| one.unit == unit && !hindrances.contains_key(&one.job))
            .map(|one| known.took_secs(find(one.job)?));
        let left: Vec<_> = left.chain(starting).collect();
        let took: Vec<_> = waiting.iter().map(|(_, job)| known.took_secs(find(*job)?)).collect();
        let default = site::Unit::default();
        let slots = known.site.units.get(unit).unwrap_or(&default).max_jobs as usize;
        for ((_, job), secs) in waiting.iter().zip(starts(slots, &left, &took)) {
            if let (Some(text), Some(secs)) = (waits.get_mut(job), secs) {
                text.push_str(&format!(", about {} min", (secs + 59) / 60));
            }
        }
    }
}

impl Known {
    /// How long the last run of the same source took.
    fn took_secs(&self, run: &OpenRun) -> Option<i64> {
        let plan = run.job.plan.as_ref()?;
        let key = (run.job.node.clone(), plan.policy.clone(), plan.source.clone());
        self.took.get(&key).copied()
    }
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
            format!("waits for a slot of unit {}: {before} ahead of it", one.unit)
        }
    }
}
