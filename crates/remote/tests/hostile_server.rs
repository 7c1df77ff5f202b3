//! A server with a good certificate that lies. Whoever restores from it or backs up to it ends with
//! an error that says so: no wrong byte, nothing outside of the target, no panic, no hang.
//!
//! What no client can see by itself: a server that shows fewer snapshots than it showed before,
//! and one that says of an object that it has it. For the first there is the memory of a node
//! (`crates/icecore/tests/hostile_memory.rs`), for the second a check that reads data.

#![allow(
    clippy::type_complexity,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

#[path = "hostile/greetings.rs"]
mod greetings;
#[path = "hostile/lab.rs"]
mod lab;
#[path = "hostile/measuring.rs"]
mod measuring;
#[path = "hostile/records.rs"]
mod records;
#[path = "hostile/redirects.rs"]
mod redirects;
#[path = "hostile/sessions.rs"]
mod sessions;
#[path = "hostile/snapshots.rs"]
mod snapshots;
#[path = "../../pipeline/tests/it/testkit/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "of the tests of another crate, and more than is needed"
)]
mod testkit;
