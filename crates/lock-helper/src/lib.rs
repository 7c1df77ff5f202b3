//! The lock helper: a small process of root beside a server. The files of locked snapshots become root's, under a
//! second name that only root can remove, so that a server that was broken into loses its own names at most
//! (`docs/adr/0045-locks-on-the-disk.md`).
//!
//! [`Pool`] does it in one directory, [`serve`] takes requests from the server through a Unix socket, and [`Client`]
//! sends them. Nobody can shorten the time of a file, and nothing of a request is trusted but its names and times.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aside;
mod client;
mod clock_file;
mod entry;
mod error;
mod message;
mod moved;
mod names;
mod own_directory;
mod pool;
mod recover;
mod secure;
mod serve;
mod socket;
#[cfg(test)]
mod tests;
mod tree;
mod until;
mod writers;

pub use client::Client;
pub use error::{Error, Result};
pub use message::{FILES_MAX, Failed, File, Secured};
pub use pool::{Content, DIRECTORY, Pool};
pub use recover::{Recovered, Versions};
pub use serve::{Helper, serve};

/// The longest time from now for which a file is kept; longer ones are asked for again meanwhile. It bounds what a
/// server that was broken into can do to the space of its pool: a year.
pub const LONGEST_SECS: i64 = 366 * 86_400;
