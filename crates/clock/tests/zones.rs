//! The library's time zones against arithmetic.

use clock::civil;
use jiff::tz::TimeZone;
use testkit::calendar::{self, DAY, ZONES};

#[test]
fn every_hour_of_ten_years_is_shown_as_arithmetic_says() {
    for zone in &ZONES {
        let library = TimeZone::posix(zone.posix).unwrap();
        let begin = calendar::days(2020, 1, 1) * DAY;
        for secs in (begin..begin + 3653 * DAY).step_by(1800 * 7) {
            let shown = civil::local(&library, secs);
            let (day, second) = calendar::shown(zone, secs);
            let date = (shown.year().into(), shown.month().into(), shown.day().into());
            assert_eq!(date, calendar::date(day), "{zone:?} at {secs}");
            let library_second = i64::from(shown.hour()) * 3600
                + i64::from(shown.minute()) * 60
                + i64::from(shown.second());
            assert_eq!(library_second, second, "{zone:?} at {secs}");
        }
    }
}

/// Every quarter of an hour of the days around each change.
#[test]
fn times_that_do_not_exist_or_exist_twice_mean_what_arithmetic_says() {
    for zone in &ZONES {
        let library = TimeZone::posix(zone.posix).unwrap();
        let changes = calendar::days(2026, 1, 1)..calendar::days(2028, 1, 1);
        let is_near = |day: &i64| {
            calendar::offset(zone, (day - 1) * DAY) != calendar::offset(zone, (day + 2) * DAY)
        };
        let near: Vec<i64> = changes.filter(is_near).collect();
        assert!(near.len() >= 12, "{zone:?}");
        for day in near {
            let (year, month, number) = calendar::date(day);
            let date = jiff::civil::date(year as i16, month as i8, number as i8);
            for second in (0..DAY).step_by(900) {
                let (hour, minute) = ((second / 3600) as i8, (second / 60 % 60) as i8);
                let found = civil::instant(&library, date.at(hour, minute, 0, 0));
                assert_eq!(found, calendar::first(zone, day, second), "{date} {hour}:{minute}");
            }
        }
    }
}

/// A static binary runs on machines without `/usr/share/zoneinfo`, and a schedule must still keep its zone.
#[test]
fn zones_are_known_on_a_machine_without_a_zone_database() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    for name in ["Europe/Stockholm", "America/New_York", "Australia/Lord_Howe"] {
        let (own, here) = (bundled.get(name).unwrap(), TimeZone::get(name).unwrap());
        for secs in (1_600_000_000..1_800_000_000).step_by(1_000_003) {
            assert_eq!(
                clock::civil::local(&own, secs),
                clock::civil::local(&here, secs),
                "{name} {secs}"
            );
        }
    }
}
