//! Which snapshots stay, by policy, time and trust.

use super::*;
use crate::manifest::ManifestBody;
use crate::receipts::ReceiptStatus;
use format::manifest::{Head, REWRITTEN};
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
    let body =
        ManifestBody { node: "n".into(), paths: vec!["/".into()], tags, ..ManifestBody::default() };
    Snapshot { name: SnapshotRef { sequence, id }, head, body, receipt: ReceiptStatus::Absent }
}

/// Months of 28 days and years of 12 of them: enough to tell spans apart.
fn calendar(time: Time) -> CalendarTime {
    let days = time.secs.div_euclid(DAY);
    let hour = time.secs.rem_euclid(DAY) / HOUR;
    let week = (days.div_euclid(7 * 48) as i32, (days.rem_euclid(7 * 48) / 7) as u8);
    let (month, day) = (days.div_euclid(28), days.rem_euclid(28));
    CalendarTime {
        year: month.div_euclid(12) as i32,
        month: month.rem_euclid(12) as u8 + 1,
        day: day as u8 + 1,
        hour: hour as u8,
        week,
    }
}

/// Numbers of the snapshots that stay, from 1 for the oldest.
fn kept(policy: &RetentionPolicy, snapshots: &[Snapshot]) -> Vec<u64> {
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
    let table: Vec<(RetentionPolicy, Vec<u64>)> = vec![
        (RetentionPolicy { last: Newest(3), ..RetentionPolicy::default() }, vec![238, 239, 240]),
        (RetentionPolicy { last: Newest(1000), ..RetentionPolicy::default() }, (1..=240).collect()),
        // The newest complete one stays in any case.
        (RetentionPolicy { last: Newest(0), ..RetentionPolicy::default() }, vec![240]),
        (RetentionPolicy { hourly: Newest(2), ..RetentionPolicy::default() }, vec![239, 240]),
        (RetentionPolicy { daily: Newest(3), ..RetentionPolicy::default() }, vec![232, 236, 240]),
        // Days 56..59 are the running week; each week is kept by its last snapshot.
        (RetentionPolicy { weekly: Newest(3), ..RetentionPolicy::default() }, vec![196, 224, 240]),
        (RetentionPolicy { monthly: Newest(2), ..RetentionPolicy::default() }, vec![224, 240]),
        // The rule is not used up when the snapshots are: the oldest stays too.
        (
            RetentionPolicy { monthly: Newest(10), ..RetentionPolicy::default() },
            vec![1, 112, 224, 240],
        ),
        (RetentionPolicy { monthly: All, ..RetentionPolicy::default() }, vec![1, 112, 224, 240]),
        (RetentionPolicy { yearly: Newest(1), ..RetentionPolicy::default() }, vec![240]),
        (RetentionPolicy { yearly: Newest(5), ..RetentionPolicy::default() }, vec![1, 240]),
        (
            RetentionPolicy { within_secs: Some(12 * 3600), ..RetentionPolicy::default() },
            vec![238, 239, 240],
        ),
        (
            RetentionPolicy { last: Newest(1), daily: Newest(2), ..RetentionPolicy::default() },
            vec![236, 240],
        ),
        (RetentionPolicy::default(), vec![240]),
        (
            RetentionPolicy {
                within_secs_each: KeepWithin {
                    daily: Some(2 * DAY as u64),
                    ..KeepWithin::default()
                },
                ..RetentionPolicy::default()
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
    let policy = RetentionPolicy { last, ..RetentionPolicy::default() };
    assert_eq!(kept_of(policy.clone()), [239, 240, 301, 302, 303]);
    let policy_within = RetentionPolicy { within_secs: within, ..RetentionPolicy::default() };
    assert_eq!(kept_of(policy_within), [238, 239, 240, 301, 302, 303]);
    // A clock that is wrong now, and shows 1970, forgets nothing.
    let groups = apply(&policy, &all[8..], &|_| true, &calendar, 0);
    assert!(groups[0].decisions.iter().all(|found| !found.reasons.is_empty()));
    let none = RetentionPolicy { tags: vec![vec!["typo".into()]], ..RetentionPolicy::default() };
    assert!(apply(&none, &all, &|_| true, &calendar, NOW)[0].loses_all());
}

#[test]
fn a_tag_keeps_what_has_all_of_its_list() {
    let all = [snapshot(1, 0, &["a"]), snapshot(2, DAY, &["a", "b"]), snapshot(3, 2 * DAY, &[])];
    let tags = |lists: &[&[&str]]| {
        let list = |list: &&[&str]| list.iter().map(|tag| (*tag).to_owned()).collect();
        RetentionPolicy { tags: lists.iter().map(list).collect(), ..RetentionPolicy::default() }
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
    let policy = RetentionPolicy { last: Keep::Newest(1), ..RetentionPolicy::default() };
    assert_eq!(kept(&policy, &all), [1, 2, 240]);
}

#[test]
fn a_source_that_would_lose_all_is_seen() {
    let all = series();
    let policy = RetentionPolicy { tags: vec![vec!["typo".into()]], ..RetentionPolicy::default() };
    assert!(apply(&policy, &all, &|_| true, &calendar, NOW).iter().all(Group::loses_all));
    assert!(RetentionPolicy::default().is_empty() && !policy.is_empty());
}

/// A change of tags makes a new record of an old snapshot: with the place of the old one.
#[test]
fn a_rewritten_snapshot_keeps_its_position_and_is_no_anomaly() {
    let mut anew = snapshot(5, 0, &[]);
    (anew.head.flags, anew.head.original) = (REWRITTEN, Some((SnapshotId([1; 16]), 1)));
    let all = [anew, snapshot(3, DAY, &[])];
    let policy = RetentionPolicy { last: Keep::Newest(1), ..RetentionPolicy::default() };
    assert_eq!(kept(&policy, &all), [3]);
    assert_eq!(
        apply(&policy, &all, &|_| true, &calendar, NOW)[0].decisions[1].suspect_reason(),
        None
    );
}

/// The thief of a key creates snapshots with times of past days.
#[test]
fn snapshots_dated_into_the_past_push_no_good_one_out() {
    let day = |at: i64| 900 * DAY + at * DAY + 2 * HOUR;
    let good = (1..=7).map(|at| snapshot(at, day(at as i64), &[]));
    let fakes = (1..=7).map(|at| snapshot(7 + at, day(at as i64) + 21 * HOUR, &[]));
    let mut all: Vec<_> = good.chain(fakes.clone()).collect();
    // The last one is not before the newest good one: it is of that very day.
    let policy = RetentionPolicy {
        daily: Keep::Newest(7),
        weekly: Keep::Newest(5),
        monthly: Keep::Newest(12),
        ..RetentionPolicy::default()
    };
    let kept_of = kept(&policy, &all);
    assert!((1..7).all(|good| kept_of.contains(&good)), "{kept_of:?}");
    all.pop();
    let kept_of = kept(&policy, &all);
    assert!((1..=7).all(|good| kept_of.contains(&good)), "{kept_of:?}");
    let groups = apply(&policy, &all, &|_| true, &calendar, NOW);
    let held = groups[0].decisions.iter().filter(|it| it.suspect_reason().is_some());
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
    let policy = RetentionPolicy { last: Keep::Newest(1), ..RetentionPolicy::default() };
    let groups = apply(&policy, &all, &is_tagged, &calendar, NOW);
    assert_eq!(groups[0].decisions.len(), 1);
    assert!(groups[0].decisions[0].suspect_reason().is_some());
}

#[test]
fn a_flood_pushes_nothing_out_of_the_days_before() {
    let mut all = series();
    let begin = 60 * DAY;
    all.extend((0..100).map(|at| snapshot(241 + at, begin + at as i64 * 36, &[])));
    let policy = RetentionPolicy { daily: Keep::Newest(4), ..RetentionPolicy::default() };
    assert_eq!(kept(&policy, &all), [232, 236, 240, 340]);
}

#[test]
fn partial_snapshots_push_no_complete_one_out() {
    let policies = [
        RetentionPolicy { last: Keep::Newest(2), ..RetentionPolicy::default() },
        RetentionPolicy { daily: Keep::Newest(2), ..RetentionPolicy::default() },
        RetentionPolicy { within_secs: Some(HOUR as u64), ..RetentionPolicy::default() },
        RetentionPolicy { tags: vec![vec!["x".into()]], ..RetentionPolicy::default() },
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
        assert!(after.contains(&249), "and the newest of all, where a rule keeps it: {after:?}");
    }
}

/// Whatever clocks say and whichever backups are partial: what no rule ever saw is not forgotten
/// for it, and a policy keeps of good snapshots what it would keep if there were no others.
#[test]
fn nothing_that_is_wrong_costs_a_good_snapshot() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
        let policy = RetentionPolicy {
            last: Keep::Newest(random(4) as u32),
            daily: Keep::Newest(random(9) as u32),
            weekly: Keep::Newest(random(5) as u32),
            within_secs: Some(random(200) * 3600),
            ..RetentionPolicy::default()
        };
        // A first snapshot in the past is never suspect: the first may be dated as it likes.
        let first = all.iter().position(|one| good.first().is_some_and(|it| it.name == one.name));
        let Some(first) = first else { continue };
        let after = kept(&policy, &all[first..]);
        let alone = kept(&policy, &good);
        let is_kept = |one: &u64| after.contains(one);
        assert!(alone.iter().all(is_kept), "round {round}: {alone:?} of {after:?}, {policy:?}");
    }
}
