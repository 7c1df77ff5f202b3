//! Time as rules use it: a clock that is believed only within bounds, spans in words, and the civil
//! times of a time zone.
//!
//! All times are seconds since 1970 in UTC. Pure: readings of the machine's clocks and time zones
//! come in as parameters.

mod believed;
pub mod civil;
mod lock_clock;
mod span;

pub use believed::{Clock, Doubt, OFF_SECS_MAX, Reading, STEP_SECS_MAX, Tick, UNKNOWN_BOOT};
pub use lock_clock::{CREDIT_SECS_MAX, LockClock};
pub use span::{Span, SpanError, Unit};
