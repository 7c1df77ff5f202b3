//! Times as people write and read them, in the zone of this machine.

use format::entry::Time;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp, ToSpan, Zoned};
use pipeline::retention::CalendarTime;

/// Reads a time that names a snapshot: `2026-11-20` (until the end of that day),
/// `2026-11-20 14:00` (until the end of that minute), `2026-11-20 14:00:05` (until the end of that
/// second), also with `T` and with a zone.
pub(crate) fn parse_point(text: &str) -> Option<Time> {
    parse_point_in(text, &TimeZone::system())
}

fn parse_point_in(text: &str, zone: &TimeZone) -> Option<Time> {
    let digits = text.as_bytes();
    let looks_right =
        digits.len() >= 10 && digits[4] == b'-' && digits[..4].iter().all(u8::is_ascii_digit);
    if !looks_right {
        return None;
    }
    if text.len() == 10 {
        let next = text.parse::<Date>().ok()?.tomorrow().ok()?;
        let end = zone.to_ambiguous_timestamp(next.into()).compatible().ok()?;
        return end.checked_sub(1.nanosecond()).ok().map(of_timestamp);
    }
    if !matches!(digits[10], b' ' | b'T') || text.matches(':').count() == 0 {
        return None;
    }
    let exact = text.parse::<Timestamp>().ok();
    let stamp = exact.or_else(|| in_zone(text.parse().ok()?, zone, Twice::Second))?;
    let has_seconds = digits.get(16) == Some(&b':');
    let span = if has_seconds { 1.second() } else { 60.seconds() };
    let end = stamp.checked_add(span).ok()?.checked_sub(1.nanosecond()).ok()?;
    Some(of_timestamp(end))
}

/// Reads a time that something shall have: `2026-11-20` (the beginning of that day), `2026-11-20 14:00:05`, also with
/// `T` and with a zone; not in the future.
pub(crate) fn parse_moment(text: &str) -> Result<Time, String> {
    let no_time = || format!("'{text}' is not a time; write 2026-11-20 14:00:05");
    let future = || format!("'{text}' is in the future");
    // Of the last days of the calendar no zone can tell when they are.
    let is_of_end = || text.get(..10).and_then(|day| day.parse::<Date>().ok()).is_some_and(is_last);
    let wrong = || skipped(text).unwrap_or_else(|| if is_of_end() { future() } else { no_time() });
    let time = parse_moment_in(text, &TimeZone::system(), Twice::Second).ok_or_else(wrong)?;
    if time.secs > Timestamp::now().as_second() {
        return Err(future());
    }
    Ok(time)
}

fn is_last(day: Date) -> bool {
    (day.year(), day.month()) == (9999, 12)
}

fn parse_moment_in(text: &str, zone: &TimeZone, twice: Twice) -> Option<Time> {
    parse_point_in(text, zone)?; // the same texts, which mean their end there
    let exact = text.parse::<Timestamp>().ok();
    let local = || match text.parse::<Date>() {
        Ok(date) if text.len() == 10 => Some(date.into()),
        _ => None,
    };
    let of_day = || zone.to_ambiguous_timestamp(local()?).compatible().ok();
    let stamp = exact.or_else(of_day).or_else(|| in_zone(text.parse().ok()?, zone, twice))?;
    Some(of_timestamp(stamp))
}

/// Which moment is meant by a time that the clocks showed twice, since they were put back.
#[derive(Clone, Copy)]
enum Twice {
    First,
    Second,
}

/// When the clocks of the zone showed that; `None` where they skipped it.
fn in_zone(local: DateTime, zone: &TimeZone, twice: Twice) -> Option<Timestamp> {
    let moment = zone.to_ambiguous_timestamp(local);
    if matches!(moment.offset(), AmbiguousOffset::Gap { .. }) {
        return None;
    }
    match twice {
        Twice::First => moment.earlier().ok(),
        Twice::Second => moment.later().ok(),
    }
}

/// What is wrong with a time that `text` begins with, if the clocks here skipped it: with summer time.
pub(crate) fn skipped(text: &str) -> Option<String> {
    skipped_in(text, &TimeZone::system())
}

fn skipped_in(text: &str, zone: &TimeZone) -> Option<String> {
    let (local, text) = [19, 16].into_iter().find_map(|end| {
        let text = text.get(..end)?;
        Some((text.parse::<DateTime>().ok()?, text))
    })?;
    let moment = zone.to_ambiguous_timestamp(local);
    let AmbiguousOffset::Gap { before, after } = moment.offset() else { return None };
    let (earlier, later) = (after.to_timestamp(local).ok()?, before.to_timestamp(local).ok()?);
    let shown = |stamp: Timestamp| stamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M");
    Some(format!(
        "there was no {text} here, because the clocks were put forward; write {} or {}",
        shown(earlier),
        shown(later)
    ))
}

/// Reads from when on, or before when: an age such as `30d`, `12h`, `2w`, `1y`, or the beginning of a day, minute or
/// second.
pub(crate) fn parse_since(text: &str) -> Result<Time, String> {
    // Of two moments the first: nothing that may be meant is left out.
    let begin = |text: &str| parse_moment_in(text, &TimeZone::system(), Twice::First);
    parse_age(text).or_else(|| begin(text)).ok_or_else(|| no_age_or_time(text))
}

/// Reads up to when, or after when: an age, or the end of a day, minute or second.
pub(crate) fn parse_until(text: &str) -> Result<Time, String> {
    parse_age(text).or_else(|| parse_point(text)).ok_or_else(|| no_age_or_time(text))
}

fn parse_age(text: &str) -> Option<Time> {
    let span = parse_parts(text)?;
    Some(Time { secs: span.before(&Zoned::now())?, nanos: 0 })
}

fn no_age_or_time(text: &str) -> String {
    skipped(text).unwrap_or_else(|| {
        format!("'{text}' is not an age or a time; write 30d, 12h or 2026-11-20")
    })
}

/// Reads a span: `30d`, `12h`, `1y6m`. A month has 31 days and a year 366: whatever is kept for months is never kept for
/// less than the calendar's.
pub(crate) fn parse_span(text: &str) -> Result<u64, String> {
    parse_secs(text).ok_or_else(|| {
        format!("'{text}' is not a time span; write 12h, 30d, 2w, 6m (months) or 1y6m")
    })
}

/// Reads for how long something is allowed: `15min`, `12h`, `7d`. `m` is refused: it is months where snapshots are kept,
/// and minutes where one waits, and whoever means five minutes must not allow five months.
pub(crate) fn parse_term(text: &str) -> Result<u64, String> {
    let minutes = text.strip_suffix("min").and_then(|number| number.parse::<u64>().ok());
    match minutes {
        Some(minutes) => Ok(minutes.saturating_mul(60)),
        None if text.contains('m') => Err(format!(
            "'{text}' is not clear: write minutes as 5min, and months in days, as 150d"
        )),
        None => parse_secs(text)
            .ok_or_else(|| format!("'{text}' is not a time span; write 15min, 12h, 7d or 2w")),
    }
}

fn parse_secs(text: &str) -> Option<u64> {
    parse_parts(text)?.longest_secs()
}

/// A span as it was typed: months differ in their lengths.
struct Parts {
    months: u64,
    secs: u64,
}

impl Parts {
    /// The most seconds that it can have: any twelve months have at most 366 days.
    fn longest_secs(&self) -> Option<u64> {
        let days = (self.months / 12).checked_mul(366)?.checked_add(self.months % 12 * 31)?;
        let secs = days.checked_mul(24 * 3600)?.checked_add(self.secs)?;
        (secs <= i64::MAX as u64).then_some(secs)
    }

    /// In seconds, the time that is this much before `now` in the calendar.
    fn before(&self, now: &Zoned) -> Option<i64> {
        let longest_secs = self.longest_secs()? as i64;
        let in_calendar = || {
            let months = Span::new().try_months(i64::try_from(self.months).ok()?).ok()?;
            let month = now.checked_sub(months).ok()?.timestamp().as_second();
            Some(month.saturating_sub(self.secs as i64))
        };
        // Before all calendars it is no matter which day it was.
        Some(in_calendar().unwrap_or(now.timestamp().as_second().saturating_sub(longest_secs)))
    }
}

fn parse_parts(text: &str) -> Option<Parts> {
    let (mut rest, mut parts) = (text, Parts { months: 0, secs: 0 });
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit())?;
        let number: u64 = rest.get(..end)?.parse().ok()?;
        let (sum, unit) = match rest.as_bytes()[end] {
            b'h' => (&mut parts.secs, 3600),
            b'd' => (&mut parts.secs, 24 * 3600),
            b'w' => (&mut parts.secs, 7 * 24 * 3600),
            b'm' => (&mut parts.months, 1),
            b'y' => (&mut parts.months, 12),
            _ => return None,
        };
        *sum = sum.checked_add(number.checked_mul(unit)?)?;
        rest = rest.get(end + 1..)?;
    }
    (!text.is_empty() && parts.longest_secs().is_some()).then_some(parts)
}

/// `2026-11-20 14:00:05`.
pub(crate) fn show(time: Time) -> String {
    match Timestamp::new(time.secs, time.nanos as i32) {
        Ok(stamp) => stamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        // Beyond what calendars reach: a file may claim any time.
        Err(_) => format!("@{}", time.secs),
    }
}

/// As JSON shows it: RFC 3339 in UTC with nanoseconds.
pub(crate) fn json(time: Time) -> String {
    Timestamp::new(time.secs, time.nanos as i32)
        .map_or_else(|_| format!("@{}", time.secs), |stamp| stamp.to_string())
}

/// Hours of a day: the second of two hours that the clocks show alike counts as one beyond them.
const HOURS: u8 = 24;

/// What a calendar here shows, for policies.
pub(crate) fn calendar(time: Time) -> CalendarTime {
    calendar_in(time, &TimeZone::system())
}

fn calendar_in(time: Time, zone: &TimeZone) -> CalendarTime {
    let stamp = Timestamp::new(time.secs, time.nanos as i32).unwrap_or_default();
    let local = stamp.to_zoned(zone.clone());
    let week = local.date().iso_week_date();
    let shown = zone.to_ambiguous_timestamp(local.datetime()).offset();
    let is_second = matches!(shown, AmbiguousOffset::Fold { after, .. } if after == local.offset());
    let hour = local.hour().unsigned_abs();
    CalendarTime {
        year: local.year().into(),
        month: local.month().unsigned_abs(),
        day: local.day().unsigned_abs(),
        hour: if is_second { hour + HOURS } else { hour },
        week: (week.year().into(), week.week().unsigned_abs()),
    }
}

fn of_timestamp(stamp: Timestamp) -> Time {
    Time {
        secs: stamp.as_nanosecond().div_euclid(1_000_000_000) as i64,
        nanos: stamp.as_nanosecond().rem_euclid(1_000_000_000) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_berlin(text: &str) -> Option<String> {
        parse_point_in(text, &TimeZone::get("Europe/Berlin").unwrap()).map(json)
    }

    #[test]
    fn points_in_time_are_local_and_reach_to_their_end() {
        let table = [
            ("2026-11-20", "2026-11-20T22:59:59.999999999Z"),
            ("2026-11-20 14:00", "2026-11-20T13:00:59.999999999Z"),
            ("2026-11-20T14:00", "2026-11-20T13:00:59.999999999Z"),
            ("2026-11-20 14:00:05", "2026-11-20T13:00:05.999999999Z"),
            ("2026-11-20T14:00:00Z", "2026-11-20T14:00:00.999999999Z"),
            ("2026-11-20T14:00:00+03:00", "2026-11-20T11:00:00.999999999Z"),
            ("2026-03-29 01:59", "2026-03-29T00:59:59.999999999Z"),
            ("2026-03-29 03:00", "2026-03-29T01:00:59.999999999Z"),
            ("2026-03-29T02:30:00+01:00", "2026-03-29T01:30:00.999999999Z"),
            // Shown twice: the last snapshot before it is not older than it has to be.
            ("2026-10-25 02:30", "2026-10-25T01:30:59.999999999Z"),
            ("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00.999999999Z"),
            ("2026-10-25", "2026-10-25T22:59:59.999999999Z"),
        ];
        table
            .iter()
            .for_each(|(text, time)| assert_eq!(in_berlin(text).as_deref(), Some(*time), "{text}"));
    }

    #[test]
    fn a_moment_is_the_beginning_of_what_was_typed() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let moment = |text: &str| parse_moment_in(text, &zone, Twice::Second).map(json);
        let table = [
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 14:00", "2026-11-20T13:00:00Z"),
            ("2026-11-20 14:00:05", "2026-11-20T13:00:05Z"),
            ("2026-11-20T14:00:00+03:00", "2026-11-20T11:00:00Z"),
        ];
        table
            .iter()
            .for_each(|(text, time)| assert_eq!(moment(text).as_deref(), Some(*time), "{text}"));
        assert_eq!((moment("now"), moment("2026-11")), (None, None));
        for future in ["2999-01-01", "9999-12-30", "9999-12-31", "9999-12-31 23:59:59"] {
            assert!(parse_moment(future).unwrap_err().contains("future"), "{future}");
        }
        assert!(parse_moment("9999-12-32").unwrap_err().contains("not a time"));
    }

    #[test]
    fn two_hours_that_the_clocks_show_alike_are_two() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let moment = |text: &str, twice| parse_moment_in(text, &zone, twice).unwrap();
        let both = [Twice::First, Twice::Second].map(|twice| moment("2026-10-25 02:30", twice));
        assert_eq!(both.map(json), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]);
        let [first, second] = both.map(|time| calendar_in(time, &zone));
        assert_ne!(first.hour, second.hour);
        assert_eq!((first.day, first.week), (second.day, second.week));
        let hours = (0..26 * 4).map(|quarter| {
            let secs = moment("2026-10-25", Twice::First).secs + quarter * 900;
            let shown = calendar_in(Time { secs, nanos: 0 }, &zone);
            (shown.day, shown.hour)
        });
        let hours: std::collections::BTreeSet<_> = hours.collect();
        assert_eq!(hours.len(), 26, "an hour has four quarters, on that day, too: {hours:?}");
    }

    /// Else a day that is named would be left out: of a report, of a catch-up, of what is backed up.
    #[test]
    fn since_a_day_has_all_of_it_and_until_a_day_too() {
        let (since, until) =
            (parse_since("2026-11-20").unwrap(), parse_until("2026-11-20").unwrap());
        assert_eq!((since.nanos, until.nanos), (0, 999_999_999));
        assert_eq!(until.secs - since.secs, 86_399);
        let now = Timestamp::now().as_second();
        for age in [parse_since("2d"), parse_until("2d")] {
            assert!((now - 2 * 86_400 - age.unwrap().secs).abs() < 60);
        }
        assert!(parse_since("soon").is_err() && parse_until("soon").is_err());
    }

    /// It was taken for an hour later, without a word.
    #[test]
    fn a_time_that_the_clocks_skipped_is_refused_and_its_neighbors_are_named() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        for text in ["2026-03-29 02:30", "2026-03-29T02:30", "2026-03-29 02:30:00"] {
            let moment = parse_moment_in(text, &zone, Twice::First);
            assert_eq!((in_berlin(text), moment), (None, None), "{text}");
            let said = skipped_in(&format!("{text}:/etc"), &zone).unwrap();
            assert!(said.ends_with("write 2026-03-29 01:30 or 2026-03-29 03:30"), "{said}");
        }
        assert_eq!(skipped_in("2026-03-29 03:30", &zone), None);
        assert_eq!(skipped_in("2026-10-25 02:30", &zone), None, "it was there twice");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026",
            "2026-13-01",
            "2026-11-20 14",
            "2026-11-20 25:00",
            "2026-11-20:14:00",
            "20261120",
        ] {
            assert_eq!(in_berlin(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_allowed_for_months_is_not_allowed_by_a_letter() {
        assert_eq!([parse_term("5min"), parse_term("7d")], [Ok(300), Ok(7 * 86_400)]);
        ["5m", "1y6m", "m", "min"]
            .iter()
            .for_each(|text| assert!(parse_term(text).is_err(), "{text}"));
    }

    #[test]
    fn spans_are_read() {
        let table = [
            ("12h", 43_200),
            ("30d", 2_592_000),
            ("1m", 31 * 86_400),
            ("12m", 366 * 86_400),
            ("1y6m", (366 + 6 * 31) * 86_400),
            ("2w1d", 15 * 86_400),
        ];
        table.iter().for_each(|(text, secs)| assert_eq!(parse_span(text), Ok(*secs)));
        ["", "d", "5", "5x", "-5d", "99999999999999999y"]
            .iter()
            .for_each(|text| assert!(parse_span(text).is_err(), "{text}"));
    }

    /// Twelve months were 360 days, and what was younger than a year was forgotten.
    #[test]
    fn what_is_kept_for_months_is_kept_for_all_of_them_whenever_they_begin() {
        let mut day: Date = "2023-01-01".parse().unwrap();
        while day.year() < 2029 {
            for months in 1..=48 {
                let before = day.checked_sub(months.months()).unwrap();
                let secs = i64::from((day - before).get_days()) * 86_400;
                let kept = parse_span(&format!("{months}m")).unwrap() as i64;
                assert!(kept >= secs && kept < secs + 19 * 86_400, "{months} before {day}");
            }
            day = day.checked_add(5.days()).unwrap();
        }
    }

    #[test]
    fn an_age_in_months_is_counted_by_the_calendar() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now = "2024-03-31".parse::<Date>().unwrap().to_zoned(zone.clone()).unwrap();
        let before = |text: &str| {
            let secs = parse_parts(text).unwrap().before(&now).unwrap();
            Timestamp::from_second(secs).unwrap().to_zoned(zone.clone()).date().to_string()
        };
        let table = [
            ("1m", "2024-02-29"),
            ("12m", "2023-03-31"),
            ("1y1m", "2023-02-28"),
            ("1m2w", "2024-02-15"),
            ("30d", "2024-03-01"),
        ];
        table.iter().for_each(|(text, date)| assert_eq!(before(text), *date, "{text}"));
        assert!(parse_since("100000y").unwrap().secs < 0, "before all calendars");
    }
}
