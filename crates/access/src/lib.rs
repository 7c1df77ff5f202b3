//! How a machine reaches its server: identity, enrollment, renewal, the HTTP API.
//!
//! [`enroll::enroll`] enrolls this machine as a node and saves its identity in a folder; [`Identity::load`] reads it.
//! [`renew::renew_if_due`] renews the certificate, [`LiveIdentity`] that of a running storage server. [`Client`]
//! calls the API as a node, [`admin::Admin`] as an administrator.

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
pub mod secrets;
pub mod storage_server;
mod url;

pub use admin::Admin;
pub use client::Client;
pub use error::{Error, Result};
pub use identity::Identity;
pub use live_identity::LiveIdentity;
pub use url::{PORT_DEFAULT, Url};

use std::path::PathBuf;

/// Default folder of an agent's identity: a system folder for root, one in the home folder for other users.
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
