//! Starts the backups that policies want: decides what is due, keeps the queue of each storage unit, gives nodes their
//! commands, and ends jobs that can no longer begin.
//!
//! All that must outlive the server is in the catalog, settled in one transaction. What is in memory is read again
//! whenever jobs have ended. One [`Scheduler::tick`] does everything that is due and never waits for a node.

mod by_hand;
mod ends;
mod estimate;
mod lines;
mod queue;

use crate::agents::Agents;
use crate::commands::Commands;
use crate::jobs::Jobs;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::{Error, Result, SERVER};
pub(crate) use lines::class_key;

use api::jobs::JobState;
use catalog::backup_states::Expected;
use catalog::objects::Objects;
use catalog::schedules::{
    NewRun, OpenRun, ScheduleKey, ScheduleState, Settled, Settlement, SourceState,
};
use catalog::{By, Catalog};
use clock::Reading;
use lines::{Line, Member};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use schedule::{Decision, Failed, Next, Situation, Waiting};
use site::{Kind, Site};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Schedules that are settled in one transaction.
const SETTLED_AT_ONCE: usize = 500;
/// How often the list of nodes is read again.
const NODES_EVERY_SECS: i64 = 15;

/// Starts what policies want.
pub(crate) struct Scheduler {
    catalog: Arc<Catalog>,
    jobs: Arc<Jobs>,
    commands: Arc<Commands>,
    agents: Arc<Agents>,
    clock: Arc<MachineClock>,
    /// Whose nodes are all away until they have had time to come back.
    opened: Instant,
    known: Mutex<Known>,
}

/// What is known of policies, schedules and jobs.
#[derive(Default)]
struct Known {
    site: Site,
    site_version: Option<u64>,
    lines: Vec<Line>,
    nodes: Vec<Member>,
    nodes_at_secs: Option<i64>,
    states: FxHashMap<ScheduleKey, ScheduleState>,
    /// By node and source.
    sources: FxHashMap<(String, String), SourceState>,
    /// How long the newest run took, in seconds, by node, policy and source.
    took: FxHashMap<(String, String, String), i64>,
    open: Vec<OpenRun>,
    /// Of [`Jobs::changes`], when the above was read.
    changes: Option<u64>,
    starts: u64,
    last_start: BTreeMap<String, u64>,
    /// Why a job waits.
    hindrances: FxHashMap<u64, schedule::queue::Turn>,
}

impl Scheduler {
    /// Of this server; without policies.
    pub(crate) fn new(parts: &Parts, commands: Arc<Commands>) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            jobs: parts.jobs.clone(),
            commands,
            agents: parts.agents.clone(),
            clock: parts.clock.clone(),
            opened: Instant::now(),
            known: Mutex::default(),
        }
    }

    /// Jobs that were started before the server was go on: their nodes have the commands still.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn resume(&self) -> Result<()> {
        for run in self.catalog.open_runs()? {
            if let (Some(command), JobState::Running) = (run.command, run.job.state) {
                self.jobs.expect(command, run.job);
            }
        }
        Ok(())
    }

    /// The time by which runs start.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn now_secs(&self) -> Result<i64> {
        Ok(self.clock.read()?.secs)
    }

    /// Does what is due. A failure is logged, and what was not done is done the next time. Blocks.
    pub(crate) fn tick(&self) {
        let begun = Instant::now();
        let done = self.clock.read().map_err(Error::from).and_then(|now| self.tick_at(now));
        if let Err(error) = done {
            tracing::error!(%error, "cannot start what is due");
        }
        tracing::debug!(micros = begun.elapsed().as_micros(), "looked for what is due");
    }

    /// The same at a time. While the clock is in doubt, backups start as before: one too many costs little.
    pub(crate) fn tick_at(&self, now: Reading) -> Result<()> {
        self.jobs.write_ends_again();
        let known = &mut *self.known.lock();
        self.refresh(known, now.secs)?;
        self.end_what_cannot_begin(known, now.secs)?;
        self.decide(known, now)?;
        self.refresh(known, now.secs)?;
        self.take_turns(known, now.secs)
    }

    /// Reads again what has changed.
    fn refresh(&self, known: &mut Known, now_secs: i64) -> Result<()> {
        let nodes_are_old = |at: i64| !(0..NODES_EVERY_SECS).contains(&(now_secs - at));
        let is_new = known.site_version != Some(self.catalog.site_version()?);
        if is_new || known.nodes_at_secs.is_none_or(nodes_are_old) {
            self.refresh_lines(known, now_secs)?;
            known.nodes_at_secs = Some(now_secs);
        }
        let changes = self.jobs.changes();
        if known.changes != Some(changes) {
            self.refresh_states(known)?;
            known.changes = Some(changes);
        }
        Ok(())
    }

    /// Notes since when each source of a policy is expected, whether a schedule starts it or not.
    fn expect_sources(&self, site: &Site, nodes: &[Member], now_secs: i64) -> Result<()> {
        let all = |(name, policy)| lines::targets(site, name, policy, nodes);
        let targets: Vec<_> =
            site.policies.iter().flat_map(|(name, policy)| all((name.as_str(), policy))).collect();
        let expected = |target: &'_ lines::Target| {
            (target.member.name.to_string(), target.policy.clone(), target.source.clone())
        };
        let keys: Vec<_> = targets.iter().map(expected).collect();
        let sources: Vec<_> =
            keys.iter().map(|(node, policy, source)| Expected { node, policy, source }).collect();
        Ok(self.catalog.expect_sources(now_secs, &sources)?)
    }

    /// New lines when the policies or the nodes are others than before.
    fn refresh_lines(&self, known: &mut Known, now_secs: i64) -> Result<()> {
        let objects = self.catalog.objects()?;
        let nodes = self.catalog.nodes()?.into_iter().filter(|node| !node.revoked);
        let nodes: Vec<_> =
            nodes.map(|node| Member { name: node.name, domain: node.domain }).collect();
        if known.site_version == Some(objects.version) && known.nodes == nodes {
            return Ok(());
        }
        known.site_version = Some(objects.version);
        known.site = declared(objects);
        known.lines = lines::lines(&known.site, &nodes);
        self.expect_sources(&known.site, &nodes, now_secs)?;
        known.nodes = nodes;
        known.changes = None;
        Ok(())
    }

    fn refresh_states(&self, known: &mut Known) -> Result<()> {
        let states = self.catalog.schedule_states()?;
        known.states = states.into_iter().map(|state| (state.key.clone(), state)).collect();
        let named = |source: SourceState| ((source.node.clone(), source.source.clone()), source);
        known.sources = self.catalog.source_states()?.into_iter().map(named).collect();
        known.took = self.catalog.durations()?.into_iter().collect();
        known.open = self.catalog.open_runs()?;
        known.lines.iter_mut().for_each(|line| line.wake_secs = i64::MIN);
        self.drop_unwanted(known)
    }

    /// A schedule that is not wanted any more begins anew when it comes back: nothing was missed meanwhile.
    fn drop_unwanted(&self, known: &mut Known) -> Result<()> {
        let wanted: FxHashSet<&ScheduleKey> = known.lines.iter().map(|line| &line.key).collect();
        let unwanted: Vec<_> =
            known.states.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        self.catalog.drop_schedules(&unwanted)?;
        unwanted.iter().for_each(|key| drop(known.states.remove(key)));
        Ok(())
    }

    /// Settles what is due, and queues it.
    fn decide(&self, known: &mut Known, now: Reading) -> Result<()> {
        let open: FxHashSet<_> = known.open.iter().filter_map(source_of).collect();
        let mut settling = Vec::new();
        let mut lines = std::mem::take(&mut known.lines);
        for line in &mut lines {
            if line.wake_secs > now.secs || settling.len() >= SETTLED_AT_ONCE {
                continue;
            }
            if is_paused(&known.site, line, now.secs) {
                continue;
            }
            settling.extend(self.decide_one(known, line, &open, now));
        }
        known.lines = lines;
        if settling.is_empty() {
            return Ok(());
        }
        let all: Vec<_> = settling.iter().map(Settling::settlement).collect();
        let settled = self.catalog.settle(now.secs, &all)?;
        let queued = settled.iter().filter(|one| matches!(one, Settled::Done(Some(_)))).count();
        tracing::debug!(settled = settled.len(), queued, "schedules");
        self.jobs.have_changed();
        Ok(())
    }

    /// What is to be recorded of a line, if anything is.
    fn decide_one(
        &self,
        known: &Known,
        line: &mut Line,
        open: &FxHashSet<(&str, &str)>,
        now: Reading,
    ) -> Option<Settling> {
        let Some(state) = known.states.get(&line.key) else {
            // A schedule applies from the moment at which it is first seen.
            let (before, settled) = (None, now.secs);
            return Some(Settling {
                key: line.key.clone(),
                before,
                settled,
                missed: None,
                start: None,
            });
        };
        let source = (line.key.node.as_str(), line.key.source.as_str());
        let situation = Situation {
            settled_secs: state.settled,
            is_running: open.contains(&source),
            failed: state.failed.map(|failed| Failed {
                due_secs: failed.due,
                attempts: failed.attempts,
                ended_secs: failed.ended,
            }),
            // A partial backup is one: its reasons seldom go away by trying at once again.
            last_complete_secs: last_backup(known, &line.key),
            is_seen: self.agents.has(&line.key.node),
        };
        let text = format!("{}\0{}\0{}", line.key.node, line.key.source, line.key.schedule);
        let Decision { missed, settled_secs, next } = line.timetable.decide(&text, now, &situation);
        line.wake_secs = wake_secs(next, now.secs);
        let start = match next {
            Next::Due(start) => Some(line.due(&start)),
            Next::NotBefore(_) | Next::Waiting(_) => None,
        };
        let is_news = start.is_some() || !missed.is_empty() || settled_secs != state.settled;
        is_news.then(|| Settling {
            key: line.key.clone(),
            before: Some(state.settled),
            settled: settled_secs,
            missed: line.missed(&missed),
            start,
        })
    }
}

/// The site as the catalog has it. An object that this program does not understand keeps no other from being used.
pub(crate) fn declared(objects: Objects) -> Site {
    let mut site = Site::default();
    for object in objects.objects {
        let kind: Option<Kind> = object.kind.parse().ok();
        let set = kind.map(|kind| site.set(kind, &object.name, &object.body));
        if !matches!(set, Some(Ok(()))) {
            tracing::error!(
                kind = object.kind,
                object = object.name,
                "cannot use an object of the site"
            );
        }
    }
    site
}

/// What is recorded of one line.
struct Settling {
    key: ScheduleKey,
    before: Option<i64>,
    settled: i64,
    missed: Option<NewRun>,
    start: Option<NewRun>,
}

impl Settling {
    fn settlement(&self) -> Settlement<'_> {
        let Self { key, before, settled, missed, start } = self;
        let (missed, start) = (missed.as_ref(), start.as_ref());
        Settlement { key, before: *before, settled: *settled, missed, start }
    }
}

/// Node and source of an open job.
fn source_of(run: &OpenRun) -> Option<(&str, &str)> {
    Some((run.job.node.as_str(), run.job.plan.as_ref()?.source.as_str()))
}

fn last_backup(known: &Known, key: &ScheduleKey) -> Option<i64> {
    known.sources.get(&(key.node.clone(), key.source.clone()))?.last_backup
}

fn is_paused(site: &Site, line: &Line, now_secs: i64) -> bool {
    site.nodes.get(&line.key.node).is_some_and(|node| node.paused_at(now_secs).is_some())
}

/// When to ask again. What else may happen resets it.
fn wake_secs(next: Next, now_secs: i64) -> i64 {
    match next {
        Next::NotBefore(secs) => secs,
        Next::Waiting(Waiting::Manual | Waiting::Over) => i64::MAX,
        Next::Due(_) | Next::Waiting(Waiting::Running | Waiting::NotSeen) => now_secs,
    }
}

/// Who starts what is due.
fn server(now_secs: i64) -> By<'static> {
    By { who: SERVER, now_secs }
}

#[cfg(test)]
pub(crate) mod tests;
