//! Spans of time as administrators write them: `15 minutes`, `1 day`, `2 weeks`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A unit of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days, where a length in seconds is wanted.
    Month,
    /// 365 days, where a length in seconds is wanted.
    Year,
}

const UNITS: [(&str, Unit, u64); 7] = [
    ("second", Unit::Second, 1),
    ("minute", Unit::Minute, 60),
    ("hour", Unit::Hour, 3600),
    ("day", Unit::Day, 86_400),
    ("week", Unit::Week, 7 * 86_400),
    ("month", Unit::Month, 30 * 86_400),
    ("year", Unit::Year, 365 * 86_400),
];

/// A number of units. It is written back as it was read: `14 days` does not become `2 weeks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span {
    /// How many; 0 is possible.
    pub count: u32,
    /// Of what.
    pub unit: Unit,
}

/// A text is no span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a span of time; write a number and a unit, such as \"15 minutes\", \"1 day\" or \"2 weeks\""
)]
pub struct SpanError(pub String);

impl Span {
    /// So many units.
    pub const fn new(count: u32, unit: Unit) -> Self {
        Self { count, unit }
    }

    /// Its length in seconds; a month has 30 days and a year 365.
    pub fn secs(self) -> u64 {
        UNITS.iter().find(|row| row.1 == self.unit).map_or(0, |row| row.2) * u64::from(self.count)
    }

    /// The same, for sums with times.
    pub fn signed_secs(self) -> i64 {
        i64::try_from(self.secs()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let wrong = || SpanError(text.to_owned());
        let (count, unit) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let unit = unit.trim_start();
        let named =
            |row: &&(&str, Unit, u64)| unit == row.0 || unit.strip_suffix('s') == Some(row.0);
        let unit = UNITS.iter().find(named).ok_or_else(wrong)?.1;
        // Not `+5`, which the parser of numbers takes.
        let is_plain = count.bytes().all(|byte| byte.is_ascii_digit());
        let count = is_plain.then(|| count.parse().ok()).flatten().ok_or_else(wrong)?;
        Ok(Self { count, unit })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = UNITS.iter().find(|row| row.1 == self.unit).map_or("", |row| row.0);
        let plural = if self.count == 1 { "" } else { "s" };
        write!(formatter, "{} {name}{plural}", self.count)
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;

    fn try_from(text: String) -> Result<Self, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_as_people_write_them() {
        let table = [("1 day", 86_400), ("15 minutes", 900), ("2 weeks", 1_209_600), ("0 days", 0)];
        for (text, secs) in table {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.secs(), span.to_string().as_str()), (secs, text));
        }
        assert_eq!("1 months".parse::<Span>().unwrap().to_string(), "1 month");
    }

    #[test]
    fn what_is_no_span_is_refused_with_an_example() {
        for text in
            ["", "day", "1", "1d", "-1 days", "+1 day", "1 fortnight", "1.5 hours", "1 dayss"]
        {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains("15 minutes") && error.contains(text), "{error}");
        }
        assert!("5000000000 days".parse::<Span>().is_err());
    }
}
