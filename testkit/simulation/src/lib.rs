//! The storage engine on a simulated disk. Everything that happens follows from one seed: what is backed up, forgotten,
//! reclaimed and rebuilt, how these steps interleave, where a power cut or an I/O error happens, and which unsynced
//! bytes survive.
//!
//! [`disk`] is the disk; [`world`] runs tasks on it and checks what must hold.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod contract;
pub mod disk;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod world;

pub use testkit::{Random, random};
