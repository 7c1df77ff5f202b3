//! Which snapshots stay: policies over the snapshots of each source, and forgetting the rest.
//!
//! Pure but for [`Archive::forget`]: what day a time falls on depends on the zone, so the
//! calendar is the caller's. A policy that would leave nothing of a source is refused: that is
//! never what somebody meant.
//!
//! Partial snapshots push no complete one out: the rules are applied to the complete ones as if there
//! were no others, and once more to all of them for the partial ones. The newest complete one stays
//! in any case. What time a snapshot counts for, [`crate::standing`] says.

use crate::manifest::{self, Snapshot};
use crate::standing::{self, Standing};
use crate::{Archive, Result};
use format::entry::Time;
use repository::snapshots::SnapshotRef;
use std::collections::BTreeMap;

/// Names in one record that notes what was forgotten.
const TOMBSTONE_NAMES_MAX: usize = 4096;

/// A time by the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
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

/// Tells what a calendar on the wall shows.
pub type Calendar<'a> = &'a dyn Fn(Time) -> Civil;

/// How many to keep of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Not asked for.
    #[default]
    None,
    /// The newest so many.
    Newest(u32),
    /// All.
    All,
}

/// What to keep. A snapshot stays when any of it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The newest ones.
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
    /// What is at most this many seconds older than the newest of its source.
    pub within_secs: Option<u64>,
    /// The newest of each hour, day, week, month and year, as far as they are at most so many seconds older than
    /// the newest of their source.
    pub within_secs_each: WithinEach,
    /// What has all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

/// Seconds back from the newest snapshot of a source, for each span of the calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithinEach {
    /// In which the newest of each hour stays.
    pub hourly: Option<u64>,
    /// Of each day.
    pub daily: Option<u64>,
    /// Of each ISO week.
    pub weekly: Option<u64>,
    /// Of each month.
    pub monthly: Option<u64>,
    /// Of each year.
    pub yearly: Option<u64>,
}

impl Policy {
    /// Whether nothing was asked for: such a policy would keep nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of a snapshot.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Why it stays; it goes when there is no reason.
    pub reasons: Vec<String>,
}

/// The snapshots of one source, newest first.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The machine.
    pub node: &'a str,
    /// What was backed up.
    pub paths: &'a [String],
    /// What becomes of each.
    pub decisions: Vec<Decision<'a>>,
}

impl Group<'_> {
    /// Whether the policy by itself would keep nothing of the source.
    pub fn loses_all(&self) -> bool {
        let is_own = |why: &String| why != NEWEST_COMPLETE && !why.starts_with(HELD_BACK);
        let is_dated = |decision: &Decision<'_>| decision.held_back().is_none();
        self.decisions.iter().any(is_dated)
            && !self.decisions.iter().any(|decision| decision.reasons.iter().any(is_own))
    }

    /// The newest complete snapshot.
    pub fn newest_complete(&self) -> Option<&Snapshot> {
        let mut snapshots = self.decisions.iter().map(|decision| decision.snapshot);
        snapshots.find(|snapshot| !snapshot.body.partial)
    }
}

impl Decision<'_> {
    /// Why its age is not known, if so.
    pub fn held_back(&self) -> Option<&str> {
        self.reasons.iter().find_map(|why| why.strip_prefix(HELD_BACK))
    }
}

const HELD_BACK: &str = "held back: ";
const NEWEST_COMPLETE: &str = "newest complete snapshot";

/// A snapshot and the time that it counts for.
type Dated<'a> = (&'a Snapshot, Time);

/// Applies `policy` to those of `snapshots` that `takes` wants, each source by itself. What is held
/// back stays and pushes no other out; that is told by all snapshots of its source.
pub fn apply<'a>(
    policy: &Policy,
    snapshots: &'a [Snapshot],
    takes: &dyn Fn(&Snapshot) -> bool,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    let mut sources: BTreeMap<(&str, &[String]), Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in snapshots {
        sources.entry((&snapshot.body.node, &snapshot.body.paths)).or_default().push(snapshot);
    }
    let groups = sources.into_iter().map(|((node, paths), of_source)| {
        let decisions = decide_source(policy, of_source, takes, calendar, now_secs);
        Group { node, paths, decisions }
    });
    groups.filter(|group| !group.decisions.is_empty()).collect()
}

/// What becomes of the snapshots of one source, the newest first.
fn decide_source<'a>(
    policy: &Policy,
    mut snapshots: Vec<&'a Snapshot>,
    takes: &dyn Fn(&Snapshot) -> bool,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Decision<'a>> {
    snapshots.sort_by_key(|snapshot| std::cmp::Reverse(standing::place(&snapshot.head)));
    let heads: Vec<_> =
        snapshots.iter().map(|snapshot| (snapshot.head, snapshot.received.clone())).collect();
    let (mut dated, mut held) = (Vec::new(), Vec::new());
    let standings = standing::all(&heads, now_secs);
    for (snapshot, standing) in snapshots.into_iter().zip(standings).filter(|(one, _)| takes(one)) {
        match standing {
            Standing::Dated(time) => dated.push((snapshot, time)),
            Standing::HeldBack(why) => {
                held.push(Decision { snapshot, reasons: vec![format!("{HELD_BACK}{why}")] });
            }
        }
    }
    let mut decisions = decide(policy, &dated, calendar);
    held.append(&mut decisions);
    held
}

/// What becomes of snapshots whose time is known, the newest first: see the head of this file.
fn decide<'a>(
    policy: &Policy,
    newest_first: &[Dated<'a>],
    calendar: Calendar<'_>,
) -> Vec<Decision<'a>> {
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
            Decision { snapshot: dated.0, reasons: alone.unwrap_or(for_all) }
        })
        .collect();
    let newest = decisions.iter_mut().find(|decision| !decision.snapshot.body.partial);
    if let Some(newest) = newest.filter(|newest| newest.reasons.is_empty()) {
        newest.reasons.push(NEWEST_COMPLETE.to_owned());
    }
    decisions
}

/// Why each of these stays, if it does, as if there were no others.
fn by_rules(
    policy: &Policy,
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

fn within(policy: &Policy, newest: Option<Time>, time: Time) -> Option<String> {
    let secs = i64::try_from(policy.within_secs?).unwrap_or(i64::MAX);
    let age = newest?.secs.saturating_sub(time.secs);
    (age <= secs).then(|| "within the time".to_owned())
}

fn tagged(policy: &Policy, snapshot: &Snapshot) -> Option<String> {
    let has_all = |tags: &&Vec<String>| tags.iter().all(|tag| snapshot.body.tags.contains(tag));
    policy.tags.iter().find(has_all).map(|tags| format!("tag {}", tags.join(",")))
}

/// A span of the calendar: of the snapshots in one, the newest stays.
struct Rule {
    name: &'static str,
    keep: Keep,
    /// Only for what is at most so many seconds older than the newest.
    within_secs: Option<u64>,
    /// The number of a snapshot, and its time, to what is equal within a span.
    span: SpanOf,
    last: Option<Span>,
}

/// What is equal within a span of the calendar.
type Span = (i64, i64, i64, i64);
type SpanOf = fn(usize, Civil) -> Span;

impl Rule {
    /// Whether it speaks of what is so many seconds older than the newest.
    fn reaches(&self, age: i64) -> bool {
        self.within_secs.is_none_or(|secs| age <= i64::try_from(secs).unwrap_or(i64::MAX))
    }

    /// Why a snapshot stays. They come newest first, so the first of a span is its newest. The
    /// oldest of all stays while the rule is not used up: the history shall reach back as far as
    /// it can.
    fn reason(&mut self, at: usize, civil: Civil, is_oldest: bool) -> Option<String> {
        let left = match &mut self.keep {
            Keep::None | Keep::Newest(0) => return None,
            Keep::Newest(left) => Some(left),
            Keep::All => None,
        };
        let span = (self.span)(at, civil);
        let is_new = self.last != Some(span);
        // A time that was named has its end: the history shall not reach beyond it.
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

fn rules(policy: &Policy) -> [Rule; 11] {
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
        within("hourly within the time:", each.hourly, HOURLY),
        within("daily within the time:", each.daily, DAILY),
        within("weekly within the time:", each.weekly, WEEKLY),
        within("monthly within the time:", each.monthly, MONTHLY),
        within("yearly within the time:", each.yearly, YEARLY),
    ]
}

impl Archive {
    /// Forgets snapshots: they are gone at once, what only they needed stays until `reclaim`.
    pub fn forget(&self, names: &[SnapshotRef]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.leased_to_free("forget", |lease| {
            let sealer = self.sealer()?;
            for some in names.chunks(TOMBSTONE_NAMES_MAX) {
                let tombstone = manifest::tombstone(self, &sealer, some)?;
                self.local()?.forget(lease, some, &sealer.session_record(), &tombstone)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Body;
    use crate::receipts::Received;
    use format::manifest::{Head, REMADE};
    use ids::{KeyId, ObjectId, SnapshotId};

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    /// After all snapshots of these tests.
    const NOW: i64 = 1000 * DAY;

    fn snapshot(sequence: u64, secs: i64, tags: &[&str]) -> Snapshot {
        let (id, object) = (SnapshotId([sequence as u8; 16]), ObjectId([1; 24]));
        let head = Head {
            sequence,
            source: object,
            source_sequence: sequence,
            previous: id,
            time_secs: secs,
            time_nanos: 0,
            root: object,
            level: 0,
            body: object,
            writer: KeyId([1; 8]),
            flags: 0,
            original: None,
        };
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let body = Body { node: "n".into(), paths: vec!["/".into()], tags, ..Body::default() };
        Snapshot { name: SnapshotRef { sequence, id }, head, body, received: Received::Never }
    }

    /// Months of 28 days and years of 12 of them: enough to tell spans apart.
    fn calendar(time: Time) -> Civil {
        let days = time.secs.div_euclid(DAY);
        let hour = time.secs.rem_euclid(DAY) / HOUR;
        let week = (days.div_euclid(7 * 48) as i32, (days.rem_euclid(7 * 48) / 7) as u8);
        let (month, day) = (days.div_euclid(28), days.rem_euclid(28));
        Civil {
            year: month.div_euclid(12) as i32,
            month: month.rem_euclid(12) as u8 + 1,
            day: day as u8 + 1,
            hour: hour as u8,
            week,
        }
    }

    /// Numbers of the snapshots that stay, from 1 for the oldest.
    fn kept(policy: &Policy, snapshots: &[Snapshot]) -> Vec<u64> {
        let groups = apply(policy, snapshots, &|_| true, &calendar, NOW);
        let decisions = groups.iter().flat_map(|group| &group.decisions);
        let mut kept: Vec<_> = decisions
            .filter(|found| !found.reasons.is_empty())
            .map(|found| found.snapshot.name.sequence)
            .collect();
        kept.sort_unstable();
        kept
    }

    /// One snapshot every six hours for 60 days: four a day, number 1 is the oldest.
    fn series() -> Vec<Snapshot> {
        (0..240).map(|at| snapshot(at + 1, at as i64 * 6 * HOUR, &[])).collect()
    }

    #[test]
    fn policies_keep_what_restic_keeps() {
        use Keep::{All, Newest};
        let table: Vec<(Policy, Vec<u64>)> = vec![
            (Policy { last: Newest(3), ..Policy::default() }, vec![238, 239, 240]),
            (Policy { last: Newest(1000), ..Policy::default() }, (1..=240).collect()),
            // The newest complete one stays in any case.
            (Policy { last: Newest(0), ..Policy::default() }, vec![240]),
            (Policy { hourly: Newest(2), ..Policy::default() }, vec![239, 240]),
            (Policy { daily: Newest(3), ..Policy::default() }, vec![232, 236, 240]),
            // Days 56..59 are the running week; each week is kept by its last snapshot.
            (Policy { weekly: Newest(3), ..Policy::default() }, vec![196, 224, 240]),
            (Policy { monthly: Newest(2), ..Policy::default() }, vec![224, 240]),
            // The rule is not used up when the snapshots are: the oldest stays too.
            (Policy { monthly: Newest(10), ..Policy::default() }, vec![1, 112, 224, 240]),
            (Policy { monthly: All, ..Policy::default() }, vec![1, 112, 224, 240]),
            (Policy { yearly: Newest(1), ..Policy::default() }, vec![240]),
            (Policy { yearly: Newest(5), ..Policy::default() }, vec![1, 240]),
            (Policy { within_secs: Some(12 * 3600), ..Policy::default() }, vec![238, 239, 240]),
            (Policy { last: Newest(1), daily: Newest(2), ..Policy::default() }, vec![236, 240]),
            (Policy::default(), vec![240]),
            (
                Policy {
                    within_secs_each: WithinEach {
                        daily: Some(2 * DAY as u64),
                        ..WithinEach::default()
                    },
                    ..Policy::default()
                },
                vec![232, 236, 240],
            ),
        ];
        let all = series();
        for (policy, expected) in table {
            assert_eq!(kept(&policy, &all), expected, "{policy:?}");
        }
    }

    /// A clock ten years ahead would else push out, by its few snapshots, all that are good.
    #[test]
    fn snapshots_of_the_future_stay_and_push_no_other_out() {
        let mut all = series();
        let future = (0..3).map(|at| snapshot(301 + at, NOW + (3650 + at as i64) * DAY, &[]));
        all.extend(future);
        let kept_of = |policy| kept(&policy, &all);
        let (last, within) = (Keep::Newest(2), Some(12 * 3600));
        let policy = Policy { last, ..Policy::default() };
        assert_eq!(kept_of(policy.clone()), [239, 240, 301, 302, 303]);
        let policy_within = Policy { within_secs: within, ..Policy::default() };
        assert_eq!(kept_of(policy_within), [238, 239, 240, 301, 302, 303]);
        // A clock that is wrong now, and shows 1970, forgets nothing.
        let groups = apply(&policy, &all[8..], &|_| true, &calendar, 0);
        assert!(groups[0].decisions.iter().all(|found| !found.reasons.is_empty()));
        let none = Policy { tags: vec![vec!["typo".into()]], ..Policy::default() };
        assert!(apply(&none, &all, &|_| true, &calendar, NOW)[0].loses_all());
    }

    #[test]
    fn a_tag_keeps_what_has_all_of_its_list() {
        let all =
            [snapshot(1, 0, &["a"]), snapshot(2, DAY, &["a", "b"]), snapshot(3, 2 * DAY, &[])];
        let tags = |lists: &[&[&str]]| {
            let list = |list: &&[&str]| list.iter().map(|tag| (*tag).to_owned()).collect();
            Policy { tags: lists.iter().map(list).collect(), ..Policy::default() }
        };
        assert_eq!(kept(&tags(&[&["a"]]), &all), [1, 2, 3]);
        assert_eq!(kept(&tags(&[&["a", "b"]]), &all), [2, 3]);
        assert_eq!(kept(&tags(&[&["c"], &["b"]]), &all), [2, 3]);
    }

    #[test]
    fn each_source_is_decided_by_itself() {
        let mut all = series();
        all[0].body.node = "other".into();
        all[1].body.paths = vec!["/home".into()];
        let policy = Policy { last: Keep::Newest(1), ..Policy::default() };
        assert_eq!(kept(&policy, &all), [1, 2, 240]);
    }

    #[test]
    fn a_source_that_would_lose_all_is_seen() {
        let all = series();
        let policy = Policy { tags: vec![vec!["typo".into()]], ..Policy::default() };
        assert!(apply(&policy, &all, &|_| true, &calendar, NOW).iter().all(Group::loses_all));
        assert!(Policy::default().is_empty() && !policy.is_empty());
    }

    /// A change of tags makes a new record of an old snapshot: with the place of the old one.
    #[test]
    fn a_snapshot_that_was_made_anew_keeps_its_place_and_is_no_anomaly() {
        let mut anew = snapshot(5, 0, &[]);
        (anew.head.flags, anew.head.original) = (REMADE, Some((SnapshotId([1; 16]), 1)));
        let all = [anew, snapshot(3, DAY, &[])];
        let policy = Policy { last: Keep::Newest(1), ..Policy::default() };
        assert_eq!(kept(&policy, &all), [3]);
        assert_eq!(
            apply(&policy, &all, &|_| true, &calendar, NOW)[0].decisions[1].held_back(),
            None
        );
    }

    /// Who got hold of a key makes snapshots with the times of days gone by.
    #[test]
    fn snapshots_dated_into_the_past_push_no_good_one_out() {
        let day = |at: i64| 900 * DAY + at * DAY + 2 * HOUR;
        let good = (1..=7).map(|at| snapshot(at, day(at as i64), &[]));
        let fakes = (1..=7).map(|at| snapshot(7 + at, day(at as i64) + 21 * HOUR, &[]));
        let mut all: Vec<_> = good.chain(fakes.clone()).collect();
        // The last one is not before the newest good one: it is of that very day.
        let policy = Policy {
            daily: Keep::Newest(7),
            weekly: Keep::Newest(5),
            monthly: Keep::Newest(12),
            ..Policy::default()
        };
        let kept_of = kept(&policy, &all);
        assert!((1..7).all(|good| kept_of.contains(&good)), "{kept_of:?}");
        all.pop();
        let kept_of = kept(&policy, &all);
        assert!((1..=7).all(|good| kept_of.contains(&good)), "{kept_of:?}");
        let groups = apply(&policy, &all, &|_| true, &calendar, NOW);
        let held = groups[0].decisions.iter().filter(|it| it.held_back().is_some());
        assert_eq!(held.count(), 6);
    }

    /// What a filter leaves out still tells which times contradict the order.
    #[test]
    fn a_filter_makes_no_wrong_time_good() {
        let mut fake = snapshot(241, DAY, &["x"]);
        fake.body.partial = false;
        let mut all = series();
        all.push(fake);
        let is_tagged = |one: &Snapshot| !one.body.tags.is_empty();
        let policy = Policy { last: Keep::Newest(1), ..Policy::default() };
        let groups = apply(&policy, &all, &is_tagged, &calendar, NOW);
        assert_eq!(groups[0].decisions.len(), 1);
        assert!(groups[0].decisions[0].held_back().is_some());
    }

    #[test]
    fn a_flood_pushes_nothing_out_of_the_days_before() {
        let mut all = series();
        let begin = 60 * DAY;
        all.extend((0..100).map(|at| snapshot(241 + at, begin + at as i64 * 36, &[])));
        let policy = Policy { daily: Keep::Newest(4), ..Policy::default() };
        assert_eq!(kept(&policy, &all), [232, 236, 240, 340]);
    }

    #[test]
    fn partial_snapshots_push_no_complete_one_out() {
        let policies = [
            Policy { last: Keep::Newest(2), ..Policy::default() },
            Policy { daily: Keep::Newest(2), ..Policy::default() },
            Policy { within_secs: Some(HOUR as u64), ..Policy::default() },
            Policy { tags: vec![vec!["x".into()]], ..Policy::default() },
        ];
        for policy in policies {
            let mut all = series();
            let complete = kept(&policy, &all);
            all.extend((0..9).map(|at| {
                let mut partial = snapshot(241 + at, (60 * 24 + 7 * at as i64) * HOUR, &["x"]);
                partial.body.partial = true;
                partial
            }));
            let after = kept(&policy, &all);
            assert!(complete.iter().all(|one| after.contains(one)), "{policy:?}: {after:?}");
            assert!(after.contains(&240), "the newest complete one stays: {after:?}");
            assert!(
                after.contains(&249),
                "and the newest of all, where a rule keeps it: {after:?}"
            );
        }
    }

    /// Whatever clocks say and whichever backups are partial: what no rule ever saw is not forgotten
    /// for it, and a policy keeps of good snapshots what it would keep if there were no others.
    #[test]
    fn nothing_that_is_wrong_costs_a_good_snapshot() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..300 {
            let (mut all, mut good, mut secs, mut newest) = (Vec::new(), Vec::new(), 0, 0);
            for number in 1..=60 {
                secs += random(30) as i64 * HOUR;
                let wrong = random(4);
                newest = if wrong >= 2 { secs } else { newest };
                let mut made = match wrong {
                    0 => snapshot(number, newest - HOUR - random(50) as i64 * DAY, &[]),
                    1 => snapshot(number, NOW + 2 * DAY + random(900) as i64 * DAY, &[]),
                    _ => snapshot(number, secs, &[]),
                };
                made.body.partial = wrong == 2;
                if wrong == 3 {
                    good.push(made.clone());
                }
                all.push(made);
            }
            let policy = Policy {
                last: Keep::Newest(random(4) as u32),
                daily: Keep::Newest(random(9) as u32),
                weekly: Keep::Newest(random(5) as u32),
                within_secs: Some(random(200) * 3600),
                ..Policy::default()
            };
            // What begins in the past is held back by nothing: the first may be dated as it likes.
            let first =
                all.iter().position(|one| good.first().is_some_and(|it| it.name == one.name));
            let Some(first) = first else { continue };
            let after = kept(&policy, &all[first..]);
            let alone = kept(&policy, &good);
            let is_kept = |one: &u64| after.contains(one);
            assert!(alone.iter().all(is_kept), "round {round}: {alone:?} of {after:?}, {policy:?}");
        }
    }
}
