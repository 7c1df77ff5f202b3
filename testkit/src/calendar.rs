//! A second calendar: time zones as arithmetic on Sundays, without any library.

/// Seconds of a day without a change of the clock.
pub const DAY: i64 = 86_400;

/// A zone with daylight saving between two Sundays.
#[derive(Debug)]
pub struct Zone {
    /// For the library.
    pub posix: &'static str,
    standard_secs: i64,
    summer_secs: i64,
    /// Month, which Sunday of it (5 for the last), and seconds in UTC from the beginning of that day.
    begins: (i64, i64, i64),
    ends: (i64, i64, i64),
}

/// Both halves of the world, and half an hour of daylight saving.
pub const ZONES: [Zone; 3] = [
    Zone {
        posix: "CET-1CEST,M3.5.0,M10.5.0/3", // Europe/Berlin
        standard_secs: 3600,
        summer_secs: 7200,
        begins: (3, 5, 3600),
        ends: (10, 5, 3600),
    },
    Zone {
        posix: "EST5EDT,M3.2.0,M11.1.0", // America/New_York
        standard_secs: -5 * 3600,
        summer_secs: -4 * 3600,
        begins: (3, 2, 7 * 3600),
        ends: (11, 1, 6 * 3600),
    },
    Zone {
        posix: "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", // Australia/Lord_Howe
        standard_secs: 37_800,
        summer_secs: 39_600,
        begins: (10, 1, 2 * 3600 - 37_800),
        ends: (4, 1, 2 * 3600 - 39_600),
    },
];

/// Days from 1970 to a date.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    years + (1..month).map(|month| length(year, month)).sum::<i64>() + day - 1
}

/// Days of a month.
pub fn length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Year, month and day of a number of days since 1970.
pub fn date(number: i64) -> (i64, i64, i64) {
    let year =
        (1969 + number / 366..).take_while(|year| days(*year, 1, 1) <= number).last().unwrap();
    let month = (1..=12).take_while(|month| days(year, *month, 1) <= number).last().unwrap();
    (year, month, number - days(year, month, 1) + 1)
}

/// 0 for Monday.
pub fn weekday(number: i64) -> i64 {
    (number + 3).rem_euclid(7)
}

fn sunday(year: i64, (month, which, secs): (i64, i64, i64)) -> i64 {
    let first = (1..=7).find(|day| weekday(days(year, month, *day)) == 6).unwrap();
    let last = (first..=length(year, month)).step_by(7).take(which as usize).last().unwrap();
    days(year, month, last) * DAY + secs
}

/// Seconds to add to UTC.
pub fn offset(zone: &Zone, secs: i64) -> i64 {
    let year = date(secs / DAY).0;
    let (begins, ends) = (sunday(year, zone.begins), sunday(year, zone.ends));
    let is_summer = if begins < ends {
        (begins..ends).contains(&secs)
    } else {
        !(ends..begins).contains(&secs)
    };
    if is_summer { zone.summer_secs } else { zone.standard_secs }
}

/// What a clock shows: the day since 1970 and the second of that day.
pub fn shown(zone: &Zone, secs: i64) -> (i64, i64) {
    let local = secs + offset(zone, secs);
    (local.div_euclid(DAY), local.rem_euclid(DAY))
}

/// The first second at which a clock shows this second of a day or a later one of it, or a later
/// day: that is how a time in a gap is moved to its end, and one that exists twice to its first.
pub fn first(zone: &Zone, day: i64, second: i64) -> i64 {
    let guess = day * DAY + second - zone.standard_secs.max(zone.summer_secs);
    let step = 60;
    (guess..).step_by(step).find(|secs| shown(zone, *secs) >= (day, second)).unwrap()
}
