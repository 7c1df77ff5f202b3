//! A bucket as the engine's storage: what it promises, with a storage in memory, with a real one (versitygw), and with
//! one whose answers get lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod away;
mod cold;
mod contract;
mod distrust;
mod engine;
mod expiry;
mod faulty;
mod leases;
mod locking;
mod looks;
mod moving;
mod oversized;
mod poisoned;
mod presence;
mod probing;
mod runs;
mod seeds;
mod stormy;
mod uploads;
