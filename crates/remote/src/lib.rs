//! A repository on a server, as pipelines use it: [`Remote`] is a [`store::Store`].
//!
//! ```text
//!  threads of pipelines ──▶ stream: requests, window ◀──▶ driver (one thread): TLS, frames, coming
//!        (they block)            (state, no I/O)                back after a disconnect
//! ```
//! What the server sends is trusted no more than what a disk returns: records are sealed, manifests
//! signed, and ids are recomputed when they are opened.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod as_store;
mod dial;
mod driver;
mod endpoint;
mod expected;
mod failure;
pub mod metrics;
pub mod net_test;
mod prefetcher;
mod remote;
mod route;
mod runtime;
mod server_messages;
mod stream;
mod stream_scaler;
mod wait_control;
mod waits;
mod write_session;

pub use dial::CERTIFICATE_ENDED;
pub use endpoint::Endpoint;
pub use failure::{Failure, SERVERS_STORAGE};
pub use remote::{ControlConnection, Purpose, Remote};
#[doc(hidden)]
pub use stream::fuzzing;
pub use wait_control::WaitControl;
