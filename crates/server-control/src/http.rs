//! The HTTP API: routes, who may call them, one form of replies.
//!
//! The accept loop mounts [`router`], and [`serve`] serves one connection with all limits. The caller's identity is in
//! the request's extensions ([`Caller`]), never in a header that anybody can write.

mod answer;
mod handlers;
pub mod openapi;
mod routes;
mod serve;
mod topics;
mod who;

pub use answer::Failed;
pub use routes::router;
pub use serve::{serve, serve_stranger};
pub use who::Caller;
