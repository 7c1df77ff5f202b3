//! A repository on a server, as pipelines use it: [`Remote`] is a [`repository::store::Store`].
//!
//! ```text
//!  threads of pipelines ──▶ stream: requests, window ◀──▶ drive (one thread): TLS, frames, coming
//!        (they block)            (state, no I/O)                back after a cut
//! ```
//! What the server sends is believed no more than what a disk gives: records are sealed, manifests
//! signed, ids recomputed by who opens them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ahead;
mod dial;
mod drive;
mod failure;
pub mod figures;
mod growth;
mod inbox;
pub mod net_test;
mod remote;
mod runtime;
mod sink;
mod store;
mod stream;
mod target;
mod watch;
mod way;

pub use failure::Failure;
pub use remote::{Bare, Purpose, Remote};
#[doc(hidden)]
pub use stream::fuzzing;
pub use target::Target;
pub use watch::Watch;
