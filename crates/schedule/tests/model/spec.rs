//! Random schedules, and when they are due by the words of the documentation alone: day by day, and
//! for short periods minute by minute.

use std::collections::BTreeMap;
use testkit::Random;
use testkit::calendar::{self, DAY, Zone};

/// What is written in a schedule, as numbers.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) zone: &'static Zone,
    pub(crate) every: Every,
    /// Minutes of the day.
    pub(crate) at: Vec<i64>,
    pub(crate) on: Vec<On>,
    /// The second is beyond the day if the window leads over midnight.
    pub(crate) windows: Vec<(i64, i64)>,
    pub(crate) skips: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Every {
    Opening,
    Minutes(i64),
    Days(i64),
    Weeks(i64),
    Months(i64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Weekday(i64),
    Nth(i64, i64),
    Last(i64),
    OfMonth(i64),
    LastOfMonth,
    OfYear(i64, i64),
}

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

impl On {
    fn any(random: &mut Random) -> Self {
        let weekday = random.signed(7);
        match random.below(8) {
            0..=2 => Self::Weekday(weekday),
            3 => Self::Nth(random.signed(5) + 1, weekday),
            4 => Self::Last(weekday),
            5 => Self::OfMonth(random.signed(31) + 1),
            6 => Self::LastOfMonth,
            _ => Self::OfYear(random.signed(12) + 1, random.signed(28) + 1),
        }
    }

    fn text(self) -> String {
        let name = |weekday: i64| WEEKDAYS[weekday as usize];
        match self {
            Self::Weekday(weekday) => name(weekday).to_owned(),
            Self::Nth(number, weekday) => {
                format!("{} {}", NUMBERS[number as usize - 1], name(weekday))
            }
            Self::Last(weekday) => format!("last {}", name(weekday)),
            Self::OfMonth(day) => format!("day {day}"),
            Self::LastOfMonth => "last day".to_owned(),
            Self::OfYear(month, day) => format!("{} {day}", MONTHS[month as usize - 1]),
        }
    }

    fn fits(self, number: i64) -> bool {
        let (year, month, day) = calendar::date(number);
        // How many such weekdays the month has until this day, and from it on.
        let alike = |other: &i64| calendar::weekday(*other) == calendar::weekday(number);
        let begin = calendar::days(year, month, 1);
        let until = (begin..=number).filter(alike).count() as i64;
        let is_last =
            !(number + 1..begin + calendar::length(year, month)).any(|other| alike(&other));
        match self {
            Self::Weekday(weekday) => calendar::weekday(number) == weekday,
            Self::Nth(which, weekday) => calendar::weekday(number) == weekday && until == which,
            Self::Last(weekday) => calendar::weekday(number) == weekday && is_last,
            Self::OfMonth(which) => day == which,
            Self::LastOfMonth => day == calendar::length(year, month),
            Self::OfYear(of, which) => (month, day) == (of, which),
        }
    }
}

fn shown(minute: i64) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

impl Spec {
    /// Any; some of them cannot be meant.
    pub(crate) fn any(random: &mut Random) -> Self {
        // Often at the hours in which clocks are set.
        let minute = |random: &mut Random| match random.below(2) {
            0 => random.signed(96) * 15,
            _ => 60 + random.signed(18) * 10,
        };
        let list = |random: &mut Random, most: u64| 0..random.below(most + 1);
        let every = match random.below(8) {
            0..=2 => Every::Opening,
            3 | 4 => Every::Minutes(*random.pick(&[1, 7, 15, 60, 90, 360, 660])),
            5 => Every::Days(random.signed(4) + 1),
            6 => Every::Weeks(random.signed(3) + 1),
            _ => Every::Months(random.signed(2) + 1),
        };
        let window = |random: &mut Random| {
            let (from, length) = (minute(random), *random.pick(&[10, 30, 60, 480, 720, 1440]));
            (from, from + length)
        };
        let is_short = matches!(every, Every::Minutes(_));
        let at = list(random, if is_short { 0 } else { 3 }).map(|_| minute(random)).collect();
        let on = if random.one_in(2) { Vec::new() } else { vec![On::any(random), On::any(random)] };
        let windows = list(random, 2).map(|_| window(random)).collect();
        Self {
            zone: random.pick(&calendar::ZONES),
            every,
            at,
            on,
            windows,
            skips: random.one_in(2),
        }
    }

    pub(crate) fn text(&self) -> String {
        let quoted = |all: Vec<String>| format!("[{}]", all.join(", "));
        let at = self.at.iter().map(|at| format!("\"{}\"", shown(*at))).collect();
        let on = self.on.iter().map(|on| format!("\"{}\"", on.text())).collect();
        let window = |(from, to): &(i64, i64)| match to - from {
            1440 => "\"always\"".to_owned(),
            _ => format!("\"{}-{}\"", shown(*from), shown(*to % 1440)),
        };
        let windows = self.windows.iter().map(window).collect();
        let every = match self.every {
            Every::Opening => String::new(),
            Every::Minutes(count) => format!("every = \"{count} minutes\"\n"),
            Every::Days(count) => format!("every = \"{count} days\"\n"),
            Every::Weeks(count) => format!("every = \"{count} weeks\"\n"),
            Every::Months(count) => format!("every = \"{count} months\"\n"),
        };
        let missed = if self.skips { "missed = \"skip\"\n" } else { "" };
        let (at, on, windows) = (quoted(at), quoted(on), quoted(windows));
        format!("{every}at = {at}\non = {on}\nwindow = {windows}\n{missed}")
    }

    fn fits(&self, day: i64) -> bool {
        self.on.is_empty() || self.on.iter().any(|on| on.fits(day))
    }

    /// From one minute of a day to another.
    fn between(&self, day: i64, from: i64, to: i64) -> (i64, i64) {
        let begin = calendar::first(self.zone, day, from * 60);
        let end = calendar::first(self.zone, day + to / 1440, to % 1440 * 60);
        (begin, if end > begin { end } else { begin + (to - from) * 60 })
    }

    /// The windows that open on a day, whatever day it is.
    pub(crate) fn windows_of(&self, day: i64) -> Vec<(i64, i64)> {
        let whole = |(from, to): (i64, i64)| if to - from == 1440 { (0, 1440) } else { (from, to) };
        let windows = self.windows.iter().map(|window| whole(*window));
        windows.map(|(from, to)| self.between(day, from, to)).collect()
    }

    /// The starts of a day that fits, and until when each is in time.
    fn openings(&self, day: i64) -> Vec<(i64, i64)> {
        if !self.fits(day) {
            return Vec::new();
        }
        if self.at.is_empty() {
            return self.windows_of(day);
        }
        let opening = |at: &i64| {
            let next =
                (at + 1..=at + 1440).find(|minute| self.at.contains(&(minute % 1440))).unwrap();
            let is_open = |minute: i64| {
                let holds = |(from, to): &(i64, i64)| {
                    to - from == 1440
                        || (*from..*to).contains(&(minute % 1440))
                        || (*from..*to).contains(&(minute % 1440 + 1440))
                };
                self.windows.is_empty() || self.windows.iter().any(holds)
            };
            let is_whole = self.windows.iter().any(|(from, to)| to - from == 1440);
            // A window for the whole day ends with the day.
            let bound = if is_whole { next.min(1440) } else { next };
            let closes = (at + 1..bound).find(|minute| !is_open(*minute)).unwrap_or(bound);
            let (begin, end) = self.between(day, *at, closes);
            let is_short = self.windows.is_empty() && self.skips;
            (begin, if is_short { end.min(begin + 3600) } else { end })
        };
        self.at.iter().map(opening).collect()
    }

    /// All runs due from the beginning of one day to that of another: when, and until when each is in time.
    pub(crate) fn runs(&self, days: std::ops::Range<i64>) -> Vec<(i64, i64)> {
        let mut runs = BTreeMap::new();
        let mut add = |(due, until): (i64, i64)| {
            let known = runs.entry(due).or_insert(until);
            *known = until.max(*known);
        };
        match self.every {
            Every::Minutes(minutes) => self.short(days, minutes).into_iter().for_each(add),
            Every::Opening => days.flat_map(|day| self.openings(day)).for_each(&mut add),
            _ => self.long(days).into_iter().for_each(add),
        }
        runs.into_iter().collect()
    }

    fn long(&self, days: std::ops::Range<i64>) -> Vec<(i64, i64)> {
        let mut periods: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for day in days {
            let (year, month, _) = calendar::date(day);
            let number = match self.every {
                Every::Days(count) => day.div_euclid(count),
                Every::Weeks(count) => (day + 3).div_euclid(7 * count),
                Every::Months(count) => (year * 12 + month - 1).div_euclid(count),
                Every::Opening | Every::Minutes(_) => unreachable!("no long periods"),
            };
            periods.entry(number).or_default().extend(self.openings(day));
        }
        let run = |openings: Vec<(i64, i64)>| {
            let due = openings.iter().map(|one| one.0).min()?;
            Some((due, openings.iter().map(|one| one.1).max()?))
        };
        periods.into_values().filter_map(run).collect()
    }

    fn short(&self, days: std::ops::Range<i64>, minutes: i64) -> Vec<(i64, i64)> {
        let mut periods: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
        for day in days {
            let open: Vec<(i64, i64)> = [day - 1, day]
                .into_iter()
                .filter(|day| self.fits(*day))
                .flat_map(|day| self.windows_of(day))
                .collect();
            let begin = calendar::first(self.zone, day, 0);
            let end = calendar::first(self.zone, day + 1, 0);
            for now in (begin..end).step_by(60) {
                if open.iter().any(|(from, to)| (*from..*to).contains(&now)) {
                    let number = (now - begin) / (minutes * 60);
                    periods.entry((day, number)).or_insert((now, now)).1 = now + 60;
                }
            }
        }
        periods.into_values().collect()
    }

    /// Whether a start is allowed, on whatever day.
    pub(crate) fn is_open(&self, now: i64) -> bool {
        let day = calendar::shown(self.zone, now).0;
        let all = (day - 1..=day).flat_map(|day| self.windows_of(day));
        self.windows.is_empty() || all.into_iter().any(|(from, to)| (from..to).contains(&now))
    }
}

/// A day near a change of the clocks, in most cases.
pub(crate) fn begin(random: &mut Random) -> i64 {
    let year = 2024 + random.signed(5);
    let (month, day) =
        *random.pick(&[(3, 6), (3, 27), (4, 2), (10, 1), (10, 23), (10, 30), (1, 1)]);
    calendar::days(year, month, day) + random.signed(4)
}

/// The first moment of a day.
pub(crate) fn midnight(zone: &Zone, day: i64) -> i64 {
    debug_assert!(day > 0 && DAY > 0);
    calendar::first(zone, day, 0)
}
