//! Retention: which snapshots are kept, until when, and why.
//!
//! [`Rules::evaluate`] gives each snapshot a state with every reason; [`Simulation`] applies the same
//! rules to the days to come; [`keep()`] has the keep rules alone, for who has no policies.
//!
//! Pure: snapshots, policies, time zones and the time come in as values, without any key. Nothing
//! here deletes; who deletes asks here first.

mod class;
mod evaluate;
mod facts;
mod hold;
mod keep;
mod reason;
mod simulate;
mod versions;

pub use class::{Class, ClassError, Retention, TRASH_DEFAULT, Trash, Versions, YEARS_MAX};
pub use evaluate::{Rules, State, Verdict, calendar};
pub use facts::{Facts, Trashed, TrashedBy};
pub use hold::Hold;
pub use keep::{CalendarTime, Candidate, Keep, KeepRules, KeepWithin, keep};
pub use reason::{Period, Reason, Until, Why};
pub use simulate::{Day, Departure, Simulation};

#[cfg(test)]
mod tests;
