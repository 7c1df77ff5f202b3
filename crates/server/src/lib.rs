//! The server: sessions of agents, domains, authority, HTTP API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod authority;
pub mod control;
pub mod data;
pub mod listen;
