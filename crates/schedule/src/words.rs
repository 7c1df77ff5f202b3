//! The words of a schedule: times of day, windows and days.

use jiff::civil::{Date, DateTime, Weekday};
use std::fmt;
use std::str::FromStr;

/// Minutes of a civil day.
pub(crate) const DAY_MINUTES: u16 = 24 * 60;

/// A word of a schedule cannot be understood, or means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// No time of day.
    #[error("'{0}' is not a time of day; write \"22:00\"")]
    Time(String),
    /// No window.
    #[error("'{0}' is not a window; write \"22:00-06:00\", or \"always\"")]
    Window(String),
    /// A window of no length.
    #[error(
        "the window '{0}' never opens, since it ends when it begins; for whole days write \"always\""
    )]
    NeverOpens(String),
    /// No days.
    #[error(
        "'{0}' is no day; write \"each day\", \"weekdays\", \"monday\", \"first monday\", \"last friday\", \
         \"day 15\", \"last day\" or \"december 24\""
    )]
    Days(String),
    /// A day that no month has, or not this one.
    #[error(
        "'{text}' never comes, since the month has at most {days} days; for the end of a month write \"last day\""
    )]
    NoSuchDay {
        /// What was written.
        text: String,
        /// The most days that the month has.
        days: i8,
    },
    /// No date.
    #[error("'{0}' is not a date; write \"2026-12-31\"")]
    Date(String),
}

/// A time of day, to the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay(pub(crate) u16);

impl TimeOfDay {
    /// On a civil day.
    pub(crate) fn on(self, day: Date) -> DateTime {
        day.at((self.0 / 60) as i8, (self.0 % 60) as i8, 0, 0)
    }
}

impl FromStr for TimeOfDay {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let minutes = minutes(text).filter(|minutes| *minutes < DAY_MINUTES);
        minutes.map(Self).ok_or_else(|| WordError::Time(text.to_owned()))
    }
}

/// Minutes since midnight, up to 24:00.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str| -> Option<u16> {
        let is_plain = digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| digits.parse().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute).filter(|_| minute.len() == 2)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= DAY_MINUTES).then_some(minutes)
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// When starts are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// The whole day.
    Always,
    /// From a minute of the day to another, which is not in it; over midnight if that is not later.
    Between(u16, u16),
}

impl Window {
    /// Minutes of the day at which it opens and closes; the second may lie beyond the day.
    pub(crate) fn minutes(self) -> (u16, u16) {
        match self {
            Self::Always => (0, DAY_MINUTES),
            Self::Between(from, to) if to <= from => (from, to + DAY_MINUTES),
            Self::Between(from, to) => (from, to),
        }
    }

    /// Its length by the clock on the wall.
    pub(crate) fn length_minutes(self) -> u16 {
        let (from, to) = self.minutes();
        to - from
    }

    /// When it closes, if it is open at a minute of the day: minutes of this day or the next.
    pub(crate) fn closes_after(self, minute: u16) -> Option<u16> {
        let (from, to) = self.minutes();
        let is_open = |minute: u16| (from..to).contains(&minute);
        let of_yesterday = is_open(minute + DAY_MINUTES).then(|| to - DAY_MINUTES);
        is_open(minute).then_some(to).or(of_yesterday)
    }
}

impl FromStr for Window {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        if text == "always" {
            return Ok(Self::Always);
        }
        let wrong = || WordError::Window(text.to_owned());
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minutes(from.trim()), minutes(to.trim()));
        match (from.filter(|from| *from < DAY_MINUTES).ok_or_else(wrong)?, to.ok_or_else(wrong)?) {
            (from, to) if from == to => Err(WordError::NeverOpens(text.to_owned())),
            (from, to) => Ok(Self::Between(from, to)),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => formatter.write_str("always"),
            Self::Between(from, to) => {
                write!(formatter, "{}-{}", TimeOfDay(*from), TimeOfDay(*to))
            }
        }
    }
}

/// A rule that some days fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Days {
    /// All.
    Each,
    /// Monday to Friday.
    Weekdays,
    /// Saturday and Sunday.
    Weekends,
    /// A day of the week.
    Weekday(Weekday),
    /// The first to fifth such day of a month.
    Nth(i8, Weekday),
    /// The last such day of a month.
    Last(Weekday),
    /// A day of each month that has it.
    OfMonth(i8),
    /// The last day of each month.
    LastOfMonth,
    /// A day of a month, once a year.
    OfYear(i8, i8),
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];
const NUMBERS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
/// With the most days that each has.
const MONTHS: [(&str, i8); 12] = [
    ("january", 31),
    ("february", 29),
    ("march", 31),
    ("april", 30),
    ("may", 31),
    ("june", 30),
    ("july", 31),
    ("august", 31),
    ("september", 30),
    ("october", 31),
    ("november", 30),
    ("december", 31),
];

fn weekday(text: &str) -> Option<Weekday> {
    WEEKDAYS.iter().find(|row| row.0 == text).map(|row| row.1)
}

fn name(weekday: Weekday) -> &'static str {
    WEEKDAYS.iter().find(|row| row.1 == weekday).map_or("", |row| row.0)
}

impl Days {
    /// Whether a day fits.
    pub fn fit(self, day: Date) -> bool {
        match self {
            Self::Each => true,
            Self::Weekdays => !is_weekend(day),
            Self::Weekends => is_weekend(day),
            Self::Weekday(weekday) => day.weekday() == weekday,
            Self::Nth(number, weekday) => {
                day.weekday() == weekday && (day.day() - 1) / 7 + 1 == number
            }
            Self::Last(weekday) => day.weekday() == weekday && day.day() + 7 > day.days_in_month(),
            Self::OfMonth(number) => day.day() == number,
            Self::LastOfMonth => day.day() == day.days_in_month(),
            Self::OfYear(month, number) => (day.month(), day.day()) == (month, number),
        }
    }

    fn of_two(first: &str, second: &str, text: &str) -> Result<Self, WordError> {
        let wrong = || WordError::Days(text.to_owned());
        let number = || second.parse::<i8>().ok().filter(|day| *day > 0).ok_or_else(wrong);
        if let Some(month) = MONTHS.iter().position(|row| row.0 == first) {
            let day = in_month(number()?, MONTHS[month].1, text)?;
            return Ok(Self::OfYear(month as i8 + 1, day));
        }
        match (first, second) {
            ("day", _) => Ok(Self::OfMonth(in_month(number()?, 31, text)?)),
            ("last", "day") => Ok(Self::LastOfMonth),
            ("last", _) => weekday(second).map(Self::Last).ok_or_else(wrong),
            _ => {
                let at = NUMBERS.iter().position(|word| *word == first).ok_or_else(wrong)?;
                weekday(second).map(|day| Self::Nth(at as i8 + 1, day)).ok_or_else(wrong)
            }
        }
    }
}

fn is_weekend(day: Date) -> bool {
    matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

fn in_month(day: i8, days: i8, text: &str) -> Result<i8, WordError> {
    if day > days {
        return Err(WordError::NoSuchDay { text: text.to_owned(), days });
    }
    Ok(day)
}

impl FromStr for Days {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "each day" => Ok(Self::Each),
            "weekdays" => Ok(Self::Weekdays),
            "weekends" => Ok(Self::Weekends),
            _ => match text.split_once(' ') {
                Some((first, second)) => Self::of_two(first, second, text),
                None => weekday(text).map(Self::Weekday).ok_or(WordError::Days(text.to_owned())),
            },
        }
    }
}

impl fmt::Display for Days {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Each => formatter.write_str("each day"),
            Self::Weekdays => formatter.write_str("weekdays"),
            Self::Weekends => formatter.write_str("weekends"),
            Self::Weekday(weekday) => formatter.write_str(name(weekday)),
            Self::Nth(number, weekday) => {
                write!(formatter, "{} {}", NUMBERS[number as usize - 1], name(weekday))
            }
            Self::Last(weekday) => write!(formatter, "last {}", name(weekday)),
            Self::OfMonth(number) => write!(formatter, "day {number}"),
            Self::LastOfMonth => formatter.write_str("last day"),
            Self::OfYear(month, day) => write!(formatter, "{} {day}", MONTHS[month as usize - 1].0),
        }
    }
}

/// A date, written `2026-12-31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(pub Date);

impl Day {
    /// When it begins in a time zone, in seconds since 1970; `None` far beyond all years.
    pub fn begins_secs(self, zone: &jiff::tz::TimeZone) -> Option<i64> {
        let midnight = self.0.to_zoned(zone.clone()).ok()?;
        Some(midnight.timestamp().as_second())
    }
}

impl FromStr for Day {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let date = text.parse().ok().filter(|_| text.len() == 10);
        date.map(Self).ok_or_else(|| WordError::Date(text.to_owned()))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl TryFrom<String> for Day {
    type Error = WordError;

    fn try_from(text: String) -> Result<Self, WordError> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}
