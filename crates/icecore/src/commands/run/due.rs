//! Which backups are due, and starting them one after the other.

use super::child;
use super::state::{FailedRun, Settled, State};
use crate::codes::Code;
use crate::commands::backup::Identity;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::time;
use clock::{Doubt, Reading};
use format::entry::Time;
use jiff::tz::TimeZone;
use schedule::{Decision, Failed, Level, Next, Situation, Start, Timetable, Waiting};
use serde::Serialize;
use site::{Policy, Site, Source};
use std::collections::BTreeSet;

/// All sources that policies have on this machine.
pub(super) struct Runs {
    pub(super) sources: Vec<PolicySource>,
    forced: BTreeSet<String>,
}

/// A source of a policy.
#[derive(Clone)]
pub(super) struct PolicySource {
    pub(super) policy: String,
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) class: String,
    pub(super) wanted: Policy,
    schedules: Vec<(String, Timetable)>,
    is_paused: bool,
}

/// A schedule of a source, and what came of it.
#[derive(Serialize)]
pub(super) struct Ran {
    pub(super) policy: String,
    pub(super) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schedule: Option<String>,
    /// Whether a backup is due.
    pub(super) is_due: bool,
    /// Runs that did not start in their time and never will.
    pub(super) missed: u64,
    /// When the next one is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<NextRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip)]
    pub(super) code: Option<Code>,
    #[serde(skip)]
    key: String,
    #[serde(skip)]
    start: Option<(Start, PolicySource)>,
}

/// When a schedule wants the next run.
#[derive(Clone, Copy)]
pub(super) enum NextRun {
    /// In seconds since 1970.
    At(i64),
    /// A run of the source is taken already.
    AfterThis,
}

impl NextRun {
    const AFTER_THIS: &str = "after this one";

    /// As people read it, in the zone of this machine.
    fn shown(self) -> String {
        match self {
            Self::At(secs) => time::show(Time { secs, nanos: 0 }),
            Self::AfterThis => Self::AFTER_THIS.to_owned(),
        }
    }
}

impl Serialize for NextRun {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::At(secs) => serializer.serialize_str(&time::json(Time { secs: *secs, nanos: 0 })),
            Self::AfterThis => serializer.serialize_str(Self::AFTER_THIS),
        }
    }
}

impl Runs {
    /// Those of `node`.
    pub(super) fn new(
        context: &Context,
        site: &Site,
        node: &str,
        forced: &[String],
    ) -> Result<Self> {
        let forced: BTreeSet<String> = forced.iter().cloned().collect();
        if let Some(unknown) = forced.iter().find(|name| !site.policies.contains_key(*name)) {
            return Err(Failure::usage(format!("the file has no policy '{unknown}'")));
        }
        let now_secs = jiff::Timestamp::now().as_second();
        let mut sources = Vec::new();
        for (name, policy) in site.policies.iter().filter(|(_, one)| is_for(site, one, node)) {
            let is_paused =
                site.nodes.get(node).is_some_and(|node| node.paused_at(now_secs).is_some());
            for (source_name, source) in policy.sources() {
                refuse_unknown(name, source_name, &source)?;
                sources.push(PolicySource {
                    policy: name.clone(),
                    name: source_name.to_owned(),
                    source,
                    class: site.class_of(policy).to_owned(),
                    wanted: policy.clone(),
                    schedules: timetables(site, policy)?,
                    is_paused,
                });
            }
        }
        sources.sort_by_key(|one| std::cmp::Reverse(one.wanted.priority));
        refuse_same_paths(context, &sources)?;
        Ok(Self { sources, forced })
    }

    /// What each schedule wants now. What is settled by it is stored before anything is done.
    pub(super) fn decide(&self, state: &mut State, now: Reading, is_dry: bool) -> Result<Vec<Ran>> {
        let mut all = Vec::new();
        for source in &self.sources {
            let mut is_taken = false;
            if self.forced.contains(&source.policy) {
                all.push(source.by_hand(now));
                is_taken = true;
            }
            for (name, timetable) in &source.schedules {
                let ran = source.decide(name, timetable, state, now, is_taken);
                is_taken |= ran.is_due;
                all.push(ran);
            }
            if source.schedules.is_empty() && !is_taken {
                all.push(source.ran(None));
            }
        }
        if !is_dry {
            state.store()?;
        }
        Ok(all)
    }
}

/// A policy without members is for the machine that has the file.
fn is_for(site: &Site, policy: &Policy, node: &str) -> bool {
    let names_none =
        policy.groups.is_empty() && policy.nodes.is_empty() && policy.labels.is_empty();
    names_none || !site.members(policy, &[node.to_owned()].into()).is_empty()
}

fn refuse_unknown(policy: &str, name: &str, source: &Source) -> Result<()> {
    if source.stream.is_none() {
        return Ok(());
    }
    let message = format!("policy {policy}, source {name}: icecore run backs up files only");
    Err(Failure::usage(message)
        .hint("For the output of a program: icecore backup --command NAME -- PROGRAM"))
}

/// Their snapshots could not be told apart, however each of them writes the paths.
fn refuse_same_paths(context: &Context, sources: &[PolicySource]) -> Result<()> {
    let mut seen: Vec<(Identity, &str)> = Vec::new();
    for one in sources {
        // What cannot be named cannot be backed up either, and that is told then.
        let Ok(identity) = one.identity(context) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
            let paths: Vec<_> = identity.paths.iter().map(|path| escape::text(path)).collect();
            return Err(Failure::usage(format!(
                "the policies {other} and {} back up the same paths: {}",
                one.policy,
                paths.join(" ")
            ))
            .hint("Give both schedules to one policy: schedules = [\"hourly\", \"weekly\"]"));
        }
        seen.push((identity, &one.policy));
    }
    Ok(())
}

fn timetables(site: &Site, policy: &Policy) -> Result<Vec<(String, Timetable)>> {
    let timetable = |name: &String| {
        let schedule = site.schedules.get(name)?.clone();
        let zone = TimeZone::get(&schedule.zone.0).ok()?;
        Some((name.clone(), Timetable::new(schedule, zone).ok()?))
    };
    // The file was read as a whole: what is missing here is an error of this program.
    let unknown = |name: &String| Failure::usage(format!("there is no schedule '{name}'"));
    policy.schedules.iter().map(|name| timetable(name).ok_or_else(|| unknown(name))).collect()
}

impl PolicySource {
    /// What its snapshots are known by: what a backup of it, started now, would call it.
    pub(super) fn identity(&self, context: &Context) -> Result<Identity> {
        Identity::of(&child::words(self, Level::Incremental), context)
    }

    /// Its name for people.
    pub(super) fn shown(&self) -> String {
        format!("policy {}, source {}", self.policy, self.name)
    }

    fn ran(&self, schedule: Option<&str>) -> Ran {
        Ran {
            policy: self.policy.clone(),
            source: self.name.clone(),
            schedule: schedule.map(str::to_owned),
            is_due: false,
            missed: 0,
            next: None,
            snapshot: None,
            result: None,
            message: None,
            code: None,
            key: format!("{}\n{}\n{}", self.policy, self.name, schedule.unwrap_or_default()),
            start: None,
        }
    }

    fn by_hand(&self, now: Reading) -> Ran {
        let (due_secs, level) = (now.secs, Level::Incremental);
        let start = Start { due_secs, until_secs: i64::MAX, level, attempt: 1, is_late: false };
        Ran { is_due: true, start: Some((start, self.clone())), ..self.ran(None) }
    }

    /// What a schedule wants now. A run of the source that was taken before counts as one that runs.
    fn decide(
        &self,
        name: &str,
        timetable: &Timetable,
        state: &mut State,
        now: Reading,
        is_running: bool,
    ) -> Ran {
        let mut ran = self.ran(Some(name));
        if self.is_paused {
            ran.message = Some("paused".to_owned());
            return ran;
        }
        // A schedule applies from the moment at which it is first seen.
        let first = Settled { secs: now.secs, ..Settled::default() };
        let settled = state.stored.schedules.entry(ran.key.clone()).or_insert(first);
        settled.believe_wall_clock(now);
        match settled.by_wall_clock(now) {
            None => self.settle(timetable, settled, (now, is_running), &mut ran),
            Some((wall, mut by_wall)) => {
                self.settle(timetable, &mut by_wall, (wall, is_running), &mut ran);
                settled.wall_secs = by_wall.secs;
                settled.failed = by_wall.failed;
            }
        }
        ran
    }

    /// Settles what is due by `now`.
    fn settle(
        &self,
        timetable: &Timetable,
        settled: &mut Settled,
        (now, is_running): (Reading, bool),
        ran: &mut Ran,
    ) {
        loop {
            let decision = timetable.decide(&ran.key, now, &settled.situation(is_running));
            let Decision { missed, settled_secs, next } = decision;
            settled.secs = settled_secs;
            ran.missed += missed.len() as u64;
            match next {
                Next::Due(start) => {
                    // Until it has ended well it counts as failed: whatever ends us.
                    settled.failed = Some(FailedRun {
                        due_secs: start.due_secs,
                        attempts: start.attempt,
                        ended_secs: now.secs,
                    });
                    ran.is_due = true;
                    ran.start = Some((start, self.clone()));
                    ran.next = timetable.next(now.secs).map(|next| NextRun::At(next.due_secs));
                }
                Next::NotBefore(secs) if secs <= now.secs => continue,
                Next::NotBefore(secs) => ran.next = Some(NextRun::At(secs)),
                Next::Waiting(Waiting::Running) => ran.next = Some(NextRun::AfterThis),
                Next::Waiting(_) => {}
            }
            return;
        }
    }
}

impl Settled {
    /// While the clock of the machine is ahead of what can be, it says what is due all the same, or a machine that was
    /// off for long would make up for nothing: a backup too many does no harm. How far schedules are settled by it is
    /// kept apart: if it is set back, they go on as if it had never been ahead.
    fn by_wall_clock(&self, now: Reading) -> Option<(Reading, Self)> {
        let Some(Doubt::Fast(ahead_secs)) = now.doubt else { return None };
        let wall_secs = now.secs.saturating_add(ahead_secs);
        let secs = self.secs.max(self.wall_secs);
        (secs <= wall_secs).then(|| (Reading::certain(wall_secs), Self { secs, ..self.clone() }))
    }

    /// Once it was right after all, what was settled by it is.
    fn believe_wall_clock(&mut self, now: Reading) {
        if now.doubt.is_none() && self.wall_secs <= now.secs {
            self.secs = self.secs.max(std::mem::take(&mut self.wall_secs));
        }
    }

    fn situation(&self, is_running: bool) -> Situation {
        Situation {
            settled_secs: self.secs,
            is_running,
            failed: self.failed.map(|failed| Failed {
                due_secs: failed.due_secs,
                attempts: failed.attempts,
                ended_secs: failed.ended_secs,
            }),
            last_complete_secs: self.last_backup_secs,
            is_seen: true,
        }
    }
}

impl Ran {
    /// When the next one is due, for people.
    pub(super) fn shown_next(&self) -> String {
        self.next.map_or_else(|| "by hand".to_owned(), NextRun::shown)
    }

    /// In a few words.
    pub(super) fn shown(&self) -> String {
        let what = match (self.result, self.is_due) {
            (Some(result), _) => result,
            (None, true) => "due",
            (None, false) => "not due",
        };
        let snapshot = self.snapshot.as_deref().map(|id| format!(" {}", &id[..id.len().min(8)]));
        let missed = (self.missed > 0).then(|| format!(", {} missed", self.missed));
        let message = self.message.as_deref().map(|text| format!(": {text}"));
        [Some(what.to_owned()), snapshot, missed, message].into_iter().flatten().collect()
    }
}

/// Starts what is due, one after the other. What came of each is stored before the next begins.
pub(super) fn carry_out(context: &Context, state: &mut State, all: &mut [Ran]) -> Result<()> {
    for ran in all {
        let Some((start, source)) = ran.start.take() else { continue };
        if context.is_cancelled() {
            ran.message = Some("stopped before it began".to_owned());
            continue;
        }
        let ended = child::back_up(context, &source, start.level)?;
        let now = state.read_clock();
        ran.result = Some(ended.code.name());
        (ran.code, ran.snapshot, ran.message) = (Some(ended.code), ended.snapshot, ended.message);
        if let Some(settled) = state.stored.schedules.get_mut(&ran.key) {
            let is_made = matches!(ended.code, Code::Complete | Code::Partial);
            settled.failed = settled.failed.filter(|_| !is_made);
            if let Some(failed) = &mut settled.failed {
                failed.ended_secs = now.secs;
            }
            if is_made {
                settled.last_backup_secs = Some(now.secs);
            }
        }
        state.store()?;
    }
    Ok(())
}
