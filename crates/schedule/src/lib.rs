//! Schedules: when runs are due, and what follows when they were missed or failed.
//!
//! A [`Schedule`] is what an administrator writes; [`Timetable`] is the schedule in its time zone,
//! with the runs to come; [`Timetable::decide`] says whether one starts now.
//!
//! Pure: the time, the time zone and what ran before come in as values. Nothing here starts anything.

mod decide;
mod list;
pub mod queue;
mod schedule;
mod timetable;
mod words;

pub use decide::{Decision, Failed, MISSED_MAX, Next, Situation, Start, Waiting};
pub use list::WORDS_MAX;
pub use schedule::{Level, Missed, RETRIES_MAX, Retry, Schedule, ScheduleError, Zone};
pub use timetable::{Occurrence, Timetable};
pub use words::{Day, Days, TimeOfDay, Window, WordError};

#[cfg(test)]
mod tests;
