//! Containers, chunk index, lease, snapshots, reclaim and scrub over a small [`storage::Storage`].
//!
//! The engine moves sealed records and reads only their clear parts; it has no dependency that could decrypt. Order
//! of every commit: containers durable, then the index, then the snapshot. Start reading at [`Repository`], then
//! `session`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod as_store;
pub mod check;
mod cold;
mod commit_lock;
pub mod config;
pub mod container;
mod container_numbers;
pub mod copies;
pub mod copy;
pub mod directories;
mod duplicated_file;
mod error;
pub mod expiries;
pub mod fallback;
pub mod guard;
mod healed;
pub mod index;
pub mod keys;
pub mod lease;
mod listing;
mod listing_markers;
pub mod local;
mod lock_file;
mod locks;
mod mount;
pub mod moving;
mod neighbors;
mod page_heads;
pub mod parity;
pub mod pending;
mod pins;
pub mod presence;
mod publication;
pub mod readers;
mod reading;
mod readme;
pub mod rebuild;
pub mod receipts;
pub mod received;
pub mod reclaim;
mod recover;
#[allow(clippy::module_inception, reason = "the crate's main noun")]
pub mod repository;
mod reserve;
pub mod session;
mod session_keys;
mod settled;
mod snapshot_keys;
pub mod snapshots;
pub mod sorted_ids;
mod sources;
pub mod storage;
mod syncer;
mod system;
pub mod watch;

pub use error::{Error, Result};
pub use lock_file::machine_time;
pub use received::Verifier;
pub use repository::Repository;
pub use reserve::INODES as INODES_KEPT;
