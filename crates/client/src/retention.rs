//! Which snapshots stay: policies over the snapshots of each source, and forgetting the rest.
//!
//! Pure but for [`Archive::forget`]: what day a time falls on depends on the zone, so the
//! calendar is the caller's. A policy that would leave nothing of a source is refused: that is
//! never what somebody meant.

use crate::manifest::{self, Snapshot};
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
    /// What has all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
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
    /// Whether nothing of the source would stay but what a wrong clock dated.
    pub fn loses_all(&self) -> bool {
        let goes = |decision: &Decision<'_>| decision.reasons.is_empty();
        let is_future = |decision: &Decision<'_>| decision.reasons.iter().any(|why| why == FUTURE);
        self.decisions.iter().any(goes)
            && self.decisions.iter().all(|decision| goes(decision) || is_future(decision))
    }
}

/// Clocks may differ by so much, and no more: a day.
const CLOCKS_SECS: i64 = 86_400;
const FUTURE: &str = "its time is not yet come";

/// Applies `policy` to each source by itself. Snapshots of the future, made by a clock that was
/// wrong then or is wrong now (`now_secs`), stay and push no other out.
pub fn apply<'a>(
    policy: &Policy,
    snapshots: &'a [Snapshot],
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    let mut sources: BTreeMap<(&str, &[String]), Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in snapshots {
        sources.entry((&snapshot.body.node, &snapshot.body.paths)).or_default().push(snapshot);
    }
    let groups = sources.into_iter().map(|((node, paths), mut of_source)| {
        of_source.sort_by_key(|snapshot| std::cmp::Reverse((snapshot.time(), snapshot.name)));
        let is_past =
            |snapshot: &&&Snapshot| snapshot.time().secs <= now_secs.saturating_add(CLOCKS_SECS);
        let future = of_source.iter().filter(|snapshot| !is_past(snapshot));
        let mut decisions: Vec<_> = future
            .map(|snapshot| Decision { snapshot, reasons: vec![FUTURE.to_owned()] })
            .collect();
        let past: Vec<_> = of_source.iter().filter(is_past).copied().collect();
        decisions.extend(decide(policy, &past, calendar));
        Group { node, paths, decisions }
    });
    groups.collect()
}

fn decide<'a>(
    policy: &Policy,
    newest_first: &[&'a Snapshot],
    calendar: Calendar<'_>,
) -> Vec<Decision<'a>> {
    let mut rules = rules(policy);
    let newest = newest_first.first().map(|snapshot| snapshot.time());
    let decide = |(at, snapshot): (usize, &&'a Snapshot)| {
        let civil = calendar(snapshot.time());
        let is_oldest = at + 1 == newest_first.len();
        let mut reasons: Vec<_> =
            rules.iter_mut().filter_map(|rule| rule.reason(at, civil, is_oldest)).collect();
        reasons.extend(within(policy, newest, snapshot));
        reasons.extend(tagged(policy, snapshot));
        Decision { snapshot, reasons }
    };
    newest_first.iter().enumerate().map(decide).collect()
}

fn within(policy: &Policy, newest: Option<Time>, snapshot: &Snapshot) -> Option<String> {
    let secs = i64::try_from(policy.within_secs?).unwrap_or(i64::MAX);
    let age = newest?.secs.saturating_sub(snapshot.time().secs);
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
    /// The number of a snapshot, and its time, to what is equal within a span.
    span: fn(usize, Civil) -> (i64, i64, i64, i64),
    last: Option<(i64, i64, i64, i64)>,
}

impl Rule {
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
        if !is_new && !is_oldest {
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

fn rules(policy: &Policy) -> [Rule; 6] {
    let rule = |name, keep, span| Rule { name, keep, span, last: None };
    [
        rule("last", policy.last, |at, _| (at as i64, 0, 0, 0)),
        rule("hourly", policy.hourly, |_, civil| {
            (civil.year.into(), civil.month.into(), civil.day.into(), civil.hour.into())
        }),
        rule("daily", policy.daily, |_, civil| {
            (civil.year.into(), civil.month.into(), civil.day.into(), 0)
        }),
        rule("weekly", policy.weekly, |_, civil| (civil.week.0.into(), civil.week.1.into(), 0, 0)),
        rule("monthly", policy.monthly, |_, civil| (civil.year.into(), civil.month.into(), 0, 0)),
        rule("yearly", policy.yearly, |_, civil| (civil.year.into(), 0, 0, 0)),
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
    use format::manifest::Head;
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
        Snapshot { name: SnapshotRef { sequence, id }, head, body }
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
        let groups = apply(policy, snapshots, &calendar, NOW);
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
            (Policy { last: Newest(0), ..Policy::default() }, vec![]),
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
            (Policy::default(), vec![]),
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
        let groups = apply(&policy, &all[8..], &calendar, 0);
        assert!(groups[0].decisions.iter().all(|found| !found.reasons.is_empty()));
        let none = Policy { tags: vec![vec!["typo".into()]], ..Policy::default() };
        assert!(apply(&none, &all, &calendar, NOW)[0].loses_all());
    }

    #[test]
    fn a_tag_keeps_what_has_all_of_its_list() {
        let all =
            [snapshot(1, 0, &["a"]), snapshot(2, DAY, &["a", "b"]), snapshot(3, 2 * DAY, &[])];
        let tags = |lists: &[&[&str]]| {
            let list = |list: &&[&str]| list.iter().map(|tag| (*tag).to_owned()).collect();
            Policy { tags: lists.iter().map(list).collect(), ..Policy::default() }
        };
        assert_eq!(kept(&tags(&[&["a"]]), &all), [1, 2]);
        assert_eq!(kept(&tags(&[&["a", "b"]]), &all), [2]);
        assert_eq!(kept(&tags(&[&["c"], &["b"]]), &all), [2]);
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
        assert!(apply(&policy, &all, &calendar, NOW).iter().all(Group::loses_all));
        assert!(Policy::default().is_empty() && !policy.is_empty());
    }

    #[test]
    fn the_time_decides_and_not_the_number() {
        // A change of tags makes a new record of an old snapshot.
        let all = [snapshot(5, 0, &[]), snapshot(3, DAY, &[])];
        assert_eq!(kept(&Policy { last: Keep::Newest(1), ..Policy::default() }, &all), [3]);
    }
}
