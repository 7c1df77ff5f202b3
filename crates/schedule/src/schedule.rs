//! A schedule as administrators write it, and what cannot be meant.

use crate::list;
use crate::words::{DAY_MINUTES, Day, Days, TimeOfDay, Window};
use clock::{Span, Unit};
use serde::{Deserialize, Serialize};

/// When runs are due, and of which kind.
///
/// There are four kinds, by the keys that are set:
/// - `at`, or `window` alone: the calendar names each run, on the days of `on`;
/// - `every`: one run in each period, as soon as a window opens in it;
/// - `older_than`: whenever the node is seen and its last complete backup is older;
/// - nothing: by hand only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct Schedule {
    /// What a run reads.
    pub level: Level,
    /// For a catch-up: reads what changed since the beginning of this day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Day>,
    /// The time zone of everything here, such as `Europe/Berlin`; UTC if it is missing.
    pub zone: Zone,
    /// One run in each period of this length, from a minute to a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Times of day.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "list")]
    pub at: Vec<TimeOfDay>,
    /// Days on which runs are due; each day if it is missing.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "list")]
    pub on: Vec<Days>,
    /// When runs may start. Those that were missed or failed may do so on other days too.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "list")]
    pub window: Vec<Window>,
    /// The age of the last complete backup from which on another one is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Span>,
    /// What becomes of a run that did not start in its time.
    pub missed: Missed,
    /// Starts are spread over so much time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// What follows a failure.
    pub retry: Retry,
}

/// What a run reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// What changed since the last backup.
    #[default]
    Incremental,
    /// What changed since a day.
    CatchUp,
    /// Everything.
    Complete,
}

/// The name of a time zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Zone(pub String);

impl Default for Zone {
    fn default() -> Self {
        Self("UTC".to_owned())
    }
}

/// What becomes of runs that did not start in their time, because the server or the node was off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Missed {
    /// One run for all of them, as soon as it may start.
    #[default]
    #[serde(rename = "catch up")]
    CatchUp,
    /// None; the next one in its time.
    #[serde(rename = "skip")]
    Skip,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// How often a failed run is started again.
    pub times: u32,
    /// How long after the first failure; after each further one, twice as long.
    pub after: Span,
    /// And no longer than this.
    pub at_most: Span,
}

impl Default for Retry {
    fn default() -> Self {
        let (after, at_most) = (Span::new(5, Unit::Minute), Span::new(1, Unit::Hour));
        Self { times: 3, after, at_most }
    }
}

/// The keys of a schedule cannot be meant so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Two keys exclude each other.
    #[error("{0} and {1} exclude each other; remove one of them")]
    Both(&'static str, &'static str),
    /// A frequency without a window.
    #[error(
        "every has no window, so no run would ever start; add window = \"always\" or window = \"22:00-06:00\", \
         or remove every to start by hand only"
    )]
    NoWindow,
    /// Days without a time.
    #[error("on says on which days, but not when; add at = \"22:00\" or window = \"22:00-06:00\"")]
    NoTime,
    /// A window that is always open, and nothing else.
    #[error("window = \"always\" does not say how often; add every = \"1 day\" or at = \"22:00\"")]
    NoFrequency,
    /// A length that cannot be.
    #[error(
        "every = \"{0}\" is not possible; write a span from \"1 minute\" to \"1 year\", above a day in whole days"
    )]
    Every(Span),
    /// A start outside of all windows.
    #[error("at = \"{0}\" lies in no window; move it, or widen window")]
    Outside(TimeOfDay),
    /// Two windows that overlap.
    #[error("the windows {0} and {1} overlap; make one of them")]
    Overlap(Window, Window),
    /// A jitter that leads out of a window or into the next run.
    #[error(
        "jitter = \"{jitter}\" is too long: only {minutes} minutes are left for a start; write a shorter one"
    )]
    Jitter {
        /// As written.
        jitter: Span,
        /// What is left.
        minutes: u64,
    },
    /// A catch-up without a day, or a day without a catch-up.
    #[error("level = \"catch-up\" and since = \"2026-12-31\" belong together; write both or none")]
    Since,
    /// Retries that cannot be.
    #[error(
        "retry is not possible; write times up to {RETRIES_MAX}, after from \"1 second\" and at_most not shorter than after"
    )]
    Retry,
    /// A repetition that cannot be.
    #[error("older_than = \"{0}\" is not possible; write a span from \"1 minute\" to \"1 year\"")]
    OlderThan(Span),
}

/// How `every` divides time. Short periods begin at midnight and at each multiple of their seconds
/// after it, so the last one of a day may be shorter; days, weeks and months are counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    Short(i64),
    Days(i64),
    Weeks(i64),
    Months(i64),
}

/// More retries than this are a mistake.
pub const RETRIES_MAX: u32 = 100;
const MINUTE_SECS: u64 = 60;
const DAY_SECS: i64 = 86_400;
/// A leap year.
const EVERY_SECS_MAX: u64 = 366 * 86_400;

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schedule = Self::deserialize(deserializer)?;
        schedule.check().map_err(serde::de::Error::custom)?;
        Ok(schedule)
    }
}

impl Serialize for Schedule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl Schedule {
    /// Whether no run starts by itself.
    pub fn is_manual(&self) -> bool {
        self.every.is_none() && self.older_than.is_none() && !self.has_times()
    }

    fn has_times(&self) -> bool {
        !self.at.is_empty() || !self.window.is_empty()
    }

    /// The periods that `every` means; none if it is missing or not possible.
    pub(crate) fn period(&self) -> Option<Period> {
        let Span { count, unit } = self.every?;
        let months = |each: u32| Some(Period::Months(count.checked_mul(each)?.into()));
        let secs = self.every?.signed_secs();
        match unit {
            _ if !(MINUTE_SECS..=EVERY_SECS_MAX).contains(&self.every?.secs()) => None,
            Unit::Second => None,
            Unit::Minute | Unit::Hour if secs < DAY_SECS => Some(Period::Short(secs)),
            Unit::Minute | Unit::Hour if secs % DAY_SECS != 0 => None,
            Unit::Minute | Unit::Hour | Unit::Day => Some(Period::Days(secs / DAY_SECS)),
            Unit::Week => Some(Period::Weeks(count.into())),
            Unit::Month => months(1),
            Unit::Year => months(12),
        }
    }

    /// Whether the keys can be meant so.
    ///
    /// # Errors
    /// [`ScheduleError`], with what to write instead.
    pub fn check(&self) -> Result<(), ScheduleError> {
        if (self.level == Level::CatchUp) != self.since.is_some() {
            return Err(ScheduleError::Since);
        }
        self.check_kind()?;
        self.check_lengths()?;
        self.check_windows()?;
        self.check_jitter()
    }

    fn check_kind(&self) -> Result<(), ScheduleError> {
        let keys = [
            ("every", self.every.is_some()),
            ("at", !self.at.is_empty()),
            ("on", !self.on.is_empty()),
        ];
        if let Some((key, _)) = keys.iter().find(|key| self.older_than.is_some() && key.1) {
            return Err(ScheduleError::Both("older_than", key));
        }
        if matches!(self.period(), Some(Period::Short(_))) && !self.at.is_empty() {
            return Err(ScheduleError::Both("every (less than a day)", "at"));
        }
        match self.every {
            Some(_) if !self.has_times() => Err(ScheduleError::NoWindow),
            None if !self.on.is_empty() && !self.has_times() => Err(ScheduleError::NoTime),
            None if self.is_always_alone() => Err(ScheduleError::NoFrequency),
            _ => Ok(()),
        }
    }

    fn is_always_alone(&self) -> bool {
        self.window.contains(&Window::Always) && self.at.is_empty() && self.older_than.is_none()
    }

    fn check_lengths(&self) -> Result<(), ScheduleError> {
        let is_possible = |span: &Span| (MINUTE_SECS..=EVERY_SECS_MAX).contains(&span.secs());
        if let (Some(every), None) = (self.every, self.period()) {
            return Err(ScheduleError::Every(every));
        }
        if let Some(age) = self.older_than.filter(|age| !is_possible(age)) {
            return Err(ScheduleError::OlderThan(age));
        }
        let Retry { times, after, at_most } = self.retry;
        let is_wrong = times > RETRIES_MAX || after.secs() == 0 || at_most.secs() < after.secs();
        if is_wrong { Err(ScheduleError::Retry) } else { Ok(()) }
    }

    fn check_windows(&self) -> Result<(), ScheduleError> {
        for (number, one) in self.window.iter().enumerate() {
            let overlaps = |other: &&Window| {
                one.closes_after(other.minutes().0).is_some()
                    || other.closes_after(one.minutes().0).is_some()
            };
            if let Some(other) = self.window[number + 1..].iter().find(overlaps) {
                return Err(ScheduleError::Overlap(*one, *other));
            }
        }
        let is_outside = |at: &&TimeOfDay| self.closes_after(at.0).is_none();
        match self.at.iter().find(is_outside).filter(|_| !self.window.is_empty()) {
            Some(at) => Err(ScheduleError::Outside(*at)),
            None => Ok(()),
        }
    }

    /// When a minute of the day lies in no window any more, if it lies in one. Windows that follow one another are one;
    /// that of the whole day ends with the day.
    pub(crate) fn closes_after(&self, minute: u16) -> Option<u16> {
        let mut closes = self.open_until(minute)?;
        while closes < minute + DAY_MINUTES && !self.window.contains(&Window::Always) {
            let at = closes % DAY_MINUTES;
            let Some(until) = self.open_until(at) else { break };
            closes += until - at;
        }
        Some(closes)
    }

    /// When the window closes that is open at a minute of the day.
    fn open_until(&self, minute: u16) -> Option<u16> {
        self.window.iter().find_map(|window| window.closes_after(minute))
    }

    /// The first time of `at` after a minute of the day, on this day or the next.
    pub(crate) fn next_at(&self, minute: u16) -> Option<u16> {
        let later = self.at.iter().map(|at| at.0).filter(|at| *at > minute).min();
        later.or_else(|| Some(self.at.iter().min()?.0 + DAY_MINUTES))
    }

    fn check_jitter(&self) -> Result<(), ScheduleError> {
        let Some(jitter) = self.jitter else { return Ok(()) };
        let open = self.window.iter().map(|window| window.length_minutes());
        let after_at = self.at.iter().filter_map(|at| {
            let next = self.next_at(at.0)?;
            let closes = self.closes_after(at.0).unwrap_or(next);
            Some(next.min(closes) - at.0)
        });
        let in_windows: Vec<u16> =
            if self.at.is_empty() { open.collect() } else { after_at.collect() };
        let period = match self.period() {
            Some(Period::Short(secs)) => Some(secs.unsigned_abs() / MINUTE_SECS),
            _ => None,
        };
        let left = in_windows.into_iter().map(u64::from).chain(period).min();
        match left {
            Some(minutes) if jitter.secs() >= minutes * MINUTE_SECS => {
                Err(ScheduleError::Jitter { jitter, minutes })
            }
            _ => Ok(()),
        }
    }
}
