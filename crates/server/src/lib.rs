//! The server: [`Planes`] joins its two planes, [`listen`] is their common port, [`storage_server`] is the data plane
//! in a process of its own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod listen;
mod moving;
mod planes;
pub mod securing;
pub mod storage_server;
mod upkeep;

pub use planes::{Planes, note_latencies};
