//! Pipelines against a repository: backup, restore, forget, check, and their reports.
//!
//! Start reading at [`repository`] (a repository and the keys that open it), then [`backup`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backup;
mod blocks;
pub mod browse;
pub mod cache;
pub mod check;
pub mod copy;
mod dedup;
pub mod effective_time;
pub mod environment;
mod error;
mod key_list;
pub mod keyless;
pub mod keyring;
pub mod manifest;
mod orphans;
pub mod pages;
pub mod progress;
pub mod rebuild;
pub mod receipts;
pub mod reclaim;
pub mod report;
pub mod restore;
pub mod retention;
pub mod select;
pub mod signers;
pub mod tags;
mod threads;
pub mod throttle;
pub mod totals;
pub mod unlocked;
mod xattrs;

pub use error::{Error, KeyError, Result};
pub use key_list::KeyListAge;
pub use unlocked::UnlockedRepository;
