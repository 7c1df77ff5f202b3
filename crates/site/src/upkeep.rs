//! Upkeep: what the server does to the domains themselves, and when.

use crate::{Kind, Site};
use clock::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The upkeep of all that no other one covers. It exists with default settings unless somebody declares it.
pub const DEFAULT_UPKEEP: &str = "default";
/// Unused bytes that may stay, if nobody says it, in hundredths of a percent.
const MAX_WASTE: Percent = Percent(500);
/// Units of rates, each 1,024 times the one before.
const RATE_UNITS: [&str; 5] = ["", "K", "M", "G", "T"];

/// Work on domains that a server does by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upkeep {
    /// What is done, in the order of [`UpkeepTask`]; nothing if it is empty.
    pub tasks: Vec<UpkeepTask>,
    /// The domains; if there are none, all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// When runs are due; without one, by hand only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// The most bytes that a job reads and writes in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Rate>,
    /// The share of the containers that one check reads; without it, all. Checks walk through all containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Percent>,
    /// The share of a domain that may stay unused; less means more copying.
    pub max_waste: Percent,
    /// Where `copy` keeps a copy of each domain, and `check-copy` reads it: a directory on the machine on which the domain
    /// lies, or a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// For how long copies keep what has expired in their domain; for ever without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_expired: Option<Span>,
    /// What has expired in the domain stays in its copy for as long as this retention keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    /// `copy` copies only snapshots of these policies; of all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// `copy` copies only snapshots of these classes; of all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// How the bucket of the copies locks what locked snapshots need; without it, nothing is locked there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_lock: Option<ObjectLock>,
}

/// Who can end a lock of an object in a bucket early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectLock {
    /// Nobody, the owner of the bucket included.
    Compliance,
    /// Who has the permission to bypass it.
    Governance,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            domains: Vec::new(),
            schedules: Vec::new(),
            throttle: None,
            sample: None,
            max_waste: MAX_WASTE,
            to: None,
            keep_expired: None,
            retention: None,
            policies: Vec::new(),
            classes: Vec::new(),
            object_lock: None,
        }
    }
}

impl Upkeep {
    /// Whether it covers this domain.
    pub fn covers(&self, domain: &str) -> bool {
        self.domains.is_empty() || self.domains.iter().any(|name| name == domain)
    }
}

impl Site {
    /// Kind and name of an object that names this domain, if there is one.
    pub fn names_domain(&self, domain: &str) -> Option<(Kind, &str)> {
        let names = |all: &[String]| all.iter().any(|name| name == domain);
        let quotas = self.quotas.iter().map(|(name, one)| (Kind::Quota, name, &one.domains));
        let units = self.units.iter().map(|(name, one)| (Kind::Unit, name, &one.domains));
        let upkeeps = self.upkeeps.iter().map(|(name, one)| (Kind::Upkeep, name, &one.domains));
        let mut all = quotas.chain(units).chain(upkeeps);
        all.find(|(_, _, domains)| names(domains)).map(|(kind, name, _)| (kind, name.as_str()))
    }

    /// Whether an upkeep lets the snapshots of a domain expire by its own schedules. Else it is done once a day.
    pub fn expires_by_schedule(&self, domain: &str) -> bool {
        let does = |upkeep: &Upkeep| {
            upkeep.tasks.contains(&UpkeepTask::Expire)
                && !upkeep.schedules.is_empty()
                && upkeep.covers(domain)
        };
        self.upkeeps.values().any(does)
    }
}

/// One kind of work on a domain, in the order in which they make sense: what expires is not copied any more, and is
/// freed by the reclaim after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpkeepTask {
    /// Puts into the trash what nothing keeps, and deletes what has lain there for long enough.
    Expire,
    /// Copies snapshots to a second place.
    Copy,
    /// Frees the space that no snapshot needs.
    Reclaim,
    /// Reads what is stored, and looks for damage.
    Check,
    /// The same in the copy, which is healed from the domain.
    CheckCopy,
}

impl UpkeepTask {
    /// All tasks, in their order.
    pub const ALL: [Self; 5] =
        [Self::Expire, Self::Copy, Self::Reclaim, Self::Check, Self::CheckCopy];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expire => "expire",
            Self::Copy => "copy",
            Self::Reclaim => "reclaim",
            Self::Check => "check",
            Self::CheckCopy => "check-copy",
        }
    }

    /// Whether it is done to the copy that its upkeep keeps, and not to the domain itself.
    pub fn is_of_copy(self) -> bool {
        matches!(self, Self::Copy | Self::CheckCopy)
    }

    /// The task of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.name() == name)
    }
}

impl fmt::Display for UpkeepTask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Bytes in a second: `50M` are 50 × 1,024 × 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(pub u64);

/// A text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no rate; write bytes in a second such as \"50M\" or \"800K\"")]
pub struct RateError(String);

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = || RateError(text.chars().take(80).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let power = RATE_UNITS.iter().position(|known| *known == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << (10 * power)).filter(|bytes| *bytes > 0);
        bytes.map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = |power: &usize| self.0.is_multiple_of(1 << (10 * power));
        let power = (0..RATE_UNITS.len()).rev().find(is_whole).unwrap_or_default();
        write!(formatter, "{}{}", self.0 >> (10 * power), RATE_UNITS[power])
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Self, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

/// A share of a whole, in hundredths of a percent: `5%`, `0.25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent(pub u32);

/// A text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no share; write \"5%\" or \"0.25%\", at most \"100%\"")]
pub struct PercentError(String);

impl Percent {
    /// As a number of percent.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let wrong = || PercentError(text.chars().take(80).collect());
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain(whole) || !is_plain(part) || !(1..=2).contains(&part.len()) {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        let part: u32 = format!("{part:0<2}").parse().map_err(|_| wrong())?;
        let all = whole.checked_mul(100).and_then(|whole| whole.checked_add(part));
        all.filter(|all| *all <= 10_000).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 100 {
            0 => write!(formatter, "{}%", self.0 / 100),
            part => {
                let part = format!("{part:02}");
                write!(formatter, "{}.{}%", self.0 / 100, part.trim_end_matches('0'))
            }
        }
    }
}

impl TryFrom<String> for Percent {
    type Error = PercentError;

    fn try_from(text: String) -> Result<Self, PercentError> {
        text.parse()
    }
}

impl From<Percent> for String {
    fn from(percent: Percent) -> Self {
        percent.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_written_as_they_are_read() {
        for (text, bytes) in [("50M", 50 << 20), ("1", 1), ("1536", 1536), ("3G", 3 << 30)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.0, rate.to_string().as_str()), (bytes, text));
        }
        assert_eq!("1024K".parse::<Rate>().unwrap().to_string(), "1M");
        for (text, hundredths) in [("5%", 500), ("0.25%", 25), ("100%", 10_000), ("1.5%", 150)] {
            let share: Percent = text.parse().unwrap();
            assert_eq!((share.0, share.to_string().as_str()), (hundredths, text));
        }
    }

    #[test]
    fn what_is_no_rate_and_no_share_is_refused() {
        for text in ["", "M", "0", "0M", "-1M", "1.5M", "5m", "5 M", "99999999T"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["", "5", "%", "101%", "100.01%", "-1%", "1.%", "1.234%", "+1%", "4294967296%"]
        {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
