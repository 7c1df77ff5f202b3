//! Schedules as an administrator writes them, and what they do.

use super::*;
use clock::{Reading, Span, Unit};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn timetable(text: &str) -> Timetable {
    let schedule = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Timetable::new(schedule, TimeZone::posix(BERLIN).unwrap()).unwrap()
}

fn secs(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_second()
}

/// When the next runs are due, as a clock in Berlin shows it.
fn due(text: &str, after: &str, count: usize) -> Vec<String> {
    let zone = TimeZone::posix(BERLIN).unwrap();
    let shown = |one: Occurrence| {
        let time = clock::civil::local(&zone, one.due_secs);
        time.strftime("%a %Y-%m-%d %H:%M").to_string()
    };
    timetable(text).occurrences(secs(after)).take(count).map(shown).collect()
}

#[test]
fn the_calendar_names_days_of_weeks_months_and_years() {
    let table = [
        ("at = \"22:00\"", ["Mon 2026-06-01 22:00", "Tue 2026-06-02 22:00"]),
        ("at = [\"06:00\", \"22:30\"]", ["Mon 2026-06-01 06:00", "Mon 2026-06-01 22:30"]),
        ("at = \"08:00\"\non = \"weekends\"", ["Sat 2026-06-06 08:00", "Sun 2026-06-07 08:00"]),
        (
            "at = \"08:00\"\non = [\"friday\", \"monday\"]",
            ["Mon 2026-06-01 08:00", "Fri 2026-06-05 08:00"],
        ),
        (
            "at = \"08:00\"\non = \"second tuesday\"",
            ["Tue 2026-06-09 08:00", "Tue 2026-07-14 08:00"],
        ),
        ("at = \"08:00\"\non = \"last friday\"", ["Fri 2026-06-26 08:00", "Fri 2026-07-31 08:00"]),
        ("at = \"08:00\"\non = \"fifth monday\"", ["Mon 2026-06-29 08:00", "Mon 2026-08-31 08:00"]),
        ("at = \"08:00\"\non = \"day 31\"", ["Fri 2026-07-31 08:00", "Mon 2026-08-31 08:00"]),
        ("at = \"08:00\"\non = \"last day\"", ["Tue 2026-06-30 08:00", "Fri 2026-07-31 08:00"]),
        ("at = \"08:00\"\non = \"december 24\"", ["Thu 2026-12-24 08:00", "Fri 2027-12-24 08:00"]),
        ("at = \"08:00\"\non = \"february 29\"", ["Tue 2028-02-29 08:00", "Sun 2032-02-29 08:00"]),
        ("window = \"22:00-06:00\"", ["Mon 2026-06-01 22:00", "Tue 2026-06-02 22:00"]),
    ];
    for (text, expected) in table {
        assert_eq!(due(text, "2026-05-31T22:00:00Z", 2), expected, "{text}");
    }
    let after_2096 = due("at = \"08:00\"\non = \"february 29\"", "2096-03-01T00:00:00Z", 1);
    assert_eq!(after_2096, ["Fri 2104-02-29 08:00"]);
}

#[test]
fn a_frequency_is_one_run_in_each_period_as_soon_as_a_window_opens() {
    let table = [
        (
            "every = \"15 minutes\"\nwindow = \"always\"",
            ["Mon 2026-06-01 00:15", "Mon 2026-06-01 00:30"],
        ),
        (
            "every = \"1 minute\"\nwindow = \"23:59-00:01\"",
            ["Mon 2026-06-01 23:59", "Tue 2026-06-02 00:00"],
        ),
        // The first period of six hours with an open window begins at six.
        (
            "every = \"6 hours\"\nwindow = \"08:00-17:00\"",
            ["Mon 2026-06-01 08:00", "Mon 2026-06-01 12:00"],
        ),
        (
            "every = \"1 day\"\nwindow = \"22:00-06:00\"",
            ["Mon 2026-06-01 22:00", "Tue 2026-06-02 22:00"],
        ),
        ("every = \"1 day\"\nat = \"22:00\"", ["Mon 2026-06-01 22:00", "Tue 2026-06-02 22:00"]),
        (
            "every = \"1 week\"\nwindow = \"22:00-06:00\"",
            ["Mon 2026-06-01 22:00", "Mon 2026-06-08 22:00"],
        ),
        (
            "every = \"2 weeks\"\non = \"sunday\"\nat = \"03:00\"",
            ["Sun 2026-06-07 03:00", "Sun 2026-06-21 03:00"],
        ),
        (
            "every = \"3 months\"\nwindow = \"01:00-02:00\"",
            ["Wed 2026-07-01 01:00", "Thu 2026-10-01 01:00"],
        ),
        (
            "every = \"1 year\"\non = \"saturday\"\nat = \"01:00\"",
            ["Sat 2027-01-02 01:00", "Sat 2028-01-01 01:00"],
        ),
    ];
    for (text, expected) in table {
        assert_eq!(due(text, "2026-05-31T22:00:00Z", 2), expected, "{text}");
    }
}

#[test]
fn a_time_that_does_not_exist_runs_once_right_after_the_gap() {
    let at = "at = [\"02:10\", \"02:40\", \"04:00\"]";
    let expected = ["Sun 2026-03-29 03:00", "Sun 2026-03-29 04:00", "Mon 2026-03-30 02:10"];
    assert_eq!(due(at, "2026-03-29T00:00:00Z", 3), expected);
    let one = timetable(at).next(secs("2026-03-29T00:00:00Z")).unwrap();
    assert_eq!(one.until_secs, secs("2026-03-29T02:00:00Z"), "in time until the next one is due");
    let window = timetable("window = \"02:10-02:40\"").next(secs("2026-03-29T00:00:00Z")).unwrap();
    assert_eq!(window.due_secs, secs("2026-03-29T01:00:00Z"));
    assert_eq!(window.closes_secs - window.due_secs, 30 * 60, "it keeps its length");
}

#[test]
fn windows_that_follow_one_another_are_one_for_a_run_between_them() {
    for (windows, minutes) in [
        ("[\"21:00-00:00\", \"00:00-06:00\"]", 8 * 60),
        ("[\"00:00-06:00\", \"21:00-00:00\"]", 8 * 60),
        ("[\"21:00-23:00\", \"23:00-01:00\", \"01:00-02:00\"]", 4 * 60),
        ("[\"21:00-23:00\", \"23:01-06:00\"]", 60),
        // Always open: until the next start.
        ("[\"21:00-09:00\", \"09:00-21:00\"]", 24 * 60),
        // As it was always meant: the window of a whole day ends with it.
        ("\"always\"", 2 * 60),
    ] {
        let next = timetable(&format!("at = \"22:00\"\nwindow = {windows}"));
        let run = next.next(secs("2026-06-01T12:00:00Z")).unwrap();
        assert_eq!(run.closes_secs - run.due_secs, minutes * 60, "{windows}");
    }
}

#[test]
fn a_time_that_exists_twice_runs_once_and_a_frequency_goes_on() {
    let expected = ["Sun 2026-10-25 02:30", "Mon 2026-10-26 02:30"];
    assert_eq!(due("at = \"02:30\"", "2026-10-25T00:00:00Z", 2), expected);
    let quarters = timetable("every = \"15 minutes\"\nwindow = \"always\"");
    let day = (secs("2026-10-24T22:00:00Z"), secs("2026-10-25T23:00:00Z"));
    let times = quarters.occurrences(day.0 - 1).take_while(|one| one.due_secs < day.1);
    assert_eq!(times.count(), 25 * 4, "a day of 25 hours");
}

#[test]
fn schedules_are_read_and_written_as_people_write_them() {
    let text = "level = \"catch-up\"\nsince = \"2026-01-01\"\nzone = \"Europe/Berlin\"\nevery = \"2 weeks\"\n\
        at = \"22:00\"\non = [\"monday\", \"last day\"]\nwindow = [\"21:00-06:00\", \"12:00-13:00\"]\n\
        missed = \"skip\"\njitter = \"30 minutes\"\n\n\
        [retry]\ntimes = 2\nafter = \"1 minute\"\nat_most = \"10 minutes\"\n";
    let schedule: Schedule = toml::from_str(text).unwrap();
    assert_eq!(toml::to_string(&schedule).unwrap(), text);
    let json = serde_json::to_string(&schedule).unwrap();
    assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
    let manual: Schedule = toml::from_str("").unwrap();
    assert!(manual.is_manual() && manual == Schedule::default());
    let weekly =
        ["each day", "weekdays", "weekends", "first sunday", "last monday", "day 1", "july 4"];
    for days in weekly {
        assert_eq!(days.parse::<Days>().unwrap().to_string(), days);
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    let refused = [
        ("evry = \"1 day\"", "unknown field `evry`"),
        ("at = \"22\"", "'22' is not a time of day; write \"22:00\""),
        ("at = \"24:00\"", "is not a time of day"),
        ("at = \"2:5\"", "is not a time of day"),
        ("at = 22", "a text in quotes"),
        ("window = \"22:00\"", "is not a window"),
        ("window = \"22:00-22:00\"", "never opens"),
        ("window = [\"22:00-06:00\", \"05:00-07:00\"]", "overlap; make one of them"),
        ("window = \"always\"", "does not say how often"),
        ("at = \"12:00\"\nwindow = \"22:00-06:00\"", "lies in no window"),
        ("at = \"08:00\"\non = \"february 30\"", "at most 29 days"),
        ("at = \"08:00\"\non = \"day 32\"", "at most 31 days"),
        ("at = \"08:00\"\non = \"day 0\"", "is no day; write"),
        ("at = \"08:00\"\non = \"sixth monday\"", "is no day; write"),
        ("on = \"monday\"", "not when; add at"),
        ("every = \"1 day\"", "no run would ever start; add window"),
        ("every = \"30 seconds\"\nwindow = \"always\"", "from \"1 minute\" to \"1 year\""),
        ("every = \"2 years\"\nwindow = \"always\"", "from \"1 minute\" to \"1 year\""),
        ("every = \"36 hours\"\nwindow = \"always\"", "in whole days"),
        ("every = \"1 hour\"\nat = \"22:00\"", "exclude each other"),
        ("older_than = \"1 day\"\nat = \"22:00\"", "older_than and at exclude each other"),
        ("older_than = \"0 days\"", "older_than = \"0 days\" is not possible"),
        ("at = \"22:00\"\nsince = \"2026-01-01\"", "belong together"),
        ("at = \"22:00\"\nlevel = \"catch-up\"", "belong together"),
        ("level = \"catch-up\"\nsince = \"2026-02-30\"", "is not a date"),
        ("level = \"full\"", "unknown variant `full`"),
        ("window = \"22:00-23:00\"\njitter = \"2 hours\"", "only 60 minutes are left"),
        (
            "every = \"5 minutes\"\nwindow = \"always\"\njitter = \"5 minutes\"",
            "only 5 minutes are left",
        ),
        ("at = \"22:00\"\nretry = { after = \"2 hours\" }", "retry is not possible"),
    ];
    for (text, expected) in refused {
        let error = toml::from_str::<Schedule>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

fn at(settled: &str) -> Situation {
    Situation { settled_secs: secs(settled), is_seen: true, ..Situation::default() }
}

fn decide(text: &str, now: &str, known: &Situation) -> Decision {
    timetable(text).decide("web:/:nightly", Reading::certain(secs(now)), known)
}

fn started(decision: &Decision) -> Start {
    match decision.next {
        Next::Due(start) => start,
        other => panic!("no start but {other:?}"),
    }
}

const NIGHTLY: &str = "window = \"22:00-06:00\"\nzone = \"Europe/Berlin\"";

#[test]
fn a_run_starts_when_its_window_opens_and_once() {
    let mut known = at("2026-06-01T12:00:00Z");
    let before = decide(NIGHTLY, "2026-06-01T19:59:59Z", &known);
    assert_eq!(before.next, Next::NotBefore(secs("2026-06-01T20:00:00Z")));
    let now = decide(NIGHTLY, "2026-06-01T20:00:00Z", &known);
    let start = started(&now);
    assert_eq!(
        (start.attempt, start.is_late, start.until_secs),
        (1, false, secs("2026-06-02T04:00:00Z"))
    );
    known.settled_secs = now.settled_secs;
    let again = decide(NIGHTLY, "2026-06-01T20:00:01Z", &known);
    assert_eq!(again.next, Next::NotBefore(secs("2026-06-02T20:00:00Z")));
    // The clock goes back: nothing is due a second time.
    let back = decide(NIGHTLY, "2026-06-01T19:00:00Z", &known);
    assert_eq!((back.next, back.missed.len()), (again.next, 0));
}

#[test]
fn a_source_never_runs_twice_at_once() {
    let known = Situation { is_running: true, ..at("2026-06-01T12:00:00Z") };
    for text in [NIGHTLY, "older_than = \"1 day\"", ""] {
        let decision = decide(text, "2026-06-05T21:00:00Z", &known);
        assert_eq!(decision.next, Next::Waiting(Waiting::Running));
        assert!(decision.missed.is_empty(), "what it delays is settled when it has ended");
    }
}

#[test]
fn missed_runs_are_told_and_one_makes_up_for_them() {
    let known = at("2026-06-01T12:00:00Z");
    let noon = decide(NIGHTLY, "2026-06-04T10:00:00Z", &known);
    assert_eq!(noon.missed.len(), 2, "the newest of the three may still start");
    assert_eq!(noon.next, Next::NotBefore(secs("2026-06-04T20:00:00Z")));
    let at_once = decide("at = \"22:00\"\non = \"day 1\"", "2026-06-04T10:00:00Z", &known);
    assert!(started(&at_once).is_late && at_once.missed.is_empty());
    let weekly = format!("{NIGHTLY}\non = \"monday\"");
    let tuesday = decide(&weekly, "2026-06-02T21:00:00Z", &known);
    assert!(started(&tuesday).is_late, "in the same hours of another day");
    let wednesday_noon = decide(&weekly, "2026-06-03T10:00:00Z", &known);
    assert_eq!(wednesday_noon.next, Next::NotBefore(secs("2026-06-03T20:00:00Z")));
}

#[test]
fn missed_runs_are_told_and_skipped_if_that_is_wanted() {
    let known = at("2026-06-01T12:00:00Z");
    let skip = format!("{NIGHTLY}\nmissed = \"skip\"");
    let decision = decide(&skip, "2026-06-04T10:00:00Z", &known);
    assert_eq!(decision.missed.len(), 3);
    assert_eq!(decision.next, Next::NotBefore(secs("2026-06-04T20:00:00Z")));
    let in_time = "at = \"22:00\"\nmissed = \"skip\"";
    assert!(!started(&decide(in_time, "2026-06-01T20:59:59Z", &known)).is_late);
    assert_eq!(decide(in_time, "2026-06-01T21:00:00Z", &known).missed.len(), 1, "an hour late");
}

/// A year of minutes: told in parts, and every one of them.
#[test]
fn very_many_missed_runs_are_all_told() {
    let mut known = at("2026-06-01T12:00:00Z");
    let (mut told, mut rounds) = (0, 0);
    loop {
        let text = "every = \"1 minute\"\nwindow = \"always\"\nmissed = \"skip\"";
        let decision = decide(text, "2026-06-04T12:00:30Z", &known);
        told += decision.missed.len();
        (known.settled_secs, rounds) = (decision.settled_secs, rounds + 1);
        if let Next::Due(start) = decision.next {
            assert_eq!(start.due_secs, secs("2026-06-04T12:00:00Z"));
            break;
        }
    }
    assert_eq!((told, rounds), (3 * 24 * 60 - 1, 5));
}

#[test]
fn failures_are_retried_with_growing_pauses_until_the_next_run_comes() {
    let text = format!(
        "{NIGHTLY}\nretry = {{ times = 3, after = \"10 minutes\", at_most = \"30 minutes\" }}"
    );
    let mut known = at("2026-06-01T20:00:00Z");
    let failed = |attempts, ended: &str| {
        Some(Failed { due_secs: secs("2026-06-01T20:00:00Z"), attempts, ended_secs: secs(ended) })
    };
    let table = [
        (1, "2026-06-01T21:00:00Z", "2026-06-01T21:10:00Z"),
        (2, "2026-06-01T21:00:00Z", "2026-06-01T21:20:00Z"),
        (3, "2026-06-01T21:00:00Z", "2026-06-01T21:30:00Z"),
        // No retry is left, or no window opens before the next run.
        (4, "2026-06-01T21:00:00Z", "2026-06-02T20:00:00Z"),
        (1, "2026-06-02T03:55:00Z", "2026-06-02T20:00:00Z"),
    ];
    for (attempts, ended, again) in table {
        known.failed = failed(attempts, ended);
        assert_eq!(decide(&text, ended, &known).next, Next::NotBefore(secs(again)), "{ended}");
    }
    known.failed = failed(1, "2026-06-02T19:58:00Z");
    let next = decide("at = \"22:00\"", "2026-06-02T19:58:00Z", &known).next;
    assert_eq!(next, Next::NotBefore(secs("2026-06-02T20:00:00Z")), "no retry delays the next run");
    known.failed = failed(2, "2026-06-01T21:00:00Z");
    let start = started(&decide(&text, "2026-06-01T21:20:00Z", &known));
    assert_eq!((start.attempt, start.due_secs), (3, secs("2026-06-01T20:00:00Z")));
}

#[test]
fn a_laptop_is_backed_up_whenever_it_is_seen_and_its_backup_is_old() {
    let text = "older_than = \"20 hours\"";
    let mut known = at("2026-06-01T00:00:00Z");
    assert_eq!(started(&decide(text, "2026-06-01T12:00:00Z", &known)).attempt, 1, "it has none");
    known.last_complete_secs = Some(secs("2026-06-01T12:00:00Z"));
    let early = decide(text, "2026-06-01T13:00:00Z", &known);
    assert_eq!(early.next, Next::NotBefore(secs("2026-06-02T08:00:00Z")));
    known.is_seen = false;
    let away = decide(text, "2026-06-02T08:00:00Z", &known);
    assert_eq!(away.next, Next::Waiting(Waiting::NotSeen));
    known.is_seen = true;
    known.failed =
        Some(Failed { due_secs: 0, attempts: 40, ended_secs: secs("2026-06-02T08:00:00Z") });
    let put_off = decide(text, "2026-06-02T08:00:00Z", &known);
    assert_eq!(put_off.next, Next::NotBefore(secs("2026-06-02T09:00:00Z")), "and never given up");
}

#[test]
fn without_times_a_schedule_is_started_by_hand_only() {
    let decision =
        decide("zone = \"Europe/Berlin\"", "2026-06-01T12:00:00Z", &at("2020-01-01T00:00:00Z"));
    assert_eq!(decision.next, Next::Waiting(Waiting::Manual));
    assert!(decision.missed.is_empty());
}

#[test]
fn jitter_spreads_the_starts_of_nodes_inside_the_window() {
    let table = timetable(&format!("{NIGHTLY}\njitter = \"2 hours\""));
    let occurrence = table.next(secs("2026-06-01T12:00:00Z")).unwrap();
    let start =
        |node: u32| table.start_secs(&format!("node{node}"), &occurrence) - occurrence.due_secs;
    let starts: Vec<i64> = (0..2000).map(start).collect();
    assert!(starts.iter().all(|late| (0..=2 * HOUR).contains(late)));
    for quarter in 0..8 {
        let part = quarter * 900_i64..(quarter + 1) * 900;
        let count = starts.iter().filter(|late| part.contains(*late)).count();
        assert!((180..320).contains(&count), "{count} of 2000 in {part:?}");
    }
    // Fixed: a new version must not move the starts of a site.
    assert_eq!([start(1), start(2), start(3)], [3108, 3998, 3157]);
}

#[test]
fn a_late_run_of_a_past_window_is_not_in_time() {
    let span = Span::new(1, Unit::Day);
    let table = timetable(NIGHTLY);
    let one = table.next(secs("2026-06-01T12:00:00Z")).unwrap();
    let known = at("2026-06-01T12:00:00Z");
    let last = Reading::certain(one.until_secs - 1);
    assert!(!started(&table.decide("k", last, &known)).is_late);
    let late = table.decide("k", Reading::certain(one.until_secs), &known);
    assert_eq!(late.next, Next::NotBefore(one.due_secs + span.signed_secs()));
    assert_eq!(span.signed_secs(), DAY);
}
