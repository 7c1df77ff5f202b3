//! Times as a time zone shows them, and back.
//!
//! A time that does not exist, because the clock was set ahead, means the moment right after the
//! gap. A time that exists twice, because the clock was set back, means the first of the two.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// What a clock in `zone` shows at a time. Times beyond the years -9999 to 9999 are moved to the
/// nearest that a calendar has.
pub fn local(zone: &TimeZone, secs: i64) -> DateTime {
    zone.to_datetime(timestamp(secs))
}

/// A time in UTC, as RFC 3339 writes it.
pub fn utc(secs: i64) -> String {
    timestamp(secs).to_string()
}

/// The civil day of a time.
pub fn day(zone: &TimeZone, secs: i64) -> Date {
    local(zone, secs).date()
}

/// The first moment of a civil day.
pub fn start_of_day(zone: &TimeZone, day: Date) -> i64 {
    instant(zone, day.into())
}

/// When a clock in `zone` shows this time: see the head of this file.
pub fn instant(zone: &TimeZone, time: DateTime) -> i64 {
    let at = |offset: Offset| offset.to_timestamp(time).unwrap_or(nearest(time));
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(offset).as_second(),
        AmbiguousOffset::Fold { before, .. } => at(before).as_second(),
        AmbiguousOffset::Gap { before, .. } => end_of_gap(zone, at(before)).as_second(),
    }
}

/// The last transition at or before a time.
fn end_of_gap(zone: &TimeZone, time: Timestamp) -> Timestamp {
    let after = time.checked_add(1.second()).unwrap_or(time);
    zone.preceding(after).next().map_or(time, |transition| transition.timestamp())
}

fn nearest(time: DateTime) -> Timestamp {
    if time.year() < 0 { Timestamp::MIN } else { Timestamp::MAX }
}

fn timestamp(secs: i64) -> Timestamp {
    let nearest = if secs < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(secs).unwrap_or(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn shown(zone: &str, time: DateTime) -> String {
        let zone = TimeZone::posix(zone).unwrap();
        Timestamp::from_second(instant(&zone, time)).unwrap().to_string()
    }

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    /// Half an hour of daylight saving.
    const LORD_HOWE: &str = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";

    #[test]
    fn a_time_in_the_gap_is_right_after_it() {
        let gap = date(2026, 3, 29);
        for minute in [0, 1, 30, 59] {
            assert_eq!(shown(BERLIN, gap.at(2, minute, 0, 0)), "2026-03-29T01:00:00Z");
        }
        assert_eq!(shown(BERLIN, gap.at(3, 0, 0, 0)), "2026-03-29T01:00:00Z");
        assert_eq!(shown(LORD_HOWE, date(2026, 10, 4).at(2, 15, 0, 0)), "2026-10-03T15:30:00Z");
    }

    #[test]
    fn a_time_that_exists_twice_is_the_first() {
        assert_eq!(shown(BERLIN, date(2026, 10, 25).at(2, 30, 0, 0)), "2026-10-25T00:30:00Z");
        assert_eq!(shown(LORD_HOWE, date(2026, 4, 5).at(1, 45, 0, 0)), "2026-04-04T14:45:00Z");
    }

    #[test]
    fn any_number_of_seconds_has_a_day() {
        let zone = TimeZone::posix(BERLIN).unwrap();
        assert!(day(&zone, i64::MIN) < day(&zone, 0) && day(&zone, 0) < day(&zone, i64::MAX));
        assert_eq!(
            start_of_day(&zone, date(2026, 3, 30)) - start_of_day(&zone, date(2026, 3, 29)),
            23 * 3600
        );
        assert!(start_of_day(&zone, Date::MAX) > 0 && start_of_day(&zone, Date::MIN) < 0);
    }
}
