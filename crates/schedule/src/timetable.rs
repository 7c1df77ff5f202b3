//! When the runs of a schedule are due, in a time zone.
//!
//! A time that does not exist on a day is the moment right after the gap; one that exists twice is
//! the first. Several that a gap moves to one moment are one run. A window that a gap leaves no
//! time keeps its length, counted from the end of the gap. So daylight saving neither skips a run
//! nor doubles one.

use crate::schedule::{Missed, Period, Schedule, ScheduleError};
use crate::words::{DAY_MINUTES, TimeOfDay, Window};
use clock::civil;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A day that fits the days of a schedule comes within so many: the longest pause is that of
/// February 29 around 2100.
const SEARCH_DAYS_MAX: i32 = 9 * 366;
const MINUTE: i64 = 60;
/// How late a run may start if missed ones are skipped and no window says it.
const SKIPPED_AFTER_SECS: i64 = 3600;

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// When it may start at the earliest. No two of a schedule have the same, so this names it.
    pub due_secs: i64,
    /// When the window that is open then closes.
    pub closes_secs: i64,
    /// When it is missed, if it has not started: the last moment before is in time.
    pub until_secs: i64,
}

/// A schedule in its time zone.
#[derive(Clone, Debug)]
pub struct Timetable {
    schedule: Schedule,
    zone: TimeZone,
}

impl Timetable {
    /// A schedule in the time zone that it names.
    ///
    /// # Errors
    /// [`ScheduleError`], if the schedule cannot be meant so.
    pub fn new(schedule: Schedule, zone: TimeZone) -> Result<Self, ScheduleError> {
        schedule.check()?;
        Ok(Self { schedule, zone })
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The runs that are due after a time, in order.
    pub fn occurrences(&self, after_secs: i64) -> impl Iterator<Item = Occurrence> + '_ {
        let first = self.next(after_secs);
        std::iter::successors(first, |last| self.next(last.due_secs))
    }

    /// The next run that is due after a time; none if runs do not depend on the time of day.
    pub fn next(&self, after_secs: i64) -> Option<Occurrence> {
        if self.schedule.older_than.is_some() || self.schedule.is_manual() {
            return None;
        }
        let day = civil::day(&self.zone, after_secs);
        match self.schedule.period() {
            None => self.next_by_calendar(day, after_secs),
            Some(Period::Short(secs)) => self.next_short(day, secs, after_secs),
            Some(period) => self.next_long(day, period, after_secs),
        }
    }

    /// Each opening is a run.
    fn next_by_calendar(&self, day: Date, after_secs: i64) -> Option<Occurrence> {
        // A gap at midnight moves an opening to the next day.
        days_from(day.yesterday().ok()?).find_map(|day| {
            let openings = self.openings(day);
            let later = || openings.iter().filter(|one| one.due_secs > after_secs);
            let first = later().min()?;
            let same = later().filter(|one| one.due_secs == first.due_secs);
            same.copied().max_by_key(|one| one.until_secs)
        })
    }

    /// When starts become possible on a day that fits: at each `at`, or when a window opens.
    fn openings(&self, day: Date) -> Vec<Occurrence> {
        if !self.fits(day) {
            return Vec::new();
        }
        let at = self.schedule.at.iter().filter_map(|at| self.opening_at(day, *at));
        let windows = self.schedule.window.iter().filter(|_| self.schedule.at.is_empty());
        at.chain(windows.map(|window| self.opening(day, *window))).collect()
    }

    fn fits(&self, day: Date) -> bool {
        self.schedule.on.is_empty() || self.schedule.on.iter().any(|days| days.fit(day))
    }

    /// From a time of day to the next one, or to the end of the window.
    fn opening_at(&self, day: Date, at: TimeOfDay) -> Option<Occurrence> {
        let next = self.schedule.next_at(at.0)?;
        let closes = self.schedule.closes_after(at.0).unwrap_or(next).min(next);
        let mut opening = self.between(day, at.0, closes);
        if self.schedule.window.is_empty() && self.schedule.missed == Missed::Skip {
            opening.until_secs = opening.until_secs.min(opening.due_secs + SKIPPED_AFTER_SECS);
            opening.closes_secs = opening.until_secs;
        }
        Some(opening)
    }

    fn opening(&self, day: Date, window: Window) -> Occurrence {
        let (from, to) = window.minutes();
        self.between(day, from, to)
    }

    /// From one minute of a day to another, which may lie on the next day.
    fn between(&self, day: Date, from: u16, to: u16) -> Occurrence {
        let due_secs = self.minute(day, from);
        let shown = self.minute(day, to);
        let length = i64::from(to - from) * MINUTE;
        let closes_secs = if shown > due_secs { shown } else { due_secs + length };
        Occurrence { due_secs, closes_secs, until_secs: closes_secs }
    }

    fn minute(&self, day: Date, minute: u16) -> i64 {
        let next = if minute < DAY_MINUTES { day } else { day.tomorrow().unwrap_or(day) };
        civil::instant(&self.zone, TimeOfDay(minute % DAY_MINUTES).on(next))
    }

    /// One run in each period that has an opening.
    fn next_long(&self, day: Date, period: Period, after_secs: i64) -> Option<Occurrence> {
        let first = number(period, day.yesterday().ok()?);
        let mut days = days_from(begin(period, first)?).peekable();
        while let Some(day) = days.peek().copied() {
            let this = number(period, day);
            let of_period: Vec<Date> =
                std::iter::from_fn(|| days.next_if(|day| number(period, *day) == this)).collect();
            let due = self.one_run(&of_period).filter(|one| one.due_secs > after_secs);
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// The first opening of some days, until the last of them closes.
    fn one_run(&self, days: &[Date]) -> Option<Occurrence> {
        let first = days.iter().find_map(|day| self.openings(*day).into_iter().min())?;
        let ends = |day: &Date| self.openings(*day).into_iter().map(|one| one.until_secs).max();
        let until_secs = days.iter().rev().find_map(ends)?;
        Some(Occurrence { until_secs, ..first })
    }

    /// One run in each period of a day in which a window is open.
    fn next_short(&self, day: Date, secs: i64, after_secs: i64) -> Option<Occurrence> {
        days_from(day).find_map(|day| self.next_of_day(day, secs, after_secs))
    }

    fn next_of_day(&self, day: Date, secs: i64, after_secs: i64) -> Option<Occurrence> {
        let open = self.open_on(day);
        let begin = civil::start_of_day(&self.zone, day);
        let end = civil::start_of_day(&self.zone, day.tomorrow().ok()?);
        // The period of this time may have begun before it and not be due yet.
        let first = (after_secs.saturating_sub(begin)).max(0) / secs;
        let latest = open.iter().map(|one| one.closes_secs).max()?.min(end);
        (first..)
            .map(|at| begin + at * secs)
            .take_while(|from| *from < latest)
            .filter_map(|from| within(&open, from, (from + secs).min(end)))
            .find(|one| one.due_secs > after_secs)
    }

    /// The windows that are open on a day, those of the day before too if they end on it.
    fn open_on(&self, day: Date) -> Vec<Occurrence> {
        let mut days = day.yesterday().into_iter().chain([day]).collect::<Vec<_>>();
        days.retain(|day| self.fits(*day));
        let all = days
            .iter()
            .flat_map(|day| self.schedule.window.iter().map(|window| self.opening(*day, *window)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    }

    /// When a start is allowed next, from a time on: on any day, in any window, or at once if there
    /// are none.
    pub fn open_from(&self, secs: i64) -> i64 {
        if self.schedule.window.is_empty() {
            return secs;
        }
        let before = civil::day(&self.zone, secs).yesterday().ok();
        let mut days = before.into_iter().flat_map(days_from);
        let open = days.find_map(|day| {
            let windows = self.schedule.window.iter().map(|window| self.opening(day, *window));
            windows.filter(|one| one.closes_secs > secs).map(|one| one.due_secs.max(secs)).min()
        });
        open.unwrap_or(secs)
    }
}

/// A day and those after it, as far as one looks ahead.
fn days_from(day: Date) -> impl Iterator<Item = Date> {
    (0..SEARCH_DAYS_MAX).map_while(move |count| day.checked_add(count.days()).ok())
}

/// The parts of windows in a period, as one run.
fn within(open: &[Occurrence], from: i64, to: i64) -> Option<Occurrence> {
    let cut = |one: &Occurrence| (one.due_secs.max(from), one.closes_secs.min(to));
    let parts = || open.iter().map(cut).filter(|(due, closes)| due < closes);
    let (due_secs, closes_secs) = parts().min()?;
    let until_secs = parts().map(|(_, closes)| closes).max()?;
    Some(Occurrence { due_secs, closes_secs, until_secs })
}

/// The number of the period of a day.
fn number(period: Period, day: Date) -> i64 {
    let days = days_since_1970(day);
    match period {
        Period::Short(_) => days,
        Period::Days(count) => days.div_euclid(count),
        // 1970 began on a Thursday, and weeks begin on Monday.
        Period::Weeks(count) => (days + 3).div_euclid(7 * count),
        Period::Months(count) => {
            (i64::from(day.year()) * 12 + i64::from(day.month()) - 1).div_euclid(count)
        }
    }
}

fn days_since_1970(day: Date) -> i64 {
    let midnight = |day: Date| TimeZone::UTC.to_timestamp(day.into());
    midnight(day).map_or(0, |at| at.as_second().div_euclid(86_400))
}

/// The first day of a period.
fn begin(period: Period, number: i64) -> Option<Date> {
    let of_days = |days: i64| jiff::civil::date(1970, 1, 1).checked_add(days.days()).ok();
    match period {
        Period::Short(_) => of_days(number),
        Period::Days(count) => of_days(number * count),
        Period::Weeks(count) => of_days(number * 7 * count - 3),
        Period::Months(count) => {
            let months = number * count;
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()
        }
    }
}
