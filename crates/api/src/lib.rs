//! Types of the HTTP API: what the server and its clients say to each other in JSON.
//!
//! Every path begins with [`BASE`]. Times are RFC 3339 in UTC, as text; durations in seconds end in `_secs`. Fields
//! may be added; none is ever removed.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod commands;
pub mod domains;
pub mod enroll;
pub mod events;
pub mod failure;
pub mod job_log;
pub mod jobs;
pub mod limits;
pub mod name;
pub mod nodes;
pub mod options;
pub mod pools;
pub mod protection;
pub mod quotas;
pub mod reports;
pub mod retention;
mod rfc3339;
pub mod sites;
pub mod status;
pub mod storage_moves;
pub mod storage_servers;
pub mod token;
pub mod upkeep;

pub use failure::{Code, Failure};
pub use name::Name;
pub use token::Token;

/// Prefix of every path.
pub const BASE: &str = "/api/v1";
