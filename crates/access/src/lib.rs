//! How a machine reaches its server: identity, enrollment, renewal, the HTTP API.
//!
//! [`enroll::enroll`] makes a node of this machine and keeps what it is in a folder; [`Identity::load`] reads it again,
//! for who connects; [`renew::renew_if_due`] keeps the certificate fresh, [`LiveIdentity`] that of a storage server. [`Client`] asks the API as a node,
//! [`admin::Admin`] as an administrator.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod blocking;
mod client;
pub mod enroll;
mod error;
pub mod files;
pub mod identity;
pub mod live_identity;
pub mod reloading_certificate;
pub mod renew;
pub mod storage_server;
mod url;

pub use admin::Admin;
pub use client::Client;
pub use error::{Error, Result};
pub use identity::Identity;
pub use live_identity::LiveIdentity;
pub use url::{PORT_DEFAULT, Url};

use std::path::PathBuf;

/// Where an agent keeps what it is, when nobody says: of the system for root, of the user for others.
pub fn default_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/icecore/agent");
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let home = || set("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).unwrap_or_else(|| PathBuf::from(".")).join("icecore/agent")
}

#[cfg(test)]
mod tests;
