//! Points in time as administrators write them: `2026-12-31`, or `2026-12-31T18:00:00Z`.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A point in time, written back as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Moment {
    /// The end of a day in UTC: what holds until a day holds on that day too.
    Day(Date),
    /// A second.
    At(Timestamp),
}

/// A text is no point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no point in time; write \"2026-12-31\" or \"2026-12-31T18:00:00Z\", in quotes")]
pub struct MomentError(pub String);

impl Moment {
    /// In seconds since 1970.
    pub fn secs(self) -> i64 {
        match self {
            Self::At(time) => time.as_second(),
            Self::Day(day) => end_of(day),
        }
    }
}

fn end_of(day: Date) -> i64 {
    // The last day of the calendar has no tomorrow.
    let next = day.tomorrow().unwrap_or(day);
    clock::civil::start_of_day(&TimeZone::UTC, next)
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let day = || text.parse().ok().filter(|_| text.len() == 10).map(Self::Day);
        let whole = |time: &Timestamp| time.subsec_nanosecond() == 0;
        let at = || text.parse().ok().filter(whole).map(Self::At);
        day().or_else(at).ok_or_else(|| MomentError(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(day) => day.fmt(formatter),
            Self::At(time) => time.fmt(formatter),
        }
    }
}

impl TryFrom<String> for Moment {
    type Error = MomentError;

    fn try_from(text: String) -> Result<Self, MomentError> {
        text.parse()
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_with_the_day_and_a_second_is_itself() {
        let secs = |text: &str| text.parse::<Moment>().unwrap().secs();
        assert_eq!(secs("2026-12-31"), secs("2027-01-01T00:00:00Z"));
        assert_eq!(secs("1970-01-01T00:01:00Z"), 60);
        assert!(secs("9999-12-31") > secs("9999-12-30T00:00:00Z"));
        for text in ["2026-12-31", "2026-12-31T18:00:00Z"] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in
            ["", "soon", "2026-13-01", "2026-12-31T18:00", "2026-12-31T18:00:00.5Z", "31.12.2026"]
        {
            let error = text.parse::<Moment>().unwrap_err().to_string();
            assert!(error.contains("2026-12-31T18:00:00Z"), "{error}");
        }
    }
}
