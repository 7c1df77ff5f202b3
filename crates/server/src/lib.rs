//! The server: sessions of nodes, domains, access control, HTTP API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod access_control;
pub mod control;
pub mod data;
mod disk;
mod evicting_quota;
pub mod listen;
mod quota;
pub mod storage_server;
