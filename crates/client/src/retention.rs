//! Retention: which snapshots of each source are kept, and forgetting the others.
//!
//! Other groups are possible: backups whose paths change count as many sources.
//!
//! Pure except for [`UnlockedRepository::forget`]: the day of a time depends on the time zone, so
//! the caller passes the calendar. A policy that would keep nothing of a source is refused, because
//! nobody means that.
//!
//! Partial snapshots push no complete one out: the rules are applied to the complete ones as if
//! there were no others, and again to all of them for the partial ones. The newest complete one is
//! always kept. See [`crate::effective_time`] for the time that a snapshot counts for.

mod groups;

pub use groups::{Group, GroupBy, GroupKey};

use crate::effective_time::{self, EffectiveTime};
use crate::manifest::{self, Snapshot};
use crate::{Error, Result, UnlockedRepository};
use format::entry::Time;
use repository::snapshots::SnapshotRef;
use std::collections::BTreeMap;

/// Snapshots in one tombstone.
const TOMBSTONE_NAMES_MAX: usize = 4096;

/// A time in a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarTime {
    /// Year.
    pub year: i32,
    /// Month, from 1.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Hour, from 0.
    pub hour: u8,
    /// Year and number of the ISO week.
    pub week: (i32, u8),
}

/// Converts a time to the local calendar.
pub type Calendar<'a> = &'a dyn Fn(Time) -> CalendarTime;

/// How many snapshots a rule keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The rule is not set.
    #[default]
    None,
    /// This many of the newest.
    Newest(u32),
    /// All.
    All,
}

/// A retention policy. A snapshot is kept if any rule keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// The newest snapshots.
    pub last: Keep,
    /// The newest of each hour that has one.
    pub hourly: Keep,
    /// The newest of each day.
    pub daily: Keep,
    /// The newest of each ISO week.
    pub weekly: Keep,
    /// The newest of each month.
    pub monthly: Keep,
    /// The newest of each year.
    pub yearly: Keep,
    /// All that are at most this many seconds older than the newest of their source.
    pub within_secs: Option<u64>,
    /// The newest of each hour, day, week, month and year, within a time before the newest of their
    /// source.
    pub within_secs_each: KeepWithin,
    /// All that have every tag of one of these lists.
    pub tags: Vec<Vec<String>>,
}

/// For each calendar period, how many seconds before the newest snapshot of a source the rule
/// reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepWithin {
    /// For the newest of each hour.
    pub hourly: Option<u64>,
    /// For the newest of each day.
    pub daily: Option<u64>,
    /// For the newest of each ISO week.
    pub weekly: Option<u64>,
    /// For the newest of each month.
    pub monthly: Option<u64>,
    /// For the newest of each year.
    pub yearly: Option<u64>,
}

impl RetentionPolicy {
    /// Whether no rule is set: such a policy would keep nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a snapshot is kept, and why.
#[derive(Clone, Debug)]
pub struct RetentionDecision<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The reasons to keep it; without any it is forgotten.
    pub reasons: Vec<String>,
}

impl Group<'_> {
    /// Whether the rules of the policy would keep nothing of the group.
    pub fn loses_all(&self) -> bool {
        let is_own = |why: &String| why != NEWEST_COMPLETE && !why.starts_with(SUSPECT);
        let is_dated = |decision: &RetentionDecision<'_>| decision.suspect_reason().is_none();
        self.decisions.iter().any(is_dated)
            && !self.decisions.iter().any(|decision| decision.reasons.iter().any(is_own))
    }

    /// The newest complete snapshot.
    pub fn newest_complete(&self) -> Option<&Snapshot> {
        let mut snapshots = self.decisions.iter().map(|decision| decision.snapshot);
        snapshots.find(|snapshot| !snapshot.body.partial)
    }
}

impl RetentionDecision<'_> {
    /// Why the snapshot is suspect, if it is.
    pub fn suspect_reason(&self) -> Option<&str> {
        self.reasons.iter().find_map(|why| why.strip_prefix(SUSPECT))
    }
}

const SUSPECT: &str = "suspect: ";
const NEWEST_COMPLETE: &str = "newest complete snapshot";

/// A snapshot and its effective time.
type Dated<'a> = (&'a Snapshot, Time);

/// Applies `policy` to the `snapshots` that `takes` selects, separately for each source. Suspect
/// snapshots are kept and push no other out; they are recognized by all snapshots of their source.
pub fn apply<'a>(
    policy: &RetentionPolicy,
    snapshots: &'a [Snapshot],
    takes: &dyn Fn(&Snapshot) -> bool,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    apply_grouped(GroupBy::SOURCE, policy, snapshots, takes, calendar, now_secs)
}

/// Like [`apply`], separately for each group. Suspect snapshots are always recognized by their
/// source.
pub fn apply_grouped<'a>(
    by: GroupBy,
    policy: &RetentionPolicy,
    snapshots: &'a [Snapshot],
    takes: &dyn Fn(&Snapshot) -> bool,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    let mut sources: BTreeMap<GroupKey<'_>, Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in snapshots {
        sources.entry(GroupBy::SOURCE.key(snapshot)).or_default().push(snapshot);
    }
    let mut groups: BTreeMap<GroupKey<'_>, Members<'_>> = BTreeMap::new();
    for of_source in sources.into_values() {
        distribute(of_source, takes, now_secs, by, &mut groups);
    }
    groups
        .into_iter()
        .map(|(key, it)| Group { key, decisions: it.decide(policy, calendar) })
        .collect()
}

/// The snapshots of a group.
#[derive(Default)]
struct Members<'a> {
    /// Those with a known time, the newest of each source first.
    dated: Vec<Dated<'a>>,
    /// Suspect ones, which are kept.
    suspects: Vec<RetentionDecision<'a>>,
}

impl<'a> Members<'a> {
    /// The decisions, the newest snapshot first.
    fn decide(
        mut self,
        policy: &RetentionPolicy,
        calendar: Calendar<'_>,
    ) -> Vec<RetentionDecision<'a>> {
        // Stable: equal times keep the order of the source.
        self.dated.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        self.suspects.append(&mut decide(policy, &self.dated, calendar));
        self.suspects
    }
}

/// Distributes the snapshots of one source that `takes` selects to their groups.
fn distribute<'a>(
    mut snapshots: Vec<&'a Snapshot>,
    takes: &dyn Fn(&Snapshot) -> bool,
    now_secs: i64,
    by: GroupBy,
    groups: &mut BTreeMap<GroupKey<'a>, Members<'a>>,
) {
    snapshots
        .sort_by_key(|snapshot| std::cmp::Reverse(effective_time::creation_order(&snapshot.head)));
    let heads: Vec<_> =
        snapshots.iter().map(|snapshot| (snapshot.head, snapshot.receipt.clone())).collect();
    let times = effective_time::effective_times(&heads, now_secs);
    for (snapshot, effective) in snapshots.into_iter().zip(times).filter(|(one, _)| takes(one)) {
        let group = groups.entry(by.key(snapshot)).or_default();
        match effective {
            EffectiveTime::Known(time) => group.dated.push((snapshot, time)),
            EffectiveTime::Suspect(why) => {
                let reasons = vec![format!("{SUSPECT}{why}")];
                group.suspects.push(RetentionDecision { snapshot, reasons });
            }
        }
    }
}

/// Decides on snapshots with a known time, the newest first: see the head of this file.
fn decide<'a>(
    policy: &RetentionPolicy,
    newest_first: &[Dated<'a>],
    calendar: Calendar<'_>,
) -> Vec<RetentionDecision<'a>> {
    let is_complete = |(snapshot, _): &Dated<'_>| !snapshot.body.partial;
    let complete: Vec<_> =
        newest_first.iter().filter(|dated| is_complete(dated)).copied().collect();
    let mut of_complete = by_rules(policy, &complete, calendar).into_iter();
    let of_all = by_rules(policy, newest_first, calendar);
    let mut decisions: Vec<_> = newest_first
        .iter()
        .zip(of_all)
        .map(|(dated, for_all)| {
            let alone = if is_complete(dated) { of_complete.next() } else { None };
            RetentionDecision { snapshot: dated.0, reasons: alone.unwrap_or(for_all) }
        })
        .collect();
    let newest = decisions.iter_mut().find(|decision| !decision.snapshot.body.partial);
    if let Some(newest) = newest.filter(|newest| newest.reasons.is_empty()) {
        newest.reasons.push(NEWEST_COMPLETE.to_owned());
    }
    decisions
}

/// The reasons to keep each of these, as if there were no others.
fn by_rules(
    policy: &RetentionPolicy,
    newest_first: &[Dated<'_>],
    calendar: Calendar<'_>,
) -> Vec<Vec<String>> {
    let mut rules = rules(policy);
    let newest = newest_first.first().map(|(_, time)| *time);
    let decide = |(at, (snapshot, time)): (usize, &Dated<'_>)| {
        let civil = calendar(*time);
        let is_oldest = at + 1 == newest_first.len();
        let age = newest.map_or(0, |newest| newest.secs.saturating_sub(time.secs));
        let mut reasons: Vec<_> = rules
            .iter_mut()
            .filter(|rule| rule.reaches(age))
            .filter_map(|rule| rule.reason(at, civil, is_oldest))
            .collect();
        reasons.extend(within(policy, newest, *time));
        reasons.extend(tagged(policy, snapshot));
        reasons
    };
    newest_first.iter().enumerate().map(decide).collect()
}

fn within(policy: &RetentionPolicy, newest: Option<Time>, time: Time) -> Option<String> {
    let secs = i64::try_from(policy.within_secs?).unwrap_or(i64::MAX);
    let age = newest?.secs.saturating_sub(time.secs);
    (age <= secs).then(|| "within the period".to_owned())
}

fn tagged(policy: &RetentionPolicy, snapshot: &Snapshot) -> Option<String> {
    let has_all = |tags: &&Vec<String>| tags.iter().all(|tag| snapshot.body.tags.contains(tag));
    policy.tags.iter().find(has_all).map(|tags| format!("tag {}", tags.join(",")))
}

/// A rule for a calendar period: the newest snapshot in each is kept.
struct Rule {
    name: &'static str,
    keep: Keep,
    /// Only for snapshots at most this many seconds older than the newest.
    within_secs: Option<u64>,
    /// Maps the number and time of a snapshot to its period.
    span: SpanOf,
    last: Option<Span>,
}

/// Identifies a calendar period.
type Span = (i64, i64, i64, i64);
type SpanOf = fn(usize, CalendarTime) -> Span;

impl Rule {
    /// Whether it applies to a snapshot this many seconds older than the newest.
    fn reaches(&self, age: i64) -> bool {
        self.within_secs.is_none_or(|secs| age <= i64::try_from(secs).unwrap_or(i64::MAX))
    }

    /// The reason to keep a snapshot. They come newest first, so the first of a period is its
    /// newest. The oldest of all is kept while the rule is not used up, so that the history reaches
    /// back as far as possible.
    fn reason(&mut self, at: usize, civil: CalendarTime, is_oldest: bool) -> Option<String> {
        let left = match &mut self.keep {
            Keep::None | Keep::Newest(0) => return None,
            Keep::Newest(left) => Some(left),
            Keep::All => None,
        };
        let span = (self.span)(at, civil);
        let is_new = self.last != Some(span);
        // A rule with an end does not reach beyond it.
        if !is_new && (!is_oldest || self.within_secs.is_some()) {
            return None;
        }
        if let Some(left) = left {
            *left -= 1;
        }
        self.last = Some(span);
        let name = self.name;
        Some(if is_new { format!("{name} snapshot") } else { format!("oldest {name} snapshot") })
    }
}

const HOURLY: SpanOf =
    |_, civil| (civil.year.into(), civil.month.into(), civil.day.into(), civil.hour.into());
const DAILY: SpanOf = |_, civil| (civil.year.into(), civil.month.into(), civil.day.into(), 0);
const WEEKLY: SpanOf = |_, civil| (civil.week.0.into(), civil.week.1.into(), 0, 0);
const MONTHLY: SpanOf = |_, civil| (civil.year.into(), civil.month.into(), 0, 0);
const YEARLY: SpanOf = |_, civil| (civil.year.into(), 0, 0, 0);

fn rules(policy: &RetentionPolicy) -> [Rule; 11] {
    let rule = |name, keep, span| Rule { name, keep, within_secs: None, span, last: None };
    let within = |name, secs: Option<u64>, span| {
        let keep = if secs.is_some() { Keep::All } else { Keep::None };
        Rule { name, keep, within_secs: secs, span, last: None }
    };
    let each = policy.within_secs_each;
    [
        rule("last", policy.last, |at, _| (at as i64, 0, 0, 0)),
        rule("hourly", policy.hourly, HOURLY),
        rule("daily", policy.daily, DAILY),
        rule("weekly", policy.weekly, WEEKLY),
        rule("monthly", policy.monthly, MONTHLY),
        rule("yearly", policy.yearly, YEARLY),
        within("hourly within the period:", each.hourly, HOURLY),
        within("daily within the period:", each.daily, DAILY),
        within("weekly within the period:", each.weekly, WEEKLY),
        within("monthly within the period:", each.monthly, MONTHLY),
        within("yearly within the period:", each.yearly, YEARLY),
    ]
}

impl UnlockedRepository {
    /// Forgets snapshots: they leave the list at once, and `reclaim` frees the data that only they
    /// needed. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] on a server, for all but full keys.
    pub fn forget(&self, names: &[SnapshotRef]) -> Result<u64> {
        match self.local() {
            _ if names.is_empty() => Ok(0),
            Ok(_) => self.forget_here(names).map(|()| names.len() as u64),
            Err(_) => self.forget_there(names),
        }
    }

    fn forget_here(&self, names: &[SnapshotRef]) -> Result<()> {
        self.with_reclaim_lease("forget", |lease| {
            let sealer = self.sealer()?;
            for some in names.chunks(TOMBSTONE_NAMES_MAX) {
                let tombstone = manifest::tombstone(self, &sealer, some)?;
                self.local()?.forget(lease, some, &sealer.session_record(), &tombstone)?;
            }
            Ok(())
        })
    }

    /// A server requires the signature of a full key, so others need not try.
    fn forget_there(&self, names: &[SnapshotRef]) -> Result<u64> {
        if self.keys.certifier.is_none() {
            return Err(Error::NeedsFullKey);
        }
        let sealer = self.sealer()?;
        let mut count = 0;
        for some in names.chunks(TOMBSTONE_NAMES_MAX) {
            let tombstone = manifest::tombstone(self, &sealer, some)?;
            count += self.store.forget(&sealer.session_record(), &tombstone)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
