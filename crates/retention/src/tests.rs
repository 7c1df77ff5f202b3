//! What happens to snapshots of one policy.

use super::*;
use clock::{Doubt, Reading};
use ids::SnapshotId;
use jiff::tz::TimeZone;

const DAY: i64 = 86_400;
const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
/// 2026-06-01 00:00 UTC.
const NOW: i64 = 20_605 * DAY;

fn snapshot(number: u64, received_secs: i64) -> Facts {
    let mut id = SnapshotId([0; 16]);
    id.0[..8].copy_from_slice(&number.to_be_bytes());
    Facts {
        id,
        number,
        node: "web".into(),
        source: "/".into(),
        policy: "servers".into(),
        class: "standard".into(),
        received_secs,
        is_partial: false,
        suspect: None,
        tags: Some(Vec::new()),
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: Some(false),
        source_deleted_secs: None,
        trashed: None,
    }
}

/// One a day at noon, the newest today; number 1 is the oldest.
fn daily(count: u64) -> Vec<Facts> {
    let noon = |at: u64| NOW - (count - at) as i64 * DAY - DAY / 2;
    (1..=count).map(|at| snapshot(at, noon(at))).collect()
}

fn rules_of(class: &str) -> Rules {
    let class: Class = toml::from_str(class).unwrap();
    let classes = [("standard".to_owned(), class)].into();
    let retention = Retention { zone: "Europe/Berlin".into(), classes };
    Rules::default().policy("servers", retention, TimeZone::posix(BERLIN).unwrap())
}

fn states(rules: &Rules, all: &[Facts], now: i64) -> Vec<State> {
    rules.evaluate(all, Reading::certain(now)).into_iter().map(|verdict| verdict.state).collect()
}

/// Numbers of those that are kept.
fn kept(rules: &Rules, all: &[Facts]) -> Vec<u64> {
    let states = states(rules, all, NOW);
    let is_kept = |state: &State| matches!(state, State::Kept | State::Held | State::Locked { .. });
    all.iter().zip(states).filter(|(_, state)| is_kept(state)).map(|(one, _)| one.number).collect()
}

fn trash(since_secs: i64, by: TrashedBy) -> Option<Trashed> {
    Some(Trashed { since_secs, by })
}

#[test]
fn a_snapshot_is_kept_then_lies_in_the_trash_then_is_expired() {
    let rules = rules_of("keep_last = 1\ntrash = \"3 days\"");
    let mut all = daily(2);
    let in_trash = |since: i64| State::Trash { since_secs: since, until_secs: since + 3 * DAY };
    assert_eq!(states(&rules, &all, NOW), [in_trash(NOW), State::Kept]);
    all[0].trashed = trash(NOW, TrashedBy::Rules);
    assert_eq!(states(&rules, &all, NOW + 3 * DAY - 1), [in_trash(NOW), State::Kept]);
    assert_eq!(states(&rules, &all, NOW + 3 * DAY), [State::Expired, State::Kept]);
}

#[test]
fn a_policy_that_keeps_more_brings_back_what_the_rules_put_into_the_trash() {
    let mut all = daily(3);
    all[0].trashed = trash(NOW - DAY, TrashedBy::Rules);
    all[1].trashed = trash(NOW - DAY, TrashedBy::Name);
    assert_eq!(kept(&rules_of("keep_last = 3"), &all), [1, 3], "not what was named");
}

#[test]
fn the_newest_complete_snapshot_goes_only_by_name() {
    let rules = rules_of("keep_tags = [[\"none\"]]");
    let mut all = daily(3);
    all[2].is_partial = true;
    assert_eq!(kept(&rules, &all), [2]);
    all[1].trashed = trash(NOW - 30 * DAY, TrashedBy::Name);
    assert_eq!(states(&rules, &all, NOW)[1], State::Expired);
    assert_eq!(kept(&rules, &all), [1], "and then the one before stays");
}

#[test]
fn the_newest_complete_snapshot_of_each_list_of_paths_goes_only_by_name() {
    let rules = rules_of("keep_last = 2");
    let mut all = daily(7);
    // Two with the paths of old, a partial one of them, then other paths twice, then a third list.
    for (one, paths) in all.iter_mut().zip([1, 1, 1, 2, 2, 3, 3]) {
        one.paths = Some(ids::ObjectId([paths; ids::ObjectId::LEN]));
    }
    all[2].is_partial = true;
    assert_eq!(kept(&rules, &all), [2, 5, 6, 7]);
    let why = rules.evaluate(&all, Reading::certain(NOW))[1].reasons[0].to_string();
    assert!(why.contains("paths that its source has no more, until somebody"), "{why}");
    all[1].trashed = trash(NOW - 30 * DAY, TrashedBy::Name);
    assert_eq!(kept(&rules, &all), [1, 5, 6, 7], "and then the one before stays");
    all.iter_mut().for_each(|one| one.paths = None);
    assert_eq!(kept(&rules, &all), [6, 7], "nobody knows of other paths");
}

#[test]
fn who_names_a_snapshot_to_go_at_once_waits_for_no_trash_period() {
    let mut all = daily(2);
    all[0].trashed = trash(NOW, TrashedBy::NameAtOnce);
    assert_eq!(states(&rules_of("keep_last = 9"), &all, NOW)[0], State::Expired);
}

#[test]
fn a_lock_outlives_names_policies_and_releases() {
    let mut all = daily(2);
    all[0].locked_until_secs = Some(NOW + 1);
    all[0].trashed = trash(NOW - 90 * DAY, TrashedBy::NameAtOnce);
    for class in ["keep_last = 1", "keep_last = 1\nimmutable = \"1 day\""] {
        assert_eq!(states(&rules_of(class), &all, NOW)[0], State::Locked { until_secs: NOW + 1 });
        assert_eq!(states(&rules_of(class), &all, NOW + 1)[0], State::Expired);
    }
    let lock = |class: &str| states(&rules_of(class), &daily(2), NOW)[0];
    let until_secs = daily(2)[0].received_secs + 30 * DAY;
    assert_eq!(lock("keep_last = 1\nimmutable = \"30 days\""), State::Locked { until_secs });
}

#[test]
fn what_a_hold_selects_stays_until_it_ends() {
    let rules = |hold: Hold| rules_of("keep_last = 1").hold(Hold { name: "audit".into(), ..hold });
    let mut all = daily(3);
    all[1].node = "db".into();
    all[0].trashed = trash(0, TrashedBy::Name);
    let everything = rules(Hold::default());
    assert_eq!(states(&everything, &all, NOW), [State::Held; 3]);
    let until_secs = Some(NOW + DAY);
    let web = rules(Hold { node: Some("web".into()), until_secs, ..Hold::default() });
    assert_eq!(states(&web, &all, NOW), [State::Held, State::Kept, State::Held]);
    assert_eq!(states(&web, &all, NOW + DAY)[0], State::Expired);
    let one = rules(Hold { snapshot: Some(all[2].id), ..Hold::default() });
    assert_eq!(states(&one, &all, NOW), [State::Expired, State::Kept, State::Held]);
}

#[test]
fn nothing_goes_while_the_clock_is_in_doubt() {
    let rules = rules_of("keep_last = 1");
    let mut all = daily(3);
    all[0].trashed = trash(NOW - 90 * DAY, TrashedBy::Rules);
    let now = Reading { secs: NOW, doubt: Some(Doubt::Fast(DAY)) };
    let verdicts = rules.evaluate(&all, now);
    assert!(matches!(verdicts[0].state, State::Trash { .. }), "{:?}", verdicts[0]);
    assert_eq!(verdicts[1].state, State::Kept);
    assert_eq!(verdicts[1].reasons[0].why, Why::Clock(Doubt::Fast(DAY)));
    assert_eq!(states(&rules, &all, NOW)[0], State::Expired, "without doubt it goes");
}

/// The thief of a node, or a clock that was ahead: neither pushes out what is good.
#[test]
fn suspect_snapshots_and_those_of_the_future_stay_and_push_no_other_out() {
    let rules = rules_of("keep_last = 2");
    let mut all = daily(4);
    all.push(snapshot(5, NOW + 1));
    all.push(Facts { suspect: Some("why".into()), ..snapshot(6, NOW - 1) });
    assert_eq!(kept(&rules, &all), [3, 4, 5, 6]);
}

#[test]
fn what_no_policy_or_class_speaks_for_stays() {
    let rules = rules_of("keep_last = 1");
    let mut all = daily(4);
    all[0].policy = "gone".into();
    all[1].class = "gone".into();
    assert_eq!(kept(&rules, &all), [1, 2, 4]);
    let verdicts = rules.evaluate(&all, Reading::certain(NOW));
    assert_eq!(
        verdicts[0].reasons[0].to_string(),
        "there is no policy 'gone', until somebody releases it"
    );
    all[0].trashed = trash(NOW - 8 * DAY, TrashedBy::Name);
    assert_eq!(states(&rules, &all, NOW)[0], State::Expired, "but goes by name");
}

#[test]
fn the_minimum_of_versions_stays_whatever_its_age() {
    let all = daily(10);
    let by_age = "keep_within = \"1 day\"";
    assert_eq!(kept(&rules_of(by_age), &all), [9, 10]);
    let least = format!("{by_age}\nminimum_versions = 4");
    assert_eq!(kept(&rules_of(&least), &all), [7, 8, 9, 10]);
}

#[test]
fn each_source_and_class_is_decided_by_itself() {
    let mut all = daily(4);
    all[0].source = "/home".into();
    all[1].node = "db".into();
    assert_eq!(kept(&rules_of("keep_last = 1"), &all), [1, 2, 4]);
}

/// 23:30 UTC is the next day in Berlin.
#[test]
fn days_are_those_of_the_zone_of_the_policy() {
    let day = NOW - 5 * DAY;
    let all = [snapshot(1, day + 20 * 3600), snapshot(2, day + 23 * 3600), snapshot(3, day + DAY)];
    assert_eq!(kept(&rules_of("keep_daily = 5"), &all), [1, 3]);
    let class: Class = toml::from_str("keep_daily = 5").unwrap();
    let retention = Retention { zone: "UTC".into(), classes: [("standard".into(), class)].into() };
    let in_utc = Rules::default().policy("servers", retention, TimeZone::UTC);
    assert_eq!(kept(&in_utc, &all), [1, 2, 3], "the oldest stays while the rule is not used up");
}

#[test]
fn equal_times_are_decided_by_number_and_id_in_any_order() {
    let rules = rules_of("keep_last = 1");
    let mut all = vec![snapshot(2, NOW), snapshot(1, NOW), snapshot(1, NOW)];
    all[2].id.0[15] = 1;
    assert_eq!(kept(&rules, &all), [2]);
    all.reverse();
    assert_eq!(kept(&rules, &all), [2]);
    all.remove(2);
    let ids = states(&rules, &all, NOW);
    assert_eq!(ids[0], State::Kept, "the greater id");
}

const TSM: &str =
    "[versions]\nexists = 3\ndeleted = 2\nretain_extra = \"10 days\"\nretain_only = \"20 days\"";

#[test]
fn versions_of_a_source_that_exists_are_limited_by_number_and_age() {
    assert_eq!(kept(&rules_of(TSM), &daily(9)), [7, 8, 9]);
    let mut all = daily(3);
    all[1].received_secs -= 20 * DAY;
    all[0].received_secs -= 20 * DAY;
    // Number 1 was superseded 21 days ago, number 2 half a day ago.
    assert_eq!(kept(&rules_of(TSM), &all), [2, 3]);
    assert_eq!(kept(&rules_of("[versions]"), &daily(4)), [1, 2, 3, 4], "no limits");
}

#[test]
fn the_last_version_of_a_deleted_source_stays_for_its_own_time() {
    let rules = rules_of(TSM);
    let deleted = |ago: i64| {
        let source_deleted_secs = Some(NOW - ago * DAY);
        let older = |one: Facts| Facts {
            received_secs: one.received_secs - ago * DAY,
            source_deleted_secs,
            ..one
        };
        daily(4).into_iter().map(older).collect::<Vec<_>>()
    };
    assert_eq!(kept(&rules, &deleted(1)), [3, 4]);
    assert_eq!(kept(&rules, &deleted(11)), [4]);
    assert_eq!(kept(&rules, &deleted(20)), [] as [u64; 0]);
    // Keep rules beside them do not hold it for ever.
    assert_eq!(kept(&rules_of(&format!("keep_last = 9\n{TSM}")), &deleted(20)), [] as [u64; 0]);
    // Without such rules, nothing ends until somebody names it.
    assert_eq!(kept(&rules_of("keep_last = 1"), &deleted(20)), [4]);
    assert_eq!(kept(&rules_of("minimum_versions = 2"), &deleted(20)), [3, 4]);
    assert_eq!(kept(&rules_of("keep_tags = [[\"none\"]]"), &deleted(20)), [4]);
    let mut back = deleted(20);
    back.push(snapshot(5, NOW));
    assert!(kept(&rules, &back).contains(&5), "a source that is backed up again exists");
}

#[test]
fn the_last_snapshot_with_deleted_files_stays_for_its_own_time() {
    let rules = rules_of(TSM);
    let mut all = daily(30);
    let with = |known: Option<bool>, all: &mut Vec<Facts>| {
        all[19].has_deleted_objects = known; // superseded 9.5 days ago
        all[5].has_deleted_objects = known; // 23.5 days ago
        kept(&rules, all)
    };
    assert_eq!(with(Some(false), &mut all), [28, 29, 30]);
    assert_eq!(with(Some(true), &mut all), [20, 28, 29, 30]);
    assert_eq!(with(None, &mut all), [20, 28, 29, 30], "unknown counts as yes");
}

#[test]
fn an_explanation_has_every_reason_and_what_ends_it() {
    let rules = rules_of("keep_daily = 7\nkeep_within = \"3 days\"\nimmutable = \"10 days\"");
    let verdicts = rules.evaluate(&daily(9), Reading::certain(NOW));
    let told: Vec<_> = verdicts[6].reasons.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "daily snapshot, until 5 newer days have a snapshot",
            "within the period, until the first snapshot after 2026-06-01T12:00:00Z",
            "immutable, until 2026-06-08T12:00:00Z",
        ]
    );
    assert_eq!(verdicts[6].kept_until_secs(), None);
    assert_eq!(verdicts[0].kept_until_secs(), Some(daily(9)[0].received_secs + 10 * DAY));
    let newest = verdicts[8].reasons[0].to_string();
    assert_eq!(
        newest,
        "daily snapshot, until 7 newer days have a snapshot or this day has a newer one"
    );
}

/// What `explain` says comes true: as many newer days as it names.
#[test]
fn the_simulator_shows_what_the_explanation_says() {
    let rules = rules_of("keep_daily = 5\ntrash = \"2 days\"");
    let zone = TimeZone::posix(BERLIN).unwrap();
    let arrivals: Vec<_> = (0..40).map(|at| snapshot(100 + at, NOW + at as i64 * DAY)).collect();
    let first = clock::civil::day(&zone, NOW);
    let simulation = Simulation::new(&rules, zone, first, daily(2), arrivals);
    let departure = simulation.clone().departures(40)[&daily(2)[1].id];
    let days: Vec<Day> = simulation.take(40).collect();
    let id = daily(2)[1].id;
    // The newest of five days today; five newer ones come from today on.
    let last_kept = days.iter().rposition(|day| day.kept.contains(&id)).unwrap();
    let expired = days.iter().position(|day| day.expired.contains(&id)).unwrap();
    assert_eq!((last_kept, expired), (3, 6));
    assert!(days[4].trash.contains(&id) && days[5].trash.contains(&id));
    let expected = Departure { trash: Some(days[4].day), gone: Some(days[6].day) };
    assert_eq!(departure, expected);
    assert_eq!(days[39].kept.len(), 5);
    assert_eq!(days[39].day.to_string(), "2026-07-10");
}

#[test]
fn policies_are_read_and_written_and_what_cannot_be_meant_is_refused() {
    let text = "zone = \"Europe/Berlin\"\n\n[class.long]\nkeep_daily = 14\nkeep_yearly = \"all\"\n\
        keep_within_hourly = \"2 days\"\nminimum_versions = 2\ntrash = \"14 days\"\nimmutable = \"1 month\"\n\n\
        [class.long.versions]\nexists = 2\nretain_only = \"60 days\"\n";
    let retention: Retention = toml::from_str(text).unwrap();
    assert_eq!(toml::to_string(&retention).unwrap(), text);
    let json = serde_json::to_string(&retention).unwrap();
    assert_eq!(serde_json::from_str::<Retention>(&json).unwrap(), retention);
    let refused = [
        ("keep_daly = 1", "unknown field `keep_daly`"),
        ("trash = \"1 day\"", "the class keeps nothing; set keep_last"),
        ("keep_last = \"many\"", "write a number of snapshots, or \"all\""),
        ("keep_within = \"soon\"", "'soon' is not a span of time; write"),
        ("keep_tags = [[]]", "write the tags"),
        ("versions = { exists = 0 }", "write 1 or more"),
        ("keep_last = 1\nimmutable = \"999 years\"", "is longer than 100 years"),
    ];
    for (class, expected) in refused {
        let error = toml::from_str::<Retention>(&format!("[class.a]\n{class}")).unwrap_err();
        assert!(error.to_string().contains(expected), "{class}: {error}");
    }
}

/// What this thread took of a processor: a busy machine makes no test fail.
fn processor_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ten years of a source that is backed up every six hours, as somebody waits for it.
#[test]
fn years_are_simulated_while_one_waits() {
    let rules = rules_of("keep_daily = 14\nkeep_weekly = 8\nkeep_monthly = 12\nkeep_yearly = 5");
    let zone = TimeZone::posix(BERLIN).unwrap();
    let make = |at: u64| snapshot(at, NOW + at as i64 * DAY / 4);
    let arrivals = (0..4 * 3650).map(make).collect();
    let first = clock::civil::day(&zone, NOW);
    let begin = processor_time();
    let last =
        Simulation::new(&rules, zone, first, Vec::new(), arrivals).take(3650).last().unwrap();
    let passed = processor_time() - begin;
    println!("3650 days in {passed:?}");
    // Of the weeks and months some are days, too.
    assert!((30..=39).contains(&last.kept.len()), "{}", last.kept.len());
    assert!(passed.as_secs() < 20, "{passed:?}");
}

/// A list of a site: it must not make anybody wait. The bound is for a slow machine.
#[test]
fn a_hundred_thousand_snapshots_are_decided_at_once() {
    let rules = rules_of(
        "keep_hourly = 48\nkeep_daily = 14\nkeep_weekly = 8\nkeep_monthly = 12\nkeep_yearly = 5",
    );
    let make = |at: u64| {
        let mut one = snapshot(at, NOW - (at / 1000) as i64 * 3600);
        one.node = format!("node{}", at % 1000);
        one
    };
    let all: Vec<_> = (0..100_000).map(make).collect();
    let begin = processor_time();
    let kept = kept(&rules, &all).len();
    let passed = processor_time() - begin;
    println!("{} snapshots in {passed:?}", all.len());
    assert_eq!(kept, 1000 * 51, "48 hours, and the last of two more days and the oldest");
    assert!(passed.as_secs() < 2, "{passed:?}");
}

/// Each backup would have let all older ones go.
#[test]
fn a_class_whose_counts_are_all_0_keeps_nothing_and_is_refused() {
    for text in ["keep_daily = 0", "keep_last = 0\nkeep_yearly = 0"] {
        let refused = toml::from_str::<Class>(text).unwrap_err();
        assert!(refused.to_string().contains("keeps nothing"), "{refused}");
    }
    toml::from_str::<Class>("keep_daily = 0\nkeep_last = 1").unwrap();
    toml::from_str::<Class>("keep_daily = 0\nkeep_within = \"1 day\"").unwrap();
}
