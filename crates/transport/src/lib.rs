//! Frames over TLS and TCP: reading within limits, rates, socket options, and what the kernel says
//! of a connection. Shared by both ends; knows nothing of what packets mean.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
pub mod frames;
pub mod rate;
pub mod socket;
pub mod tcp_info;
pub mod waits;

pub use error::{Error, Result};
