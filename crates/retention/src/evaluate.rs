//! What becomes of each snapshot now, with every reason.
//!
//! A snapshot is kept as long as anything gives a reason to keep it, then it lies in the trash for
//! the trash period of its class, then it is expired. The rules see all snapshots of a series that
//! exist, those that they put into the trash too: their choice does not change because it was
//! carried out, and a policy that keeps more brings back what is still there.
//!
//! What stays, whatever the rules say:
//! - what is locked: no policy, no name and no hold shortens a lock;
//! - what a hold selects;
//! - the newest complete snapshot of a series, and that of each other list of paths that its source
//!   had, unless it is named, or its source was deleted by name and the class has rules for the
//!   versions of such sources;
//! - what is suspect, or has a policy or class that nobody knows: no rule can speak for it;
//! - everything that would go while the clock is in doubt.

use crate::class::{Class, Retention, TRASH_DEFAULT};
use crate::facts::{Facts, Trashed, TrashedBy};
use crate::hold::Hold;
use crate::keep::{self, CalendarTime, Candidate, KeepRules, complete_first};
use crate::reason::{Period, Reason, Until, Why};
use crate::versions;
use clock::Reading;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// All that decides besides the snapshots themselves.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    policies: BTreeMap<String, (Retention, TimeZone)>,
    holds: Vec<Hold>,
}

/// What becomes of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Its state.
    pub state: State,
    /// Everything that keeps it. Without any it is in the trash or expired.
    pub reasons: Vec<Reason>,
}

/// The state of a snapshot. The first that fits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody can delete it until then.
    Locked {
        /// When the lock ends.
        until_secs: i64,
    },
    /// A hold keeps it.
    Held,
    /// A rule keeps it. If it lies in the trash, it is to be brought back: the trash period begins
    /// anew when nothing keeps it any more.
    Kept,
    /// Nothing keeps it; it can be brought back.
    Trash {
        /// Since when: the present time, if it is to be moved there.
        since_secs: i64,
        /// When it goes.
        until_secs: i64,
    },
    /// It is to be deleted.
    Expired,
}

impl Verdict {
    /// When it stops being kept, if that depends on nothing but time.
    pub fn kept_until_secs(&self) -> Option<i64> {
        let at = |reason: &Reason| match reason.until {
            Until::At(secs) => Some(secs),
            _ => None,
        };
        let all: Option<Vec<i64>> = self.reasons.iter().map(at).collect();
        all?.into_iter().max()
    }
}

impl Rules {
    /// Adds a policy with the time zone that its retention names, in place of one of this name.
    pub fn policy(mut self, name: &str, retention: Retention, zone: TimeZone) -> Self {
        self.policies.insert(name.to_owned(), (retention, zone));
        self
    }

    /// Adds a hold.
    pub fn hold(mut self, hold: Hold) -> Self {
        self.holds.push(hold);
        self
    }

    /// What becomes of each of these snapshots, in their order, at a time. They must be all that
    /// exist of each series among them: what is newest shows only then.
    pub fn evaluate(&self, snapshots: &[Facts], now: Reading) -> Vec<Verdict> {
        let mut all: HashMap<[&str; 4], Vec<usize>> = HashMap::new();
        for (at, one) in snapshots.iter().enumerate() {
            all.entry(one.series()).or_default().push(at);
        }
        let mut verdicts = vec![None; snapshots.len()];
        for mut series in all.into_values() {
            series.sort_by_key(|at| snapshots[*at].age_order());
            let facts: Vec<&Facts> = series.iter().map(|at| &snapshots[*at]).collect();
            for (at, verdict) in series.iter().zip(self.series(&facts, now)) {
                verdicts[*at] = Some(verdict);
            }
        }
        verdicts.into_iter().flatten().collect()
    }

    /// The verdicts on all snapshots of a series, the newest first.
    fn series(&self, newest_first: &[&Facts], now: Reading) -> Vec<Verdict> {
        let rules = self.class(newest_first[0]);
        let is_counted = |one: &&&Facts| !one.is_named() && doubt(one, now.secs).is_none();
        let counted: Vec<&Facts> = newest_first.iter().filter(is_counted).copied().collect();
        let mut by_rules = match &rules {
            Ok((class, zone)) => kept_by_class(class, zone, &counted, now.secs),
            Err(why) => counted.iter().map(|_| vec![unknown(why)]).collect(),
        }
        .into_iter();
        let class = rules.as_ref().ok().map(|(class, _)| *class);
        let verdict = |one: &&Facts| {
            let reasons = match doubt(one, now.secs) {
                _ if one.is_named() => Vec::new(),
                Some(why) => vec![unknown(&Why::Suspect(why))],
                None => by_rules.next().unwrap_or_default(),
            };
            self.verdict(one, class, reasons, now)
        };
        newest_first.iter().map(verdict).collect()
    }

    fn class(&self, facts: &Facts) -> Result<(&Class, &TimeZone), Why> {
        let policy = self.policies.get(&facts.policy);
        let (retention, zone) = policy.ok_or_else(|| Why::UnknownPolicy(facts.policy.clone()))?;
        let class = retention.classes.get(&facts.class);
        Ok((class.ok_or_else(|| Why::UnknownClass(facts.class.clone()))?, zone))
    }

    fn verdict(
        &self,
        facts: &Facts,
        class: Option<&Class>,
        mut reasons: Vec<Reason>,
        now: Reading,
    ) -> Verdict {
        let is_kept = !reasons.is_empty();
        let held = self.holds.iter().filter_map(|hold| hold.reason(facts, now.secs));
        reasons.extend(held);
        let is_held = reasons.iter().any(|reason| matches!(reason.why, Why::Hold(_)));
        let locked = locked_until(facts, class).filter(|until| *until > now.secs);
        reasons.extend(locked.map(|until| Reason::new(Why::Lock, Until::At(until))));
        let state = match locked {
            Some(until_secs) => State::Locked { until_secs },
            None if is_held => State::Held,
            None if is_kept => State::Kept,
            None => leave(facts, class, &mut reasons, now),
        };
        Verdict { state, reasons }
    }
}

/// The state of a snapshot that nothing keeps. While the clock is in doubt it stays where it is.
fn leave(facts: &Facts, class: Option<&Class>, reasons: &mut Vec<Reason>, now: Reading) -> State {
    let span = class.map_or(TRASH_DEFAULT, |class| class.trash.0);
    let is_at_once = matches!(facts.trashed, Some(Trashed { by: TrashedBy::NameAtOnce, .. }));
    let since_secs = facts.trashed.map_or(now.secs, |trashed| trashed.since_secs);
    let until_secs = since_secs.saturating_add(span.signed_secs());
    let is_over = facts.trashed.is_some() && (is_at_once || until_secs <= now.secs);
    let Some(doubt) = now.doubt else {
        let trash = State::Trash { since_secs, until_secs };
        return if is_over { State::Expired } else { trash };
    };
    reasons.push(Reason::new(Why::Clock(doubt), Until::Released));
    if facts.trashed.is_some() { State::Trash { since_secs, until_secs } } else { State::Kept }
}

fn unknown(why: &Why) -> Reason {
    Reason::new(why.clone(), Until::Released)
}

/// Why the time of a snapshot is in doubt.
fn doubt(facts: &Facts, now: i64) -> Option<String> {
    let is_future = || "it was received after the present time".to_owned();
    facts.suspect.clone().or_else(|| (facts.received_secs > now).then(is_future))
}

/// The later one of the lock beside the snapshot and that of its class.
fn locked_until(facts: &Facts, class: Option<&Class>) -> Option<i64> {
    let span = class.and_then(|class| class.immutable);
    let by_class = span.map(|span| facts.received_secs.saturating_add(span.signed_secs()));
    facts.locked_until_secs.max(by_class)
}

/// The reasons of the rules of a class to keep each of these, the newest first. A deleted source is
/// ruled by its versions alone, if the class has rules for them: no snapshot comes that would move
/// its days and weeks on.
fn kept_by_class(
    class: &Class,
    zone: &TimeZone,
    newest_first: &[&Facts],
    now: i64,
) -> Vec<Vec<Reason>> {
    let deleted = newest_first.first().and_then(|newest| deleted_since(newest));
    let by_keep = || kept_by_rules(&class.keep_rules(), zone, newest_first);
    let mut reasons = match &class.versions {
        None => by_keep(),
        Some(versions) => {
            let by = |some: &[&Facts]| versions::keep(versions, some, deleted, now);
            let kept = complete_first(newest_first, |one| one.is_partial, by);
            if deleted.is_some() { kept } else { joined(by_keep(), kept) }
        }
    };
    if deleted.is_none() || class.versions.is_none() {
        keep_least(class, newest_first, &mut reasons);
        keep_other_paths(newest_first, &mut reasons);
    }
    reasons
}

/// The newest complete snapshot of each list of paths: nothing newer restores what the policy does not name any more.
fn keep_other_paths(newest_first: &[&Facts], reasons: &mut [Vec<Reason>]) {
    let mut seen = Vec::new();
    let complete = newest_first.iter().enumerate().filter(|(_, one)| !one.is_partial);
    for (at, paths) in complete.filter_map(|(at, one)| Some((at, one.paths?))) {
        if seen.contains(&paths) {
            continue;
        }
        if reasons[at].is_empty() {
            reasons[at].push(Reason::new(Why::NewestOfPaths, Until::Released));
        }
        seen.push(paths);
    }
}

/// Since when the source of its newest snapshot is deleted. One that was backed up since is back.
fn deleted_since(newest: &Facts) -> Option<i64> {
    newest.source_deleted_secs.filter(|since| *since >= newest.received_secs)
}

fn joined(mut reasons: Vec<Vec<Reason>>, more: Vec<Vec<Reason>>) -> Vec<Vec<Reason>> {
    reasons.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    reasons
}

fn kept_by_rules(rules: &KeepRules, zone: &TimeZone, newest_first: &[&Facts]) -> Vec<Vec<Reason>> {
    let candidates: Vec<_> = newest_first.iter().map(|one| candidate(zone, one)).collect();
    let mut reasons = keep::reasons(rules, &candidates);
    if !rules.tags.is_empty() {
        let sealed = newest_first.iter().zip(&mut reasons).filter(|(one, _)| one.tags.is_none());
        sealed.for_each(|(_, all)| all.push(Reason::new(Why::SealedTags, Until::Forever)));
    }
    reasons
}

fn candidate<'a>(zone: &TimeZone, one: &'a Facts) -> Candidate<'a> {
    Candidate {
        secs: one.received_secs,
        civil: calendar(zone, one.received_secs),
        is_partial: one.is_partial,
        tags: one.tags.as_deref().unwrap_or_default(),
    }
}

/// The minimum number of versions, and the newest complete one.
fn keep_least(class: &Class, newest_first: &[&Facts], reasons: &mut [Vec<Reason>]) {
    let minimum = class.minimum_versions;
    let complete = newest_first.iter().enumerate().filter(|(_, one)| !one.is_partial);
    for (number, (at, _)) in (0..minimum.max(1)).zip(complete) {
        if number < minimum {
            let until = Until::Newer { count: minimum - number, period: Period::Last };
            reasons[at].push(Reason::new(Why::Minimum(minimum), until));
        } else if reasons[at].is_empty() {
            reasons[at].push(Reason::new(Why::NewestComplete, Until::NewerComplete));
        }
    }
}

/// What a clock in `zone` shows, for the keep rules.
pub fn calendar(zone: &TimeZone, secs: i64) -> CalendarTime {
    let local = clock::civil::local(zone, secs);
    let week = local.date().iso_week_date();
    CalendarTime {
        year: local.year().into(),
        month: local.month().unsigned_abs(),
        day: local.day().unsigned_abs(),
        hour: local.hour().unsigned_abs(),
        week: (week.year().into(), week.week().unsigned_abs()),
    }
}
