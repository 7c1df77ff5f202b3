//! Frames over TLS and TCP: reading within limits, bandwidth limits, quotas of connections, socket options, and the
//! kernel's statistics of a connection. Both ends use it; it does not know what packets mean.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dial;
mod error;
pub mod evicting_quota;
pub mod frames;
pub mod quota;
pub mod rate;
pub mod socket;
pub mod tcp_info;
pub mod waits;

pub use error::{Error, Result};
