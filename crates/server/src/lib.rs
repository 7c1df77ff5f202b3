//! The server: sessions of agents, domains, access_control, HTTP API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod access_control;
pub mod control;
mod crowd;
pub mod data;
mod disk;
pub mod listen;
mod shares;
pub mod storage_server;
