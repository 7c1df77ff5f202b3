//! Who takes all that can be had, and what honest machines keep. These tests measure times, and load the machine: they
//! stand apart from the others, and one waits for the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may stop at the first surprise"
)]

mod crowding;
mod hoarding;
#[path = "../it/hostile"]
#[allow(dead_code, reason = "other tests need more of it")]
mod hostile {
    pub(crate) mod raw;
    pub(crate) mod server;
}
#[path = "../it/rig.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod rig;

/// Held by each test from its beginning to its end.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
