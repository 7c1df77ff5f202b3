//! Keep rules: the newest, and the newest of each hour, day, week, month and year.
//!
//! They are applied to the snapshots of one series, newest first. Partial snapshots push no complete
//! one out: the rules are applied to the complete ones as if there were no others, and again to all
//! of them for the partial ones.

use crate::reason::{Period, Reason, Until, Why};
use serde::{Deserialize, Serialize};

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

/// Rules of which each keeps snapshots. A snapshot is kept if any rule keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepRules {
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
    /// All that are at most this many seconds older than the newest of their series.
    pub within_secs: Option<u64>,
    /// The newest of each hour, day, week, month and year, within a time before the newest of their
    /// series.
    pub within_secs_each: KeepWithin,
    /// All that have every tag of one of these lists.
    pub tags: Vec<Vec<String>>,
}

/// For each calendar period, how many seconds before the newest snapshot of a series the rule
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

impl KeepRules {
    /// Whether no rule is set: such rules would keep nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no rule keeps anything: none is set, or each keeps none.
    pub fn keeps_nothing(&self) -> bool {
        let counts = [self.last, self.hourly, self.daily, self.weekly, self.monthly, self.yearly];
        counts.iter().all(|count| matches!(count, Keep::None | Keep::Newest(0)))
            && self.within_secs.is_none()
            && self.within_secs_each == KeepWithin::default()
            && self.tags.is_empty()
    }
}

/// A snapshot as the keep rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The time that it counts for, in seconds since 1970.
    pub secs: i64,
    /// The same in the calendar of the rules.
    pub civil: CalendarTime,
    /// Whether the backup could not read everything.
    pub is_partial: bool,
    /// Its tags.
    pub tags: &'a [String],
}

/// The reasons to keep each of these snapshots of one series, which come newest first. The newest
/// complete one always has a reason.
pub fn keep(rules: &KeepRules, newest_first: &[Candidate<'_>]) -> Vec<Vec<Reason>> {
    let mut reasons = reasons(rules, newest_first);
    let newest = newest_first.iter().position(|one| !one.is_partial);
    if let Some(newest) = newest.filter(|at| reasons[*at].is_empty()) {
        reasons[newest].push(Reason::new(Why::NewestComplete, Until::NewerComplete));
    }
    reasons
}

/// The same, without the reason that the newest complete one always has.
pub(crate) fn reasons(rules: &KeepRules, newest_first: &[Candidate<'_>]) -> Vec<Vec<Reason>> {
    complete_first(newest_first, |one| one.is_partial, |some| by_rules(rules, some))
}

/// Applies `by` to the complete ones as if there were no others, and to all for the partial ones.
pub(crate) fn complete_first<T: Copy>(
    newest_first: &[T],
    is_partial: impl Fn(&T) -> bool,
    by: impl Fn(&[T]) -> Vec<Vec<Reason>>,
) -> Vec<Vec<Reason>> {
    let of_all = by(newest_first);
    let complete: Vec<T> = newest_first.iter().filter(|one| !is_partial(one)).copied().collect();
    if complete.len() == newest_first.len() {
        return of_all;
    }
    let mut of_complete = by(&complete).into_iter();
    let mut choose = |(one, for_all)| {
        let alone = if is_partial(one) { None } else { of_complete.next() };
        alone.unwrap_or(for_all)
    };
    newest_first.iter().zip(of_all).map(&mut choose).collect()
}

/// The reasons to keep each of these, as if there were no others.
fn by_rules(rules: &KeepRules, newest_first: &[Candidate<'_>]) -> Vec<Vec<Reason>> {
    let mut each = each_rule(rules);
    let newest = newest_first.first().map_or(0, |one| one.secs);
    let decide = |(at, one): (usize, &Candidate<'_>)| {
        let is_oldest = at + 1 == newest_first.len();
        let age = newest.saturating_sub(one.secs);
        let mut reasons: Vec<_> = each
            .iter_mut()
            .filter(|rule| rule.reaches(age))
            .filter_map(|rule| rule.reason(at, one, is_oldest))
            .collect();
        reasons.extend(within(rules, age, one.secs));
        reasons.extend(tagged(rules, one.tags));
        reasons
    };
    newest_first.iter().enumerate().map(decide).collect()
}

fn within(rules: &KeepRules, age: i64, secs: i64) -> Option<Reason> {
    let reach = signed(rules.within_secs?);
    let until = Until::NewestAfter(secs.saturating_add(reach));
    (age <= reach).then(|| Reason::new(Why::Within, until))
}

fn tagged(rules: &KeepRules, tags: &[String]) -> Option<Reason> {
    let has_all = |list: &&Vec<String>| list.iter().all(|tag| tags.contains(tag));
    let found = rules.tags.iter().find(has_all)?;
    Some(Reason::new(Why::Tags(found.clone()), Until::Released))
}

fn signed(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}

/// A rule for a calendar period: the newest snapshot in each is kept.
struct Rule {
    period: Period,
    keep: Keep,
    /// Only for snapshots at most this many seconds older than the newest.
    within_secs: Option<u64>,
    last: Option<Span>,
}

/// Identifies a calendar period.
type Span = (i64, i64, i64, i64);

impl Rule {
    /// Whether it applies to a snapshot this many seconds older than the newest.
    fn reaches(&self, age: i64) -> bool {
        self.within_secs.is_none_or(|secs| age <= signed(secs))
    }

    /// The reason to keep a snapshot. They come newest first, so the first of a period is its
    /// newest. The oldest of all is kept while the rule is not used up, so that the history reaches
    /// back as far as possible.
    fn reason(&mut self, at: usize, one: &Candidate<'_>, is_oldest: bool) -> Option<Reason> {
        if matches!(self.keep, Keep::None | Keep::Newest(0)) {
            return None;
        }
        let span = span(self.period, at, one.civil);
        let is_new = self.last != Some(span);
        // A rule with an end does not reach beyond it.
        if !is_new && (!is_oldest || self.within_secs.is_some()) {
            return None;
        }
        let until = self.take(one.secs);
        self.last = Some(span);
        let why = Why::Rule {
            period: self.period,
            is_oldest: !is_new,
            is_within: self.within_secs.is_some(),
        };
        let is_replaceable = at == 0 && self.period != Period::Last;
        Some(Reason { why, until, is_replaceable })
    }

    /// Uses the rule once, and says how long it holds what it keeps so.
    fn take(&mut self, secs: i64) -> Until {
        if let Keep::Newest(left) = &mut self.keep {
            // As many newer periods as there were left, and one more.
            let count = *left;
            *left -= 1;
            return Until::Newer { count, period: self.period };
        }
        let reach = self.within_secs.map(signed);
        reach.map_or(Until::Forever, |reach| Until::NewestAfter(secs.saturating_add(reach)))
    }
}

/// The period of a snapshot; with `Last`, each has its own.
fn span(period: Period, at: usize, civil: CalendarTime) -> Span {
    let CalendarTime { year, month, day, hour, week } = civil;
    let (year, month, day) = (year.into(), month.into(), day.into());
    match period {
        Period::Last => (at as i64, 0, 0, 0),
        Period::Hour => (year, month, day, hour.into()),
        Period::Day => (year, month, day, 0),
        Period::Week => (week.0.into(), week.1.into(), 0, 0),
        Period::Month => (year, month, 0, 0),
        Period::Year => (year, 0, 0, 0),
    }
}

fn each_rule(rules: &KeepRules) -> [Rule; 11] {
    let rule = |period, keep| Rule { period, keep, within_secs: None, last: None };
    let within = |period, secs: Option<u64>| {
        let keep = if secs.is_some() { Keep::All } else { Keep::None };
        Rule { period, keep, within_secs: secs, last: None }
    };
    let each = rules.within_secs_each;
    [
        rule(Period::Last, rules.last),
        rule(Period::Hour, rules.hourly),
        rule(Period::Day, rules.daily),
        rule(Period::Week, rules.weekly),
        rule(Period::Month, rules.monthly),
        rule(Period::Year, rules.yearly),
        within(Period::Hour, each.hourly),
        within(Period::Day, each.daily),
        within(Period::Week, each.weekly),
        within(Period::Month, each.monthly),
        within(Period::Year, each.yearly),
    ]
}

impl Serialize for Keep {
    /// A number, or `all`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Newest(count) => serializer.serialize_u32(*count),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "write a number of snapshots, or \"all\"")]
        enum Written {
            Count(u32),
            All(All),
        }
        #[derive(Deserialize)]
        enum All {
            #[serde(rename = "all")]
            All,
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Count(count) => Self::Newest(count),
            Written::All(All::All) => Self::All,
        })
    }
}
