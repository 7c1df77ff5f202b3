//! The storage engine on a simulated disk. Everything that happens follows from one seed: what is
//! backed up, forgotten, reclaimed and rebuilt, in which order the steps of these fall, where the
//! power goes or a disk fails, and which of the bytes that were not synced survive.
//!
//! [`disk`] is the disk, [`world`] what runs on it and what must hold afterwards.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod disk;
pub mod random;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod world;

pub use random::Random;
